"""Processes whose calls on files and sockets are logged, or that die before one."""

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tests.support import run_locks
from tests.support.drivers import needs

SOURCE = Path(__file__).with_suffix(".c")


class Call(NamedTuple):
    """A call of a process.

    Attributes:
        pid: The process.
        name: "write", "sync", "truncate", "unlink", "rename" or "send".
        path: The file, or the kernel's name of a socket.
        data: The first bytes, with underscores for bytes that do not print.
    """

    pid: int
    name: str
    path: str
    data: str


def library() -> Path:
    """Build the library, once in a run of tests; skip without a compiler."""
    needs("gcc")
    with run_locks.exclusive("build-syscalls"):
        built = run_locks.folder() / "syscalls.so"
        if not built.exists():
            flags = ["-O1", "-Wall", "-Wextra", "-shared", "-fPIC"]
            subprocess.run(["gcc", *flags, "-o", built, SOURCE, "-ldl"], check=True)
    return built


def preloaded(log: Path | None = None) -> dict[str, str]:
    """Return the environment variables of a process with the library."""
    variables = {"LD_PRELOAD": str(library())}
    if log is not None:
        variables["SYSCALL_LOG"] = str(log)
    return {**os.environ, **variables}


def read_calls(log: Path) -> list[Call]:
    """Return the calls in a log, in their order."""
    lines = log.read_text().splitlines()
    rows = [line.split(" ", 3) for line in lines]
    return [Call(int(pid), name, path, data) for pid, name, path, data in rows]


def unsynced(calls: Iterable[Call], folder: str) -> set[str]:
    """Return files below a folder that a loss of power could take after some calls.

    These are files written after their last sync, and new files in a directory that
    was not synced after they were begun.
    """
    written: set[str] = set()
    begun: set[str] = set()
    seen: set[str] = set()
    for call in calls:
        if not call.path.startswith(folder):
            continue
        if call.name == "sync":
            written.discard(call.path)
            begun -= {each for each in begun if os.path.dirname(each) == call.path}
        elif call.name in ("write", "truncate"):
            written.add(call.path)
            if call.path not in seen:
                begun.add(call.path)
            seen.add(call.path)
        elif call.name == "unlink":
            for paths in (written, begun, seen):
                paths.discard(call.path)
    return written | begun
