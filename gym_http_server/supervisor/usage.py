"""Memory and processor time of instances, read from /proc a few at a time.

Reading takes up to 0.2 ms for each instance, and delays the supervisor's other work.
So a scrape of the metrics, or a list, reads some instances at once, and the ticks after
it the others; an instance that nobody uses is read less often. Otherwise only a new
instance is read.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import NamedTuple, Protocol

from gym_http_server.supervisor.processes import descendants, read_proc

__all__ = ["UNREAD", "Usage", "Usages", "read_usage"]

#: Seconds in which the instances of one tick are read, and of one scrape or list.
SLICE_SECONDS, ASK_SECONDS = 0.01, 0.001
#: Seconds for which a figure is fresh.
FRESH_SECONDS = 2.0
#: Seconds until the next look at all, for each hundred of them.
LOOK_SECONDS = 0.05
#: The same for an instance that was not used since it was read.
REST_SECONDS = 60.0
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
            # After the name, which may contain anything: user and system time, the same
            # of children that have ended, and much later the pages.
            fields = read_proc(f"{each}/stat").rpartition(b")")[2].split()
        except OSError:
            continue
        resident += int(fields[21]) * _PAGE
        ticks += sum(map(int, fields[11:15]))
    # A descendant that no process has waited for takes its time with it.
    return Usage(resident, max(before.cpu_s, round(ticks * _TICK, 2)), now)


class _HasUsage(Protocol):
    pid: int
    usage: Usage
    at_rest: bool
    use: tuple[int, int]


class Usages:
    """Reads the usage of instances for scrapes of the metrics, and for lists."""

    def __init__(self) -> None:
        # Those to read, the oldest figure last.
        self._due: list[_HasUsage] = []
        self._look_at = float("-inf")

    def ask(self, instances: Iterable[_HasUsage]) -> None:
        """Read the usage of some instances now, and of the others in the next ticks.

        Those that are fresh are left out. After a look at thousands, a while passes
        before the next one, which would take a part of the answer's time.

        Args:
            instances: All instances.
        """
        now = time.monotonic()
        if not self._due and now >= self._look_at:
            looked_at = list(instances)
            due = [each for each in looked_at if _is_due(each, now)]
            self._due = sorted(due, key=lambda each: -each.usage.at)
            self._look_at = now + LOOK_SECONDS * (len(looked_at) // 100)
        self.tick(ASK_SECONDS)

    def tick(self, seconds: float = SLICE_SECONDS) -> None:
        """Read the usage of some instances that was old when it was asked for.

        Args:
            seconds: Time for that, at most.
        """
        now = time.monotonic()
        until = now + seconds
        while self._due and now <= until:
            each = self._due.pop()
            # Another one may have read it meanwhile.
            if _is_due(each, now):
                each.usage = read_usage(each.pid, each.usage, now)
            now = time.monotonic()


def _is_due(instance: _HasUsage, now: float) -> bool:
    read_at = instance.usage.at
    if read_at > now - FRESH_SECONDS:
        return False
    used_ns = instance.use[0]
    unused = instance.at_rest and read_at > used_ns / 1e9
    return not unused or read_at < now - REST_SECONDS
