"""Fast frames: a codec of short messages whose signature was sent before.

Nearly every message of a stream is one short frame with an operation and a signature
that were used before. This module decodes and encodes such messages in a few steps, to
the same bytes as the general codec, with which it shares the numbered signatures. The
general codec handles all other messages.

Gain: without it a step over a stream takes 1.44 times as long (``stream_same``; measure
with ``python -m benchmarks --without fast-frames``). Messages of vectors have more than
125 bytes: without fast frames of up to 4 KiB a step of 64 takes 1.09 times as long
(``vector64_same_p50``, ``--without long-frames``).
"""

from __future__ import annotations

import functools
import os
import struct
from array import array
from collections import deque
from collections.abc import Iterator
from typing import Any

from gym_http_wire.frames import HEADER, VALUE_HEADER, Frame, Pieces
from gym_http_wire.messages import Form, Op
from gym_http_wire.signatures import ReceivedSignatures, SentSignatures
from gym_http_wire.values import BadValue
from gym_http_wire.values.fixed import Writer, fixed_writer
from gym_http_wire.values.layouts import Layouts

__all__ = [
    "MAX_LEAVES",
    "MISSED",
    "FastAnswer",
    "FastClientFrames",
    "FastHostFrames",
    "FastRequest",
]

#: A request: operation, number and status; value, signature and leaves.
FastRequest = tuple[int, int, int, Any, bytes, bytes]
#: An answer: the whole message; signature and leaves of the value.
FastAnswer = tuple[bytes, bytes, bytes]

#: Returned for messages that are not fast frames.
MISSED: Any = object()

# The headers of a frame and of the value in it.
_HEADERS = struct.Struct(HEADER.format + VALUE_HEADER.format.removeprefix("<"))
_SIZE = _HEADERS.size
_FRAME_SIZE = HEADER.size
# The two bytes of a WebSocket's head, and the mask after them.
_MASKED_HEAD = struct.Struct("<HI")
_HEAD_SIZE = _MASKED_HEAD.size
_PLAIN_HEAD_SIZE = 2
_WHOLE = 0x82
_MASKED_WHOLE = 0x8082
_LONGEST = 125
# Messages of vectors are longer: behind the first two bytes are two of the length. With
# a mask, which is little-endian, they are, too, and the length has its bytes swapped.
_LONG_HEAD = struct.Struct(">HH")
_LONG_HEAD_SIZE = _LONG_HEAD.size
_LONG_WHOLE = 0x827E
_MASKED_LONG_HEAD = struct.Struct("<HHI")
_MASKED_LONG_HEAD_SIZE = _MASKED_LONG_HEAD.size
_MASKED_LONG_WHOLE = 0xFE82
_MAX_LONG = 4096
#: Bytes of leaves that fit into a short fast frame.
MAX_LEAVES = _LONGEST - _SIZE
_BINARY = int(Form.BINARY)
_BOTH_BINARY = _BINARY | _BINARY << 4
_OPS = frozenset({int(Op.RESET), int(Op.STEP)})
_MASKS_AT_ONCE = 1024
# Looked up once: each message needs it.
_int_of = int.from_bytes
# Signatures of answers that have writers, and of those that may get one.
_REMEMBERED = 4


def _masks() -> Iterator[int]:
    """Draw unpredictable masks."""
    while True:
        yield from array("I", os.urandom(4 * _MASKS_AT_ONCE))


