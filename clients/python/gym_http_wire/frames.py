"""Frames: the binary messages of hosts, streams and external environments.

A frame is a 16-byte header, a head (JSON, usually absent) and a body::

    0      4 body size, bytes, u32 little-endian (the head follows the header,
    4      4 head size, bytes, u32                the body follows the head)
    8      2 HTTP status of an answer, 0 in a request, u16
    10     1 kind: an operation, or 0 for an answer
    11     1 form of the body, and in the high half the form of the answer
    12     4 number, echoed by the answer, u32

The head is padded with blanks to a multiple of 8, so that a body starts at a
multiple of 8 and numbers in it can be read in place.

This module does no I/O: bytes in, frames out, and back.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

__all__ = [
    "HEADER",
    "MAX_HEAD_BYTES",
    "MAX_NUMBER",
    "UNREAD",
    "VALUE_HEADER",
    "Frame",
    "FrameError",
    "FrameReader",
    "Pieces",
    "encode",
]

HEADER = struct.Struct("<IIHBBI")
HEADER_SIZE = HEADER.size
#: The header of a value in the binary form: size and number of its signature.
VALUE_HEADER = struct.Struct("<II")
#: The largest number of a request.
MAX_NUMBER = 2**32 - 1
MAX_HEAD_BYTES = 64 * 1024


class FrameError(ValueError):
    """The bytes are not a frame, or one larger than allowed."""


#: The `Pieces.value` of a value that was not decoded.
UNREAD: Any = object()


class Pieces:
    """A value in the binary form, its signature apart from its leaves.

    Attributes:
        signature: The value's signature, padded.
        leaves: Buffers that make up the leaves, in order.
        size: Bytes of the whole value, its header included.
        lasting: Whether the leaves are copies; else they are arrays of an environment,
            which changes them with its next step.
        value: The decoded value, or `UNREAD`.
    """

    __slots__ = ("lasting", "leaves", "signature", "size", "value")

    def __init__(
        self,
        signature: bytes,
        leaves: list[bytes | memoryview],
        size: int,
        lasting: bool = True,
    ) -> None:
        self.signature = signature
        self.leaves = leaves
        self.size = size
        self.lasting = lasting
        self.value = UNREAD

    def __len__(self) -> int:
        return self.size

    def join(self) -> bytes:
        """Return the value in one piece."""
        header = VALUE_HEADER.pack(len(self.signature), 0)
        return b"".join((header, self.signature, *self.leaves))


class Frame(NamedTuple):
    """One message, its head and body still encoded.

    Attributes:
        kind: The operation; 0 in an answer.
        number: Chosen by the sender of a request, echoed by the answer.
        status: HTTP status of an answer, 0 in a request.
        form: Form of the body (low half), form of the answer (high half).
        head: JSON object with rare members, or empty.
        body: The payload; on streams, `Pieces` where it is a value in the binary form.
    """

    kind: int
    number: int = 0
    status: int = 0
    form: int = 0
    head: bytes = b""
    body: Any = b""

    def __repr__(self) -> str:
        return (
            f"Frame(kind={self.kind}, number={self.number}, status={self.status}, "
            f"form={self.form}, head={self.head[:40]!r}, "
            f"body={self.body[:40]!r}{'…' if len(self.body) > 40 else ''})"
        )


def encode(frame: Frame) -> bytes:
    """Encode a frame."""
    head, body = frame.head, frame.body
    if head:
        head += b" " * (-len(head) % 8)
    if isinstance(body, Pieces):
        body = body.join()
    header = HEADER.pack(
        len(body), len(head), frame.status, frame.kind, frame.form, frame.number
    )
    return b"".join((header, head, body))


class FrameReader:
    """Decodes frames from the bytes of one connection.

    Args:
        max_body_bytes: A larger body is an error as soon as its header is read.
    """

    def __init__(self, max_body_bytes: int) -> None:
        self._max_body_bytes = max_body_bytes
        self._buffer = bytearray()
        self._wanted = HEADER_SIZE

    def feed(self, data: bytes) -> list[Frame]:
        """Add received bytes; returns the frames that are now complete.

        Raises:
            FrameError: A size in a header is over the limit.
        """
        if not self._buffer:
            # Nearly always one whole frame, which is not copied twice.
            frame, end = self._cut(data, 0)
            if frame is not None and end == len(data):
                return [frame]
        self._buffer += data
        if len(self._buffer) < self._wanted:
            return []
        frames = []
        start = 0
        # A view: a large body is copied once.
        with memoryview(self._buffer) as whole:
            while True:
                frame, start = self._cut(whole, start)
                if frame is None:
                    break
                frames.append(frame)
        del self._buffer[:start]
        self._wanted = self._size_of_next()
        return frames

    def feed_first(self, data: bytes) -> Frame | None:
        """Add received bytes; returns the next frame once it is complete.

        For connections on which other bytes than frames follow; `rest` returns those.

        Raises:
            FrameError: A size in the header is over the limit.
        """
        self._buffer += data
        frame, end = self._cut(bytes(self._buffer), 0)
        if frame is not None:
            del self._buffer[:end]
        return frame

    def _size_of_next(self) -> int:
        # Without this, a large body that arrives in pieces is copied for each piece.
        if len(self._buffer) < HEADER_SIZE:
            return HEADER_SIZE
        body_size, head_size = HEADER.unpack_from(self._buffer)[:2]
        return HEADER_SIZE + int(head_size) + int(body_size)

    @property
    def pending(self) -> bool:
        """Whether a frame has begun and is not complete."""
        return bool(self._buffer)

    @property
    def announced(self) -> int:
        """Bytes of the frame that is being received, as far as they are known."""
        return self._wanted

    def rest(self) -> bytes:
        """Return, and forget, the bytes after the last whole frame."""
        rest = bytes(self._buffer)
        self._buffer.clear()
        self._wanted = HEADER_SIZE
        return rest

    def _cut(self, data: bytes | memoryview, start: int) -> tuple[Frame | None, int]:
        if len(data) - start < HEADER_SIZE:
            return None, start
        header = HEADER.unpack_from(data, start)
        body_size, head_size, status, kind, form, number = header
        if body_size > self._max_body_bytes:
            raise FrameError(
                f"a frame announces a body of {body_size} bytes; "
                f"the limit is {self._max_body_bytes}"
            )
        if head_size > MAX_HEAD_BYTES:
            raise FrameError(
                f"a frame announces a head of {head_size} bytes; "
                f"the limit is {MAX_HEAD_BYTES}"
            )
        body_start = start + HEADER_SIZE + head_size
        end = body_start + body_size
        if end > len(data):
            return None, start
        head = bytes(data[start + HEADER_SIZE : body_start])
        body = bytes(data[body_start:end])
        return Frame(kind, number, status, form, head, body), end
