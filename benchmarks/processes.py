"""Finds a server's processes, and reads what each of them uses.

A server starts and ends processes by itself while it is measured. So a process that
has ended is left out, wherever one may.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from pathlib import Path

import psutil

__all__ = ["find_hosts", "processor_ns", "pss_mib", "with_descendants"]

_PSS = re.compile(r"^Pss:\s+(\d+) kB$", re.MULTILINE)


def with_descendants(pid: int) -> list[int]:
    """Return the IDs of a process and of all below it."""
    below = psutil.Process(pid).children(recursive=True)
    return [pid, *(each.pid for each in below)]


def find_hosts(pid: int) -> list[int]:
    """Find the hosts of a server: each has a working directory for its instance."""
    found = []
    for each in with_descendants(pid):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{each}/cwd").readlink().name == "work":
                found.append(each)
    return found


def processor_ns(pids: Iterable[int]) -> dict[int, int]:
    """Return the processor time of all threads of each process, in nanoseconds.

    The ticks of other counters, of 10 ms each, would round idle processes to nothing.
    """
    used: dict[int, int] = {}
    for pid in pids:
        for thread in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError):
                ran = int(thread.read_text(encoding="ascii").split()[0])
                used[pid] = used.get(pid, 0) + ran
    return used


def pss_mib(pid: int) -> float:
    """Return a process's proportional set size; shared memory counts in part."""
    found = _PSS.search(Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii"))
    assert found
    return int(found[1]) / 1024
