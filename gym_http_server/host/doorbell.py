"""A number in shared memory that one process writes, and for which another one waits.

What was written to shared memory before the number can be read after it has arrived.
The kernel keeps this order where it wakes the process that waits. A process that polls
for the number sees it on processors that keep the order of writes; others do not poll.
"""

from __future__ import annotations

import contextlib
import os
import platform
import select
import time

from gym_http_wire.busy_poll import BusyPoll, may_busy_poll

__all__ = ["LINE", "Doorbell"]

#: Numbers in a line of the processor's cache, which two processes should not share.
LINE = 8
POLL_NS = 50_000
_KEEPS_ORDER = platform.machine() in ("x86_64", "AMD64", "i686", "i386")


class Doorbell:
    """A number in shared memory, and a descriptor that wakes the process that waits.

    Make it before the fork that makes the other process.

    Args:
        numbers: Unsigned numbers of 64 bits, in memory that both processes share.
        index: The position of the number, 0 at first, with a note behind it.
        processes: Number of processes that may run while one waits, the waiting one
            included. It polls before it sleeps if there is a core for each.

    Attributes:
        descriptor: The descriptor, an eventfd.
    """

    def __init__(self, numbers: memoryview, index: int, processes: int) -> None:
        self._numbers = numbers
        self._index = index
        self.descriptor = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._poller = select.poll()
        self._poller.register(self.descriptor, select.POLLIN)
        limit_ns = POLL_NS if _KEEPS_ORDER and _has_cores(processes) else 0
        self._busy_poll = BusyPoll(limit_ns, lambda: may_busy_poll([]))

    def watch(self, descriptor: int) -> None:
        """End waits when there is something to read from another descriptor, too."""
        self._poller.register(descriptor, select.POLLIN)

    def ring(self, number: int, note: int = 0) -> None:
        """Write a note and the number, and wake the process that waits for it."""
        self._numbers[self._index + 1] = note
        self._numbers[self._index] = number
        # It is full only if the other process has filled it.
        with contextlib.suppress(BlockingIOError):
            os.eventfd_write(self.descriptor, 1)

    @property
    def note(self) -> int:
        """The note of the number that has arrived."""
        return self._numbers[self._index + 1]

    def wait(self, number: int) -> bool:
        """Wait for the number, or for something else to read.

        Returns:
            Whether the number has arrived.
        """
        numbers, index = self._numbers, self._index
        if _KEEPS_ORDER:
            if numbers[index] == number:
                return True
            if self._polled(number):
                return True
        while True:
            events = self._poller.poll()
            if all(descriptor != self.descriptor for descriptor, _ in events):
                return False
            # An environment in the other process may have read it.
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self.descriptor)
            # If not, it was rung for a number that polling has seen.
            if numbers[index] == number:
                return True

    def _polled(self, number: int) -> bool:
        busy_poll = self._busy_poll
        if busy_poll.rest:
            busy_poll.rest -= 1
            return False
        numbers, index = self._numbers, self._index
        until = busy_poll.until(time.monotonic_ns())
        while time.monotonic_ns() < until:
            if numbers[index] == number:
                busy_poll.found()
                return True
        if until:
            busy_poll.missed()
        return False

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.descriptor)


def _has_cores(processes: int) -> bool:
    return processes <= len(os.sched_getaffinity(0))
