"""The WebSocket codec against wsproto, in both directions and both roles."""

import contextlib
import os
import struct
import tracemalloc
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from wsproto.frame_protocol import FrameProtocol, ParseFailed
from wsproto.frame_protocol import Opcode as TheirOpcode

from gym_http_wire.websocket import (
    Close,
    Masks,
    Message,
    MessageReader,
    WebSocketError,
    accept_of,
    close_of,
    encode,
    head_of,
)
from tests.support.websocket import ACCEPT, KEY, frame, masked

LIMIT = 200_000
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
#: Around the sizes at which the form of a length changes.
SIZES = (0, 1, 3, 4, 125, 126, 127, 65_535, 65_536, 70_001)

sizes = st.one_of(st.integers(0, 300), st.sampled_from(SIZES))
payloads = st.builds(
    lambda size, seed: (bytes([seed, 7, 255]) * size)[:size],
    sizes,
    st.integers(0, 255),
)
cuttings = st.lists(st.one_of(st.integers(1, 40), st.integers(1, 70_000)), max_size=40)


class Part(NamedTuple):
    """A control frame, or a message with the sizes of its fragments."""

    opcode: int
    payload: bytes
    cuts: tuple[int, ...] = ()


texts = st.text(max_size=200).map(str.encode)
controls = st.builds(Part, st.sampled_from([PING, PONG]), st.binary(max_size=125))
messages = st.one_of(
    st.builds(
        Part,
        st.just(BINARY),
        payloads,
        st.lists(st.integers(0, 1000), max_size=4).map(tuple),
    ),
    st.builds(
        Part,
        st.just(TEXT),
        texts,
        st.lists(st.integers(0, 60), max_size=4).map(tuple),
    ),
)


