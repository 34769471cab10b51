"""The processes, descriptors and folders that a test may leave behind."""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

import psutil

_GONE = (psutil.NoSuchProcess, psutil.AccessDenied)


def descendants(pid: int) -> set[psutil.Process]:
    """Return the living descendants of a process (not the process itself)."""
    try:
        return set(psutil.Process(pid).children(recursive=True))
    except psutil.NoSuchProcess:
        return set()


def gunicorn(pid: int) -> tuple[psutil.Process, set[psutil.Process]]:
    """Return gunicorn's arbiter and its living web workers, of a server's command."""
    below = psutil.Process(pid).children()
    (arbiter,) = (child for child in below if "gunicorn" in _command(child))
    workers = {each for each in arbiter.children() if "gunicorn" in _command(each)}
    return arbiter, workers


def _command(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except _GONE:
        return []


def marked(name: str, value: str) -> set[psutil.Process]:
    """Return the processes that were started with an environment variable.

    A process whose parent died is nobody's descendant any more; what it was
    started with still tells where it came from.
    """
    found = set()
    wanted = f"{name}={value}".encode()
    for process in psutil.process_iter():
        with contextlib.suppress(OSError, *_GONE):
            environment = Path(f"/proc/{process.pid}/environ").read_bytes()
            if wanted in environment.split(b"\0"):
                found.add(process)
    return found


def alive(processes: Iterable[psutil.Process]) -> set[psutil.Process]:
    """Return those that still run; a zombie of this process is reaped, not counted.

    A zombie of another parent counts: a server must reap its own.
    """
    running = set()
    for process in processes:
        with contextlib.suppress(*_GONE):
            if not process.is_running():
                continue
            ours = process.ppid() == os.getpid()
            if not (ours and process.status() == psutil.STATUS_ZOMBIE):
                running.add(process)
    return running


def describe(processes: Iterable[psutil.Process]) -> str:
    """Return one line a process, for a failure's message."""
    lines = []
    for process in processes:
        try:
            command = " ".join(process.cmdline())[:120]
            lines.append(f"{process.pid} ({process.status()}) {command}")
        except _GONE:
            lines.append(f"{process.pid} (gone meanwhile)")
    return "\n".join(lines)


def kill(processes: Iterable[psutil.Process]) -> None:
    """Kill each process by its id."""
    for process in processes:
        with contextlib.suppress(*_GONE):
            process.kill()


def open_descriptors() -> dict[int, str]:
    """Return this process's descriptors and what each is open on."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
    return {fd: target for fd, target in found.items() if "/proc/" not in target}
