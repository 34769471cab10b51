"""The supervisor's progress: a number in shared memory that grows while it works.

Web workers read it to distinguish a supervisor that is busy from one that is stopped.
"""

from __future__ import annotations

import mmap
import os
import struct

__all__ = ["Progress", "read_progress"]

_NUMBER = struct.Struct("=Q")


class Progress:
    """The number, as the supervisor writes it.

    Args:
        path: The file to make.

    Raises:
        OSError: It cannot be made.
    """

    def __init__(self, path: str) -> None:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            # Allocated: on a full disk, a write to the map would end the process.
            os.posix_fallocate(file, 0, mmap.PAGESIZE)
            self._map = mmap.mmap(file, mmap.PAGESIZE)
        finally:
            os.close(file)
        # Environments get no part in it.
        self._map.madvise(mmap.MADV_DONTFORK)
        self._numbers = memoryview(self._map).cast("Q")

    def advance(self) -> None:
        """Count some work that was done."""
        self._numbers[0] += 1


def read_progress(path: str) -> int:
    """Return the number; 0 if there is no file.

    Args:
        path: The file.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        return int(_NUMBER.unpack(os.pread(file, _NUMBER.size, 0).ljust(8, b"\0"))[0])
    finally:
        os.close(file)