def pieces(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    """Cut bytes into pieces of these sizes, and a last one."""
    cut, at = [], 0
    for size in cuts:
        cut.append(data[at : at + size])
        at += size
    return [*cut, data[at:]]


def read(reader: MessageReader, data: bytes, cuts: Sequence[int]) -> list[Message]:
    """Feed bytes to a reader in pieces, as a socket would."""
    got = []
    for piece in pieces(data, cuts):
        while piece and (space := reader.space()) is not None:
            taken = piece[: len(space)]
            assert taken, "a reader that asks for bytes has space for them"
            space[: len(taken)] = taken
            got += reader.received(len(taken))
            piece = piece[len(taken) :]
        if piece:
            got += reader.feed(piece)
    return [Message(opcode, bytes(payload)) for opcode, payload in got]


def written_by_them(
    them: FrameProtocol, parts: list[Part], between: list[Part]
) -> tuple[bytes, list[Message]]:
    """Have wsproto write messages, with control frames between their fragments."""
    data, expected = b"", []
    waiting = list(between)
    for opcode, payload, cuts in parts:
        split = pieces(payload, cuts)
        for number, piece in enumerate(split):
            if number and waiting:
                control = waiting.pop()
                send = them.ping if control.opcode == PING else them.pong
                data += bytes(send(control.payload))
                expected.append(Message(control.opcode, control.payload))
            # Texts are cut between bytes, as wsproto itself would not.
            them._outbound_opcode = None
            first = TheirOpcode(opcode) if number == 0 else TheirOpcode.CONTINUATION
            data += bytes(them._serialize_frame(first, piece, number == len(split) - 1))
        expected.append(Message(opcode, payload))
    return data, expected


@pytest.mark.parametrize("masks", [True, False])
@given(st.lists(messages, max_size=4), st.lists(controls, max_size=3), cuttings)
@example([Part(BINARY, b"x" * 70_000)], [], [3])
@example([Part(BINARY, b"x" * 70_000, (66_000,))], [Part(PING, b"?")], [1] * 40)
def test_frames_of_wsproto_are_read(
    masks: bool, parts: list[Part], between: list[Part], cuts: list[int]
) -> None:
    them = FrameProtocol(client=masks, extensions=[])
    data, expected = written_by_them(them, parts, between)
    reader = MessageReader(masked=masks, max_message=LIMIT)
    assert read(reader, data, cuts) == expected


@pytest.mark.parametrize("masks", [True, False])
@given(st.lists(st.one_of(messages, controls), max_size=4))
def test_wsproto_reads_our_frames(masks: bool, parts: list[Part]) -> None:
    them = FrameProtocol(client=not masks, extensions=[])
    drawn = Masks()
    for opcode, payload, _ in parts:
        mask = drawn.next() if masks else None
        them.receive_bytes(encode(opcode, payload, mask))
    got = [(f.opcode, f.payload, f.message_finished) for f in them.received_frames()]
    expected = [
        (opcode, payload.decode() if opcode == TEXT else payload, True)
        for opcode, payload, _ in parts
    ]
    assert got == expected


@given(payloads, st.binary(min_size=4, max_size=4))
def test_masking_is_that_of_the_rfc(payload: bytes, mask: bytes) -> None:
    whole = encode(BINARY, payload, mask)
    assert whole.endswith(mask + masked(payload, mask))
    assert len(whole) == len(head_of(BINARY, len(payload))) + 4 + len(payload)


def test_masks_are_not_repeated() -> None:
    drawn = Masks()
    masks = [drawn.next() for _ in range(3000)]
    assert {len(mask) for mask in masks} == {4}
    assert len(set(masks)) > 2990


class Raw(NamedTuple):
    """A frame that may be wrong in any way."""

    first: int
    is_masked: bool
    payload: bytes
    extended: int = 0

    def written(self) -> bytes:
        """Return its bytes, the length in the form of `extended` bytes or more."""
        size = len(self.payload)
        bit = 0x80 if self.is_masked else 0
        if self.extended == 8 or size > 65_535:
            head = bytes([self.first, bit | 127]) + struct.pack(">Q", size)
        elif self.extended == 2 or size > 125:
            head = bytes([self.first, bit | 126]) + struct.pack(">H", size)
        else:
            head = bytes([self.first, bit | size])
        if not self.is_masked:
            return head + self.payload
        return head + b"\1\2\3\4" + masked(self.payload, b"\1\2\3\4")


good_firsts = st.sampled_from([0x82, 0x81, 0x02, 0x01, 0x00, 0x80, 0x89, 0x8A, 0x88])
raws = st.builds(
    Raw,
    st.one_of(good_firsts, good_firsts, st.integers(0, 255)),
    st.sampled_from([True] * 9 + [False]),
    st.one_of(
        st.binary(max_size=8),
        st.text(max_size=4).map(str.encode),
        st.integers(990, 5001).map(lambda code: struct.pack(">H", code) + b"why"),
        st.sampled_from([126, 300]).map(bytes),
    ),
    st.sampled_from([0] * 9 + [2, 8]),
)


def outcome_of_theirs(data: bytes, *, client: bool) -> tuple[list[Any], int | None]:
    """Return the messages that wsproto reads, and the status it would close with."""
    them = FrameProtocol(client=client, extensions=[])
    them.receive_bytes(data)
    got: list[Any] = []
    parts: list[Any] = []
    try:
        for each in them.received_frames():
            if each.opcode in (TEXT, BINARY):
                parts.append(each.payload)
                if each.message_finished:
                    whole = parts[0][:0].join(parts)
                    got.append(
                        whole.encode() if isinstance(whole, str) else bytes(whole)
                    )
                    parts = []
            elif each.opcode != CLOSE:
                got.append(bytes(each.payload))
    except ParseFailed as failed:
        return got, int(failed.code)
    return got, None


@pytest.mark.parametrize("client", [False, True])
@given(st.lists(raws, max_size=6), cuttings)
@example([Raw(0x88, True, b"\x03\xee")], [])
@example([Raw(0x01, True, b"\xff"), Raw(0x80, True, b"")], [])
@example([Raw(0x01, True, b"\xff"), Raw(0x89, True, b"")], [])
def test_exactly_those_frames_are_refused_that_wsproto_refuses(
    client: bool, frames: list[Raw], cuts: list[int]
) -> None:
    if client:
        frames = [each._replace(is_masked=not each.is_masked) for each in frames]
    data = b"".join(each.written() for each in frames)
    expected, refused = outcome_of_theirs(data, client=client)
    reader = MessageReader(masked=not client, max_message=LIMIT)
    got: list[Message] = []
    code = None
    try:
        for piece in pieces(data, cuts):
            got += read(reader, piece, [])
    except WebSocketError as error:
        code = int(error.code)
    payloads = [bytes(m.payload) for m in got if m.opcode != CLOSE]
    # A text is looked at once it is whole: some never are, and a ping may come before.
    if refused == Close.INVALID_TEXT:
        payloads = payloads[: len(expected)]
    else:
        assert code == refused
    # Those before the bad one may have come with it, and are dropped then.
    assert payloads == expected[: len(payloads)]
    if refused is None:
        assert payloads == expected


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frame(BINARY, b"x", mask=b""), Close.PROTOCOL_ERROR),
        (frame(3, b"x"), Close.PROTOCOL_ERROR),
        (frame(11, b"x"), Close.PROTOCOL_ERROR),
        (bytes([0xC2, 0x80]) + bytes(4), Close.PROTOCOL_ERROR),
        (frame(0, b"x"), Close.PROTOCOL_ERROR),
        (frame(BINARY, b"x", fin=False) * 2, Close.PROTOCOL_ERROR),
        (frame(PING, b"x", fin=False), Close.PROTOCOL_ERROR),
        (frame(PING, bytes(126)), Close.PROTOCOL_ERROR),
        (frame(CLOSE, b"\3"), Close.PROTOCOL_ERROR),
        (frame(CLOSE, b"\3\xed"), Close.PROTOCOL_ERROR),
        (frame(CLOSE, b"\3\xe8\xff"), Close.INVALID_TEXT),
        (frame(TEXT, b"\xff"), Close.INVALID_TEXT),
        (frame(BINARY, bytes(LIMIT + 1))[:14], Close.TOO_LARGE),
        (bytes([0x82, 0xFF]) + b"\xff" * 8 + bytes(4), Close.TOO_LARGE),
        (frame(BINARY, bytes(LIMIT), fin=False) + frame(0, b"x"), Close.TOO_LARGE),
    ],
    # Masks are random, and the names of tests may not be.
    ids=[
        *("unmasked", "opcode-3", "opcode-11", "reserved-bit", "nothing-continued"),
        *("two-at-once", "ping-in-parts", "long-ping", "close-of-1", "close-1005"),
        *("close-no-utf8", "text-no-utf8", "long", "endless", "long-in-parts"),
    ],
)
def test_each_fault_has_its_status(data: bytes, code: Close) -> None:
    with pytest.raises(WebSocketError) as raised:
        read(MessageReader(masked=True, max_message=LIMIT), data, [])
    assert raised.value.code == code
    assert str(raised.value)


