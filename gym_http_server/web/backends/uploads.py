"""Uploads: large bodies, which are written to files while they are received.

Their bytes are hashed on the way. While a piece is written, the next one is received.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gym_http_server.errors import BundleTooLarge, RelayUnavailable, StorageFull
from gym_http_server.services.relay.files import (
    UPLOAD_FREE_BYTES,
    begin_sync,
    lock_upload,
    sync_folder,
)
from gym_http_server.web.backends.transfers import PIECE, Task, buffers, in_thread
from gym_http_wire.bundles import (
    MOST_BATCHES,
    MOST_HEADS_BYTES,
    BundleError,
    decode_batch_head,
    hash_for,
)
from gym_http_wire.frames import HEADER, MAX_HEAD_BYTES

__all__ = ["DIGESTED_BYTES", "BatchDigests", "StoredBody", "Upload"]

#: Batches in a bundle that have more bytes are hashed here, and smaller ones by the
#: relay, for which the rest of its work on a batch takes longer.
DIGESTED_BYTES = 4096
# Pieces after which a thread is left to other transfers, if any wait.
_PIECES_AT_ONCE = 16
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
            from 0, and its SHA-256 or XXH3.
        session: If the body is a bundle: the session of its first batch, or "".
    """

    path: str
    descriptor: int
    size: int
    digest: str = ""
    batch_digests: Sequence[tuple[int, bytes]] = ()
    session: str = ""

    @property
    def name(self) -> str:
        """Name of the file in its folder."""
        return os.path.basename(self.path)

    def close(self) -> None:
        """Close the file, which is the relay's; do not wait for that."""
        # If the relay has removed the file already, the disk frees its space.
        if self.descriptor >= 0:
            Task(os.close, self.descriptor)

    def remove(self) -> None:
        """Remove the file, and close it."""
        if self.descriptor >= 0:
            in_thread(_remove, self.path)
            self.close()


class BatchDigests:
    """Computes digests of the larger batches of a bundle that arrives in pieces.

    Attributes:
        found: The number of each such batch in the bundle, from 0, and its SHA-256, or
            its XXH3 if its head has a checksum and no digest. The relay refuses
            malformed bundles; of these, it has some batches only.
        session: The session of the first batch, once its head was read.
    """

    def __init__(self) -> None:
        self.found: list[tuple[int, bytes]] = []
        self.session = ""
        self._malformed = False
        # Batches whose headers were read, and bytes of their heads.
        self._count = 0
        self._heads = 0
        # Size of the header or head that is read next, and its bytes so far.
        self._needed = HEADER.size
        self._in_head = False
        self._early = b""
        # Bytes before the next header.
        self._skipped = 0
        # Bytes to hash behind the head, and their hash so far.
        self._missing = 0
        self._hash: Any = None

    def update(self, data: memoryview) -> None:
        """Add the next bytes of the bundle.

        Raises:
            BundleTooLarge: It has too many batches, or their heads too many bytes.
        """
        at, total = 0, len(data)
        while at < total and not self._malformed:
            if self._skipped:
                step = min(self._skipped, total - at)
                self._skipped -= step
            elif self._hash is not None:
                step = min(self._missing, total - at)
                self._hash_part(data[at : at + step])
            else:
                step = min(self._needed - len(self._early), total - at)
                self._early += data[at : at + step]
                if len(self._early) == self._needed:
                    self._read(self._early)
                    self._early = b""
            at += step

    def _read(self, data: bytes) -> None:
        if self._in_head:
            self._read_head(data)
            return
        size, head_size, *_ = HEADER.unpack(data)
        self._count += 1
        self._heads += head_size
        if not 0 < head_size <= MAX_HEAD_BYTES:
            # The relay refuses the bundle.
            self._malformed = True
        elif self._count > MOST_BATCHES or self._heads > MOST_HEADS_BYTES:
            raise BundleTooLarge(
                f"the bundle has more than {MOST_BATCHES} batches, or more than "
                f"{MOST_HEADS_BYTES} bytes of heads: send some of the batches in "
                "further bundles",
                extras={"limit": MOST_BATCHES},
            )
        elif size < DIGESTED_BYTES and self._count > 1:
            self._skipped = head_size + size
        else:
            self._needed, self._missing, self._in_head = head_size, size, True

    def _read_head(self, data: bytes) -> None:
        self._needed, self._in_head = HEADER.size, False
        try:
            head = decode_batch_head(data)
        except BundleError:
            self._malformed = True
            return
        if self._count == 1:
            self.session = head.session
        if self._missing >= DIGESTED_BYTES:
            self._hash = hash_for(head)
        else:
            self._skipped, self._missing = self._missing, 0

    def _hash_part(self, data: memoryview) -> None:
        self._hash.update(data)
        self._missing -= len(data)
        if not self._missing:
            self.found.append((self._count - 1, self._hash.digest()))
            self._hash = None


