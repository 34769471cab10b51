"""Finds processes and open descriptors that a test may leave behind."""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import psutil

_GONE = (psutil.NoSuchProcess, psutil.AccessDenied)
# Titles of the processes of a server that are no hosts. A child of the supervisor or of
# gunicorn has its parent's title for a moment.
_COMING_AND_GOING = (
    *("archiver", "fork server", "spare host", "monitor file", "registry"),
    "thumbnails",
)
_STAYING = (
    *("supervisor", "remover", "broker", "gateway", "relay"),
    *("gunicorn", "web worker"),
)


def descendants(pid: int) -> set[psutil.Process]:
    """Return the living descendants of a process (not the process itself)."""
    try:
        return set(psutil.Process(pid).children(recursive=True))
    except psutil.NoSuchProcess:
        return set()


class Seen(NamedTuple):
    """A process, distinguished from a later one with the same number.

    Attributes:
        pid: Its number.
        started: Its start, in ticks since the machine's start.
    """

    pid: int
    started: int

    def found(self) -> psutil.Process | None:
        """Return the process if it is still there."""
        with contextlib.suppress(OSError, *_GONE):
            process = psutil.Process(self.pid)
            return process if _look(self.pid)[2] == self.started else None
        return None


def running_below(pid: int) -> set[Seen]:
    """Return the descendants of a process, after one look at each process.

    A zombie of this process is left out, as by `alive`.
    """
    below: dict[int, list[tuple[Seen, bool]]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            state, parent, started = _look(int(name))
            below.setdefault(parent, []).append(
                (Seen(int(name), started), state == "Z" and parent == os.getpid())
            )
    running: set[Seen] = set()
    parents = [pid]
    while parents:
        for seen, reaped in below.get(parents.pop(), ()):
            parents.append(seen.pid)
            if not reaped:
                running.add(seen)
    return running


def children() -> set[Seen]:
    """Return the children of this process, without a look at all other processes.

    The kernel may leave out some of them while another one ends.
    """
    if not os.path.exists(f"/proc/self/task/{os.getpid()}/children"):
        # Not every kernel has these lists.
        return running_below(os.getpid())
    running: set[Seen] = set()
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/self/task/{thread}/children").read_text().split()
            for pid in map(int, words):
                state, _, started = _look(pid)
                if state != "Z":
                    running.add(Seen(pid, started))
    return running


def now() -> int:
    """Return the time as processes have their start: in ticks since the machine's."""
    # `time` has no such clock where a client is tested without what Linux alone has.
    seconds = Path("/proc/uptime").read_text(encoding="ascii").split()[0]
    return int(float(seconds) * 100 + 0.5) * os.sysconf("SC_CLK_TCK") // 100


def _look(pid: int) -> tuple[str, int, int]:
    """Return a process's state, parent and start, by proc(5)."""
    # Looked at many thousand times: this is the quickest way to read.
    file = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    try:
        # Behind the name, which may have blanks and brackets in it.
        words = os.read(file, 4096).rpartition(b") ")[2].split()
    finally:
        os.close(file)
    return words[0].decode(), int(words[1]), int(words[19])


def gunicorn(pid: int) -> tuple[psutil.Process, set[psutil.Process]]:
    """Return gunicorn's arbiter and its living web workers, for a server's PID."""
    below = psutil.Process(pid).children()
    # As it reloads, gunicorn has its own title, until it forks the next web worker.
    (arbiter,) = (
        child
        for child in below
        if titled(child, "gunicorn") or _title(child).startswith("gunicorn: master")
    )
    workers = {each for each in arbiter.children() if titled(each, "web worker")}
    return arbiter, workers


def titled(process: psutil.Process, title: str) -> bool:
    """Return whether a process has a title, as ps shows it behind ``gym:``."""
    return _title(process) == f"gym: {title}"


def holds(process: psutil.Process, instance_id: str) -> bool:
    """Return whether a process has the title of an instance's host."""
    return _title(process).startswith(f"gym: {instance_id} ")


def _title(process: psutil.Process) -> str:
    """Return a process's title, empty if it has gone."""
    try:
        return " ".join(process.cmdline()).rstrip("\0 ")
    except _GONE:
        return ""


def supervisor(launcher: int) -> psutil.Process:
    """Return the supervisor, for the process ID of a server's launcher."""
    below = psutil.Process(launcher).children()
    (found,) = (child for child in below if titled(child, "supervisor"))
    return found


def comes_and_goes(process: psutil.Process) -> bool:
    """Return whether a server starts and ends a process by itself, at any time.

    The fork server's title is also that of the process between it and a spare host.
    """
    return _title(process) in ("", *(f"gym: {each}" for each in _COMING_AND_GOING))


def belongs_to_server(process: psutil.Process) -> bool:
    """Return whether a process is part of a server itself, or has ended.

    All other processes below the supervisor belong to instances: hosts, and what
    environments have started, under any title.
    """
    return comes_and_goes(process) or any(titled(process, each) for each in _STAYING)


def marked(name: str, value: str) -> set[psutil.Process]:
    """Return the processes that were started with an environment variable.

    A process whose parent died is no descendant any more. The variable still shows
    where it came from.
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
    """Return the processes that still run; reap, but do not count, zombies of this one.

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
    """Return one line per process, for the message of a failure."""
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
    """Return this process's descriptors, each with the path that it is open on."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
    return {fd: target for fd, target in found.items() if "/proc/" not in target}
