"""The free-running mode of a world that keeps its own time, as those of Myrtle."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Protocol

from gym_http_server.host.realtime import trace
from gym_http_server.host.realtime.callers import Caller
from gym_http_server.host.realtime.free_running import FreeRunning
from gym_http_server.host.realtime.pacers import FollowingPacer
from gym_http_server.host.realtime.settings import ClockSettings
from gym_http_server.host.realtime.updates import Merged
from gym_http_server.host.realtime.world import World

__all__ = ["Following", "SpeakingWorld"]

Json = dict[str, Any]


class SpeakingWorld(World, Protocol):
    """A world that keeps its own time, and speaks when it has something to say.

    Attributes:
        singly: Whether `capture` takes one message at a time, instead of all.
    """

    singly: bool

    @property
    def n_rewards(self) -> int:
        """The number of reward channels."""

    @property
    def has_more(self) -> bool:
        """Whether a message that has arrived waits for `capture`."""

    def fileno(self) -> int:
        """Return a descriptor that is readable when a world that is heard speaks."""

    def listen(self, hears: bool) -> None:
        """Let the descriptor be readable from now on, or not."""

    def speaks(self) -> bool:
        """Receive what has arrived; return whether there is a message."""


class Following(FreeRunning):
    """Each message of the world is a tick, which makes an update.

    An action is sent to the world when it arrives, as over Myrtle's queues: a world
    that it reaches before its next time step takes it there. Chunks and actions that
    hold are sent after each message. Without a message for two periods there is a tick
    without an update, in which steps are answered.
    """

    _pacer: FollowingPacer
    _world: SpeakingWorld

    def __init__(
        self,
        settings: ClockSettings,
        world: SpeakingWorld,
        clock: Callable[[], int],
        begin: Callable[[int], None] = lambda now: None,
    ) -> None:
        super().__init__(settings, world, clock, begin)
        self._pacer = FollowingPacer(settings.period)
        self.source = world.fileno()
        world.singly = True

    def wake(self) -> None:
        """Make the next tick due: the world has said something."""
        if self._state.runs:
            self.due_ns = self._clock()

    def act(
        self,
        request: Any,
        caller: str,
        read_action: Callable[[Any], Any] | None = None,
        blends: bool = False,
    ) -> Json:
        """Receive actions, and send the world the one that may act at once."""
        answer = super().act(request, caller, read_action, blends)
        if self._actions.waiting and self._state.runs:
            self._pass_on(self._clock(), idle=False)
            answer["queued"] = self._actions.waiting
        return answer

    def _tick(self, now: int) -> None:
        said = self._world.speaks()
        if said:
            self._hear(now)
        else:
            self._pacer.wait_on(now)
            self._tick_number = self._pacer.index
        if self._state.runs and (said or self._actions.waiting):
            self._pass_on(now, idle=said)

    def _hear(self, now: int) -> None:
        """Make an update of a message."""
        late = self._pacer.follow(now)
        self._tick_number = tick = self._pacer.index
        if self._in_force is not None:
            self._history.add(self._in_force.value)
        update = self._capture(now, late)
        self._recorded.append((trace.TICK, tick, now, self._clock() - now, late))
        if self.settings.ticks_per_update == 1 or self._gather(update):
            self._show(update)
        if self._state.phase == "done" and self.settings.on_done == "reset":
            self._begin_next()

    def _pass_on(self, now: int, *, idle: bool) -> None:
        """Send the world the action of its next time step.

        Args:
            now: The time.
            idle: Whether it is sent the one without an agent's, too.
        """
        action = self._actions.choose(self._upcoming(), now)
        if not action.number and not idle:
            return
        if self._limiter is not None:
            action = self._limiter.limit(action, now)
        if action.value is self.settings.zero_action:
            # The world has zeros without an action, and may not have read the last one.
            self._in_force = action
        else:
            self._send(action, now)

    def _begin_episode(
        self, seed: int | None, options: Json | None, start: int
    ) -> None:
        super()._begin_episode(seed, options, start)
        self._pacer.anchor(self._newest.capture_ns)

    def _take_pending(self, agent: Caller) -> Merged:
        if agent.ends or agent.pending is not None:
            return super()._take_pending(agent)
        # The world said nothing since the last answer.
        unchanged = copy.copy(self._newest)
        unchanged.info = {"messages": 0}
        unchanged.rewards = [None] * self._world.n_rewards
        return Merged(unchanged)

    def _set_due(self) -> None:
        super()._set_due()
        self._world.listen(self.due_ns is not None)
        if self.due_ns is not None and self._world.has_more:
            self.due_ns = min(self.due_ns, self._clock())
