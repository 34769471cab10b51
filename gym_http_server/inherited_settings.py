"""Settings and descriptors that the launcher passes to web workers, by name.

The settings lie in memory that has no name, so that the token is in no argument, no
variable and on no disk.
"""

from __future__ import annotations

import os
from typing import IO

from gym_http_server.rundir.directory import RunDir
from gym_http_server.settings import Settings

__all__ = [
    "LAUNCHER_PID",
    "LISTENER_FDS",
    "REPORT_FD",
    "SETTINGS_FD",
    "memory_file",
    "read",
    "read_and_close",
    "read_from",
    "write",
]

SETTINGS_FD = "GYM_HTTP_SETTINGS_FD"
LISTENER_FDS = "GYM_HTTP_LISTENER_FDS"
REPORT_FD = "GYM_HTTP_REPORT_FD"
LAUNCHER_PID = "GYM_HTTP_LAUNCHER_PID"


def memory_file(data: bytes) -> IO[bytes]:
    """Write data to a file without a name, for a process that gets its descriptor."""
    file = os.fdopen(os.memfd_create("settings"), "wb")
    file.write(data)
    file.flush()
    return file


def read_and_close(descriptor: int) -> bytes:
    """Read data that `memory_file` wrote, and close the descriptor."""
    with os.fdopen(descriptor, "rb") as file:
        return os.pread(descriptor, os.fstat(file.fileno()).st_size, 0)


def write(settings: Settings, run: RunDir) -> IO[bytes]:
    """Write settings and run directory to memory, for processes with its descriptor."""
    return memory_file(run.path.encode() + b"\n" + settings.to_json())


def read() -> tuple[Settings, RunDir]:
    """Read settings and run directory, in gunicorn and its workers."""
    return read_from(int(os.environ[SETTINGS_FD]))


def read_from(descriptor: int) -> tuple[Settings, RunDir]:
    """Read settings and run directory from a descriptor."""
    size = os.fstat(descriptor).st_size
    path, _, settings = os.pread(descriptor, size, 0).partition(b"\n")
    return Settings.from_json(settings), RunDir(path.decode())
