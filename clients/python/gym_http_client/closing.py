"""Closing: instances are ended in bounded time, even if their server is unreachable.

A server that was stopped, or cannot be reached any more, must not hold up a program
that only wants to end. Its instances end by themselves, by the server's timeouts.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
import weakref
from collections.abc import Callable
from typing import Any, Protocol

__all__ = ["CLOSE_SECONDS", "EXIT_SECONDS", "Patience", "patience_with", "register"]

#: Seconds that closing waits for one server, for all of its instances together.
CLOSE_SECONDS = 3.0
#: Seconds that the end of the interpreter waits for all servers together.
EXIT_SECONDS = 1.0
#: Seconds after which a server that did not answer gets as much time again.
RENEWED_SECONDS = 60.0


class Patience:
    """The time that closing may still wait for one server.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._spent = 0.0
        self._at = -RENEWED_SECONDS

    def left(self) -> float:
        """Return the seconds that are left."""
        if self._clock() - self._at >= RENEWED_SECONDS:
            self._spent = 0.0
        return max(0.0, CLOSE_SECONDS - self._spent)

    def spend(self, seconds: float) -> bool:
        """Note that the server did not answer; return whether this is news.

        Args:
            seconds: How long an answer was waited for.
        """
        now = self._clock()
        news = now - self._at >= RENEWED_SECONDS
        self._spent += seconds
        self._at = now
        return news

    def renew(self) -> None:
        """Note that the server answered."""
        self._spent = 0.0
        self._at = self._clock() - RENEWED_SECONDS


class _Closable(Protocol):
    """A handle of an instance, as it is closed at the end of the interpreter."""

    def begin_end(self, seconds: float) -> None: ...

    def finish_end(self, seconds: float) -> None: ...


_patiences: dict[str, Patience] = {}
# By process: a forked child inherits what its parent made.
_made: dict[int, weakref.WeakSet[Any]] = {}


def patience_with(url: str) -> Patience:
    """Return the time that closing may still wait for the server at a URL."""
    return _patiences.setdefault(url, Patience())


def register(handle: _Closable) -> None:
    """Have an instance ended at interpreter exit, if it is there still.

    Only the process that calls this does it: a forked child that exits leaves the
    instances of its parent alone.
    """
    process = os.getpid()
    made = _made.get(process)
    if made is None:
        made = _made[process] = weakref.WeakSet()
        atexit.register(_close_made)
        # Up to Python 3.12, children of multiprocessing do not run atexit.
        util = sys.modules.get("multiprocessing.util")
        if util is not None:
            util.Finalize(None, _close_made, exitpriority=0)
    made.add(handle)


def _close_made() -> None:
    """End what this process made: ask for all, and then wait for all answers."""
    until = time.monotonic() + EXIT_SECONDS
    handles = list(_made.pop(os.getpid(), ()))
    for handle in handles:
        handle.begin_end(until - time.monotonic())
    for handle in handles:
        handle.finish_end(until - time.monotonic())