class FastClientFrames:
    """Fast frames of a client: encodes requests, decodes answers.

    Args:
        sent: The signatures that were sent.
        received: The signatures that were received.
    """

    def __init__(self, sent: SentSignatures, received: ReceivedSignatures) -> None:
        self._numbers = sent.numbers
        self._received = received
        self._readers = received.readers
        self._masks = _masks()
        self._writers: dict[int, tuple[Writer, int]] = {}
        self._seen: dict[int, bytes] = {}

    def message(self, op: int, number: int, acknowledged: int, given: Any) -> Any:
        """Encode a request; returns `MISSED` if it is not a fast frame."""
        known = self._writers.get(op)
        if known is None:
            return MISSED
        writer, signature_number = known
        leaves = writer(given)
        if leaves is None:
            return MISSED
        return self.message_from_leaves(
            op, number, acknowledged, leaves, signature_number
        )

    def message_from_leaves(
        self,
        op: int,
        number: int,
        acknowledged: int,
        leaves: bytes,
        signature_number: int,
    ) -> Any:
        """Encode a request whose value is encoded; returns `MISSED` if it is too long.

        Args:
            op: The operation.
            number: Number of the request.
            acknowledged: `gym_http_wire.streams.ACKNOWLEDGED`, or 0.
            leaves: Leaves of the value.
            signature_number: Number of its signature on this stream.
        """
        size = _SIZE + len(leaves)
        if size > _MAX_LONG:
            return MISSED
        payload = (
            _HEADERS.pack(
                size - _FRAME_SIZE,
                0,
                acknowledged,
                op,
                _BOTH_BINARY,
                number,
                0,
                signature_number,
            )
            + leaves
        )
        mask = next(self._masks)
        whole = _int_of(payload, "little") ^ mask * _repeated(size)
        if size > _LONGEST:
            swapped = size >> 8 | (size & 0xFF) << 8
            head = _MASKED_LONG_HEAD.pack(_MASKED_LONG_WHOLE, swapped, mask)
        else:
            head = _MASKED_HEAD.pack(_MASKED_WHOLE | size << 8, mask)
        return head + whole.to_bytes(size, "little")

    def learn(self, op: int, signature: bytes) -> None:
        """Learn the signature of a request that the general codec encoded."""
        if self._seen.get(op) != signature:
            # Only a repeated signature is worth a generated writer.
            self._seen[op] = signature
            return
        number, writer = self._numbers.get(signature), fixed_writer(signature)
        if number is not None and writer is not None:
            self._writers[op] = writer, number

    def value(self, data: bytes, number: int) -> Any:
        """Decode the answer to a request; returns `MISSED` if it is not a fast frame.

        Args:
            data: All bytes that were received since the request was sent.
            number: Number of the request.

        Raises:
            BadValue: The value is malformed, or its signature was not sent.
        """
        size, start = len(data), _PLAIN_HEAD_SIZE
        if size > _LONGEST + _PLAIN_HEAD_SIZE:
            start = _LONG_HEAD_SIZE
            expected = _LONG_WHOLE, size - start
            if size > _MAX_LONG + start or _LONG_HEAD.unpack_from(data) != expected:
                return MISSED
        elif size < _SIZE + start or data[0] != _WHOLE or data[1] != size - start:
            return MISSED
        header = _HEADERS.unpack_from(data, start)
        body, head, status, _, form, answered, inline, signature = header
        if (
            body != size - start - _FRAME_SIZE
            or answered != number
            or status != 200
            or form != _BINARY
            or head
        ):
            return MISSED
        reader = None if inline else self._readers.get(signature)
        if reader is None:
            return self._received.read(data, start + _FRAME_SIZE)
        return reader(data, start + _SIZE)


