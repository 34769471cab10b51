"""Remove directories that environments have written to.

The content is not trusted: directories may lack permissions, be nested deeper than
Python recurses or than a process has descriptors, and hold symbolic links and mounts.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator

__all__ = ["LOCK", "empty", "move", "remove"]

#: Name of the lock file of a run directory.
LOCK = "lock"
# Directories nested deeper are moved to the top first, so that neither the stack of
# this process nor its descriptors limit the depth.
_MAX_DEPTH = 50


def remove(folder: str) -> None:
    """Remove a directory with all its content, its lock file last.

    If the removal is interrupted, or something cannot be removed, the lock file stays
    as well, so that the next server finds the directory.
    """
    with contextlib.suppress(OSError):
        empty(folder, keep=LOCK)
        if os.listdir(folder) == [LOCK]:
            os.unlink(f"{folder}/{LOCK}")
        os.rmdir(folder)


def empty(folder: str, keep: str = "") -> None:
    """Remove the content of a directory, except entries that cannot be removed.

    Args:
        folder: The directory.
        keep: Name of a file directly in it that stays.

    Raises:
        OSError: The directory cannot be opened.
    """
    top = _open(folder)
    try:
        _Removal(top).clear(top, keep=keep)
    finally:
        os.close(top)


def move(folder: str, target: str) -> None:
    """Rename a directory with any permissions.

    Raises:
        OSError: It cannot be renamed.
    """
    try:
        os.rename(folder, target)
    except PermissionError:
        # The entry ".." is rewritten, so the directory has to be writable.
        os.close(_open(folder))
        os.rename(folder, target)


class _Removal:
    """The removal of the content of one directory.

    Args:
        top: Descriptor of the directory.
    """

    def __init__(self, top: int) -> None:
        self._top = top
        self._device = os.fstat(top).st_dev
        self._names: Iterator[str] = (f"{os.getpid()}.{n}" for n in itertools.count())

    def clear(self, folder: int, *, depth: int = 0, keep: str = "") -> None:
        """Remove the content of an open directory, in passes while there is progress.

        One pass may miss entries: some file systems skip some while others are removed.
        """
        progress = True
        while progress:
            progress = False
            # An iterator, not a list: there may be millions of entries.
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name != keep or depth:
                        progress |= self._drop(entry, folder, depth)

    def _drop(self, entry: os.DirEntry[str], folder: int, depth: int) -> bool:
        """Remove an entry of an open directory; return whether that made progress."""
        try:
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.name, dir_fd=folder)
            elif depth < _MAX_DEPTH:
                self._drop_directory(entry.name, folder, depth)
            else:
                os.close(_open(entry.name, folder))
                target = next(self._names)
                os.rename(entry.name, target, src_dir_fd=folder, dst_dir_fd=self._top)
        except OSError:
            return False
        return True

    def _drop_directory(self, name: str, folder: int, depth: int) -> None:
        below = _open(name, folder)
        try:
            # A mount does not belong to the environment.
            if os.fstat(below).st_dev == self._device:
                self.clear(below, depth=depth + 1)
        finally:
            os.close(below)
        os.rmdir(name, dir_fd=folder)


def _open(name: str, folder: int | None = None) -> int:
    """Open a directory after giving its owner all permissions; never follow a link.

    Raises:
        OSError: It is not a directory, or belongs to another user.
    """
    flags = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(name, os.O_PATH | flags, dir_fd=folder)
    try:
        # By the descriptor: the name may be that of a link by now.
        path = f"/proc/self/fd/{handle}"
        with contextlib.suppress(OSError):
            os.chmod(path, 0o700)
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    finally:
        os.close(handle)
