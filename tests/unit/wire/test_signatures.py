"""Signatures sent by number are read like those that are written out."""

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_http_wire.signatures import (
    MAX_NUMBERED_BYTES,
    MAX_NUMBERS,
    ReceivedSignatures,
    SentSignatures,
)
from gym_http_wire.values import BadValue, binary
from tests.support.identity import assert_identical
from tests.support.websocket import value

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-9, 9), st.floats(), st.text(max_size=5)
)
anything = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text(max_size=3), inner, max_size=3),
    ),
    max_leaves=6,
)


def sent(announcing: SentSignatures, given: Any) -> bytes:
    """Return a value as a side sends it."""
    signature, leaves = binary.split(given)
    return announcing.header(signature) + b"".join(leaves)


@given(st.lists(anything, max_size=8), st.binary(max_size=20))
def test_sent_signatures_are_read(given: list[Any], before: bytes) -> None:
    # Leaves are read where they stand, at a multiple of 8.
    before += b" " * (-len(before) % 8)
    announcing, announced, apart = (
        SentSignatures(),
        ReceivedSignatures(),
        ReceivedSignatures(),
    )
    for each in [*given, *given, *given]:
        message = before + sent(announcing, each)
        assert_identical(announced.read(message, len(before)), each)
        pieces = apart.pieces(message, len(before))
        assert pieces.join() == binary.encode(each)
        assert len(pieces) == len(binary.encode(each))


def test_a_signature_goes_over_once() -> None:
    announcing = SentSignatures()
    first = sent(announcing, {"action": 1})
    again = sent(announcing, {"action": 2})
    other = sent(announcing, [])
    assert first == value('{"dict":[["action","int"]]}', struct.pack("<q", 1), 1)
    assert again == struct.pack("<IIq", 0, 1, 2)
    assert other == value('{"list":[]}', b"", 2)


def test_there_are_255_numbers() -> None:
    announcing, announced = SentSignatures(), ReceivedSignatures()
    for size in range(300):
        for _ in "twice":
            message = sent(announcing, [0] * size)
            assert announced.read(message, 0) == [0] * size
        number = struct.unpack_from("<I", message, 4)[0]
        assert number == (size + 1 if size < MAX_NUMBERS else 0)


def test_long_signatures_are_written_out() -> None:
    announcing = SentSignatures()
    long = [0] * (MAX_NUMBERED_BYTES // 6 + 1)
    for _ in "twice":
        assert sent(announcing, long) == binary.encode(long)
    assert sent(announcing, [0])[4:8] == struct.pack("<I", 1)


GOOD = value('{"list":["int"]}', bytes(8), number=1)


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (b"", "has 0 bytes"),
        (b"\0" * 7, "has 7 bytes"),
        (struct.pack("<II", 0, 2), "signature 2, which was not sent"),
        (struct.pack("<II", 0, 0), "was not sent"),
        (struct.pack("<II", 8, 0), "impossible size: 8"),
        (struct.pack("<II", 5, 0) + bytes(8), "impossible size: 5"),
        (struct.pack("<II", 2**32 - 8, 1) + bytes(8), "impossible size"),
        (GOOD, "calls a signature 1, which is taken"),
        (value('"none"', number=256), "over 255"),
        (value('"none"' + " " * MAX_NUMBERED_BYTES, number=2), "gives a number"),
    ],
)
def test_messages_that_break_the_rules_are_refused(message: bytes, words: str) -> None:
    read, apart = ReceivedSignatures(), ReceivedSignatures()
    assert read.read(GOOD, 0) == [0]
    apart.pieces(GOOD, 0)
    with pytest.raises(BadValue, match=words):
        read.read(message, 0)
    with pytest.raises(BadValue, match=words):
        apart.pieces(message, 0)
    # Earlier signatures stay valid.
    assert read.read(struct.pack("<II", 0, 1) + bytes(8), 0) == [0]


def test_an_invalid_signature_is_refused_each_time() -> None:
    announced = ReceivedSignatures()
    with pytest.raises(BadValue):
        announced.read(value('{"nonsense":1}', number=1), 0)
    with pytest.raises(BadValue):
        announced.read(struct.pack("<II", 0, 1), 0)


@given(st.binary(max_size=60))
def test_no_bytes_do_anything_else(message: bytes) -> None:
    announced = ReceivedSignatures()
    announced.read(GOOD, 0)
    for read in (announced.read, announced.pieces):
        try:
            read(message, 0)
        except BadValue:
            continue