@given(st.binary(max_size=400), cuttings)
def test_no_bytes_do_anything_else(data: bytes, cuts: list[int]) -> None:
    reader = MessageReader(masked=True, max_message=1000)
    with contextlib.suppress(WebSocketError):
        for message in read(reader, data, cuts):
            assert len(message.payload) <= 1000


def test_messages_as_large_as_the_limit_are_read() -> None:
    whole = os.urandom(LIMIT)
    reader = MessageReader(masked=True, max_message=LIMIT)
    data = frame(BINARY, whole[:100], fin=False) + frame(0, whole[100:])
    assert read(reader, data + frame(BINARY, whole), [50, 7]) == [
        Message(BINARY, whole),
        Message(BINARY, whole),
    ]


def test_nothing_is_read_behind_a_close() -> None:
    reader = MessageReader(masked=True, max_message=LIMIT)
    data = frame(CLOSE, close_of(Close.NORMAL, "bye")) + frame(BINARY, b"late")
    assert read(reader, data, []) == [Message(CLOSE, b"\3\xe8bye")]
    assert read(reader, frame(BINARY, b"later"), []) == []


def test_memory_comes_with_the_bytes_and_not_with_the_announcement() -> None:
    size = 100 * 1024 * 1024
    data = frame(BINARY, b"")[:1] + b"\xff" + struct.pack(">Q", size) + b"mask" + b"x"
    tracemalloc.start()
    try:
        readers = [MessageReader(masked=True, max_message=size) for _ in range(8)]
        for reader in readers:
            reader.feed(data)
        assert tracemalloc.get_traced_memory()[1] < 10 * 1024 * 1024
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("masks", [True, False])
def test_a_message_of_many_megabytes_is_received_in_place(masks: bool) -> None:
    whole = os.urandom(1 << 16) * 80
    mask = b"\1\2\3\4" if masks else None
    reader = MessageReader(masked=masks, max_message=len(whole))
    cuts = [9, 5, 300_000, 1, 2_000_000]
    data = encode(BINARY, whole, mask)
    assert read(reader, data + encode(PING, b"", mask), cuts) == [
        Message(BINARY, whole),
        Message(PING, b""),
    ]


def test_fragments_without_end_are_refused() -> None:
    reader = MessageReader(masked=True, max_message=LIMIT)
    reader.feed(frame(BINARY, b"", fin=False))
    many = frame(0, b"", fin=False, mask=b"mask") * 65_536
    with pytest.raises(WebSocketError) as raised:
        reader.feed(many)
    assert raised.value.code == Close.POLICY


def test_a_reason_is_cut_to_the_size_of_a_close_frame() -> None:
    payload = close_of(Close.POLICY, "ä" * 100)
    assert len(payload) <= 125
    assert payload[2:].decode() == "ä" * 61


def test_the_key_of_the_rfc_is_accepted_so() -> None:
    assert accept_of(KEY) == ACCEPT
