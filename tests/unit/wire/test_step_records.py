"""Step records: what is encoded is decoded, up to the first cut or damaged record."""

import struct
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_http_wire.messages import Op
from gym_http_wire.step_records import MAGIC, Kind, Record, StepDecoder, StepEncoder
from gym_http_wire.values import BadValue, UnsupportedValue, binary

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
RECORDS = st.lists(
    st.builds(Record, st.sampled_from(Kind), st.integers(0, 2**64 - 1), VALUES),
    max_size=8,
)


def encoded(records: list[Record]) -> bytes:
    encoder = StepEncoder()
    return MAGIC + b"".join(encoder.encode(*record) for record in records)


def decoded(data: bytes) -> tuple[list[Record], bool]:
    decoder = StepDecoder()
    return decoder.feed(data), decoder.complete


@given(RECORDS, st.integers(1, 64), st.integers(0, 64))
def test_pieces_of_any_size_give_the_same_records(
    records: list[Record], size: int, empty: int
) -> None:
    data = encoded(records) + bytes(empty)
    decoder = StepDecoder()
    found: list[Record] = []
    for start in range(0, len(data), size):
        found += decoder.feed(data[start : start + size])
    assert found == records
    assert decoder.complete or 0 < empty < 8


@given(RECORDS, st.data())
def test_a_cut_part_gives_its_whole_records(
    records: list[Record], data: st.DataObject
) -> None:
    whole = encoded(records)
    cut = data.draw(st.integers(len(MAGIC), len(whole)))
    found, complete = decoded(whole[:cut])
    assert found == records[: len(found)]
    assert complete == (encoded(found) == whole[:cut])
    assert len(encoded(records[: len(found) + 1])) > cut or len(found) == len(records)


def test_a_damaged_record_ends_the_decoding() -> None:
    records = [Record(Kind.RESET, 1, {"seed": n}) for n in range(3)]
    first = len(encoded(records[:1]))
    data = bytearray(encoded(records))
    data[first + 20] ^= 1
    assert decoded(bytes(data)) == (records[:1], False)


def test_arrays_keep_dtype_and_bytes() -> None:
    sent = {"observation": np.arange(6, dtype=np.int16).reshape(2, 3), "t": (1, 2)}
    encoder = StepEncoder()
    first, second = (encoder.encode(Kind.STEP, at, sent) for at in (1, 2))
    assert len(second) < len(first)
    records, complete = decoded(MAGIC + first + second)
    assert complete
    for record in records:
        array = record.value["observation"]
        assert (array.dtype, array.shape) == (np.dtype(np.int16), (2, 3))
        assert np.array_equal(array, sent["observation"])
        assert record.value["t"] == (1, 2)


def test_the_layout_is_as_documented() -> None:
    data = encoded([Record(Kind.END, 5, None)])
    assert data[:16] == b"gym-steps\r\n\x1a\x01\0\0\0"
    size, checksum, kind, at_ns = struct.unpack_from("<IIBQ", data, 16)
    assert (16 + 8 + size, kind, at_ns) == (len(data), 4, 5)
    assert checksum == zlib.crc32(data[24:])


def test_a_value_without_binary_form_changes_nothing() -> None:
    encoder = StepEncoder()
    unsupported: Any = {"info": object()}
    with pytest.raises(UnsupportedValue):
        encoder.encode(Kind.STEP, 0, unsupported)
    record = encoder.encode(Kind.STEP, 0, {"info": 1})
    assert decoded(MAGIC + record)[0] == [Record(Kind.STEP, 0, {"info": 1})]


def encoded_step(
    encoder: StepEncoder, action: Any, result: dict[str, Any]
) -> bytes | None:
    """Encode a step as a host does that has the messages of its stream."""
    sent = []
    for value in ({"action": action}, result):
        signature, leaves = binary.split(value)
        sent.append((signature, b"".join(leaves)))
    request, answer = (Op.STEP, 1, 0, {"action": action}, *sent[0]), (b"", *sent[1])
    return encoder.encode_step(7, request, answer)


def result_of(observation: Any, info: Any) -> dict[str, Any]:
    results = {"reward": 0.5, "terminated": False, "truncated": True}
    return {"info": info, "observation": observation, **results}


def record_of(action: Any, result: dict[str, Any]) -> dict[str, Any]:
    names = ("observation", "reward", "terminated", "truncated", "info")
    return {"action": action} | {name: result[name] for name in names}


@pytest.mark.parametrize(
    ("action", "observation", "info"),
    [
        (1, np.arange(4, dtype=np.float32), {}),
        (np.int64(2), 5, {"prob": 1.0, "mask": np.ones(3, np.int8)}),
        ((np.float32(1), {"é": [True]}), {"b": None, "a": np.zeros((2, 3))}, {"n": 3}),
    ],
)
def test_a_step_of_encoded_messages_has_the_same_bytes(
    action: Any, observation: Any, info: Any
) -> None:
    result = result_of(observation, info)
    members, encoder = record_of(action, result), StepEncoder()
    # A signature is sent, and learned, before it is used.
    assert encoded_step(encoder, action, result) is None
    first, second = (encoder.encode_body(Kind.STEP, 7, members) for _ in range(2))
    assert encoded_step(encoder, action, result) is None
    assert encoded_step(encoder, action, result) == second != first


@pytest.mark.parametrize(
    ("action", "result"),
    [
        ("left", result_of(1, {})),
        (1, result_of(1, {"name": "a"})),
        (1, result_of(1, {}) | {"spaces_version": 2}),
        (1, dict(reversed(result_of(1, {}).items()))),
    ],
)
def test_other_steps_are_encoded_from_their_members(
    action: Any, result: dict[str, Any]
) -> None:
    encoder = StepEncoder()
    for _ in range(3):
        encoder.encode(Kind.STEP, 7, record_of(action, result))
        assert encoded_step(encoder, action, result) is None


@pytest.mark.parametrize("data", [b"PK", b"gym-steps\r\n\x1a\x02\0\0\0"])
def test_other_files_are_refused(data: bytes) -> None:
    with pytest.raises(BadValue, match="beginning of a steps"):
        StepDecoder().feed(data)
