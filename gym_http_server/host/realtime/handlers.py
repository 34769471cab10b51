"""Handlers of an environment that has a clock: updates, actions, settings."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import gymnasium
import numpy as np

from gym_http_core.env_errors import env_exceptions
from gym_http_server.errors import CannotBranch
from gym_http_server.host import codec, env_warnings
from gym_http_server.host.batching import OF_BRANCHES
from gym_http_server.host.broadcast import Broadcast
from gym_http_server.host.failures import note
from gym_http_server.host.handlers import Handlers
from gym_http_server.host.inspection import HandlerTable
from gym_http_server.host.realtime.mode import Event, Found
from gym_http_server.host.realtime.operations import ClockedOperations
from gym_http_server.host.realtime.settings_request import read_change
from gym_http_server.host.show.pacing import DrawingTimes
from gym_http_server.host.show.showing import Showing
from gym_http_server.host.show.updates import State
from gym_http_server.host.watcher import Watcher
from gym_http_server.operations.clocks import TRACE, UPDATES
from gym_http_server.operations.members import read_optional
from gym_http_wire.frames import Frame
from gym_http_wire.messages import Op
from gym_http_wire.problems import BadJSON, BadParameter

__all__ = ["ClockedBroadcast", "ClockedHandlers", "UpdatesRequest"]

Json = dict[str, Any]

#: Copies a second that a watcher gets unless it asks for more or fewer.
FRAMES_PER_SECOND = 30.0
_SECOND = 1_000_000_000
_INVALID = 400
_STEP, _RENDER = int(Op.STEP), int(Op.RENDER)


class UpdatesRequest(NamedTuple):
    """A request for updates.

    Attributes:
        after: Number of the last update that the client has; ``None``: all but the
            newest.
        deliver: ``latest`` or ``all``.
        most: The most updates in the answer, or ``None``.
        wait_ns: Nanoseconds to wait for one at most.
    """

    after: int | None
    deliver: str
    most: int | None
    wait_ns: int


class ClockedHandlers(Handlers):
    """Executes requests of an environment that has a clock."""

    _operations: ClockedOperations

    # A clock waits for nothing but its world.
    video_patience_s = 0.0

    def __init__(self, operations: ClockedOperations, *args: Any, **more: Any) -> None:
        super().__init__(operations, *args, **more)
        self._batching: Any = _NoBatching()
        # Seed and options of the request for the next reset of the world.
        self._reset_with: tuple[int | None, Any] = None, None

    def record_reset(self, seed: int | None, options: Any, value: Json) -> None:
        """Keep the request; the clock reports each reset of the world."""
        self._reset_with = seed, options

    def record_step(self, action: Any, value: Json) -> None:
        """Do nothing: the clock reports each step of the world."""

    def close(self) -> None:
        """Send the default action, the last one; close monitor and environment.

        Raises:
            EnvError: The environment raised an exception.
        """
        try:
            self._operations.mode.end()
        except env_exceptions() as error:
            note(error)
        super().close()

    def record_events(self, events: list[Event]) -> None:
        """Pass resets and steps of the world on to the monitor and the watchers."""
        for event in events:
            self._operations.record(event, self._reset_with[0])
            if event.kind == "reset":
                super().record_reset(*self._reset_with, event.value)
                self._reset_with = None, None
                continue
            used = event.update.action
            action = None if used is None else used.value
            if self.recording.monitor is not None:
                super().record_step(action, event.value)
            else:
                self._broadcast.publish(_STEP, event, {"action": action})

    def perform(self, frame: Frame, streamed: bool) -> Frame:
        """Execute a request and answer it; a problem is an answer, too."""
        reply = super().perform(frame, streamed)
        if frame.kind == Op.STEP and reply.status == _INVALID:
            self._operations.mode.count_rejected()
        return reply

    def read_updates(self, frame: Frame) -> UpdatesRequest:
        """Decode a request for updates.

        Raises:
            BadJSON: Its body is not an object.
            BadParameter: A member is unknown, or has an invalid value.
        """
        given = read_optional(UPDATES, _object(frame) if frame.body else {})
        return UpdatesRequest(
            given.get("after"),
            given.get("deliver", UPDATES["deliver"].default),
            given.get("max"),
            int(given.get("wait_s", UPDATES["wait_s"].default) * _SECOND),
        )

    def answer_updates(
        self,
        frame: Frame,
        wanted: UpdatesRequest,
        shared: dict[Any, Frame],
        *,
        last: bool,
    ) -> Frame | None:
        """Answer a request for updates; ``None`` if there are none yet.

        Args:
            frame: The request.
            wanted: The same, decoded.
            shared: Answers of this moment, for requests that want the same.
            last: Whether the wait is over, so that the answer may be without updates.
        """
        mode = self._operations.mode
        found: Found | None = None
        refused: Exception | None = None
        try:
            found = mode.find_updates(wanted.after, wanted.deliver, wanted.most)
        except Exception as error:
            refused = error
        if found is None and refused is None and not last:
            return None

        def handle(_: Frame) -> Any:
            if refused is not None:
                raise refused
            if found is None:
                return mode.updates_answer([])
            given = mode.show_updates(found)
            updates = [shaped(frame, each) for each in given["updates"]]
            return {**given, "updates": updates}

        # Warnings are for the first client only.
        if found is None or env_warnings.pending:
            reply = self._answer(frame, handle, False)
        else:
            same = frame.form, wanted.after, wanted.deliver, wanted.most
            if same not in shared:
                shared[same] = self._answer(frame, handle, False)
            reply = shared[same]
        return reply._replace(number=frame.number)

    def _reset(self, frame: Frame) -> Any:
        return shaped(frame, super()._reset(frame))

    def _step(self, frame: Frame) -> Any:
        return shaped(frame, super()._step(frame))

    def _act(self, frame: Frame) -> Json:
        operations = self._operations
        given = _object(frame)
        read_action: Callable[[Any], Any] = operations.cast_action
        if codec.lossless(frame):
            read_action = operations.check_element
            # There, a chunk may be one array.
            actions = given.get("actions")
            if isinstance(actions, np.ndarray) and actions.ndim:
                given = {**given, "actions": list(actions)}
        blends = isinstance(operations.env.action_space, gymnasium.spaces.Box)
        return operations.mode.act(given, operations.caller, read_action, blends)

    def _realtime(self, frame: Frame) -> Json:
        statistics = self._operations.mode.statistics()
        spin_us = self._operations.mode.settings.spin_us
        scheduler = {**self._operations.scheduler, "spin_us": spin_us}
        return {**statistics, "scheduler": scheduler}

    def _set_realtime(self, frame: Frame) -> Json:
        operations = self._operations
        mode, space = operations.mode, operations.env.action_space
        limits: Json = {"action_space": space, "max_hz": operations.max_hz}
        mode.change(read_change(codec.read(frame), mode.settings, **limits))
        return self._realtime(frame)

    def _trace(self, frame: Frame) -> Json:
        given = read_optional(TRACE, codec.optional_object(frame))
        return self._operations.mode.trace(
            given.get("last", TRACE["last"].default),
            given.get("format", TRACE["format"].default),
        )

    # A table has functions, so one that replaces another is named again.
    _HANDLERS: ClassVar[HandlerTable] = Handlers._HANDLERS | {
        Op.RESET: _reset,
        Op.STEP: _step,
        Op.ACT: _act,
        Op.REALTIME: _realtime,
        Op.SET_REALTIME: _set_realtime,
        Op.PAUSE: lambda self, frame: self._operations.mode.pause(),
        Op.RESUME: lambda self, frame: self._operations.mode.resume(),
        Op.ROLLOUT: lambda self, frame: _refuse_rollout(frame),
        Op.TRACE: _trace,
    }


class ClockedShowing(Showing):
    """Shows the newest state of an environment whose ticks must be in time."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._times = DrawingTimes()

    def add(self, watcher: Watcher, latest: tuple[int, Any, Any] | None) -> None:
        """Add a watcher, for which drawing is tried again if it was too slow."""
        super().add(watcher, latest)
        self._times.clear()

    def _fits(self, now_ns: int, until_ns: int | None) -> bool:
        return self._times.fits(now_ns, until_ns)

    def _players(self) -> frozenset[Watcher]:
        # Ticks are nobody's steps, and there may be a thousand in a second.
        return frozenset()

    def _note_time(self, took_ns: int) -> None:
        super()._note_time(took_ns)
        self._times.add(took_ns)

    def _shown_state(self) -> State:
        op, value, request = self._state
        if not isinstance(value, Event):
            return super()._shown_state()
        return State(op, value.value, request, True, self._error)


