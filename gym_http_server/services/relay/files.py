"""Files of large bodies, beside the database of the relay.

A web worker creates and locks a file, writes and syncs a body, and sends the name to
the relay. From then on the file belongs to the relay, which removes it when no row of
its database refers to it. A file without rows and without a lock belongs to nobody: a
sweep removes it.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import re
import time
from collections.abc import Container, Iterable
from typing import NamedTuple

from gym_http_server.errors import RelayUnavailable

__all__ = [
    "INLINE_BYTES",
    "MIN_FREE_BYTES",
    "UPLOAD_FREE_BYTES",
    "BodyFiles",
    "FileSlice",
    "Reserve",
    "begin_sync",
    "free_bytes",
    "lock_upload",
    "sync_folder",
]

#: Larger bodies are files, others are in rows.
INLINE_BYTES = 256 * 1024
#: Free space on the disk of the relay that bodies must leave.
MIN_FREE_BYTES = 64 * 1024**2
#: Free space that uploads must leave: weights and states may use half of it.
UPLOAD_FREE_BYTES = MIN_FREE_BYTES // 2

# FALLOC_FL_PUNCH_HOLE, which needs FALLOC_FL_KEEP_SIZE.
_PUNCH_HOLE = 0x02 | 0x01
_fallocate = getattr(ctypes.CDLL(None), "fallocate", None)
if _fallocate is not None:
    _fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
# SYNC_FILE_RANGE_WRITE: without waiting for the disk.
_BEGIN = 2
_sync_range = getattr(ctypes.CDLL(None), "sync_file_range", None)
if _sync_range is not None:
    _sync_range.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EOPNOTSUPP)
_is_name = re.compile(r"[0-9a-f]{32}\.body").fullmatch


class FileSlice(NamedTuple):
    """A body in a file.

    Attributes:
        name: Name of the file.
        offset: Where the body begins.
        size: Its bytes.
    """

    name: str
    offset: int
    size: int


def free_bytes(folder: str) -> int:
    """Return the free space on the disk of a folder, as other programs see it."""
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize


def lock_upload(descriptor: int) -> None:
    """Lock a file for the time of its upload, so that a sweep does not remove it.

    A web worker calls it for the file that it has just created, and closes the file
    when the relay has answered.
    """
    fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)


def begin_sync(descriptor: int, offset: int, size: int) -> None:
    """Let the disk begin to write a part of a file, so that a later sync is short.

    A system that cannot do that does nothing. Errors are those of the later sync.
    """
    if _sync_range is not None:
        _sync_range(descriptor, offset, size, _BEGIN)


def sync_folder(folder: str) -> None:
    """Sync the entries of a folder, so that new files survive a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class BodyFiles:
    """The folder of the files.

    Args:
        folder: Its path. It is created if it does not exist.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)

    def open(self, name: str) -> int:
        """Open a file for reading; return the descriptor.

        Raises:
            RelayUnavailable: There is no such file.
        """
        try:
            return os.open(self._path(name), os.O_RDONLY | os.O_NOFOLLOW)
        except FileNotFoundError:
            raise _gone(name) from None

    def size(self, name: str) -> int:
        """Return the bytes of a file.

        Raises:
            RelayUnavailable: There is no such file.
        """
        try:
            return os.stat(self._path(name), follow_symlinks=False).st_size
        except FileNotFoundError:
            raise _gone(name) from None

    def give_back(self, name: str, spans: Iterable[tuple[int, int]]) -> None:
        """Give parts of a file back to the disk; they read as zeros afterwards.

        A file system that cannot do that keeps them.

        Args:
            name: The file.
            spans: The parts: where they begin, and their bytes.
        """
        if _fallocate is None:
            return
        with contextlib.suppress(OSError):
            descriptor = os.open(self._path(name), os.O_RDWR | os.O_NOFOLLOW)
            try:
                for start, size in spans:
                    if _fallocate(descriptor, _PUNCH_HOLE, start, size):
                        return
            finally:
                os.close(descriptor)

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path(name))

    def sweep(self, known: Container[str], age_s: float = 0.0) -> int:
        """Remove all files that are neither known nor locked by an upload.

        Args:
            known: Names of files to keep.
            age_s: Younger files stay, too: an upload locks its file just after it has
                created it.

        Returns:
            The number of files that were removed.
        """
        removed = 0
        for entry in os.listdir(self.folder):
            if entry not in known and _remove_unlocked(f"{self.folder}/{entry}", age_s):
                removed += 1
        return removed

    def _path(self, name: str) -> str:
        if not _is_name(name):
            raise ValueError(f"{name!r} is not the name of a body's file")
        return f"{self.folder}/{name}"


class Reserve:
    """A file whose space is given back to commits when the disk is full.

    SQLite needs space even to delete rows.

    Args:
        path: The file.
        size: Its bytes.

    Attributes:
        size: Its bytes.
        held: Whether the space is allocated.
    """

    def __init__(self, path: str, size: int) -> None:
        self._path = path
        self.size = size
        self.held = os.path.exists(path) and os.path.getsize(path) >= size

    def release(self) -> None:
        """Give the space back."""
        self.held = False
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)

    def take(self) -> None:
        """Allocate the space, if the disk has it."""
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, self.size)
            finally:
                os.close(descriptor)
            self.held = True
        except OSError as error:
            if error.errno not in _NO_SPACE:
                raise
            self.release()


def _remove_unlocked(path: str, age_s: float) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        if time.time() - os.fstat(descriptor).st_mtime < age_s:
            return False
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(path)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _gone(name: str) -> RelayUnavailable:
    return RelayUnavailable(
        f"the relay has no file {name}, since it restarted during the upload: "
        "send the body again"
    )
