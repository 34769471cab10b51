"""Handlers: execute a request on the environment, and return the answer."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from types import MethodType
from typing import Any, ClassVar
from urllib.parse import quote

from gym_http_core.batches import BatchObserver
from gym_http_core.env_errors import env_exceptions
from gym_http_core.lossless_calls import LosslessCalls, step_values
from gym_http_core.operations import Operations
from gym_http_server.host import (
    codec,
    env_warnings,
    fork_guard,
    plain_requests,
)
from gym_http_server.host.activity import Activity
from gym_http_server.host.batching import Batching
from gym_http_server.host.branch_limits import BranchLimits
from gym_http_server.host.broadcast import Broadcast
from gym_http_server.host.failures import note, refusal_of
from gym_http_server.host.inspection import HandlerTable, Inspection
from gym_http_server.host.keys import describe_keys
from gym_http_server.host.monitor_files import FileRequest
from gym_http_server.host.recording import Recording
from gym_http_server.host.step_recorder import StepRecorder
from gym_http_server.operations.instances import (
    CALL,
    EPISODES,
    MONITOR_START,
    RESET,
    SAMPLE,
    SET_ATTRIBUTE,
    SET_GENERATOR,
    STEP,
)
from gym_http_wire.frames import Frame
from gym_http_wire.messages import AnswerHead, Form, Op, answer, request_head
from gym_http_wire.problems import (
    EnvError,
    NotAcceptable,
    NotRealTime,
    Problem,
)
from gym_http_wire.values.writing import Writing

__all__ = ["CHANGING", "REAL_TIME", "Handlers"]

Json = dict[str, Any]
#: Operations on the clock of an environment.
REAL_TIME = (
    Op.ACT,
    Op.UPDATES,
    Op.REALTIME,
    Op.SET_REALTIME,
    Op.PAUSE,
    Op.RESUME,
    Op.TRACE,
)
#: Requests that may change an environment beside resets and steps, and their members.
CHANGING = {
    Op.SET_GENERATOR: SET_GENERATOR,
    Op.SET_ATTRIBUTE: SET_ATTRIBUTE,
    Op.CALL_ATTRIBUTE: CALL,
    Op.ACTION_SAMPLE: SAMPLE,
    Op.OBSERVATION_SAMPLE: SAMPLE,
}
# Without the lookup in an enumeration: each step needs it.
_STEP = int(Op.STEP)
_PUBLISHED = frozenset({Op.RESET, Op.STEP, Op.RENDER, Op.ROLLOUT})


class Handlers:
    """Executes requests; each call executes one.

    Args:
        operations: The environment.
        exact: Its lossless calls.
        inspection: Describes it.
        broadcast: Sends copies of its results to watchers.
        activity: Records the calls within a request.
        open_file: Opens the file of a monitor, and returns its descriptor.
        max_answer: Bytes that an answer's body may have.
        tracebacks: Whether clients may see tracebacks of the environment.
        branches: What branches may take; ``None``: there are none.

    Attributes:
        recording: Records the instance, as clients want.
        video_patience_s: Seconds to wait for ffmpeg before frames are dropped.
    """

    video_patience_s = 2.0

    def __init__(
        self,
        operations: Operations,
        exact: LosslessCalls,
        inspection: Inspection,
        broadcast: Broadcast,
        activity: Activity,
        *,
        open_file: Callable[[FileRequest], int],
        max_answer: int,
        tracebacks: bool = True,
        branches: BranchLimits | None = None,
    ) -> None:
        self.recording = Recording(
            operations,
            inspection.recorded,
            activity.page,
            open_file,
            video_patience_s=self.video_patience_s,
        )
        self._inspection = inspection
        self._operations = operations
        self._exact = exact
        self._broadcast = broadcast
        self._max_answer = max_answer
        self._tracebacks = tracebacks
        # Whether the outcome of the present request was published.
        self._published = False
        self._writing = Writing()
        self._batching = Batching(
            operations,
            _Observer(self, broadcast, activity),
            max_answer,
            self.recording.problem,
            branches,
            self.recording.in_use,
            self.recording.change,
            self.recording.count_draw,
        )
        exact.on_generator = functools.partial(
            self.recording.change, Op.SET_GENERATOR, None
        )

    def close(self) -> None:
        """Close the monitor and the environment.

        Raises:
            EnvError: The environment raised an exception.
        """
        try:
            self.recording.close()
        except Problem as problem:
            note(problem)
        self._operations.close()

    def perform(self, frame: Frame, streamed: bool) -> Frame:
        """Execute a request and answer it; a problem is an answer, too.

        Args:
            frame: The request.
            streamed: Whether the body of the answer may be `Pieces`.
        """
        handler = self._HANDLERS.get(frame.kind)
        if handler is None:
            return self._answer(frame, self._inspection.answer, streamed)
        return self._answer(frame, MethodType(handler, self), streamed)

    def answer_step(self, frame: Frame, action: Any, outcome: Any) -> Frame:
        """Answer a step over a stream that was executed already.

        Args:
            frame: The request.
            action: Its action.
            outcome: The value of the answer, or the exception instead.
        """
        handler = functools.partial(self._publish_outcome, action, outcome)
        return self._answer(frame, handler, True)._replace(number=frame.number)

    def record_reset(self, seed: int | None, options: Any, value: Json) -> None:
        """Record a reset, and pass it on to the watchers."""
        self.recording.reset(seed, options, value)
        request = {"options": options, "seed": seed}
        self._broadcast.publish(Op.RESET, value, request)

    def record_step(self, action: Any, value: Json) -> None:
        """Record a step, and pass it on to the watchers."""
        self.recording.step(action, value)
        self._broadcast.publish(_STEP, value, {"action": action})

    def _answer(
        self, frame: Frame, handler: Callable[[Frame], Any], streamed: bool
    ) -> Frame:
        self._published = False
        try:
            value = handler(frame)
            if not isinstance(value, Frame):
                writing = self._writing if streamed else None
                value = codec.value_frame(frame, value, writing)
            if env_warnings.pending:
                value = env_warnings.attach(value, frame.kind, streamed=streamed)
            return codec.fitting(value, self._max_answer)
        except env_exceptions() as error:
            fork_guard.check()
            reply = refusal_of(error, tracebacks=self._tracebacks)
            if self.recording.recorder is not None and isinstance(error, EnvError):
                self._record_failure(self.recording.recorder, frame, error)
            if frame.kind in _PUBLISHED and not self._published:
                self._broadcast.publish_problem(frame.kind, reply)
            if env_warnings.pending:
                reply = env_warnings.attach(reply, frame.kind, streamed=streamed)
            return reply

    def _roll_out(self, frame: Frame) -> Frame:
        try:
            return self._batching.rollout(frame)
        finally:
            self.recording.end_draws()

    def _change(self, frame: Frame) -> Any:
        """Execute a request that may change the environment, and record it."""
        value = self._inspection.answer(frame)
        if self.recording.recorder is not None:
            name, given = _given(frame)
            self.recording.change(Op(frame.kind), name, given)
        return value

    def _record_failure(
        self, recorder: StepRecorder, frame: Frame, error: EnvError
    ) -> None:
        name, given = None, self._operations.failed_call
        self._operations.failed_call = {}
        if frame.kind in CHANGING:
            name, given = _given(frame)
        recorder.fail(Op(frame.kind).name.lower(), error.message, name, given)

    def _publish_outcome(self, action: Any, outcome: Any, frame: Frame) -> Any:
        if isinstance(outcome, BaseException):
            raise outcome
        self.record_step(action, outcome)
        self._published = True
        return outcome

    def _reset(self, frame: Frame) -> Json:
        given = codec.optional_object(frame)
        env_warnings.add_unknown(RESET, given, "the reset")
        if not codec.wants_lossless(frame):
            self._operations.check_plain()
        if not codec.lossless(frame):
            given = plain_requests.read_reset(given, self._operations)
        # Vectors take the mask out of it.
        options = copy.copy(given.get("options"))
        value = self._exact.reset(given)
        fork_guard.check()
        self.record_reset(self._operations.reset_seed, options, value)
        self._published = True
        return value | self.recording.problem() | self._generator(frame, given)

    def _step(self, frame: Frame) -> Json | Frame:
        given = codec.read(frame)
        # Nearly all steps have an action alone, which needs no more looks.
        if type(given) is dict and (len(given) > 1 or "action" not in given):
            env_warnings.add_unknown(STEP, given, "the step")
            if given.get("actions") is not None:
                return self._batching.steps(frame, given)
        if codec.lossless(frame):
            value = self._exact.step(given)
        else:
            plain = codec.member(frame, given, "action")
            # `action_of` checks it, so `LosslessCalls.step` need not do so again.
            given = {"action": self._operations.action_of(plain)}
            value = self._exact.take(given["action"])
        fork_guard.check()
        self.record_step(given["action"], value)
        self._published = True
        if self.recording.monitor is not None:
            value = value | self.recording.problem()
        if len(given) > 1:
            value = value | self._generator(frame, given)
        if not codec.wants_lossless(frame):
            value = dict(value)
            self._operations.make_plain(value)
        return value

    def _generator(self, frame: Frame, given: Json) -> Json:
        """Return the generator as a member, for a client that keeps a copy of it."""
        if not given.get("wants_generator") or not codec.wants_lossless(frame):
            return {}
        try:
            return {"generator": self._exact.generator()}
        except Problem:
            # The reset or step counts; the client gets the problem when it requests
            # the generator alone.
            return {}

    def _render(self, frame: Frame) -> Frame:
        if codec.wants_lossless(frame):
            value = self._exact.render()
            self._publish_render(value)
            return codec.value_frame(frame, value)
        media = codec.choose_media(request_head(frame).accept)
        self._operations.check_render_mode()
        mode = self._operations.env.render_mode
        if media == codec.PNG and mode is not None and mode.endswith("_list"):
            # Rendering would throw the frames away.
            raise NotAcceptable(
                f"render_mode is {mode!r}, which returns several frames; "
                f"request {codec.RAW} or {codec.JSON} with Accept"
            )
        rendered = self._operations.render()
        self._publish_render({"rendered": rendered})
        head, body = codec.encode_rendered(rendered, media)
        form = Form.OTHER if head.content_type else Form.PLAIN
        return answer(200, body, head, form=form)

    def _publish_render(self, value: Json) -> None:
        fork_guard.check()
        self._broadcast.publish(Op.RENDER, value)
        self._published = True

    def _monitor_start(self, frame: Frame) -> Frame:
        given = codec.read_members(frame, MONITOR_START, "the start of a monitor")
        headers = {"Gym-Monitor-Directory": quote(self.recording.start(given))}
        return answer(204, head=AnswerHead(headers=headers), form=Form.NONE)

    def _monitor(self, frame: Frame) -> Json:
        return self.recording.report()

    def _episodes(self, frame: Frame) -> Json:
        given = codec.read_members(frame, EPISODES, "the request")
        log = self._operations.episode_log
        return {
            "current": log.current(),
            "episodes": log.since(
                given.get("from", EPISODES["from"].default),
                given.get("last", EPISODES["last"].default),
            ),
            "total": log.total,
        }

    def _keys(self, frame: Frame) -> Json:
        return describe_keys(self._operations.env)

    def _monitor_close(self, frame: Frame) -> Frame:
        self.recording.close()
        return answer(204, form=Form.NONE)

    def _refuse_clock(self, frame: Frame) -> Json:
        raise NotRealTime(
            "the instance has no clock; create one that has, as with "
            '{"env_id": "Pendulum-v1", "realtime": {"mode": "free_running", "hz": 20}}'
        )

    # By operation: each returns the answer's value, or the whole answer. The inspection
    # has those of all others.
    _HANDLERS: ClassVar[HandlerTable] = {
        Op.RESET: _reset,
        Op.STEP: _step,
        Op.RENDER: _render,
        Op.ROLLOUT: _roll_out,
        Op.EPISODES: _episodes,
        Op.KEYS: _keys,
        Op.MONITOR: _monitor,
        Op.MONITOR_START: _monitor_start,
        Op.MONITOR_CLOSE: _monitor_close,
        **dict.fromkeys(REAL_TIME, _refuse_clock),
        **dict.fromkeys(CHANGING, _change),
    }


def _given(frame: Frame) -> tuple[str | None, Json]:
    """Return the attribute and the members of a request of `CHANGING`."""
    given = codec.read_members(frame, CHANGING[Op(frame.kind)], "the request")
    return request_head(frame).value, given


class _Observer(BatchObserver):
    """Passes the steps of a batch on to the monitor and the watchers."""

    def __init__(
        self, handlers: Handlers, broadcast: Broadcast, activity: Activity
    ) -> None:
        self._handlers = handlers
        self._broadcast = broadcast
        self._activity = activity

    def begin(self) -> None:
        """Record that a call begins, so that the host does not count as stuck."""
        self._activity.begin_next()

    def reset(
        self, seed: int | None, options: Any, observation: Any, info: Any
    ) -> None:
        """Pass a reset on."""
        value = {"info": info, "observation": observation}
        self._handlers.record_reset(seed, options, value)

    def step(self, action: Any, row: tuple[Any, Any, Any, Any, Any]) -> None:
        """Pass a step on."""
        self._activity.time_step()
        self._handlers.record_step(action, step_values(*row))
        self._broadcast.attend()
