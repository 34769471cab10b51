"""Files that are written once, as a whole, and read by other processes."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator

__all__ = ["FOLDER", "opened", "write"]

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
# An environment without the sandbox can put a pipe there, which would block.
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


@contextlib.contextmanager
def opened(path: str, name: str) -> Iterator[int]:
    """Open a regular file for reading.

    Args:
        path: The directory.
        name: Name of the file in it.

    Raises:
        OSError: There is none.
    """
    folder = os.open(path, FOLDER)
    try:
        file = os.open(name, _READ, dir_fd=folder)
    finally:
        os.close(folder)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise FileNotFoundError
        yield file
    finally:
        os.close(file)


def write(folder: int, name: str, content: bytes) -> None:
    """Write a file, or no part of it.

    Args:
        folder: Descriptor of the directory.
        name: Name of the file; until it is complete it is ``.NAME.PID``.
        content: Its bytes.

    Raises:
        OSError: There is no room, or the directory cannot be written.
    """
    incomplete = f".{name}.{os.getpid()}"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(incomplete, dir_fd=folder)
    file = os.open(incomplete, _WRITE, 0o600, dir_fd=folder)
    try:
        with os.fdopen(file, "wb") as stream:
            stream.write(content)
        os.rename(incomplete, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(incomplete, dir_fd=folder)
        raise
