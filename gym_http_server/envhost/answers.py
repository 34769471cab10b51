"""From the frame of a request to the frame of its answer, around one environment.

A body is decoded here once and its answer encoded here once; web workers pass the
bytes on as they are. What has a key is executed once, and then replayed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gym_http_server.envhost import pictures, thin
from gym_http_server.envhost.audience import Audience
from gym_http_server.envhost.batching import Batching, asks_for_several
from gym_http_server.envhost.bodies import (
    fitting,
    flag,
    lossless,
    member,
    optional_object,
    read,
    required,
    value_frame,
    wants_lossless,
)
from gym_http_server.envhost.external.outside import Outside
from gym_http_server.envhost.failures import note, problem_frame, unforeseen
from gym_http_server.envhost.inspection import Inspection
from gym_http_server.envhost.monitor import Monitor
from gym_http_wire.batches import Watch
from gym_http_wire.exact import Exact
from gym_http_wire.frames import Frame
from gym_http_wire.messages import (
    Form,
    Op,
    answer,
    request_head,
)
from gym_http_wire.operations import Operations
from gym_http_wire.problems import (
    BadParameter,
    ExternalAway,
    MonitorActive,
    NotAcceptable,
    Problem,
)
from gym_http_wire.replays import Replays, as_replay, fingerprint
from gym_http_wire.sessions import Sessions
from gym_http_wire.streams import ACKNOWLEDGED, ASKING
from gym_http_wire.values.writing import Writing

__all__ = ["Answers"]

Json = dict[str, Any]
_WATCHED = frozenset({Op.RESET, Op.STEP, Op.RENDER, Op.ROLLOUT})


class Answers:
    """Answers the requests for one instance.

    Args:
        operations: The environment.
        exact: Its exact calls.
        inspection: Answers what is asked about it.
        data_dir: Directory below which monitors write.
        max_answer: Bytes that an answer's body may have.
        outside: Where the environment is, if it lives elsewhere.

    Attributes:
        audience: Is told what the environment gives.
        operations: The environment.
        outside: Where the environment is, if it lives elsewhere.
        held: Whether the last call was answered with 503, and may come again.
        monitor: Records episodes, if it was asked to.
        progress: Called whenever a call of the environment begins within a request.
    """

    def __init__(
        self,
        operations: Operations,
        exact: Exact,
        inspection: Inspection,
        *,
        data_dir: str,
        max_answer: int,
        outside: Outside | None = None,
    ) -> None:
        self.operations = operations
        self.outside = outside
        self.held = False
        self.progress: Callable[[], None] = lambda: None
        self._exact = exact
        self._inspection = inspection
        self._data_dir = data_dir
        self._max_answer = max_answer
        self.monitor: Monitor | None = None
        self._replays = Replays()
        self.sessions = Sessions(self._replays)
        self.audience = Audience(operations, self.sessions, max_answer)
        # Whether what the present request brought has been told to the audience.
        self._heard = False
        self._writing = Writing()
        self._batching = Batching(operations, _Watch(self), max_answer)
        self._values: dict[int, Callable[[Frame], Any]] = {
            Op.RESET: self._reset,
            Op.STEP: self._step,
            **inspection.handlers,
        }
        self._frames: dict[int, Callable[[Frame], Frame]] = {
            Op.RENDER: self._render,
            Op.ROLLOUT: self._batching.rollout,
            Op.MONITOR_START: self._monitor_start,
            Op.MONITOR_CLOSE: self._monitor_close,
        }

    def answer(self, frame: Frame, session: str = "", *, behind: bool = False) -> Frame:
        """Answer a request, once if it has a key; problems are answers too.

        Args:
            frame: The request.
            session: Its session, if it came over a stream; the body of the answer may
                be `Pieces` then.
            behind: Whether who asks cannot know what became of all earlier ones.
        """
        number = frame.number
        sessions = self.sessions
        if session:
            sessions.settle(session, number if frame.status == ACKNOWLEDGED else 0)
            if frame.kind in ASKING:
                return _numbered(self._perform(frame, True), number)
            return self._answer_in_session(frame, session, number, True, behind)
        sessions.settle()
        key = request_head(frame).key
        if not key:
            return _numbered(self._perform_for("", frame, False), number)
        place = sessions.place(key)
        if place is not None:
            return self._answer_in_session(frame, *place, False, False)
        return self._answer_with_key(frame, key)

    def _answer_in_session(
        self, frame: Frame, session: str, number: int, streamed: bool, behind: bool
    ) -> Frame:
        try:
            reply = self.sessions.earlier(session, number, frame, going_on=not behind)
            if reply is None:
                reply = self._perform_for(f"{session}-{number}", frame, streamed)
                if self.held:
                    self.sessions.retract(session, number)
                else:
                    self.sessions.keep(session, number, frame, reply)
            else:
                reply = as_replay(reply)
        except Problem as problem:
            reply = problem_frame(problem)
        return _numbered(reply, frame.number)

    def _answer_with_key(self, frame: Frame, key: str) -> Frame:
        print_ = fingerprint(frame, request_head(frame))
        try:
            if key in self._replays:
                reply = as_replay(self._replays.recall(key, print_))
            else:
                reply = self._perform_for(key, frame, False)
                # What is refused, the environment has not seen; but a conflict with
                # its state must not turn into a step when it comes again later.
                final = not 400 <= reply.status < 500 or reply.status == 409
                if final and not self.held:
                    self._replays.keep(key, print_, reply)
        except Problem as problem:
            reply = problem_frame(problem)
        return _numbered(reply, frame.number)

    def used(self, now_ns: int) -> None:
        """Note that a call has ended which counts as use."""
        self._inspection.last_used = now_ns / 1e9

    def set_streams(self, count: int) -> None:
        """Note how many streams are open, for who asks about the instance."""
        self._inspection.streams = count
        self._inspection.watchers = len(self.audience.watchers)

    def close(self) -> None:
        """Close monitor and environment."""
        if self.monitor is not None:
            self.monitor.close()
            self.monitor = None
        self.operations.close()

    def given(self, frame: Frame, outcome: Any) -> Frame:
        """Answer a step over a stream with what came of it, or what it raised."""
        try:
            if isinstance(outcome, Exception):
                raise outcome
            self.audience.hear(Op.STEP, outcome)
            reply = fitting(
                value_frame(frame, outcome, self._writing), self._max_answer
            )
        except Exception as error:
            reply = _refusal(error)
            if isinstance(outcome, Exception):
                self.audience.hear_refusal(Op.STEP, reply)
        return _numbered(reply, frame.number)

    def _perform_for(self, key: str, frame: Frame, streamed: bool) -> Frame:
        """Carry out a request that has a key; `held` says whether it never began."""
        outside = self.outside
        if outside is None:
            return self._perform(frame, streamed)
        outside.key = key
        reply = self._perform(frame, streamed)
        outside.key = ""
        self.held = reply.status == ExternalAway.default_status
        return reply

    def _perform(self, frame: Frame, streamed: bool) -> Frame:
        self._heard = False
        try:
            handler = self._values.get(frame.kind)
            if handler is not None:
                given = handler(frame)
                if isinstance(given, Frame):
                    reply = given
                else:
                    reply = value_frame(
                        frame, given, self._writing if streamed else None
                    )
            else:
                reply = self._frames[frame.kind](frame)
            return fitting(reply, self._max_answer)
        except Exception as error:
            reply = _refusal(error)
            if frame.kind in _WATCHED and not self._heard:
                self.audience.hear_refusal(frame.kind, reply)
            return reply

    def _hear(self, op: int, value: Json) -> None:
        self._heard = True
        self.audience.hear(op, value)

    def _reset(self, frame: Frame) -> Json:
        given = optional_object(frame)
        if not lossless(frame):
            given = thin.read_reset(given, self.operations)
        answer = self._exact.reset(given)
        if self.monitor is not None:
            self.monitor.reset(given.get("seed"))
        self._hear(Op.RESET, answer)
        return answer

    def _step(self, frame: Frame) -> Json | Frame:
        given = read(frame)
        if asks_for_several(given):
            return self._batching.steps(frame, given)
        if not lossless(frame):
            action = member(frame, given, "action")
            given = {"action": self.operations.action_of(action)}
        answer = self._exact.step(given)
        if self.monitor is not None:
            self.monitor.step(
                answer["reward"], bool(answer["terminated"]), bool(answer["truncated"])
            )
        self._hear(Op.STEP, answer)
        if not wants_lossless(frame):
            answer = dict(answer)
            thin.suit(answer, self.operations)
        return answer

    def _render(self, frame: Frame) -> Frame:
        if wants_lossless(frame):
            given = self._exact.render()
            self._hear(Op.RENDER, given)
            return value_frame(frame, given)
        media = pictures.choose(request_head(frame).accept)
        self.operations.check_render_mode()
        mode = self.operations.env.render_mode
        if media == pictures.PNG and mode is not None and mode.endswith("_list"):
            # Rendering would throw the frames away.
            raise NotAcceptable(
                f"render_mode is {mode!r}, which gives several frames; "
                f"ask for {pictures.RAW} or {pictures.JSON} with Accept"
            )
        rendered = self.operations.render()
        self._hear(Op.RENDER, {"rendered": rendered})
        head, body = pictures.encode(rendered, media)
        form = Form.OTHER if head.content_type else Form.PLAIN
        return answer(200, body, head, form=form)

    def _monitor_start(self, frame: Frame) -> Frame:
        thin.check_monitored(self.operations)
        directory, given = required(frame, "directory")
        if not isinstance(directory, str):
            raise BadParameter(f"directory is {directory!r:.80}: expected a string")
        force, resume = flag(given, "force"), flag(given, "resume")
        if self.monitor is not None:
            raise MonitorActive(
                "the instance is being monitored; close the monitor first"
            )
        self.monitor = Monitor(self._data_dir, directory, force=force, resume=resume)
        return answer(204, form=Form.NONE)

    def _monitor_close(self, frame: Frame) -> Frame:
        if self.monitor is not None:
            self.monitor.close()
            self.monitor = None
        return answer(204, form=Form.NONE)


class _Watch(Watch):
    """Passes on what happens within a batch."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    def begin(self) -> None:
        """Tell that the host is not stuck."""
        self._answers.progress()

    def reset(self, seed: int | None, observation: Any, info: Any) -> None:
        """Tell monitor and audience of an episode."""
        monitor = self._answers.monitor
        if monitor is not None:
            monitor.reset(seed)
        given = {"info": info, "observation": observation}
        self._answers.audience.hear(Op.RESET, given)

    def step(self, row: tuple[Any, Any, Any, Any, Any]) -> None:
        """Tell monitor and audience of a step."""
        observation, reward, terminated, truncated, info = row
        monitor = self._answers.monitor
        if monitor is not None:
            monitor.step(reward, bool(terminated), bool(truncated))
        given = {
            "info": info,
            "observation": observation,
            "reward": reward,
            "terminated": terminated,
            "truncated": truncated,
        }
        self._answers.audience.hear(Op.STEP, given)


def _numbered(reply: Frame, number: int) -> Frame:
    return reply if reply.number == number else reply._replace(number=number)


def _refusal(error: Exception) -> Frame:
    if not isinstance(error, Problem):
        note(error)
        return problem_frame(unforeseen(error))
    if error.__cause__ is not None:
        # For whoever wrote the environment, to be found in the log.
        note(error.__cause__)
    return problem_frame(error)
