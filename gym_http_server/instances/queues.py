"""Counts the requests that wait for each instance, over all web workers.

A host answers one request at a time. The others wait on their connections, where the
host does not see them before it has time for them. So web workers count: in memory
that all of them share, in which each has counters of its own and changes no others.
Hence there is no lock. Two workers that look at the same time may let in one request
more than the limit.
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

    To be made before web workers are forked; then each worker calls `claim`.

    Args:
        most: Requests that may wait for an instance, beside the one in work.
        workers: Web workers at a time.
    """

    def __init__(self, most: int, workers: int = 1) -> None:
        self._most = most
        self._workers = workers
        # Not a file: environments run as the same user, and could cut one short.
        memory = memoryview(mmap.mmap(-1, _PAGE + SLOTS * workers * 2))
        # Which workers' counters have been in use.
        self._used = memory[:workers]
        self._counts = memory[_PAGE:].cast("H")
        self._own = 0

    def claim(self, file: int) -> None:
        """Take the counters of a worker that does not run any more, as this worker's.

        Args:
            file: Descriptor of a file that all workers have inherited. A lock on it
                lasts as long as this process, however that ends.

        Raises:
            OSError: All are taken: there are more workers than were announced.
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
            # Its last owner was killed, perhaps with requests that waited.
            zeros = memoryview(bytes(SLOTS * 2)).cast("H")
            self._counts[self._own :: self._workers] = zeros
        self._used[self._own] = 1

    def enter(self, instance_id: str) -> int:
        """Count a request; return what `leave` wants.

        Args:
            instance_id: The instance: 8 hex digits.

        Raises:
            QueueFull: As many as may wait for the instance do so already.
        """
        first = (int(instance_id, 16) & SLOTS - 1) * self._workers
        counts = self._counts
        if sum(counts[first : first + self._workers]) > self._most:
            raise QueueFull(instance_id, self._most)
        place = first + self._own
        counts[place] += 1
        return place

    def leave(self, place: int) -> None:
        """Count a request no more."""
        self._counts[place] -= 1
