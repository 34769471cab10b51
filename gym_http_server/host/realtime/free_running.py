"""The free-running mode: ticks on a grid, with or without an agent, as Myrtle's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gym_http_core.env_errors import env_exceptions
from gym_http_server.host.realtime import trace
from gym_http_server.host.realtime.callers import Caller
from gym_http_server.host.realtime.mode import (
    MISSED,
    Event,
    Mode,
    Result,
)
from gym_http_server.host.realtime.pacers import GridPacer
from gym_http_server.host.realtime.settings import ClockSettings
from gym_http_server.host.realtime.updates import Merged, Update
from gym_http_server.host.realtime.world import World
from gym_http_wire.problems import ResetNeeded

__all__ = ["FreeRunning"]


class FreeRunning(Mode):
    """At each tick: choose an action of those that arrived, advance, capture."""

    def __init__(
        self,
        settings: ClockSettings,
        world: World,
        clock: Callable[[], int],
        begin: Callable[[int], None] = lambda now: None,
    ) -> None:
        super().__init__(settings, world, clock, begin)
        self._pacer = GridPacer(settings.period, settings.on_overrun, settings.most)
        # The ticks since the last update, as one.
        self._gathered: Merged | None = None
        self._gathered_ticks = 0
        self._newest = Update(None, {})

    def advance(self) -> list[Event]:
        """Execute the tick that is due, if one is."""
        now = self._clock()
        if self.due_ns is not None and now >= self.due_ns:
            if self.settings.agent_timeout_ns is not None and self._is_silent(now):
                self._lose_agent(now)
            if not self._state.paused:
                try:
                    self._tick(now)
                except MISSED:
                    pass
                except env_exceptions() as error:
                    self._fail(error, "step")
            self._set_due()
        events, self._events = self._events, []
        return events

    def may_reset(self, caller: str) -> bool:
        """Whether no call of the world runs."""
        return not self.busy

    def may_step(self, caller: str) -> bool:
        """Whether a tick is due that makes an update, or a step is answered without."""
        if self.busy:
            return False
        if not self._state.runs or self._callers[caller].ends:
            return True
        whole = self._gathered_ticks + 1 >= self.settings.ticks_per_update
        return whole and self._is_due()

    def reset(
        self, seed: int | None, options: dict[str, Any] | None, caller: str
    ) -> Result:
        """Begin an episode.

        A world that resets itself may be in its next episode already: then a reset
        without seed and options returns its newest update.
        """
        agent = self._callers[caller]
        agent.arrived = None
        joined = None
        if seed is None and not options and self.settings.on_done == "reset":
            joined = self._joined(agent)
        if joined is not None:
            self._note_contact(self._clock())
            merged = Merged(joined)
            return self._answer(agent, merged, merged.observation(), None)
        start = self._begin_reset()
        self._actions.clear()
        stopped = not self._state.runs
        try:
            self._begin_episode(seed, options, start)
        except BaseException:
            self._fail()
            raise
        if stopped:
            self._anchor(self._newest.capture_ns)
        self._state.run()
        self._set_due()
        agent.ends.clear()
        agent.pending = None
        merged = Merged(self._newest)
        return self._answer(agent, merged, merged.observation(), None)

    def step(self, action: Any, caller: str) -> Result:
        """Act in the tick that is due, and return its update.

        Its rewards are those of all ticks since the caller's last answer. If an episode
        ended since then, return that end, and let the action expire.
        """
        agent = self._callers[caller]
        if agent.ends:
            self._state.check_failure()
            self._actions.expire()
            arrived = self._note_arrival(agent, self._clock())
            end = agent.ends.popleft()
            return self._answer(agent, end, end.observation(), arrived)
        self._state.check_running()
        if not self._is_due():
            raise RuntimeError("a step was executed before its tick was due")
        now = self._clock()
        self._note_contact(now)
        arrived = self._note_arrival(agent, now)
        self._actions.offer(action)
        try:
            self._tick(now)
        except MISSED:
            raise
        except BaseException:
            self._fail()
            raise
        finally:
            self._set_due()
        merged = self._take_pending(agent)
        return self._answer(agent, merged, merged.observation(), arrived)

    def change(self, settings: ClockSettings) -> None:
        """Use other settings from the next tick on."""
        self._pacer.change(settings.period, self._clock())
        super().change(settings)

    def _tick(self, now: int) -> None:
        """Execute a tick."""
        pacer = self._pacer
        planned = pacer.due
        skipped, shifted = pacer.take(now)
        if skipped:
            self._count_missed(skipped)
        if shifted:
            self._statistics.reanchored += 1
            # Of the grid that ends here. Its ticks come later, so none is skipped.
            self._missing += (now - planned) // self.period_ns
        self._tick_number = tick = pacer.index
        action = self._actions.choose(tick, now)
        if self._limiter is not None:
            action = self._limiter.limit(action, now)
        self._history.add(action.value)
        late = now - pacer.time
        try:
            start = self._send(action, now)
            update = self._capture(start, late)
        except MISSED:
            self._count_missed(1)
            raise
        update.timed_out = shifted
        self._recorded.append((trace.TICK, tick, now, self._clock() - now, late))
        if self.settings.ticks_per_update == 1 or self._gather(update):
            self._show(update)
        if self._state.phase == "done" and self.settings.on_done == "reset":
            self._begin_next()

    def _begin_next(self) -> None:
        """Begin the next episode in the tick that ended one."""
        try:
            self._begin_episode(None, None, self._clock())
        except env_exceptions() as error:
            # The caller of this tick gets the end; the next call raises this.
            self._fail(error, "reset")
        else:
            self._state.phase = "running"

    def _gather(self, update: Update) -> bool:
        """Return whether an update has enough ticks, or ends an episode."""
        self._gathered_ticks += 1
        if self._gathered is not None:
            self._gathered.add(update, self._rules)
            update.rewards = self._gathered.rewards
            update.timed_out = self._gathered.timed_out
        enough = self._gathered_ticks >= self.settings.ticks_per_update
        if enough or update.over:
            self._gathered, self._gathered_ticks = None, 0
            return True
        self._gathered = Merged(update)
        return False

    def _show(self, update: Update) -> None:
        """Publish an update, and keep it for each agent that steps."""
        self._newest = update
        self._publish(update)
        over = update.terminated or update.truncated
        for caller in self._callers.known.values():
            if caller.pending is None:
                caller.pending = Merged(update)
            else:
                caller.pending.add(update, self._rules)
            if over:
                if len(caller.ends) == caller.ends.maxlen:
                    self._updates.lost += caller.ends.popleft().merged + 1
                caller.ends.append(caller.pending)
                caller.pending = None

    def _take_pending(self, agent: Caller) -> Merged:
        """Return what a caller has not had, up to the end of an episode."""
        if agent.ends:
            return agent.ends.popleft()
        merged, agent.pending = agent.pending, None
        if merged is None:
            raise ResetNeeded("the tick made no update")
        return merged

    def _begin_episode(
        self, seed: int | None, options: dict[str, Any] | None, start: int
    ) -> None:
        """Reset the world, within a tick or for a caller."""
        update = self._reset_world(seed, options, start)
        # Until an agent acts, this action holds.
        self._first_action()
        self._gathered, self._gathered_ticks = None, 0
        self._newest = update
        self._publish(update)

    def _joined(self, agent: Caller) -> Update | None:
        """Return an update of the next episode, if the world is in it already."""
        while agent.ends and agent.ends[0].update.episode <= agent.episode:
            agent.ends.popleft()
        if agent.ends:
            return agent.ends[0].update
        if self._state.runs and 0 < agent.episode < self._state.episode:
            return self._newest
        return None

    def _is_due(self) -> bool:
        return self.due_ns is not None and self._clock() >= self.due_ns

    def _is_silent(self, now: int) -> bool:
        timeout = self.settings.agent_timeout_ns
        if timeout is None or self._silent:
            return False
        return now - self._last_contact >= timeout

    def _set_due(self) -> None:
        state = self._state
        runs = state.phase == "running" and not state.paused and not self.busy
        self.due_ns = self._pacer.due if runs else None

    def _upcoming(self) -> int:
        return self._pacer.index + 1

    def _resumed(self, now: int) -> None:
        self._anchor(now)
        self._statistics.reanchored += 1

    def _anchor(self, now: int) -> None:
        """Begin a new grid, after the clock stood still."""
        self._pacer.anchor(now)
        if self._missing:
            self._count_late(0)
        self._count_recorded()
        self._statistics.begin_anew(now)

    def _stall_ns(self, now: int) -> int | None:
        statistics = self._statistics
        return statistics.stall_until(now) if self._state.runs else statistics.stall_ns