class ClockedBroadcast(Broadcast):
    """Sends copies to watchers, each at most so often in a second.

    A copy that comes too early waits; the next one replaces it.
    """

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._waiting: dict[Watcher, tuple[int, Any, Any]] = {}
        # When a watcher may get its next copy.
        self._next_ns: dict[Watcher, int] = {}

    @property
    def due_ns(self) -> int | None:
        """When a copy has waited long enough; ``None``: never."""
        return min(map(self._next_ns.__getitem__, self._waiting), default=None)

    def remove(self, watcher: Watcher) -> None:
        """Remove a watcher whose stream has ended."""
        super().remove(watcher)
        self._waiting.pop(watcher, None)
        self._next_ns.pop(watcher, None)

    def publish(self, op: int, value: Any, request: Json | None = None) -> None:
        """Send copies of a result of the environment, or keep it for later."""
        if op != _RENDER:
            self._latest = op, value, request
            self._steps = self._operations.steps
            if self.showing is not None:
                self.showing.note(op, value, request)
        if not self._copied:
            return
        for watcher in self._copied:
            if watcher in self._waiting:
                watcher.skip()
            self._waiting[watcher] = op, value, request
        self.send_waiting()

    def send_waiting(self) -> None:
        """Send the copies that have waited long enough."""
        now = time.monotonic_ns()
        copies: dict[tuple[int, bool, int], Frame] = {}
        for watcher, (op, value, request) in list(self._waiting.items()):
            if now < self._next_ns.get(watcher, 0):
                continue
            del self._waiting[watcher]
            # On a grid, so that many watchers share one encoding.
            interval = int(_SECOND / (watcher.fps or FRAMES_PER_SECOND))
            self._next_ns[watcher] = now - now % interval + interval
            form = watcher.form, watcher.asks
            same = *form, id(value)
            copy = copies.get(same)
            if copy is None:
                copy = copies[same] = self._copy(op, value, request, *form)
            self._show(watcher, copy)

    def _new_showing(self) -> Showing:
        return ClockedShowing(
            self._operations, self._watch_share, self._away, self._count_shown
        )

    def _copy(self, op: int, value: Any, request: Any, form: int, asks: bool) -> Frame:
        if isinstance(value, Event):
            value = value.value
        if isinstance(value, dict):
            value = shaped(Frame(op, form=form << 4), value)
        return super()._copy(op, value, request, form, asks)


