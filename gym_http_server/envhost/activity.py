"""Records when an instance is busy and how much it is used.

The supervisor reads these records from the status page, for deadlines and idle
timeouts. Clients get some of them in the instance's description.
"""

from __future__ import annotations

import time

from gym_http_core.operations import Operations
from gym_http_server.envhost import fork_guard
from gym_http_server.rundir.status import StatusPage

__all__ = ["Activity"]


class Activity:
    """Records the calls and the streams of one instance.

    Args:
        page: The host's status page.
        operations: Counts the steps and episodes of the environment.

    Attributes:
        page: The host's status page. Each call begins with `StatusPage.begin`.
        streams: Number of open streams that send requests.
        watchers: Number of open streams that watch.
    """

    def __init__(self, page: StatusPage, operations: Operations) -> None:
        self.streams = 0
        self.watchers = 0
        self.page = page
        self._operations = operations
        self._created_ns = self._last_used_ns = time.monotonic_ns()

    @property
    def age_s(self) -> float:
        """Seconds since the instance was created."""
        return (time.monotonic_ns() - self._created_ns) / 1e9

    @property
    def idle_s(self) -> float:
        """Seconds since the last call that counts as use ended."""
        return (time.monotonic_ns() - self._last_used_ns) / 1e9

    def begin_next(self) -> None:
        """Record that another call begins within the same request.

        A request for many steps may take long, if each step takes less than the limit.
        """
        fork_guard.check()
        self.page.begin(time.monotonic_ns())

    def finish(self) -> None:
        """Record that a call which counts as use has ended."""
        operations = self._operations
        self._last_used_ns = now_ns = time.monotonic_ns()
        self.page.finish(now_ns, operations.steps, operations.episodes)

    def finish_unused(self) -> None:
        """Record that a call has ended which does not count as use."""
        self.page.set_orphaned(0)
        self.page.end(time.monotonic_ns(), used=False)

    def set_clock(self) -> None:
        """Record that the instance has a clock."""
        self.page.set_clock()

    def mark_waiting(self) -> None:
        """Record that a client waits, which counts as use."""
        self._last_used_ns = now_ns = time.monotonic_ns()
        self.page.mark_used(now_ns)

    def mark_alive(self) -> None:
        """Record that the host responds; this does not count as use."""
        self.page.mark_alive(time.monotonic_ns())

    def set_streams(self, streams: int, watchers: int) -> None:
        """Record how many streams are open."""
        self.streams, self.watchers = streams, watchers
        self.page.set_streams(streams, watchers)

    def set_orphaned(self, orphaned: bool) -> None:
        """Record whether the kernels of all clients have ended their streams."""
        self.page.set_orphaned(time.monotonic_ns() if orphaned else 0)
