"""The quick lane of a stream: short messages of signatures that are known already.

Nearly every message on a stream is one short frame, of an operation and a signature
that have been there before. Such a one is read and written here in a few steps. It is
the same to the bit as what the general way gives, with which a lane shares the numbers
of signatures; whatever is unusual is left to that.
"""

from __future__ import annotations

import os
import struct
from array import array
from collections.abc import Iterator
from typing import Any

from gym_http_wire.frames import Frame, Pieces
from gym_http_wire.messages import Form, Op
from gym_http_wire.signatures import ReceivedSignatures, SentSignatures
from gym_http_wire.values import BadValue
from gym_http_wire.values.fixed import Writer, fixed_writer

__all__ = [
    "MAX_LEAVES",
    "MISSED",
    "FastAnswer",
    "FastClientFrames",
    "FastHostFrames",
    "FastRequest",
]

#: A request: its operation, number and status, its value, signature and leaves.
FastRequest = tuple[int, int, int, Any, bytes, bytes]
#: An answer: its whole message, and the value's signature and leaves.
FastAnswer = tuple[bytes, bytes, bytes]

#: What a lane gives for what it does not take.
MISSED: Any = object()

# The header of a frame, and of the value in it: size and number of its signature.
_HEADERS = struct.Struct("<IIHBBIII")
_SIZE = _HEADERS.size
_FRAME_SIZE = 16
# A WebSocket's head of two bytes, and the mask behind it.
_MASKED_HEAD = struct.Struct("<HI")
_HEAD_SIZE = _MASKED_HEAD.size
_PLAIN_HEAD_SIZE = 2
_WHOLE = 0x82
_MASKED_WHOLE = 0x8082
_LONGEST = 125
#: Bytes of leaves that a lane's message has room for.
MAX_LEAVES = _LONGEST - _SIZE
_BINARY = int(Form.BINARY)
_BOTH_BINARY = _BINARY | _BINARY << 4
_OPS = frozenset({int(Op.RESET), int(Op.STEP)})
# By the number of its words, what repeats a word of 32 bits.
_REPEATED = tuple(sum(1 << 32 * at for at in range(words)) for words in range(32))
_MASKS_AT_ONCE = 1024


def _masks() -> Iterator[int]:
    """Draw masks that nobody can foresee."""
    while True:
        yield from array("I", os.urandom(4 * _MASKS_AT_ONCE))


class FastClientFrames:
    """The client's side.

    Args:
        announcing: The signatures that were sent.
        announced: The signatures that came.
    """

    def __init__(
        self, announcing: SentSignatures, announced: ReceivedSignatures
    ) -> None:
        self._numbers = announcing.numbers
        self._readers = announced.readers
        self._masks = _masks()
        self._writers: dict[int, tuple[Writer, int]] = {}
        self._seen: dict[int, bytes] = {}

    def message(self, op: int, number: int, acknowledged: int, given: Any) -> Any:
        """Give the message of a request, or `MISSED`."""
        known = self._writers.get(op)
        if known is None:
            return MISSED
        writer, signature = known
        leaves = writer(given)
        if leaves is None:
            return MISSED
        size = _SIZE + len(leaves)
        if size > _LONGEST:
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
                signature,
            )
            + leaves
        )
        mask = next(self._masks)
        whole = int.from_bytes(payload, "little") ^ mask * _REPEATED[size >> 2]
        head = _MASKED_HEAD.pack(_MASKED_WHOLE | size << 8, mask)
        return head + whole.to_bytes(size, "little")

    def learn(self, op: int, signature: bytes) -> None:
        """Note what a request of an operation was like that went the general way."""
        if self._seen.get(op) != signature:
            # Only what comes again is worth a writer.
            self._seen[op] = signature
            return
        number, writer = self._numbers.get(signature), fixed_writer(signature)
        if number is not None and writer is not None:
            self._writers[op] = writer, number

    def value(self, data: bytes, number: int) -> Any:
        """Give the value of the answer to a request, or `MISSED`.

        Args:
            data: All that has come since the request was sent.
            number: The request's.
        """
        size = len(data)
        if not _SIZE + 2 <= size <= _LONGEST + 2 or data[0] != _WHOLE:
            return MISSED
        header = _HEADERS.unpack_from(data, _PLAIN_HEAD_SIZE)
        body, head, status, _, form, answered, inline, signature = header
        if (
            data[1] != size - _PLAIN_HEAD_SIZE
            or body != size - _PLAIN_HEAD_SIZE - _FRAME_SIZE
            or answered != number
            or status != 200
            or form != _BINARY
            or head
            or inline
        ):
            return MISSED
        reader = self._readers.get(signature)
        if reader is None:
            return MISSED
        try:
            return reader(data, _PLAIN_HEAD_SIZE + _SIZE)
        except BadValue:
            return MISSED


class FastHostFrames:
    """The host's side.

    Args:
        announcing: The signatures that were sent.
        announced: The signatures that came.
    """

    def __init__(
        self, announcing: SentSignatures, announced: ReceivedSignatures
    ) -> None:
        self._numbers = announcing.numbers
        self._readers = announced.readers
        self._signatures = announced.signatures
        self._writer: tuple[Writer, bytes, int] | None = None
        self._seen = b""

    def asked(self, data: bytes) -> FastRequest | None:
        """Give the request that is all of what has come, if it is one for the lane."""
        size = len(data) - _HEAD_SIZE
        if not _SIZE <= size <= _LONGEST or size & 7:
            return None
        first, mask = _MASKED_HEAD.unpack_from(data)
        if first != _MASKED_WHOLE | size << 8:
            return None
        whole = int.from_bytes(data[_HEAD_SIZE:], "little")
        payload = (whole ^ mask * _REPEATED[size >> 2]).to_bytes(size, "little")
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

    def told(self, number: int, value: Any) -> FastAnswer | None:
        """Write the answer to a step, if it is one for the lane."""
        known = self._writer
        if known is None:
            return None
        leaves = known[0](value)
        if leaves is None or len(leaves) > MAX_LEAVES:
            return None
        return self.answer_from_leaves(number, leaves, *known[1:])

    def answer_from_leaves(
        self, number: int, leaves: bytes, signature: bytes, place: int
    ) -> FastAnswer:
        """Write the answer to a step whose leaves are written already.

        Args:
            number: The request's.
            leaves: Of the value.
            signature: Its signature.
            place: The number that the signature has on this stream.
        """
        size = _SIZE + len(leaves)
        header = _HEADERS.pack(size - _FRAME_SIZE, 0, 200, 0, _BINARY, number, 0, place)
        return b"".join((_PLAIN_HEADS[size], header, leaves)), signature, leaves

    def place(self, signature: bytes) -> int | None:
        """Give the number that a signature has on this stream, if it was sent."""
        return self._numbers.get(signature)

    def learn(self, answer: Frame) -> None:
        """Note what an answer to a step was like that went the general way."""
        body = answer.body
        if type(body) is not Pieces:
            return
        signature = body.signature
        if signature != self._seen:
            # Only what comes again is worth a writer.
            self._seen = signature
            return
        place, writer = self._numbers.get(signature), fixed_writer(signature)
        if place is not None and writer is not None:
            self._writer = writer, signature, place


_PLAIN_HEADS = tuple(bytes((_WHOLE, size)) for size in range(_LONGEST + 1))