def shaped(frame: Frame, value: Any) -> Any:
    """Return a reset, step or update with rewards as the form of the answer has them.

    Args:
        frame: The request.
        value: The value, with None where a channel said nothing.
    """
    rewards = value.get("rewards") if isinstance(value, dict) else None
    if rewards is None or not codec.wants_lossless(frame):
        return value
    given = [np.nan if each is None else each for each in rewards]
    return {**value, "rewards": np.array(given, np.float64)}


def _object(frame: Frame) -> Json:
    given = codec.read(frame)
    if not isinstance(given, dict):
        raise BadJSON("expected an object")
    return given


class _NoBatching:
    """Refuses requests for several steps."""

    def steps(self, frame: Frame, given: Any) -> Any:
        """Refuse actions in a step."""
        _refuse_batch(frame)

    def rollout(self, frame: Frame) -> Any:
        """Refuse a rollout."""
        _refuse_rollout(frame)


def _refuse_rollout(frame: Frame) -> Any:
    if not OF_BRANCHES.isdisjoint(codec.optional_object(frame)):
        raise CannotBranch(
            "the instance has a clock, which does not wait for branches: expected one "
            "without realtime"
        )
    _refuse_batch(frame)


def _refuse_batch(frame: Frame) -> Any:
    raise BadParameter(
        "an instance with a clock takes one step at a time: for several actions, one "
        'for each tick, send a chunk {"actions": […]} with POST …/action/'
    )
