"""Memory and processor time of instances, read from /proc a few at a time.

Reading takes up to 0.2 ms for each instance, and delays the supervisor's other work.
So a scrape of the metrics reads some instances at once, and the ticks after it the
others. Nothing is read while nobody asks.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import NamedTuple, Protocol

from gym_http_server.supervisor.processes import descendants

__all__ = ["UNREAD", "Usage", "Usages", "read_usage"]

#: Seconds in which the instances of one scrape or tick are read.
SLICE_SECONDS = 0.01
_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICK = 1 / os.sysconf("SC_CLK_TCK")


class Usage(NamedTuple):
    """What a host and its descendants use.

    Attributes:
        resident: Bytes of resident memory, added up; a page that several processes
            share counts once for each.
        cpu_s: Seconds of processor time so far; never less than before.
        at: When it was read, monotonic seconds.
    """

    resident: int
    cpu_s: float
    at: float


UNREAD = Usage(0, 0.0, float("-inf"))


def read_usage(pid: int, before: Usage, now: float) -> Usage:
    """Return what a process and its descendants use now.

    Args:
        pid: The process.
        before: What was read before.
        now: Monotonic seconds.
    """
    resident, ticks = 0, 0
    for each in (pid, *descendants(pid)):
        try:
            with open(f"/proc/{each}/stat", "rb") as file:
                # After the name, which may contain anything: user and system time, the
                # same of children that have ended, and much later the pages.
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        resident += int(fields[21]) * _PAGE
        ticks += sum(map(int, fields[11:15]))
    # A descendant that no process has waited for takes its time with it.
    return Usage(resident, max(before.cpu_s, ticks * _TICK), now)


class _HasUsage(Protocol):
    pid: int
    usage: Usage


class Usages:
    """Reads the usage of instances for scrapes of the metrics."""

    def __init__(self) -> None:
        self._asked = float("-inf")

    def ask(self, instances: Iterable[_HasUsage]) -> None:
        """Read the usage of some instances now, and of the others in the next ticks."""
        self._asked = time.monotonic()
        self.tick(instances)

    def tick(self, instances: Iterable[_HasUsage]) -> None:
        """Read the usage of some instances that was read before the last scrape."""
        until = time.monotonic() + SLICE_SECONDS
        due = [each for each in instances if each.usage.at < self._asked]
        for each in sorted(due, key=lambda each: each.usage.at):
            now = time.monotonic()
            if now > until:
                return
            each.usage = read_usage(each.pid, each.usage, now)
