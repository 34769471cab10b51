"""The instances that end with connections to a web worker, also if it is killed.

A web worker that is killed cannot end the instances of its connections. So their IDs
are in shared memory, and the next web worker in its place ends them. Each worker
changes only its own part.
"""

from __future__ import annotations

import mmap

__all__ = ["HeldInstances"]


class HeldInstances:
    """The IDs of these instances.

    Create it before web workers are forked; then each worker calls `claim`.

    Args:
        most: Instances that there may be.
        workers: Web workers at a time.
    """

    def __init__(self, most: int, workers: int = 1) -> None:
        self._most = most
        # Pages that are never used take no memory. No instance has the ID 0.
        self._ids = memoryview(mmap.mmap(-1, 4 * most * workers)).cast("I")
        self._first = 0

    def claim(self, place: int) -> list[str]:
        """Use the part of a worker that no longer runs; return the IDs left in it.

        Args:
            place: The number of the worker.
        """
        self._first = place * self._most
        own = self._ids[self._first : self._first + self._most]
        left = [each for each in own.tolist() if each]
        if left:
            own[:] = memoryview(bytes(own.nbytes)).cast("I")
        return [f"{each:08x}" for each in left]

    def add(self, instance_id: str) -> None:
        """Note an instance that is to end with a connection."""
        self._put(0, int(instance_id, 16))

    def discard(self, instance_id: str) -> None:
        """Forget an instance that has ended."""
        self._put(int(instance_id, 16), 0)

    def _put(self, before: int, after: int) -> None:
        for each in range(self._first, self._first + self._most):
            if self._ids[each] == before:
                self._ids[each] = after
                return
