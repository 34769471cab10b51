"""Spinning: looking again and again for a while, before waiting in earnest.

To wake a sleeping core takes longer than a step does. So who expects an answer at
once may look for it some tens of microseconds before sleeping, as long as that finds
something and no neighbour wants the core.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

__all__ = ["Spinning", "cores_are_idle"]

_CHECK_NS = 50_000_000
# What a wait on a sleeping core adds.
_WAKING_NS = 100_000
_MISSES = 3


def cores_are_idle() -> bool:
    """Whether this process and its far end would disturb nobody by spinning."""
    if not hasattr(os, "sched_getaffinity"):
        return False
    cores = len(os.sched_getaffinity(0))
    if cores < 2:
        return False
    try:
        with open("/proc/loadavg", encoding="ascii") as file:
            running = int(file.read().split()[3].partition("/")[0])
    except (OSError, ValueError, IndexError):
        return False
    return running <= cores


class Spinning:
    """Decides for how long to spin.

    Args:
        limit_ns: Nanoseconds to spin at most; 0 is never.
        idle: Whether there are cores to spare; asked now and then.
        clock: Monotonic nanoseconds.

    Attributes:
        wanted: Whether spinning is wanted at all.
    """

    def __init__(
        self,
        limit_ns: int,
        idle: Callable[[], bool] = cores_are_idle,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.wanted = limit_ns > 0
        self._limit = limit_ns
        self._idle = idle
        self._clock = clock
        self._allowed = False
        self._checked = -_CHECK_NS
        self._misses = _MISSES

    def until(self, now_ns: int) -> int:
        """Give the time until which to spin, from now on; 0 is not at all."""
        if not self._limit or self._misses >= _MISSES:
            return 0
        if now_ns - self._checked >= _CHECK_NS:
            self._checked = now_ns
            self._allowed = self._idle()
        return now_ns + self._limit if self._allowed else 0

    def waited(self, began_ns: int, ended_ns: int, *, spun: bool) -> None:
        """Learn from a wait: whether spinning found, or would have found, its end."""
        took = ended_ns - began_ns
        if took <= self._limit + (0 if spun else _WAKING_NS):
            self._misses = 0
        elif self._misses < _MISSES:
            self._misses += 1
