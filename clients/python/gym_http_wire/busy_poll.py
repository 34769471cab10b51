"""Spinning: looking again and again for a while, before waiting in earnest.

To wake a sleeping core takes longer than a step does. So who expects an answer soon may
look for it a while before sleeping, as long as that finds something and no neighbour
wants the core.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable

__all__ = ["BusyPoll", "may_busy_poll"]

_CHECK_NS = 50_000_000
_MISSES = 2
_REST, _LONGEST_REST = 64, 8192
# Windows has no Unix sockets in Python.
_UNIX = getattr(socket, "AF_UNIX", None)
_INCOMING_CPU = getattr(socket, "SO_INCOMING_CPU", None)


def may_busy_poll(lines: Iterable[socket.socket]) -> bool:
    """Whether there is a core for everyone who wants one, the far ends included.

    Args:
        lines: The connections to the far ends.
    """
    cores = os.cpu_count() or 1
    if cores < 2 or not hasattr(os, "sched_getaffinity"):
        return False
    own = os.sched_getaffinity(0)
    if len(own) == 1 and not all(_far_core(line) not in own for line in lines):
        return False
    try:
        with open("/proc/loadavg", encoding="ascii") as file:
            running = int(file.read().split()[3].partition("/")[0])
    except (OSError, ValueError, IndexError):
        return False
    return running <= cores


def _far_core(line: socket.socket) -> int:
    """Give the core that the last bytes came from; core 0 if nobody knows."""
    if _INCOMING_CPU is None or line.family == _UNIX:
        return 0
    return line.getsockopt(socket.SOL_SOCKET, _INCOMING_CPU)


class BusyPoll:
    """Decides for how long to spin.

    Whether it is worth it shows only when both ends do it: sleeping, each keeps the
    other waiting. So it is tried, and after some tries in vain there is a rest, the
    longer the more there were.

    Args:
        limit_ns: Nanoseconds to spin at most; 0 is never.
        allowed: Whether it would disturb nobody; asked now and then.

    Attributes:
        rest: How many waits need not ask: it would not be worth it now.
    """

    def __init__(self, limit_ns: int, allowed: Callable[[], bool]) -> None:
        self.rest = 0
        self._limit = limit_ns
        self._ask = allowed
        self._allowed = False
        self._checked = -_CHECK_NS
        self._misses = 0
        self._next_rest = _REST

    def until(self, now_ns: int) -> int:
        """Give the time until which to spin, from now on; 0 is not at all."""
        if self._limit:
            if now_ns - self._checked >= _CHECK_NS:
                self._checked = now_ns
                self._allowed = self._ask()
            if self._allowed:
                return now_ns + self._limit
        self.rest = _REST
        return 0

    def found(self) -> None:
        """Note that there was something to find in time."""
        self._misses, self._next_rest = 0, _REST

    def missed(self) -> None:
        """Note that there was not."""
        self._misses += 1
        if self._misses >= _MISSES:
            self._misses = 0
            self.rest = self._next_rest
            self._next_rest = min(2 * self._next_rest, _LONGEST_REST)
