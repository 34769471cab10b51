"""Spreads connections evenly over the web workers.

The kernel wakes all workers for a new connection, and the first one to accept it keeps
it to its end. So two busy connections, of a stream or a trainer, may share one worker
for hours while another worker is idle. Workers therefore publish in shared memory how
many connections they have and how busy they are. A worker with a higher load than
another one waits a moment before it accepts, so that the other one can do it first.
"""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable

__all__ = ["LEAVE_S", "Balance"]

#: How long a worker leaves a new connection to the others. Unless they are busy, they
#: accept it within a fraction of that.
LEAVE_S = 0.002
# Connections that it may leave at once, and how many more each second. To wait costs
# more than it gains if each request has a new connection, or if the others are stuck.
_MOST_AT_ONCE = 64
_MOST_A_SECOND = 10
# A worker that uses all of its processor has the load of so many idle connections. With
# more it would get too few of many connections that arrive at once.
_BUSY = 4
# Loads are published in thousandths of a connection.
_UNIT = 1000
# Less is noise.
_DIFFERENCE = _UNIT // 20


class Balance:
    """The load of each web worker.

    Create it before web workers are forked. The parent process calls `reserve` before
    each fork, and `release` when a worker has ended or was killed. Workers call the
    rest, and `measure` every 0.1 s.

    Args:
        workers: Web workers at a time. Any beyond them are not considered.
        clock: Returns seconds.
        processor: Returns seconds of processor time of this process.
    """

    def __init__(
        self,
        workers: int,
        clock: Callable[[], float] = time.monotonic,
        processor: Callable[[], float] = time.process_time,
    ) -> None:
        # A worker's load + 1; 0 for a place without a worker that accepts.
        self._loads = memoryview(mmap.mmap(-1, 4 * workers)).cast("I")[:workers]
        self._free = list(range(workers))
        self._own: int | None = None
        self._clock = clock
        self._processor = processor
        self._connections = 0
        # Time and processor time at the last two measurements.
        self._last = self._before_last = (clock(), processor())
        # When the next connection would be left at an even rate (GCRA).
        self._next_s = 0.0

    def reserve(self) -> int | None:
        """Return the place of the next worker; ``None`` if all are taken."""
        self._own = self._free.pop() if self._free else None
        return self._own

    def release(self, place: int | None) -> None:
        """Free the place of a worker that has ended."""
        if place is not None:
            self._loads[place] = 0
            self._free.append(place)

    def count(self, connections: int) -> None:
        """Set the number of this worker's connections."""
        change = connections - self._connections
        self._connections = connections
        if self._own is not None and self._loads[self._own]:
            self._loads[self._own] += _UNIT * change

    def measure(self) -> None:
        """Measure and publish this worker's load."""
        if self._own is not None:
            self._loads[self._own] = 1 + self._load()
        self._before_last, self._last = self._last, (self._clock(), self._processor())

    def _load(self) -> int:
        """Return the present load, by the use of the processor in the last 0.2 s."""
        since_s, used_s = self._before_last
        passed_s = max(self._clock() - since_s, 1e-6)
        # Below 0 just after a fork.
        busy = min(1.0, max(0.0, (self._processor() - used_s) / passed_s))
        return _UNIT * self._connections + int(_UNIT * _BUSY * busy)

    def withdraw(self) -> None:
        """Publish no load: this worker accepts no further connections."""
        if self._own is not None:
            self._loads[self._own] = 0
            self._own = None

    def leaves_next(self) -> bool:
        """Return whether to leave the next connection to another worker for a moment.

        It is left if another worker has a lower load, and if not too many were left.
        """
        now_s = self._clock()
        if self._own is None or now_s < self._next_s - _MOST_AT_ONCE / _MOST_A_SECOND:
            return False
        own = self._loads[self._own] = 1 + self._load()
        if not any(0 < load < own - _DIFFERENCE for load in self._loads):
            return False
        self._next_s = max(self._next_s, now_s) + 1 / _MOST_A_SECOND
        return True
