"""Uploads: large bodies, which are written to files while they are received.

Their bytes are hashed on the way. While a piece is written, the next one is received.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from gym_http_server.errors import RelayUnavailable, StorageFull
from gym_http_server.instances.transfers import PIECE, Task, buffers, in_thread
from gym_http_server.relay.files import (
    UPLOAD_FREE_BYTES,
    begin_sync,
    lock_upload,
    sync_folder,
)
from gym_http_server.relay.messages import MOST_BATCHES
from gym_http_wire.frames import HEADER

__all__ = ["DIGESTED_BYTES", "BatchDigests", "StoredBody", "store_body"]

#: Batches in a bundle that have more bytes are hashed here, and smaller ones by the
#: relay, for which the rest of its work on a batch takes longer.
DIGESTED_BYTES = 4096
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


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
    writing: Task[None] | None = None
    buffer = buffers.take()
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
            writing = Task(_write, descriptor, piece, offset)
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
        buffers.give_back(buffer)
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
