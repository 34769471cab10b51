"""Busy polling: polling a socket for a while before sleeping in the kernel.

Waking a sleeping core takes longer than a step. So a process that expects an answer
soon polls for a while, as long as that is successful and no other process needs the
core.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable

__all__ = ["BusyPoll", "may_busy_poll"]

_CHECK_NS = 50_000_000
# Most neighbours run briefly: after a check that found one, the next one is sooner.
_DENIED_NS = 5_000_000
_MISSES = 2
_LOAD_BYTES = 128
_REST, _LONGEST_REST = 64, 8192
# Windows has no Unix sockets in Python.
_UNIX = getattr(socket, "AF_UNIX", None)
_INCOMING_CPU = getattr(socket, "SO_INCOMING_CPU", None)


def may_busy_poll(sockets: Iterable[socket.socket]) -> bool:
    """Whether there are cores for all running processes, the peers included.

    Args:
        sockets: The connections to the peers.
    """
    if not hasattr(os, "sched_getaffinity"):
        return False
    own = os.sched_getaffinity(0)
    if len(own) == 1 and not all(_sent_from_elsewhere(own, sock) for sock in sockets):
        return False
    # Only now, since this opens a file, and a refusal is checked again every 64 steps.
    cores = os.cpu_count() or 1
    if cores < 2:
        return False
    try:
        # No file object: making one takes longer than all the rest.
        file = os.open("/proc/loadavg", os.O_RDONLY | os.O_CLOEXEC)
        try:
            running = int(os.read(file, _LOAD_BYTES).split()[3].partition(b"/")[0])
        finally:
            os.close(file)
    except (OSError, ValueError, IndexError):
        return False
    return running <= cores


def _sent_from_elsewhere(cores: set[int], sock: socket.socket) -> bool:
    """Whether another core than these sent the last bytes; False if it is unknown."""
    if _INCOMING_CPU is None or sock.family == _UNIX:
        return False
    return sock.getsockopt(socket.SOL_SOCKET, _INCOMING_CPU) not in cores


class BusyPoll:
    """Decides how long to poll before sleeping.

    Polling pays only if both ends do it, since each wakes the other from sleep. So this
    class tries it, and rests after some vain tries, longer each time.

    Args:
        limit_ns: Nanoseconds to poll at most; 0 never polls.
        allowed: Returns whether polling disturbs no other process; called now and then.

    Attributes:
        rest: Number of next waits that do not poll.
    """

    def __init__(self, limit_ns: int, allowed: Callable[[], bool]) -> None:
        self.rest = 0
        self._limit = limit_ns
        self._may_poll = allowed
        self._allowed = False
        self._checked = -_CHECK_NS
        self._misses = 0
        self._next_rest = _REST

    def until(self, now_ns: int) -> int:
        """Return the time until which to poll; 0 is not at all."""
        if self._limit:
            valid_ns = _CHECK_NS if self._allowed else _DENIED_NS
            if now_ns - self._checked >= valid_ns:
                self._checked = now_ns
                self._allowed = self._may_poll()
            if self._allowed:
                return now_ns + self._limit
        self.rest = _REST
        return 0

    def found(self) -> None:
        """Note that polling was successful."""
        self._misses, self._next_rest = 0, _REST

    def missed(self) -> None:
        """Note that polling was in vain."""
        self._misses += 1
        if self._misses >= _MISSES:
            self._misses = 0
            self.rest = self._next_rest
            self._next_rest = min(2 * self._next_rest, _LONGEST_REST)
