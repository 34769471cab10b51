"""Large bodies: uploads to files, and downloads from parts of files.

A web worker serves all its clients in one thread, which every access to a disk would
block. So files are opened, written, read and synced in gevent's pool of threads, by
pieces of 1 MiB. A transfer takes less than 4 MiB of memory, whatever its size.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import gevent  # type: ignore[import-untyped]

from gym_http_server.errors import RelayUnavailable, StorageFull
from gym_http_server.relay.files import UPLOAD_FREE_BYTES, lock_upload, sync_folder
from gym_http_server.relay.messages import MOST_BATCHES, BodyPieces, Piece
from gym_http_wire.frames import HEADER
from gym_http_wire.problems import Problem

__all__ = ["PIECE", "Download", "StoredBody", "store_body"]

#: Bytes that are read from a file, or written, at a time.
PIECE = 1024 * 1024
#: Batches in a bundle that have more bytes are hashed here, and smaller ones by the
#: relay, for which the rest of its work on a batch takes longer.
DIGESTED_BYTES = 4096
#: Bytes that are received at a time. gunicorn copies them several times.
RECEIVE_BYTES = 256 * 1024
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

_T = TypeVar("_T")


class StoredBody(NamedTuple):
    """A body in a file, synced together with its folder.

    The file is locked until it is closed, so that a relay that starts meanwhile does
    not remove it.

    Attributes:
        path: Path of the file.
        descriptor: The open file.
        size: Bytes of the body.
        digest: SHA-256 of the body in hex; "" if it was not computed.
    """

    path: str
    descriptor: int
    size: int
    digest: str

    @property
    def name(self) -> str:
        """Name of the file in its folder."""
        return os.path.basename(self.path)

    def batch_digests(self) -> list[tuple[int, bytes]]:
        """Return the SHA-256 of the larger batches, if the body is a bundle.

        Returns:
            The number of the batch in the bundle, from 0, and its digest.
        """
        return in_thread(_batch_digests, self.descriptor, self.size)

    def close(self) -> None:
        """Close the file, which is the relay's."""
        in_thread(os.close, self.descriptor)

    def remove(self) -> None:
        """Remove the file, and close it."""
        in_thread(_remove, self.path)
        self.close()


def store_body(
    read: Callable[[int], bytes], folder: str, room: int, begun: bytes, *, hashed: bool
) -> StoredBody:
    """Write a body to a new file; remove the file if that fails.

    The caller has to close the result, or remove it.

    Args:
        read: Returns the next bytes of the body, as many as asked for or fewer; empty
            at its end.
        folder: Where to make the file.
        room: Bytes that the file may have.
        begun: The beginning of the body, which has been read.
        hashed: Whether to compute the digest of the body.

    Raises:
        StorageFull: The body is larger than the room, or the disk is full.
        RelayUnavailable: The folder cannot be written to.
    """
    path = f"{folder}/{secrets.token_hex(16)}.body"
    digest = hashlib.sha256() if hashed else None
    try:
        descriptor = in_thread(_create, path)
    except OSError as error:
        raise _problem_of(error) from None
    size, received = 0, begun
    piece = bytearray()
    try:
        while received:
            size += len(received)
            if size > room:
                raise StorageFull(
                    f"the body has more than the {room} bytes that the relay has room "
                    "for; wait until batches are consumed, or raise --relay-disk"
                )
            piece += received
            received = read(RECEIVE_BYTES)
            if len(piece) >= PIECE - RECEIVE_BYTES or not received:
                in_thread(_write, descriptor, piece, digest)
                piece.clear()
        in_thread(_sync, descriptor, folder)
    except BaseException as error:
        StoredBody(path, descriptor, size, "").remove()
        if isinstance(error, OSError):
            raise _problem_of(error) from None
        raise
    found = "" if digest is None else digest.hexdigest()
    return StoredBody(path, descriptor, size, found)


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
        for group in _groups(self._pieces):
            if any(piece.file >= 0 for piece in group):
                yield in_thread(self._read, group)
            else:
                yield self._read(group)

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
                parts.append(memoryview(self._read_at(file, offset, size)))
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
        return start, memoryview(self._read_at(file, start, size))

    def _read_at(self, file: int, offset: int, size: int) -> bytes:
        data = os.pread(self._descriptors[file], size, offset)
        if len(data) < size:
            raise OSError(f"a file of the relay lacks {size - len(data)} bytes")
        return data

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
    """Yield pieces in groups of 1 MiB or less; cut those that are larger."""
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


def in_thread(call: Callable[..., _T], *arguments: Any) -> _T:
    """Call a function in gevent's pool of threads; other greenlets run meanwhile."""
    pool = gevent.get_hub().threadpool
    result, error = pool.apply(_outcome, (call, arguments))
    if error is not None:
        raise error
    done: _T = result
    return done


def _outcome(
    call: Callable[..., _T], arguments: tuple[Any, ...]
) -> tuple[_T | None, OSError | Problem | None]:
    # The pool would write what is raised to the server's log.
    try:
        return call(*arguments), None
    except (OSError, Problem) as error:
        return None, error


def _batch_digests(descriptor: int, total: int) -> list[tuple[int, bytes]]:
    found = []
    start = number = 0
    # A malformed bundle is the relay's to refuse.
    while start + HEADER.size <= total and number < MOST_BATCHES:
        size, head_size, *_ = HEADER.unpack(os.pread(descriptor, HEADER.size, start))
        start += HEADER.size + head_size
        if size >= DIGESTED_BYTES and start + size <= total:
            digest = hashlib.sha256()
            for at in range(start, start + size, PIECE):
                count = min(PIECE, start + size - at)
                digest.update(os.pread(descriptor, count, at))
            found.append((number, digest.digest()))
        start += size
        number += 1
    return found


def _create(path: str) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    lock_upload(descriptor)
    return descriptor


def _write(descriptor: int, piece: bytearray, digest: Any) -> None:
    disk = os.fstatvfs(descriptor)
    if disk.f_bavail * disk.f_frsize < UPLOAD_FREE_BYTES + len(piece):
        raise OSError(errno.ENOSPC, "the disk is nearly full")
    if digest is not None:
        digest.update(piece)
    written = 0
    with memoryview(piece) as view:
        while written < len(view):
            with view[written:] as rest:
                written += os.write(descriptor, rest)


def _sync(descriptor: int, folder: str) -> None:
    os.fsync(descriptor)
    sync_folder(folder)


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def _problem_of(error: OSError) -> Exception:
    if error.errno in _FULL:
        return StorageFull(
            "the disk of the relay's directory is nearly full: the body is not stored; "
            "wait until batches are consumed, or make room on the disk"
        )
    return RelayUnavailable(f"the relay's directory cannot be written to: {error}")