class FastHostFrames:
    """Fast frames of a host: decodes requests, encodes answers.

    Args:
        sent: The signatures that were sent.
        received: The signatures that were received.

    Attributes:
        numbers: By signature that was sent, its number on this stream.
    """

    def __init__(self, sent: SentSignatures, received: ReceivedSignatures) -> None:
        self._sent = sent
        self.numbers = sent.numbers
        self._readers = received.readers
        self._signatures = received.signatures
        self._writers: list[tuple[Writer, bytes, int]] = []
        self._layouts = Layouts()
        self._seen: deque[bytes] = deque(maxlen=_REMEMBERED)

    def decode_request(self, data: bytes) -> FastRequest | None:
        """Decode a request; ``None`` if the bytes are not exactly one fast frame."""
        size = len(data) - _HEAD_SIZE
        if size > _LONGEST:
            size = len(data) - _MASKED_LONG_HEAD_SIZE
            first, swapped, mask = _MASKED_LONG_HEAD.unpack_from(data)
            if first != _MASKED_LONG_WHOLE or swapped != size >> 8 | (size & 0xFF) << 8:
                return None
            if not _LONGEST < size <= _MAX_LONG or size & 7:
                return None
            whole = _int_of(data[_MASKED_LONG_HEAD_SIZE:], "little")
        elif size < _SIZE or size & 7:
            return None
        else:
            first, mask = _MASKED_HEAD.unpack_from(data)
            if first != _MASKED_WHOLE | size << 8:
                return None
            whole = _int_of(data[_HEAD_SIZE:], "little")
        payload = (whole ^ mask * _repeated(size)).to_bytes(size, "little")
        header = _HEADERS.unpack_from(payload)
        body, head, status, kind, form, number, inline, signature = header
        if form != _BOTH_BINARY or kind not in _OPS or head or inline:
            return None
        reader = self._readers.get(signature)
        if reader is None or body != size - _FRAME_SIZE:
            return None
        try:
            value = reader(payload, _SIZE)
        except BadValue:
            return None
        return kind, number, status, value, self._signatures[signature], payload[_SIZE:]

    def encode_answer(self, number: int, value: Any) -> FastAnswer | None:
        """Encode the answer to a step; ``None`` if it is not a fast frame."""
        for writer, signature, signature_number in self._writers:
            leaves = writer(value)
            if leaves is not None:
                return self.answer_from_leaves(
                    number, leaves, signature, signature_number
                )
        written = self._layouts.write(value)
        return None if written is None else self._answer_of_layout(number, *written)

    def _answer_of_layout(
        self, number: int, signature: bytes, leaves: bytes
    ) -> FastAnswer | None:
        """Encode an answer whose signature may be new on this stream."""
        signature_number = self.numbers.get(signature)
        if signature_number is not None:
            return self.answer_from_leaves(number, leaves, signature, signature_number)
        size = _SIZE + len(signature) + len(leaves)
        if not _LONGEST < size <= _MAX_LONG:
            return None
        header = HEADER.pack(size - _FRAME_SIZE, 0, 200, 0, _BINARY, number)
        start = self._sent.header(signature)
        head = _LONG_HEAD.pack(_LONG_WHOLE, size)
        return b"".join((head, header, start, leaves)), signature, leaves

    def answer_from_leaves(
        self, number: int, leaves: bytes, signature: bytes, signature_number: int
    ) -> FastAnswer | None:
        """Encode the answer to a step whose leaves are encoded already.

        Args:
            number: Number of the request.
            leaves: Leaves of the value.
            signature: Signature of the value.
            signature_number: Number of the signature on this stream.

        Returns:
            The answer; ``None`` if it is not a fast frame.
        """
        size = _SIZE + len(leaves)
        header = _HEADERS.pack(
            size - _FRAME_SIZE, 0, 200, 0, _BINARY, number, 0, signature_number
        )
        if size <= _LONGEST:
            head = _PLAIN_HEADS[size]
        elif size > _MAX_LONG:
            return None
        else:
            head = _LONG_HEAD.pack(_LONG_WHOLE, size)
        return b"".join((head, header, leaves)), signature, leaves

    def learn(self, answer: Frame) -> None:
        """Learn the signature of an answer that the general codec encoded."""
        body = answer.body
        if type(body) is not Pieces:
            return
        signature = body.signature
        if body.size - len(signature) > _MAX_LONG - _FRAME_SIZE:
            # It is too long for a fast frame.
            return
        if signature not in self._seen:
            # Only a repeated signature is worth a generated writer.
            self._seen.append(signature)
            self._layouts.learn(signature)
            return
        self._seen.remove(signature)
        signature_number, writer = self.numbers.get(signature), fixed_writer(signature)
        if signature_number is not None and writer is not None:
            known = writer, signature, signature_number
            others = [each for each in self._writers if each[1] != signature]
            self._writers = [known, *others[: _REMEMBERED - 1]]
        else:
            self._layouts.learn(signature)


_PLAIN_HEADS = tuple(bytes((_WHOLE, size)) for size in range(_LONGEST + 1))


@functools.lru_cache(maxsize=64)
def _repeated(size: int) -> int:
    """Return the factor that repeats a word of 32 bits until it has so many bytes."""
    return _int_of(b"\1\0\0\0" * (size >> 2), "little")
