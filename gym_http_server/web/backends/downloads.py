"""Downloads: bodies that are read from parts of files while they are sent.

Bytes of a file that are in memory are read without a thread.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

from gym_http_server.services.relay.messages import BodyPieces, Piece
from gym_http_server.web.backends.transfers import PIECE, buffers, in_thread

__all__ = ["Download"]

#: Reads only the bytes that are in memory; Linux has it, for some file systems.
_NOWAIT = getattr(os, "RWF_NOWAIT", 0)
#: Bytes between two pieces of a file that are read with them.
MOST_BETWEEN = 4096
# They are of no use, so all downloads write them to the same memory.
_unused = memoryview(bytearray(MOST_BETWEEN))
# Parts of memory that a system accepts in one call, at least.
_MOST_PARTS = 1000
_WOULD_WAIT = (errno.EAGAIN, errno.EOPNOTSUPP)


class Download:
    """A body in pieces, which are read while they are sent.

    Args:
        body: The pieces.
        descriptors: Files that the pieces refer to by number; they are closed with it.
    """

    def __init__(self, body: BodyPieces, descriptors: list[int]) -> None:
        self._pieces = body.pieces
        self._inline = body.inline
        self._descriptors = descriptors
        self._size = body.size

    def __len__(self) -> int:
        return self._size

    def cut(self, start: int, end: int) -> None:
        """Leave out all bytes but those from start to before end."""
        kept = []
        at = 0
        for file, offset, size in self._pieces:
            first, last = max(start - at, 0), min(end - at, size)
            if first < last:
                kept.append(Piece(file, offset + first, last - first))
            at += size
        self._pieces = kept
        self._size = sum(piece.size for piece in kept)

    def __iter__(self) -> Iterator[bytes]:
        return map(bytes, self.views())

    def views(self) -> Iterator[memoryview]:
        """Yield the body in parts, for a web server that can send memory.

        A part is valid until the next one is wanted.
        """
        buffer = buffers.take()
        try:
            for group in _groups(self._pieces):
                yield self._read(group, buffer)
        finally:
            buffers.give_back(buffer)

    def _read(self, group: list[Piece], buffer: memoryview) -> memoryview:
        """Read pieces into a buffer, one behind the other."""
        reads: list[_Read] = []
        end = 0
        for file, offset, size in group:
            memory = buffer[end : end + size]
            end += size
            if file < 0:
                memory[:] = self._inline[offset : offset + size]
            elif reads and reads[-1].continues(file, offset):
                reads[-1].add(_unused[: offset - reads[-1].end], memory)
            else:
                reads.append(_Read(file, offset, memory))
        for each in reads:
            _read_file(self._descriptors[each.file], each)
        return buffer[:end]

    def close(self) -> None:
        """Close the files."""
        while self._descriptors:
            os.close(self._descriptors.pop())

    def __del__(self) -> None:
        self.close()


class _Read:
    """Pieces of a file that are read with one call.

    Attributes:
        file: Number of the file.
        start: Where the first piece begins in it.
        end: Where the last one ends.
        parts: The memory for the bytes from start to end.
    """

    __slots__ = ("end", "file", "parts", "start")

    def __init__(self, file: int, start: int, memory: memoryview) -> None:
        self.file = file
        self.start = start
        self.end = start + len(memory)
        self.parts = [memory]

    def continues(self, file: int, offset: int) -> bool:
        """Return whether a piece there can be read with the same call."""
        near = 0 <= offset - self.end <= MOST_BETWEEN
        return file == self.file and near and len(self.parts) < _MOST_PARTS

    def add(self, unused: memoryview, memory: memoryview) -> None:
        """Add a piece, and memory for what lies before it."""
        self.parts += (unused, memory)
        self.end += len(unused) + len(memory)


def _groups(pieces: list[Piece]) -> Iterator[list[Piece]]:
    """Yield pieces in groups of `PIECE` bytes or less; cut those that are larger."""
    group: list[Piece] = []
    room = PIECE
    for file, offset, size in pieces:
        while size:
            part = min(size, room)
            group.append(Piece(file, offset, part))
            offset, size, room = offset + part, size - part, room - part
            if not room:
                yield group
                group, room = [], PIECE
    if group:
        yield group


def _read_file(descriptor: int, read: _Read) -> None:
    """Read pieces of a file; in a thread, if they are not in memory yet."""
    if _NOWAIT:
        try:
            count = os.preadv(descriptor, read.parts, read.start, _NOWAIT)
        except OSError as error:
            if error.errno not in _WOULD_WAIT:
                raise
        else:
            if count == read.end - read.start:
                return
    in_thread(_read_slowly, descriptor, read)


def _read_slowly(descriptor: int, read: _Read) -> None:
    offset = read.start
    for part in read.parts:
        while part:
            count = os.preadv(descriptor, [part], offset)
            if not count:
                raise OSError(f"a file of the relay lacks {read.end - offset} bytes")
            part, offset = part[count:], offset + count
