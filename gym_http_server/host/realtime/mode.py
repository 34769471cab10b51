"""What both modes of a clock share: states, actions, updates, statistics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gym_http_server.host.realtime import trace
from gym_http_server.host.realtime.act_request import ActReceiver
from gym_http_server.host.realtime.actions import Action, Actions
from gym_http_server.host.realtime.callers import Caller, Callers
from gym_http_server.host.realtime.clock_state import ClockState
from gym_http_server.host.realtime.history import ActionHistory
from gym_http_server.host.realtime.limits import ActionLimiter
from gym_http_server.host.realtime.rewards import Rewards
from gym_http_server.host.realtime.settings import ClockSettings
from gym_http_server.host.realtime.statistics import Histogram, Statistics
from gym_http_server.host.realtime.updates import Merged, Update, UpdateBuffer
from gym_http_server.host.realtime.world import World
from gym_http_wire.problems import (
    BadParameter,
    ExternalAway,
    ExternalDeadline,
)

__all__ = ["MISSED", "Event", "Found", "Mode", "Result"]

Json = dict[str, Any]

MISSED = (ExternalAway, ExternalDeadline)
"""The world did not answer, and may answer at the next tick."""

_ARRAY = np.ndarray
_CAPTURES = 1024
# So many events are recorded before they are counted: those of 16 ticks.
_RECORDED = 48


class Event:
    """A reset or step of the world, for monitors and watchers.

    Attributes:
        kind: ``reset`` or ``step``.
        update: What the world showed.
    """

    __slots__ = ("_now", "_origin", "_rules", "_value", "kind", "update")

    def __init__(
        self, kind: str, update: Update, now: int, origin: int, rules: Rewards
    ) -> None:
        self.kind = kind
        self.update = update
        self._now = now
        self._origin = origin
        self._rules = rules
        self._value: Json | None = None

    @property
    def reward(self) -> Any:
        """The reward of this one tick, as a number."""
        update = self.update
        if type(update.rewards) is float:
            return update.rewards
        return self._rules.reduce(update.rewards, update.known)

    @property
    def value(self) -> Json:
        """Its answer, with the rewards of this one tick.

        It is made when it is first read: most ticks have no monitor and no watcher.
        """
        value = self._value
        if value is None:
            value = Merged(self.update).value(self._now, self._origin, self._rules)
            if self.kind == "reset":
                value = {key: value[key] for key in ("info", "observation", "realtime")}
            self._value = value
        return value


class Found(NamedTuple):
    """Updates for one reader.

    Attributes:
        updates: The updates, oldest first.
        lost: How many before them are no longer kept.
    """

    updates: list[Merged]
    lost: int


class Result(NamedTuple):
    """What a reset or step returns; a reset uses observation, info and realtime."""

    observation: Any
    reward: Any
    terminated: Any
    truncated: Any
    info: Json
    rewards: list[float | None] | None
    realtime: Json


class Mode:
    """A clock and the world that it drives: a state machine without I/O.

    Args:
        settings: The settings.
        world: The world.
        clock: Returns the time in ns, which never goes back.
        begin: Called with the time before each call of the world.

    Attributes:
        due_ns: When `advance` has to be called next; ``None``: never.
        busy: Whether a call of the world runs. A world in a greenlet may yield in it:
            then only `act`, `updates`, `statistics`, `trace`, `pause`, `resume` and
            `change` may be called.
        closing: Why the instance is to be closed; ``None``: it is not.
        period_ns: The period, rounded down.
        world_ns: Time spent in calls of the world.
        answers_ns: Time spent on answers, which the caller adds up.
        source: A descriptor that is readable when `wake` is to be called; ``None``:
            only time wakes this clock.
        left_out: Ticks that were left out, for the caller to take away: the lateness
            of the last one in ns, and how many there were, each a period later than
            the one after it.
    """

    def __init__(
        self,
        settings: ClockSettings,
        world: World,
        clock: Callable[[], int],
        begin: Callable[[int], None] = lambda now: None,
    ) -> None:
        self.settings = settings
        self.due_ns: int | None = None
        self.busy = False
        self.closing: str | None = None
        self.period_ns = settings.period[0] // settings.period[1]
        self.world_ns = 0
        self.answers_ns = 0
        self.source: int | None = None
        self.left_out: list[tuple[int, int]] = []
        self._world = world
        self._clock = clock
        self._begin_call = begin
        self._origin = 0
        self._state = ClockState(settings.episodes)
        self._tick_number = 0
        self._last_contact = 0
        # Whether the agent was lost, and has not returned.
        self._silent = False
        self._agent_lost: Json | None = None
        self._events: list[Event] = []
        self._actions = Actions(settings)
        self._receiver = ActReceiver(self._actions)
        limits = settings.limits
        self._limiter = (
            None if limits is None else ActionLimiter(limits, self.period_ns)
        )
        # The last action that the world got.
        self._in_force: Action | None = None
        self._history = ActionHistory(settings.history, settings.default_action)
        self._rules = Rewards(settings.rewards)
        self._updates = UpdateBuffer(settings.buffer)
        self._callers = Callers(settings.buffer)
        # When the last updates were captured, by number.
        self._captures = [0] * _CAPTURES
        self._trace = trace.Trace()
        self._statistics = Statistics()
        # Events that the trace and the statistics do not have yet, as of `Trace.add`.
        self._recorded: list[tuple[int, int, int, int, int]] = []
        # Since the last update, and since the last tick.
        self._skipped_since = self._missing = 0

    @property
    def state(self) -> str:
        """``ready``, ``running``, ``paused``, ``done``, ``failed`` or ``ended``."""
        return self._state.name

    @property
    def now_ns(self) -> int:
        """The time since the clock began; 0 before."""
        return self._clock() - self._origin if self._state.episode else 0

    @property
    def stall_ns(self) -> int:
        """The longest time without a tick so far."""
        self._count_recorded()
        return self._statistics.stall_ns

    # What the modes differ in.

    def advance(self) -> list[Event]:
        """Do what is due; return the resets and steps of the world."""
        raise NotImplementedError

    def wake(self) -> None:
        """Make the next tick due, since the source is readable."""
        raise NotImplementedError

    def may_reset(self, caller: str) -> bool:
        """Whether a reset can be executed, or refused, now."""
        raise NotImplementedError

    def may_step(self, caller: str) -> bool:
        """Whether a step can be executed, or refused, now."""
        raise NotImplementedError

    def reset(self, seed: int | None, options: Json | None, caller: str) -> Result:
        """Begin an episode. The first reset begins the clock."""
        raise NotImplementedError

    def step(self, action: Any, caller: str) -> Result:
        """Take a step with an action."""
        raise NotImplementedError

    def change(self, settings: ClockSettings) -> None:
        """Use other settings from the next time step on."""
        self._count_recorded()
        self.settings = settings
        self.period_ns = settings.period[0] // settings.period[1]
        self._actions.set_default(settings.default_action)
        if self._limiter is not None:
            self._limiter.period_ns = self.period_ns
        self._record(trace.CHANGE, self._tick_number, self._clock())
        self._set_due()

    def _set_due(self) -> None:
        """Set `due_ns` anew."""
        raise NotImplementedError

    def _stall_ns(self, now: int) -> int | None:
        """Return the longest time without a tick; ``None`` if the agent makes ticks."""
        return None

    def _upcoming(self) -> int:
        return self._tick_number + 1

    def _paused_now(self) -> None:
        """Stop the clock."""
        self._call_wait()

    def _resumed(self, now: int) -> None:
        """Begin a new grid."""
        raise NotImplementedError

    # What both do.

    def take_events(self) -> list[Event]:
        """Return the resets and steps since the last call."""
        events, self._events = self._events, []
        return events

    def arrive(self, caller: str) -> None:
        """Record that a reset or step arrived, which may have to wait."""
        now = self._clock()
        self._note_contact(now)
        self._callers[caller].arrived = now

    def count_rejected(self, count: int = 1) -> None:
        """Count actions that were refused before they came here."""
        self._actions.reject(count)

    def act(
        self,
        request: Any,
        caller: str,
        read_action: Callable[[Any], Any] | None = None,
        blends: bool = False,
    ) -> Json:
        """Receive actions.

        Args:
            request: The request's members.
            caller: Its session.
            read_action: Converts an action to an element of the action space, or
                raises `InvalidAction`.
            blends: Whether actions can be blended, which holds for a Box.

        Raises:
            BadParameter: A member is wrong.
            InvalidAction: An action is no element of the action space.
            Paused: The clock is paused.
            WorldEnded: There are no more episodes.
        """
        now, upcoming = self._clock(), self._upcoming()
        given = self._receiver.parse(request, caller, upcoming, blends)
        repeated = self._receiver.is_repeated(given)
        if not repeated:
            self._state.check_unpaused()
            self._receiver.receive(given, upcoming, now, read_action)
            if given.answers is not None:
                self._count_reaction(given.answers, now)
        self._note_contact(now)
        self._record(trace.ACT, upcoming, now, 0, len(given.actions))
        answer: Json = {
            "tick": max(upcoming, given.at or 0),
            "now_ns": self.now_ns,
            "queued": self._actions.waiting,
        }
        if given.sequence is not None:
            answer["sequence"] = given.sequence
        if repeated:
            answer["repeated"] = True
        return answer

    def updates(
        self, after: int | None, deliver: str = "latest", most: int | None = None
    ) -> Json | None:
        """Return the updates after one; ``None`` if there are none yet.

        Args:
            after: Number of the last update that the reader has; ``None``: all but
                the newest.
            deliver: ``latest`` or ``all``.
            most: The most updates to return; ``None``: as many as are kept.

        Raises:
            BadParameter: A parameter is wrong.
            WorldEnded: There are no more episodes, and no more updates.
        """
        found = self.find_updates(after, deliver, most)
        return None if found is None else self.show_updates(found)

    def find_updates(
        self, after: int | None, deliver: str, most: int | None
    ) -> Found | None:
        """Give updates out, as `updates` does, for `show_updates`."""
        newest = self._updates.newest
        if most is None:
            most = self.settings.buffer
        if after is None:
            after = max(0, newest - 1)
        elif after > newest + self.settings.buffer:
            raise BadParameter(
                f"after is {after}: expected the number of an update, or of one "
                f"of the next {self.settings.buffer}; the newest is {newest}"
            )
        if after >= newest:
            self._state.check_open()
            return None
        found, lost = self._updates.since(after, deliver, most, self._rules)
        now = self._clock()
        for each in found:
            self._statistics.age.add(now - each.update.capture_ns)
        return Found(found, lost)

    def show_updates(self, found: Found) -> Json:
        """Return the answer with updates that were found."""
        now = self._clock()
        values = [each.value(now, self._origin, self._rules) for each in found.updates]
        return self.updates_answer(values, found.lost)

    def updates_answer(self, values: list[Json], lost: int = 0) -> Json:
        """Return an answer with updates, or without one when the wait is over."""
        return {
            "updates": values,
            "lost": lost,
            "state": self.state,
            "now_ns": self.now_ns,
        }

    def pause(self) -> Json:
        """Pause the clock, until it is resumed or reset."""
        self._state.check_begun()
        if not self._state.paused:
            self._pause()
        return {"state": self.state, "now_ns": self.now_ns}

    def resume(self) -> Json:
        """Resume a paused clock, without debt."""
        self._state.check_open()
        if self._state.paused:
            now = self._clock()
            self._state.resume()
            self._note_contact(now)
            self._record(trace.RESUME, self._tick_number, now)
            self._resumed(now)
            self._set_due()
        return {"state": self.state, "now_ns": self.now_ns}

    def statistics(self) -> Json:
        """Return settings, state, counts and distributions."""
        now = self._clock()
        elapsed = now - self._origin if self._state.episode else 0
        self._count_recorded()
        missing = Histogram()
        if self._missing:
            missing.add_series(self.period_ns, self.period_ns, self._missing)
        return {
            "state": self.state,
            "settings": self.settings.shown(),
            "now_ns": elapsed,
            "episode": self._state.episode,
            "follows": self.source is not None,
            "stall_ns": self._stall_ns(now),
            **self._statistics.shown(elapsed, self.world_ns, self.answers_ns, missing),
            "actions": self._actions.counts(),
            "limited": 0 if self._limiter is None else self._limiter.count,
            "updates": self._updates.counts(),
        }

    def trace(self, last: int = 4096, form: str = "json") -> Json:
        """Return the last events, as ``json`` or for ``chrome``."""
        self._count_recorded()
        if form == "chrome":
            return self._trace.chrome(last, self._origin)
        return {"events": self._trace.events(last, self._origin)}

    def end(self) -> None:
        """Give the world its default action, the last one."""
        if self._state.phase == "ready" or self.busy:
            return
        self.due_ns = None
        action = self._actions.default.value
        last = getattr(self._world, "end", self._world.send)
        last(action)

    # Calls of the world. One in a greenlet yields to a loop that reads `due_ns`.

    def _reset_world(
        self, seed: int | None, options: Json | None, start: int
    ) -> Update:
        self.busy, self.due_ns = True, None
        try:
            self._begin_call(start)
            observation, info = self._world.reset(seed, options)
        finally:
            self.busy = False
        now = self._clock()
        if not self._state.episode:
            self._origin = now
        self.world_ns += now - start
        self._record(trace.RESET, self._tick_number, start, now - start)
        self._state.episode += 1
        update = Update(_copied(observation), _copied(info))
        update.action = self._in_force
        update.capture_ns = now
        return update

    def _send(self, action: Action, start: int) -> int:
        """Hand an action over; return the time after that."""
        self.busy, self.due_ns = True, None
        self._in_force = action
        try:
            self._begin_call(start)
            self._world.send(action.value)
        finally:
            self.busy = False
        now = self._clock()
        self.world_ns += now - start
        self._recorded.append(
            (trace.SEND, self._tick_number, start, now - start, action.number)
        )
        return now

    def _capture(self, start: int, late: int) -> Update:
        """Capture an observation now, so late."""
        self.busy, self.due_ns = True, None
        try:
            self._begin_call(start)
            capture = self._world.capture()
            observation, rewards, terminated, truncated, info = capture
        finally:
            self.busy = False
        update = Update(_copied(observation), _copied(info) if info else {})
        update.rewards = self._rules.read(rewards)
        if self._rules.holds:
            update.known = tuple(self._rules.known)
        update.terminated, update.truncated = terminated, truncated
        update.capture_ns = start
        update.late_ns = late
        update.action = self._in_force
        if self._limiter is not None:
            self._limiter.confirm()
        if self._missing:
            self._count_late(late)
        took = self._clock() - start
        self.world_ns += took
        self._recorded.append((trace.CAPTURE, self._tick_number, start, took, late))
        return update

    def _record(
        self, event: int, tick: int, start: int, duration: int = 0, number: int = 0
    ) -> None:
        """Record an event, for trace and statistics."""
        self._recorded.append((event, tick, start, duration, number))
        if len(self._recorded) >= _RECORDED:
            self._count_recorded()

    def _count_recorded(self) -> None:
        """Add the recorded events to the trace and the statistics.

        Many at a time take a fraction of the time of as many alone: after each sleep,
        all code and memory has to come into the processor's caches again.
        """
        recorded, self._recorded = self._recorded, []
        period_ns, statistics = self.period_ns, self._statistics
        for event, tick, start, duration, number in recorded:
            self._trace.add(event, tick, start, duration, number)
            if event == trace.SEND:
                statistics.add_send(start, duration)
            elif event == trace.CAPTURE:
                statistics.add_capture(start, duration, number, period_ns)
            elif event == trace.PAUSE:
                statistics.begin_anew()

    def _publish(self, update: Update) -> None:
        """Number an update, keep it, and pass it to monitors and watchers."""
        if self._agent_lost is not None:
            update.agent_lost, self._agent_lost = self._agent_lost, None
        update.skipped, self._skipped_since = self._skipped_since, 0
        update.tick = self._tick_number
        update.episode = self._state.episode
        update.queued = self._actions.waiting
        if self.settings.history.in_observation and update.history is None:
            update.history = self._history.actions()
        if update.terminated or update.truncated:
            world_ended = bool(getattr(self._world, "ended", False))
            update.last = self._state.end_episode(world_ended=world_ended)
        self._updates.add(update)
        self._captures[update.number % _CAPTURES] = update.capture_ns
        kind = "reset" if update.rewards is None else "step"
        event = Event(kind, update, self._clock(), self._origin, self._rules)
        self._events.append(event)
        if len(self._recorded) >= _RECORDED:
            self._count_recorded()

    def _first_action(self) -> Action:
        """Put the action in force with which an episode begins; return it."""
        default = self._actions.default.value
        first = default
        if self.settings.reset_action == "last":
            first = self._history.newest(default)
        self._history.reset(default, first)
        action = Action(first, 0, 0, None)
        self._force(action)
        return action

    def _force(self, action: Action) -> None:
        """Put an action of no agent in force, which is not limited."""
        self._actions.force(action)
        self._in_force = action
        if self._limiter is not None:
            self._limiter.begin(action.value, self._clock())

    # States.

    def _begin_reset(self) -> int:
        """Check that an episode may begin; return the time."""
        self._state.check_reset()
        now = self._clock()
        self._note_contact(now)
        return now

    def _pause(self, why: str = "") -> None:
        self._state.pause(why)
        self._record(trace.PAUSE, self._tick_number, self._clock())
        self._paused_now()
        self._set_due()

    def _call_wait(self) -> None:
        wait = getattr(self._world, "wait", None)
        if wait is not None:
            wait()

    def _count_missed(self, count: int) -> None:
        """Count ticks that did not happen, for the next update and in all."""
        self._statistics.skipped += count
        self._skipped_since += count
        self._missing += count

    def _count_late(self, late: int) -> None:
        """Count how late the ticks are that were left out before one that is so late.

        Without them, a world that stands still for a minute would seem to be late once.
        """
        missing, self._missing = self._missing, 0
        period_ns = self.period_ns
        self._statistics.left_out.add_series(late + period_ns, period_ns, missing)
        self.left_out.append((late + period_ns, missing))

    def _fail(self, error: BaseException | None = None, call: str = "") -> None:
        """Stop the clock; the next call raises the error, if the present one cannot."""
        self._state.fail(error, call)
        self.due_ns = None
        self._record(trace.FAILURE, self._tick_number, self._clock())

    def _lose_agent(self, now: int) -> None:
        """React to an agent that was silent for too long."""
        then = self.settings.on_agent_lost
        self._statistics.losses += 1
        self._silent = True
        self._actions.lost = then != "hold"
        self._agent_lost = {"silent_ns": now - self._last_contact, "then": then}
        self._record(trace.LOST, self._tick_number, now)
        if then != "hold":
            self._actions.clear()
        if then == "pause":
            self._pause(", since the agent was silent too long")
        elif then == "close":
            silent_s = (now - self._last_contact) / 1e9
            self.closing = f"the agent was silent for {silent_s:.3g} seconds"

    def _note_contact(self, now: int) -> None:
        """Record that an agent lives."""
        self._last_contact = now
        if self._silent:
            self._silent = self._actions.lost = False
            self._set_due()

    # Callers.

    def _note_arrival(self, caller: Caller, now: int) -> int:
        """Count the times up to a step's execution; return when it arrived."""
        arrived = now if caller.arrived is None else caller.arrived
        caller.arrived = None
        if caller.answered is not None:
            self._statistics.durations.inference.add(arrived - caller.answered)
        if caller.capture_ns is not None:
            self._statistics.reaction.add(arrived - caller.capture_ns)
        self._statistics.durations.join.add(now - arrived)
        return arrived

    def _answer(
        self, caller: Caller, merged: Merged, observation: Any, arrived: int | None
    ) -> Result:
        """Return the result of a reset or step, and count its times."""
        now = self._clock()
        update = merged.update
        # rtgym's inference is what lies between two steps.
        caller.answered = None if arrived is None else now
        caller.capture_ns = update.capture_ns
        caller.episode = update.episode
        self._statistics.age.add(now - update.capture_ns)
        if arrived is not None:
            self._statistics.durations.step.add(now - arrived)
            number = 0 if update.action is None else update.action.number
            self._record(trace.STEP, update.tick, arrived, now - arrived, number)
        rewards = merged.rewards
        reward = 0.0
        if rewards is not None:
            reward = self._rules.reduce(rewards, update.known)
        realtime = merged.realtime(now, self._origin)
        if merged.agent_lost is not None:
            realtime["agent_lost"] = merged.agent_lost
        if update.last:
            realtime["last"] = True
        return Result(
            observation,
            reward,
            update.terminated,
            update.truncated,
            # Wrappers add members, and the update is kept.
            dict(update.info),
            rewards if isinstance(rewards, list) else None,
            realtime,
        )

    def _count_reaction(self, number: int, now: int) -> None:
        newest = self._updates.newest
        if 0 < number <= newest and newest - number < _CAPTURES:
            self._statistics.reaction.add(now - self._captures[number % _CAPTURES])


def _copied(value: Any) -> Any:
    """Copy the arrays of a value: updates are kept, and worlds reuse arrays."""
    if type(value) is _ARRAY:
        return value.copy()
    if type(value) is dict:
        return {key: _copied(each) for key, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(_copied, value))
    return value
