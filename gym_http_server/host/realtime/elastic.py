"""The elastic mode: time steps that wait for the agent a little, as rtgym's do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gym_http_core.env_errors import env_exceptions
from gym_http_server.host.realtime import trace
from gym_http_server.host.realtime.actions import Action
from gym_http_server.host.realtime.callers import Caller
from gym_http_server.host.realtime.history import with_history
from gym_http_server.host.realtime.mode import (
    MISSED,
    Event,
    Mode,
    Result,
)
from gym_http_server.host.realtime.pacers import ElasticPacer
from gym_http_server.host.realtime.settings import ClockSettings
from gym_http_server.host.realtime.updates import Merged
from gym_http_server.host.realtime.world import World
from gym_http_wire.problems import Problem

__all__ = ["Elastic"]


class Elastic(Mode):
    """A step waits for the time step's end, returns its capture, and begins the next.

    So an observation and its reward belong to the action before the one that was given
    with the step. The capture happens in its time, whether or not anybody asks.
    """

    def __init__(
        self,
        settings: ClockSettings,
        world: World,
        clock: Callable[[], int],
        begin: Callable[[int], None] = lambda now: None,
    ) -> None:
        super().__init__(settings, world, clock, begin)
        self._pacer = ElasticPacer(
            settings.period, settings.capture_ns, settings.elastic_ns
        )
        # Whether a time step runs whose capture is to come.
        self._in_flight = False
        # Captured, and not yet returned by a step.
        self._pending: Merged | None = None
        self._missed: Problem | None = None
        # Whether the time step began a new grid because it was late.
        self._timed_out = False

    def advance(self) -> list[Event]:
        """Capture if it is time, and notice an agent that has fallen silent."""
        if self.due_ns is not None:
            now = self._clock()
            if self._in_flight:
                if now >= self._pacer.capture:
                    self._capture_now(now)
            elif self._is_silent(now):
                self._lose_agent(now)
                if self.settings.on_agent_lost == "default":
                    self._send_default()
            self._set_due()
        return self.take_events()

    def may_reset(self, caller: str) -> bool:
        """Whether no time step runs."""
        if self.busy or self._in_flight:
            return False
        return self._state.phase == "failed" or self._clock() >= self._pacer.end

    def may_step(self, caller: str) -> bool:
        """Whether the time step has ended, or a step is refused."""
        if self.busy:
            return False
        if self._state.paused or self._missed is not None:
            return True
        if self._in_flight:
            return False
        return self._pending is None or self._clock() >= self._pacer.end

    def reset(
        self, seed: int | None, options: dict[str, Any] | None, caller: str
    ) -> Result:
        """Begin an episode, and its first time step with the action of a reset."""
        start = self._begin_reset()
        agent = self._callers[caller]
        agent.arrived = None
        self._actions.clear()
        fresh = self._state.phase in ("ready", "failed") or self._state.paused
        self._in_flight, self._pending, self._missed = False, None, None
        try:
            update = self._reset_world(seed, options, start)
        except BaseException:
            self._fail()
            raise
        if fresh:
            self._pacer.anchor(update.capture_ns)
        self._state.run()
        action = self._first_action()
        self._publish(update)
        merged = Merged(update)
        merged.timed_out = self._begin(action)
        self._set_due()
        return self._answer(agent, merged, merged.observation(), None)

    def step(self, action: Any, caller: str) -> Result:
        """Return what was captured, and begin a time step with the action."""
        agent = self._callers[caller]
        merged = self._pending
        if merged is None or self._state.paused or not merged.update.over:
            self._state.check_running()
        now = self._clock()
        if self._missed is not None or merged is None:
            self._raise_missed(agent)
            raise RuntimeError("a step was executed before the end of its time step")
        self._pending = None
        arrived = self._note_arrival(agent, now)
        self._note_contact(now)
        if merged.update.over:
            self._actions.expire()
            self._history.add(action)
        else:
            self._actions.offer(action)
            chosen = self._actions.choose(self._tick_number + 1, now)
            if self._limiter is not None:
                chosen = self._limiter.limit(chosen, now)
            self._history.add(chosen.value)
            merged.timed_out = self._begin(chosen)
        self._set_due()
        observation = merged.update.observation
        if self.settings.history.in_observation:
            observation = with_history(observation, self._history.actions())
        return self._answer(agent, merged, observation, arrived)

    def change(self, settings: ClockSettings) -> None:
        """Use other settings from the next time step on."""
        self._pacer.change(
            settings.period, settings.capture_ns, settings.elastic_ns, self._clock()
        )
        super().change(settings)

    def _raise_missed(self, agent: Caller) -> None:
        """Refuse a step whose capture failed, since the world did not answer."""
        missed, self._missed = self._missed, None
        if missed is not None:
            agent.arrived = None
            self._actions.expire()
            raise missed

    def _begin(self, action: Action) -> bool:
        """Begin a time step; return whether it timed out."""
        self._tick_number += 1
        start = self._clock()
        try:
            now = self._send(action, start)
        except BaseException:
            self._fail()
            raise
        late = self._pacer.begin(now)
        if late:
            self._statistics.timeouts += 1
            self._statistics.reanchored += 1
            self._record(trace.TIME_OUT, self._tick_number, now)
        self._in_flight, self._timed_out = True, late
        return late

    def _send_default(self) -> None:
        """Let a silent agent's world run for one more time step, in a safe state."""
        if self._pending is not None and self._pending.update.over:
            return
        # Not limited, since no further time step would reach it.
        default = self._actions.default
        self._force(default)
        self._history.add(default.value)
        try:
            self._begin(default)
        except env_exceptions() as error:
            self._fail(error, "step")

    def _capture_now(self, now: int) -> None:
        try:
            update = self._capture(now, now - self._pacer.capture)
        except MISSED as problem:
            # The world did not answer: the time step takes a period more.
            self._missed = problem
            self._count_missed(1)
            self._pacer.extend()
            return
        except env_exceptions() as error:
            self._in_flight, self._pending = False, None
            self._fail(error, "step")
            return
        self._in_flight, self._missed = False, None
        update.timed_out = self._timed_out
        self._publish(update)
        if self._pending is None:
            self._pending = Merged(update)
        else:
            self._pending.add(update, self._rules)
        if self._state.paused:
            self._call_wait()

    def _is_silent(self, now: int) -> bool:
        deadline = self._deadline()
        return deadline is not None and now >= deadline

    def _deadline(self) -> int | None:
        """Return when a silent agent is lost; ``None`` if never."""
        timeout = self.settings.agent_timeout_ns
        if timeout is None or self._state.phase != "running" or self._silent:
            return None
        if self._state.paused or self._in_flight:
            return None
        return max(self._last_contact, self._pacer.end) + timeout

    def _set_due(self) -> None:
        waits = self.busy or self._state.phase == "failed"
        self.due_ns = None if waits else self._next_due()

    def _next_due(self) -> int | None:
        if self._in_flight:
            return self._pacer.capture
        if self._state.phase != "ready" and self._clock() < self._pacer.end:
            return self._pacer.end
        return self._deadline()

    def _paused_now(self) -> None:
        if not self._in_flight:
            self._call_wait()

    def _resumed(self, now: int) -> None:
        if not self._in_flight and self._pacer.end < now:
            self._pacer.anchor(now)
            self._statistics.reanchored += 1
