"""The memory of hosts: the limit on it, and kills by the kernel for lack of memory.

A page that several processes share is resident in each of them. The sum of resident
memory counts it once for each process, and is cheap to read. Proportional memory counts
it only once, but the kernel walks the page tables of a process to compute it, which
takes about a millisecond. So proportional memory is read only if the sum of resident
memory is over the limit, and for at most a few milliseconds per tick.

The supervisor and its hosts are in one control group, for example a container's. If
the kernel kills a host for lack of memory, it uses SIGKILL, which does not show the
reason. The count of such kills in the control group shows it.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Collection
from typing import NamedTuple

from gym_http_server.supervisor.processes import descendants, read_proc

__all__ = ["MemoryLimit", "OomKills", "proportional_bytes"]

#: Seconds for reading proportional memory, per tick.
SLICE_SECONDS = 0.005
#: Seconds for which a measurement holds, while resident memory grows by less than the
#: rest up to the limit.
FRESH_SECONDS = 5.0
_PAGE = os.sysconf("SC_PAGE_SIZE")


class _Usage(NamedTuple):
    """Memory of a host and its descendants according to ``statm``, bytes.

    Attributes:
        resident: The sum over all processes: an upper bound of their memory.
        anonymous: The largest value of one process, without files and shared memory.
            Apart from pages shared with the supervisor, all of it belongs to the host:
            a lower bound.
    """

    resident: int
    anonymous: int
    processes: list[int]


class _Measured(NamedTuple):
    at: float
    used: int
    resident: int


class MemoryLimit:
    """Compares the memory of hosts with the limit, a slice of the work per tick.

    Args:
        limit: Bytes that a host and its descendants may use; 0 is no limit.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        # To be measured, with the resident bytes and the processes to add up.
        self._suspects: dict[int, _Usage] = {}
        self._used = 0
        self._measured: dict[int, _Measured] = {}

    def tick(self, hosts: Collection[int], due: Collection[int]) -> list[int]:
        """Return the process IDs of hosts that are over the limit.

        Args:
            hosts: The hosts that run.
            due: Those of them whose memory to look at now.
        """
        if not self._limit:
            return []
        for pid in {*self._suspects, *self._measured}.difference(hosts):
            self._forget(pid)
        over = self._look(due) if due else []
        until = time.monotonic() + SLICE_SECONDS
        while self._suspects and time.monotonic() < until:
            over += self._measure()
        return over

    def _look(self, hosts: Collection[int]) -> list[int]:
        own = _usage([os.getpid()]).anonymous
        over = []
        for pid in hosts:
            usage = _usage([pid, *descendants(pid)])
            if usage.resident <= self._limit:
                self._forget(pid)
            elif usage.anonymous - own > self._limit:
                self._forget(pid)
                over.append(pid)
            elif pid not in self._suspects and not self._is_fresh(pid, usage):
                self._suspects[pid] = usage
        return over

    def _is_fresh(self, pid: int, usage: _Usage) -> bool:
        measured = self._measured.get(pid)
        return (
            measured is not None
            and time.monotonic() - measured.at < FRESH_SECONDS
            and usage.resident - measured.resident < self._limit - measured.used
        )

    def _measure(self) -> list[int]:
        """Read a process of the first suspect; return the host if over the limit."""
        pid, usage = next(iter(self._suspects.items()))
        if usage.processes:
            self._used += proportional_bytes(usage.processes.pop())
        if self._used > self._limit:
            self._forget(pid)
            return [pid]
        if not usage.processes:
            measured = _Measured(time.monotonic(), self._used, usage.resident)
            self._forget(pid)
            self._measured[pid] = measured
        return []

    def _forget(self, pid: int) -> None:
        self._measured.pop(pid, None)
        if pid in self._suspects:
            if next(iter(self._suspects)) == pid:
                self._used = 0
            del self._suspects[pid]


def _usage(processes: list[int]) -> _Usage:
    resident, most = 0, 0
    for pid in processes:
        own, shared = _statm(pid)
        resident += own
        most = max(most, own - shared)
    return _Usage(resident, most, processes)


def proportional_bytes(pid: int) -> int:
    """Return the proportional memory of a process, 0 if it has ended.

    If the kernel does not show it, as for a process of another user, this returns the
    resident memory.
    """
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        return _statm(pid)[0]
    return 0


def _statm(pid: int) -> tuple[int, int]:
    """Return the resident bytes of a process, and how many of them may be shared."""
    try:
        _, resident, shared, *_ = read_proc(f"{pid}/statm").split()
    except (OSError, ValueError):
        return 0, 0
    return int(resident) * _PAGE, int(shared) * _PAGE


#: Seconds for which a kill counts as recent: a large process takes time to end.
RECENT_SECONDS = 10.0
_ROOT = "/sys/fs/cgroup"
_COUNTER = b"oom_kill "


class OomKills:
    """Watches the count of this process's control group.

    Args:
        cgroup: File that names the group.
        root: Where control groups are mounted.
    """

    def __init__(self, cgroup: str = "/proc/self/cgroup", root: str = _ROOT) -> None:
        self._path = _counting_file(cgroup, root)
        self._count = self._read()
        self._at = float("-inf")

    def tick(self) -> None:
        """Read the count; to be called a few times a second."""
        count = self._read()
        if count > self._count:
            self._at = time.monotonic()
        self._count = count

    def recent(self) -> bool:
        """Return whether a process of the group was killed a moment ago."""
        self.tick()
        return time.monotonic() - self._at < RECENT_SECONDS

    def _read(self) -> int:
        if self._path:
            with contextlib.suppress(OSError, ValueError), open(self._path, "rb") as f:
                for line in f:
                    if line.startswith(_COUNTER):
                        return int(line.split()[1])
        return 0


def _counting_file(cgroup: str, root: str) -> str:
    """Return the file with the count; "" if there is no such file."""
    found = []
    with contextlib.suppress(OSError), open(cgroup) as file:
        for line in file:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            # In a container, the group may be mounted as if it were the root.
            places = [path.rstrip("/"), ""]
            if "memory" in controllers.split(","):
                found += [f"{root}/memory{each}/memory.oom_control" for each in places]
            elif not controllers:
                found += [f"{root}{each}/memory.events" for each in places]
    return next(filter(os.path.exists, found), "")
