"""Logs: what environments print."""

from __future__ import annotations

import errno
import os
import stat
from typing import IO, cast

__all__ = ["open_log"]


def open_log(path: str, mode: str) -> IO[bytes]:
    """Open the log of an instance, and nothing else that may lie in its place.

    An environment can put a pipe there, which would hold whoever opens it, or a link.

    Raises:
        OSError: It is not there, or no plain file.
    """
    file = open(path, mode, opener=_open_plain)  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "no plain file", path)
    return cast("IO[bytes]", file)


def _open_plain(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
