"""Spreads connections evenly over the web workers.

The kernel wakes all workers for a new connection, and the first one to accept it keeps
it to its end. So two busy connections, of a stream or a trainer, may share one worker
for hours while another worker is idle. Workers therefore count their connections in
shared memory, and one that has more than another leaves it a moment to accept.
"""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable

__all__ = ["LEAVE_S", "Balance"]

#: How long a worker leaves a new connection to the others. Unless they are busy, they
#: accept it within a fraction of that.
LEAVE_S = 0.002
# How long it leaves none after one that no other has accepted: they are busy or stuck,
# and each of many connections would wait.
_PAUSE_S = 0.002


class Balance:
    """The number of connections of each web worker.

    Create it before web workers are forked. The parent process calls `reserve` before
    each fork and `release` at each worker's end, which may be a kill; workers call the
    rest.

    Args:
        workers: Web workers at a time. Any beyond them are not counted.
        clock: Returns seconds.
    """

    def __init__(
        self, workers: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        # A worker's connections + 1; 0 for a place without a worker that accepts.
        self._counts = memoryview(mmap.mmap(-1, 4 * workers)).cast("I")[:workers]
        self._free = list(range(workers))
        self._own: int | None = None
        self._clock = clock
        self._paused_until_s = 0.0

    def reserve(self) -> int | None:
        """Return the place of the next worker; ``None`` if all are taken."""
        self._own = self._free.pop() if self._free else None
        return self._own

    def release(self, place: int | None) -> None:
        """Free the place of a worker that has ended."""
        if place is not None:
            self._counts[place] = 0
            self._free.append(place)

    def count(self, connections: int) -> None:
        """Set the number of this worker's connections."""
        if self._own is not None:
            self._counts[self._own] = connections + 1

    def withdraw(self) -> None:
        """Stop counting: this worker accepts no further connections."""
        if self._own is not None:
            self._counts[self._own] = 0
            self._own = None

    def leaves_next(self) -> bool:
        """Return whether to leave the next connection to another worker for a moment.

        It is left if another worker has fewer connections.
        """
        if self._own is None:
            return False
        own = self._counts[self._own]
        fewer = any(0 < count < own for count in self._counts)
        return fewer and self._clock() >= self._paused_until_s

    def pause(self) -> None:
        """Leave no connection to others for the next 2 ms."""
        self._paused_until_s = self._clock() + _PAUSE_S
