"""Large bodies: uploads to files, and downloads from parts of files.

A web worker serves all its clients in one thread, which every access to a disk would
block. So files are opened, written, read and synced in gevent's pool of threads, by
pieces of 512 KiB. While a piece is written, the next one is received. Bytes of a file
that are in memory are read without a thread. A transfer takes less than 4 MiB of
memory, whatever its size.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import gevent  # type: ignore[import-untyped]

from gym_http_server.errors import RelayUnavailable, StorageFull
from gym_http_server.relay.files import (
    UPLOAD_FREE_BYTES,
    begin_sync,
    lock_upload,
    sync_folder,
)
from gym_http_server.relay.messages import MOST_BATCHES, BodyPieces, Piece
from gym_http_wire.frames import HEADER
from gym_http_wire.problems import Problem

__all__ = ["PIECE", "Download", "StoredBody", "store_body"]

#: Bytes that are read from a file, or written, at a time. Those of two pieces fit into
#: the cache of a processor.
PIECE = 512 * 1024
#: Buffers that are kept for later transfers.
MOST_FREE = 4
#: Batches in a bundle that have more bytes are hashed here, and smaller ones by the
#: relay, for which the rest of its work on a batch takes longer.
DIGESTED_BYTES = 4096
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
#: Reads only the bytes that are in memory; Linux has it, for some file systems.
_NOWAIT = getattr(os, "RWF_NOWAIT", 0)
_WOULD_WAIT = (errno.EAGAIN, errno.EOPNOTSUPP)

_T = TypeVar("_T")


class Buffers:
    """Buffers of two pieces, which are used again.

    The kernel provides new memory page by page, which takes longer than the copies that
    are made in it.
    """

    def __init__(self) -> None:
        self._free: list[memoryview] = []

    def take(self) -> memoryview:
        """Return a buffer that nothing else uses."""
        return self._free.pop() if self._free else memoryview(bytearray(2 * PIECE))

    def give_back(self, buffer: memoryview) -> None:
        """Keep a buffer for another transfer."""
        if len(self._free) < MOST_FREE:
            self._free.append(buffer)


_buffers = Buffers()


class StoredBody(NamedTuple):
    """A body in a file, synced together with its folder.

    The file is locked until it is closed, so that a relay that starts meanwhile does
    not remove it.

    Attributes:
        path: Path of the file.
        descriptor: The open file.
        size: Bytes of the body.
        digest: SHA-256 of the body in hex; "" if it was not computed.
        batch_digests: If the body is a bundle: the number of each larger batch in it,
            from 0, and its SHA-256.
    """

    path: str
    descriptor: int
    size: int
    digest: str = ""
    batch_digests: Sequence[tuple[int, bytes]] = ()

    @property
    def name(self) -> str:
        """Name of the file in its folder."""
        return os.path.basename(self.path)

    def close(self) -> None:
        """Close the file, which is the relay's."""
        in_thread(os.close, self.descriptor)

    def remove(self) -> None:
        """Remove the file, and close it."""
        in_thread(_remove, self.path)
        self.close()


class BatchDigests:
    """The SHA-256 of the larger batches of a bundle, whose bytes come in pieces.

    Attributes:
        found: The number of each such batch in the bundle, from 0, and its digest. The
            relay refuses malformed bundles; of these, it has some batches only.
    """

    def __init__(self) -> None:
        self.found: list[tuple[int, bytes]] = []
        # Batches whose headers were read.
        self._count = 0
        # The beginning of a header.
        self._early = b""
        # Bytes before the next header, or before those to hash.
        self._skipped = 0
        # Bytes to hash after these, and their digest so far.
        self._missing = 0
        self._digest: Any = None

    def update(self, data: memoryview) -> None:
        """Add the next bytes of the bundle."""
        at, total = 0, len(data)
        while at < total:
            if self._skipped:
                step = min(self._skipped, total - at)
                self._skipped -= step
            elif self._missing:
                step = min(self._missing, total - at)
                self._hash(data[at : at + step])
            elif self._count < MOST_BATCHES:
                step = self._read_header(data[at : at + HEADER.size])
            else:
                # The relay refuses the bundle.
                return
            at += step

    def _hash(self, data: memoryview) -> None:
        self._digest.update(data)
        self._missing -= len(data)
        if not self._missing:
            self.found.append((self._count - 1, self._digest.digest()))

    def _read_header(self, data: memoryview) -> int:
        """Read a header, or a part of one; return how many bytes it has."""
        missing = HEADER.size - len(self._early)
        header = self._early + data[:missing]
        if len(header) < HEADER.size:
            self._early = header
            return len(data)
        size, head_size, *_ = HEADER.unpack(header)
        self._early = b""
        self._count += 1
        self._skipped = head_size
        if size >= DIGESTED_BYTES:
            self._missing, self._digest = size, hashlib.sha256()
        else:
            self._skipped += size
        return missing


