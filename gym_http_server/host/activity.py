"""Records when an instance is busy and how much it is used.

The supervisor reads these records from the status page, for deadlines and idle
timeouts. Clients get some of them in the instance's description.
"""

from __future__ import annotations

import math
import time

from gym_http_core.episode_log import Ending
from gym_http_core.operations import Operations
from gym_http_core.returns import plain_return
from gym_http_server.host import fork_guard
from gym_http_server.rundir.status import StatusPage

__all__ = ["Activity"]


class Activity:
    """Records the calls and the streams of one instance.

    Args:
        page: The host's status page.
        operations: Counts the steps and episodes of the environment.

    Attributes:
        page: The host's status page. Each call begins with `StatusPage.begin`, and a
            fast step ends with `StatusPage.finish_step`.
        streams: Number of open streams that send requests.
        watchers: Number of open streams that watch.
    """

    def __init__(self, page: StatusPage, operations: Operations) -> None:
        self.streams = 0
        self.watchers = 0
        self.page = page
        self._operations = operations
        # Steps of the present request that `time_step` has counted.
        self._timed = 0
        self._step_end_ns = 0
        self._num_envs = getattr(operations.env, "num_envs", 0)
        page.set_num_envs(self._num_envs)
        operations.episode_log.on_end = self._note_episodes
        self._created_ns = time.monotonic_ns()

    @property
    def age_s(self) -> float:
        """Seconds since the instance was created."""
        return (time.monotonic_ns() - self._created_ns) / 1e9

    @property
    def steps(self) -> int:
        """Steps that the environment has taken."""
        return self._operations.steps

    @property
    def idle_s(self) -> float:
        """Seconds since the last call that counts as use ended."""
        last_ns = max(self._created_ns, self.page.last_used_ns)
        return (time.monotonic_ns() - last_ns) / 1e9

    def begin_next(self) -> None:
        """Record that another call begins within the same request.

        A request for many steps may take long, if each step takes less than the limit.
        """
        fork_guard.check()
        self.page.begin(time.monotonic_ns())

    def finish(self) -> None:
        """Record that a call which counts as use has ended."""
        steps, episodes = self._operations.steps, self._operations.episodes
        self.page.finish(time.monotonic_ns(), steps, episodes)

    def finish_steps(self, steps: int) -> None:
        """Record that a call has ended which took any number of steps.

        Args:
            steps: The environment's steps before the call.
        """
        page, operations = self.page, self._operations
        taken = (operations.steps - steps) // (self._num_envs or 1) - self._timed
        self._timed = 0
        now_ns = time.monotonic_ns()
        if taken == 1:
            page.finish_step(now_ns, operations.steps, operations.episodes)
            return
        if taken > 0:
            page.add_steps(page.busy_ns(now_ns), taken)
        page.finish(now_ns, operations.steps, operations.episodes)

    def time_step(self) -> None:
        """Record that a step of a batch has ended."""
        self._timed += 1
        now_ns = time.monotonic_ns()
        # Not each step of a batch begins with `begin_next`.
        took_ns = min(self.page.busy_ns(now_ns), now_ns - self._step_end_ns)
        self._step_end_ns = now_ns
        self.page.add_steps(took_ns, 1)

    def _note_episodes(self, endings: list[Ending]) -> None:
        last = endings[-1]
        returned = last.returned
        if type(returned) is not float:
            endings = [
                each._replace(returned=plain_return(each.returned)) for each in endings
            ]
            returned = plain_return(returned)
            if not isinstance(returned, float):
                # Unknown; or a list, for which the page has no place.
                returned = math.nan
        self.page.ring.add(endings)
        self.page.set_last_episode(returned, last.length)

    def finish_unused(self) -> None:
        """Record that a call has ended which does not count as use."""
        self.page.set_orphaned(0)
        self.page.end(time.monotonic_ns(), used=False)

    def set_clock(self, hz: float) -> None:
        """Record that the instance has a clock with so many ticks per second."""
        self.page.set_clock(hz)

    def mark_waiting(self) -> None:
        """Record that a client waits, which counts as use."""
        self.page.mark_used(time.monotonic_ns())

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
