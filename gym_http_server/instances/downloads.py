"""Downloads: bodies that are read from parts of files while they are sent.

Bytes of a file that are in memory are read without a thread.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

from gym_http_server.instances.transfers import PIECE, buffers, in_thread
from gym_http_server.relay.messages import BodyPieces, Piece

__all__ = ["Download"]

#: Reads only the bytes that are in memory; Linux has it, for some file systems.
_NOWAIT = getattr(os, "RWF_NOWAIT", 0)
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
        # For what is read of files. It belongs to this body while it is iterated over.
        self._buffer = memoryview(b"")
        self._used = 0

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
        self._buffer = buffers.take()
        try:
            for group in _groups(self._pieces):
                self._used = 0
                yield self._read(group)
        finally:
            buffers.give_back(self._buffer)

    def _read(self, group: list[Piece]) -> bytes:
        views = {
            file: self._read_span(file, pieces) for file, pieces in _by_file(group)
        }
        parts = []
        for piece in group:
            file, offset, size = piece
            if file < 0:
                parts.append(self._inline[offset : offset + size])
            elif (span := views[file]) is not None:
                start, view = span
                parts.append(view[offset - start : offset - start + size])
            else:
                parts.append(self._read_at(file, offset, size))
        return b"".join(parts)

    def _read_span(
        self, file: int, pieces: list[Piece]
    ) -> tuple[int, memoryview] | None:
        """Read the pieces of a file at once, unless too much lies between them.

        Returns:
            Where the bytes begin in the file, and the bytes.
        """
        start = min(piece.offset for piece in pieces)
        size = max(piece.offset + piece.size for piece in pieces) - start
        if size > 2 * sum(piece.size for piece in pieces):
            return None
        return start, self._read_at(file, start, size)

    def _read_at(self, file: int, offset: int, size: int) -> memoryview:
        """Read bytes of a file into the next part of the buffer."""
        # Spans have at most twice the bytes of their group, which is a piece or less.
        memory = self._buffer[self._used : self._used + size]
        self._used += size
        _read_file(self._descriptors[file], memory, offset)
        return memory

    def close(self) -> None:
        """Close the files."""
        while self._descriptors:
            os.close(self._descriptors.pop())

    def __del__(self) -> None:
        self.close()


def _by_file(pieces: list[Piece]) -> Iterator[tuple[int, list[Piece]]]:
    """Yield the files that pieces are in, each with its pieces."""
    found: dict[int, list[Piece]] = {}
    for piece in pieces:
        if piece.file >= 0:
            found.setdefault(piece.file, []).append(piece)
    yield from found.items()


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


def _read_file(descriptor: int, memory: memoryview, offset: int) -> None:
    """Fill memory with bytes of a file; in a thread, if they are not in memory yet."""
    count = 0
    if _NOWAIT:
        try:
            count = os.preadv(descriptor, [memory], offset, _NOWAIT)
        except OSError as error:
            if error.errno not in _WOULD_WAIT:
                raise
    while count < len(memory):
        rest = memory[count:]
        read = in_thread(os.preadv, descriptor, [rest], offset + count)
        if not read:
            raise OSError(f"a file of the relay lacks {len(rest)} bytes")
        count += read
