"""Finds the instances of processes below this one, and ends processes.

A host may start processes, and those may start others, leave its session, and be
orphaned. The supervisor is the reaper of such orphans. So all processes that a host
started are below the supervisor, and have the mark of its instance
(`gym_http_server.host.mark`).
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Collection, Mapping

from gym_http_server.host.mark import SPARE, read_mark

__all__ = [
    "COMMAND_SECONDS",
    "Strays",
    "children",
    "descendants",
    "kill_children",
    "kill_tree",
    "read_proc",
]

#: Seconds in which what an external environment's command has left ends by itself: as
#: Podman does, which removes the container when its program has ended.
COMMAND_SECONDS = 1.0
#: Seconds that a process may need to become a spare host.
SPARE_SECONDS = 10.0
_LINKS_OF_ONE_THREAD = 3
_READ_BYTES = 4096


def children(pid: int) -> list[int]:
    """Return the children of a process; empty if the process has ended."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        threads = [str(pid)]
        # Of a process with one thread, as most hosts are, the list is known.
        if os.stat(f"/proc/{pid}/task").st_nlink != _LINKS_OF_ONE_THREAD:
            threads = os.listdir(f"/proc/{pid}/task")
        for thread in threads:
            found += map(int, read_proc(f"{pid}/task/{thread}/children").split())
    return found


def read_proc(path: str) -> bytes:
    """Return the content of a file below /proc.

    Python's own files cost twice as much, and there may be thousands of hosts.

    Raises:
        OSError: The process has ended, or the file cannot be read.
    """
    descriptor = os.open(f"/proc/{path}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        read = os.read(descriptor, _READ_BYTES)
        if len(read) < _READ_BYTES // 2:
            return read
        parts = [read]
        while parts[-1]:
            parts.append(os.read(descriptor, _READ_BYTES))
        return b"".join(parts)
    finally:
        os.close(descriptor)


def descendants(pid: int) -> list[int]:
    """List everything below a process, parents before children."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        below = children(waiting.pop())
        found += below
        waiting += below
    return found


def kill_tree(pid: int) -> None:
    """Kill a process and all of its descendants."""
    below = descendants(pid)
    _kill(pid)
    for each in below:
        _kill(each)


def kill_children() -> None:
    """Kill all descendants of this process."""
    for child in children(os.getpid()):
        kill_tree(child)


class Strays:
    """The children of this process that hosts started and did not end.

    A process belongs to the instance that it is marked with. A process without a mark
    belongs to the host whose session it is in. A process without both could belong to
    any host that ran when it was first seen, so it is kept until those have ended.

    A process in this process's own session, or with the mark of spare hosts, may be
    about to become one. It has some time to do so.
    """

    def __init__(self) -> None:
        self._owners: dict[int, frozenset[str]] = {}
        self._first_seen: dict[int, float] = {}

    def forget(self, pid: int) -> None:
        """Forget a process that has ended: a new process may get its process ID."""
        self._owners.pop(pid, None)
        self._first_seen.pop(pid, None)

    def kill(
        self,
        hosts: Mapping[str, int],
        exempt: Collection[int] = (),
        *,
        now: float | None = None,
    ) -> bool:
        """Kill the processes that belong to no running host.

        Args:
            hosts: Instance IDs with the process IDs of the hosts that run; 0 for those
                that have ended, and whose processes may end by themselves.
            exempt: Further children of this process, which no host started.
            now: Seconds on the monotonic clock; ``None`` reads the clock.

        Returns:
            Whether there was something: while it is being killed it may start more.
        """
        found = False
        now = time.monotonic() if now is None else now
        known = {*hosts.values(), *exempt}
        owners, self._owners = self._owners, {}
        first_seen, self._first_seen = self._first_seen, {}
        for child in children(os.getpid()):
            if child in known:
                continue
            if _may_become_spare(child):
                since = self._first_seen[child] = first_seen.get(child, now)
                found = True
                if now - since >= SPARE_SECONDS:
                    kill_tree(child)
                continue
            possible = owners.get(child)
            if possible is None:
                possible = _owners(child, hosts)
            possible = possible.intersection(hosts)
            self._owners[child] = possible
            if not possible:
                kill_tree(child)
                found = True
        return found


def _may_become_spare(pid: int) -> bool:
    # No process can return to this session, or get this mark later.
    with contextlib.suppress(OSError):
        return os.getsid(pid) == os.getsid(0) or read_mark(pid) == SPARE
    return False


def _owners(pid: int, hosts: Mapping[str, int]) -> frozenset[str]:
    """Return the instances that a process may belong to."""
    mark = read_mark(pid)
    if mark:
        return frozenset({mark})
    with contextlib.suppress(OSError):
        session = os.getsid(pid)
        for instance_id, host in hosts.items():
            if host == session:
                return frozenset({instance_id})
    return frozenset(hosts)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
