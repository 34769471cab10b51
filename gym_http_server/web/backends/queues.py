"""Counts the requests that wait for each instance, over all web workers.

A host answers one request at a time. The others wait on their connections, and the host
cannot see them while it works. So web workers count them, in shared memory. Each worker
changes only its own counters, so there is no lock. Two workers that check at the same
time may admit one request more than the limit.
"""

from __future__ import annotations

import fcntl
import mmap

from gym_http_server.errors import QueueFull

__all__ = ["Queues"]

#: Counters of each web worker. Two instances share one if the last 16 bits of their IDs
#: are equal; then the limit holds for both of them together.
SLOTS = 1 << 16
_PAGE = mmap.PAGESIZE


class Queues:
    """The queues of all instances.

    Create it before web workers are forked; then each worker calls `claim`.

    Args:
        most: Requests that may wait for an instance, besides the one being executed.
        workers: Web workers at a time.
        what: The purpose of the requests, in messages.
    """

    def __init__(self, most: int, workers: int = 1, what: str = "wait for") -> None:
        self._most = most
        self._what = what
        self._workers = workers
        # Not a file: environments run as the same user, and could truncate it.
        memory = memoryview(mmap.mmap(-1, _PAGE + SLOTS * workers * 2))
        # Which workers' counters have been in use.
        self._used = memory[:workers]
        self._counts = memory[_PAGE:].cast("H")
        self._own = 0

    def claim(self, file: int) -> None:
        """Use the counters of a worker that no longer runs.

        Args:
            file: Descriptor of a file that all workers have inherited. A lock on it
                lasts as long as this process, however that ends.

        Raises:
            OSError: No counters are free: more workers run than were announced.
        """
        for worker in range(self._workers):
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, worker)
            except OSError:
                if worker == self._workers - 1:
                    raise
                continue
            self._own = worker
            break
        if self._used[self._own]:
            # The last owner was killed, perhaps while requests waited.
            zeros = memoryview(bytes(SLOTS * 2)).cast("H")
            self._counts[self._own :: self._workers] = zeros
        self._used[self._own] = 1

    def enter(self, instance_id: str, *, limited: bool = True) -> int:
        """Count a request; return the argument for `leave`.

        Args:
            instance_id: The instance: 8 hex digits.
            limited: Whether the request may be refused.

        Raises:
            QueueFull: The maximum number already waits for the instance.
        """
        first = (int(instance_id, 16) & SLOTS - 1) * self._workers
        counts = self._counts
        if limited and sum(counts[first : first + self._workers]) > self._most:
            raise QueueFull(instance_id, self._most, self._what)
        place = first + self._own
        counts[place] += 1
        return place

    def leave(self, place: int) -> None:
        """Stop counting a request."""
        self._counts[place] -= 1