class Upload:
    """A body that is written to a new file while it is received.

    A thread hashes and writes it, and goes on to receive it while its bytes have
    arrived: what one core has received, another core would take twice as long to hash.

    Args:
        receive_now: Receives bytes of the body that have arrived into memory, and
            returns their number: 0 at its end, ``None`` if there are none. It is called
            in a thread.
        folder: Where to make the file.
        room: Bytes that the file may have.
        hashed: Whether to compute the digest of the body.
        bundle: Whether the body is a bundle, whose batches have digests of their own.
    """

    def __init__(
        self,
        receive_now: Callable[[memoryview], int | None],
        folder: str,
        room: int,
        *,
        hashed: bool,
        bundle: bool,
    ) -> None:
        self._receive_now = receive_now
        self._folder = folder
        self._room = room
        self._path = f"{folder}/{secrets.token_hex(16)}.body"
        self._descriptor = -1
        self._size = 0
        self._digest = hashlib.sha256() if hashed else None
        self._batches = BatchDigests() if bundle else None
        self._piece = memoryview(b"")
        # Bytes in the piece.
        self._filled = 0
        self._ended = False
        self._synced = False

    def store(self, receive: Callable[[memoryview], int], begun: bytes) -> StoredBody:
        """Receive the body to its end; remove the file if that fails.

        The caller has to close the result, or remove it.

        Args:
            receive: Waits for the next bytes of the body, receives them into memory,
                and returns their number; 0 at its end.
            begun: The beginning of the body, which has been read: less than a piece.

        Raises:
            StorageFull: The body is larger than the room, or the disk is full.
            RelayUnavailable: The folder cannot be written to.
        """
        self._piece = buffers.take()
        self._filled = len(begun)
        self._piece[: self._filled] = begun
        try:
            while not self._synced:
                in_thread(self._go_on)
                self._fill(receive)
        except BaseException as error:
            self._stored().remove()
            if isinstance(error, OSError):
                raise _problem_of(error) from None
            raise
        finally:
            buffers.give_back(self._piece)
        return self._stored()

    def _fill(self, receive: Callable[[memoryview], int]) -> None:
        """Wait until the piece is full, or the body has ended."""
        while not self._ended and self._filled < PIECE:
            count = receive(self._piece[self._filled :])
            self._filled += count
            self._ended = not count

    def _go_on(self) -> None:
        """Write what has arrived; at the end of the body, sync the file."""
        if self._descriptor < 0:
            self._descriptor = _create(self._path)
        for _ in range(_PIECES_AT_ONCE):
            while not self._ended and self._filled < PIECE:
                count = self._receive_now(self._piece[self._filled :])
                if count is None:
                    return
                self._filled += count
                self._ended = not count
            self._write(self._piece[: self._filled])
            self._filled = 0
            if self._ended:
                _sync(self._descriptor, self._folder)
                self._synced = True
                return

    def _write(self, piece: memoryview) -> None:
        offset, size = self._size, len(piece)
        self._size += size
        if self._size > self._room:
            raise StorageFull(
                f"the body has more than the {self._room} bytes that the relay has "
                "room for; wait until batches are consumed, or raise --relay-disk"
            )
        for each in (self._digest, self._batches):
            if each is not None:
                each.update(piece)
        disk = os.fstatvfs(self._descriptor)
        if disk.f_bavail * disk.f_frsize < UPLOAD_FREE_BYTES + size:
            raise OSError(errno.ENOSPC, "the disk is nearly full")
        while piece:
            piece = piece[os.write(self._descriptor, piece) :]
        begin_sync(self._descriptor, offset, size)

    def _stored(self) -> StoredBody:
        digest = "" if self._digest is None else self._digest.hexdigest()
        stored = StoredBody(self._path, self._descriptor, self._size, digest)
        if self._batches is None:
            return stored
        return stored._replace(
            batch_digests=self._batches.found, session=self._batches.session
        )


def _create(path: str) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    lock_upload(descriptor)
    return descriptor


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
