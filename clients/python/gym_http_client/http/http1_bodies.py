"""Bodies of HTTP/1.1 answers: sized, chunked, or until the end; sans I/O."""

from __future__ import annotations

import re
from io import BytesIO
from typing import Protocol

from gym_http_client.http.large_memory import take_memory

__all__ = [
    "BadAnswer",
    "BodyReader",
    "ChunkedBody",
    "LargeBody",
    "SizedBody",
    "UnsizedBody",
]


_MAX_LINE = 4096
_MAX_TRAILERS = 64 * 1024
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?")


class BadAnswer(ValueError):
    """The bytes are not an HTTP answer, or too large."""


class BodyReader(Protocol):
    """Decodes a body from bytes as they arrive.

    Attributes:
        done: Whether the body is complete.
        rest: The bytes after its end.
    """

    done: bool
    rest: bytes

    def feed(self, data: bytes) -> None:
        """Add received bytes; do not call this once the body is complete.

        Raises:
            BadAnswer: The body is malformed or too large.
        """

    def value(self) -> bytes | memoryview:
        """Return the bytes of the body so far."""


class LargeBody:
    """A large body of known size, which can be received into its memory.

    Attributes:
        room: The memory for its missing bytes.
    """

    __slots__ = ("_memory", "done", "rest", "room")

    def __init__(self, size: int) -> None:
        self.done = False
        self.rest = b""
        self._memory = self.room = take_memory(size)

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        size = len(self.room)
        if len(data) > size:
            data, self.rest = data[:size], data[size:]
        self.room[: len(data)] = data
        self.fill(len(data))

    def fill(self, count: int) -> None:
        """Note that bytes were received into the room."""
        self.room = self.room[count:]
        self.done = not self.room

    def value(self) -> memoryview:
        """Return the bytes of the body so far, in writeable memory."""
        return self._memory[: len(self._memory) - len(self.room)]


class SizedBody:
    """A body whose size is in the headers."""

    __slots__ = ("_bytes", "_missing", "done", "rest")

    def __init__(self, size: int) -> None:
        self.done = not size
        self.rest = b""
        self._bytes = BytesIO()
        self._missing = size

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        if len(data) > self._missing:
            data, self.rest = data[: self._missing], data[self._missing :]
        self._bytes.write(data)
        self._missing -= len(data)
        self.done = not self._missing

    def value(self) -> bytes:
        """Return the bytes of the body so far."""
        return self._bytes.getvalue()


class UnsizedBody:
    """A body that ends where the stream ends, so that `done` stays false."""

    __slots__ = ("_bytes", "_max_size", "done", "rest")

    def __init__(self, max_size: int) -> None:
        self.done = False
        self.rest = b""
        self._bytes = BytesIO()
        self._max_size = max_size

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        check_size(self._bytes.tell() + len(data), self._max_size)
        self._bytes.write(data)

    def value(self) -> bytes:
        """Return the bytes of the body so far."""
        return self._bytes.getvalue()


class ChunkedBody:
    """A body in chunks, each after its size, with trailers in the end."""

    __slots__ = (
        "_bytes",
        "_line",
        "_max_size",
        "_missing",
        "_trailers",
        "done",
        "rest",
    )

    def __init__(self, max_size: int) -> None:
        self.done = False
        self.rest = b""
        self._bytes = BytesIO()
        self._max_size = max_size
        self._line = b""
        # Missing bytes of a chunk and its line break; 0 while a line is expected.
        self._missing = 0
        # Size of the trailers in bytes; -1 before the last chunk.
        self._trailers = -1

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        at = 0
        while at < len(data) and not self.done:
            at = self._take(data, at) if self._missing else self._take_line(data, at)
        self.rest = data[at:]

    def value(self) -> bytes:
        """Return the bytes of the body so far."""
        return self._bytes.getvalue()

    def _take(self, data: bytes, at: int) -> int:
        end = min(len(data), at + self._missing - 2)
        if end > at:
            self._bytes.write(memoryview(data)[at:end])
            self._missing -= end - at
            return end
        if data[at] != b"\n\r"[self._missing - 1]:
            raise BadAnswer("a chunk does not end where it should")
        self._missing -= 1
        return at + 1

    def _take_line(self, data: bytes, at: int) -> int:
        end = data.find(b"\n", at) + 1 or len(data)
        self._line += data[at : min(end, at + _MAX_LINE)]
        if len(self._line) >= _MAX_LINE:
            raise BadAnswer("a line between chunks is too long")
        if self._line.endswith(b"\n"):
            if not self._line.endswith(b"\r\n"):
                raise BadAnswer("a line between chunks does not end as it should")
            self._end_line(self._line[:-2])
            self._line = b""
        return end

    def _end_line(self, line: bytes) -> None:
        if self._trailers >= 0:
            self._trailers += len(line) + 2
            self.done = not line
            if self._trailers > _MAX_TRAILERS:
                raise BadAnswer("there are too many trailers")
            return
        match = _CHUNK_SIZE.fullmatch(line)
        if not match:
            raise BadAnswer("a chunk does not begin with its size")
        size = int(match[1], 16)
        check_size(self._bytes.tell() + size, self._max_size)
        if size:
            self._missing = size + 2
        else:
            self._trailers = 0


def check_size(size: int, max_size: int) -> None:
    """Raise `BadAnswer` if a body is too large."""
    if size > max_size:
        raise BadAnswer(f"the body has more than {max_size} bytes")