def store_body(
    receive: Callable[[memoryview], int],
    folder: str,
    room: int,
    begun: bytes,
    *,
    hashed: bool,
    bundle: bool,
) -> StoredBody:
    """Write a body to a new file; remove the file if that fails.

    The caller has to close the result, or remove it.

    Args:
        receive: Receives the next bytes of the body into memory, and returns their
            number; 0 at its end.
        folder: Where to make the file.
        room: Bytes that the file may have.
        begun: The beginning of the body, which has been read: less than a piece.
        hashed: Whether to compute the digest of the body.
        bundle: Whether the body is a bundle, whose batches have digests of their own.

    Raises:
        StorageFull: The body is larger than the room, or the disk is full.
        RelayUnavailable: The folder cannot be written to.
    """
    path = f"{folder}/{secrets.token_hex(16)}.body"
    digest, batches = hashlib.sha256(), BatchDigests()
    sums = ([digest] if hashed else []) + ([batches] if bundle else [])
    try:
        descriptor = in_thread(_create, path)
    except OSError as error:
        raise _problem_of(error) from None
    writing: _Task[None] | None = None
    buffer = _buffers.take()
    size = 0
    try:
        for piece in _received(receive, begun, buffer):
            offset, size = size, size + len(piece)
            if size > room:
                raise StorageFull(
                    f"the body has more than the {room} bytes that the relay has room "
                    "for; wait until batches are consumed, or raise --relay-disk"
                )
            # Here, since the bytes are in this core's cache: another core would take
            # more than twice as long.
            for each in sums:
                each.update(piece)
            if writing is not None:
                writing.result()
            writing = _Task(_write, descriptor, piece, offset)
        if writing is not None:
            writing.result()
        in_thread(_sync, descriptor, folder)
    except BaseException as error:
        if writing is not None:
            # Its descriptor must stay open until it ends, and its buffer unchanged.
            writing.wait()
        StoredBody(path, descriptor, size).remove()
        if isinstance(error, OSError):
            raise _problem_of(error) from None
        raise
    finally:
        _buffers.give_back(buffer)
    found = digest.hexdigest() if hashed else ""
    return StoredBody(path, descriptor, size, found, batches.found)


def _received(
    receive: Callable[[memoryview], int], begun: bytes, buffer: memoryview
) -> Iterator[memoryview]:
    """Yield a body in pieces; each stays valid while the next one is received."""
    for piece in itertools.cycle((buffer[:PIECE], buffer[PIECE:])):
        count = len(begun)
        piece[:count] = begun
        begun = b""
        while count < PIECE and (received := receive(piece[count:])):
            count += received
        if count:
            yield piece[:count]
        if count < PIECE:
            return


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
        self._buffer = _buffers.take()
        try:
            for group in _groups(self._pieces):
                self._used = 0
                yield self._read(group)
        finally:
            _buffers.give_back(self._buffer)

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


class _Task(Generic[_T]):
    """A call in gevent's pool of threads; greenlets run meanwhile."""

    def __init__(self, call: Callable[..., _T], *arguments: Any) -> None:
        pool = gevent.get_hub().threadpool
        self._outcome = pool.spawn(_outcome, call, arguments)

    def wait(self) -> None:
        """Wait until the call has ended."""
        self._outcome.wait()

    def result(self) -> _T:
        """Wait until the call has ended, and return its result or raise its error."""
        try:
            result, error = self._outcome.get()
        except BaseException:
            # It may still use its arguments, such as a buffer or a descriptor.
            self.wait()
            raise
        if error is not None:
            raise error
        done: _T = result
        return done


def in_thread(call: Callable[..., _T], *arguments: Any) -> _T:
    """Call a function in gevent's pool of threads; other greenlets run meanwhile."""
    return _Task(call, *arguments).result()


def _outcome(
    call: Callable[..., _T], arguments: tuple[Any, ...]
) -> tuple[_T | None, OSError | Problem | None]:
    # The pool would write what is raised to the server's log.
    try:
        return call(*arguments), None
    except (OSError, Problem) as error:
        return None, error


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


def _create(path: str) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    lock_upload(descriptor)
    return descriptor


def _write(descriptor: int, piece: memoryview, offset: int) -> None:
    size = len(piece)
    disk = os.fstatvfs(descriptor)
    if disk.f_bavail * disk.f_frsize < UPLOAD_FREE_BYTES + size:
        raise OSError(errno.ENOSPC, "the disk is nearly full")
    while piece:
        piece = piece[os.write(descriptor, piece) :]
    begin_sync(descriptor, offset, size)


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
