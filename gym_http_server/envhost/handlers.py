"""Handlers: what each request does to the environment, and what is answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from gym_http_core.batches import BatchObserver
from gym_http_core.lossless_calls import LosslessCalls
from gym_http_core.operations import Operations
from gym_http_server.envhost import env_warnings, fork_guard, pictures, plain_requests
from gym_http_server.envhost.batching import Batching, asks_for_several
from gym_http_server.envhost.broadcast import Broadcast
from gym_http_server.envhost.codec import (
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
from gym_http_server.envhost.failures import note, refusal_of
from gym_http_server.envhost.inspection import Inspection
from gym_http_server.envhost.monitor import NO_MONITOR, FileRequest, Monitor
from gym_http_wire.frames import Frame
from gym_http_wire.messages import AnswerHead, Form, Op, answer, request_head
from gym_http_wire.problems import BadParameter, MonitorActive, NotAcceptable, Problem
from gym_http_wire.values.writing import Writing

__all__ = ["Handlers"]

Json = dict[str, Any]
_WATCHED = frozenset({Op.RESET, Op.STEP, Op.RENDER, Op.ROLLOUT})


class Handlers:
    """Carries out requests, each as often as it is told to.

    Args:
        operations: The environment.
        exact: Its exact calls.
        inspection: Dispatch what is asked about it.
        broadcast: Is told what the environment gives.
        open_file: Opens the file of a monitor, and returns its descriptor.
        max_answer: Bytes that an answer's body may have.
        tracebacks: Whether clients may see tracebacks of the environment.

    Attributes:
        broadcast: Is told what the environment gives.
        monitor: Records episodes, if it was asked to.
        progress: Called whenever a call of the environment begins within a request.
    """

    def __init__(
        self,
        operations: Operations,
        exact: LosslessCalls,
        inspection: Inspection,
        broadcast: Broadcast,
        *,
        open_file: Callable[[FileRequest], int],
        max_answer: int,
        tracebacks: bool = True,
    ) -> None:
        self._tracebacks = tracebacks
        self.operations = operations
        self.broadcast = broadcast
        self.monitor: Monitor | None = None
        self._last_monitor: Monitor | None = None
        self.progress: Callable[[], None] = lambda: None
        self._exact = exact
        self._open_file = open_file
        self._max_answer = max_answer
        # Whether what the present request brought has been told to the audience.
        self._heard = False
        self._writing = Writing()
        self._batching = Batching(
            operations, _Watch(self), max_answer, self._monitor_error
        )
        self._values: dict[int, Callable[[Frame], Any]] = {
            Op.RESET: self._reset,
            Op.STEP: self._step,
            Op.MONITOR: self._monitor,
            **inspection.handlers,
        }
        self._frames: dict[int, Callable[[Frame], Frame]] = {
            Op.RENDER: self._render,
            Op.ROLLOUT: self._batching.rollout,
            Op.MONITOR_START: self._monitor_start,
            Op.MONITOR_CLOSE: self._monitor_close,
        }

    def close(self) -> None:
        """Close monitor and environment."""
        try:
            self._end_monitor()
        except Problem as problem:
            note(problem)
        self.operations.close()

    def given(self, frame: Frame, outcome: Any) -> Frame:
        """Answer a step over a stream with what came of it, or what it raised."""
        try:
            if isinstance(outcome, Exception):
                raise outcome
            self.broadcast.hear(Op.STEP, outcome)
            reply = fitting(
                value_frame(frame, outcome, self._writing), self._max_answer
            )
        except Exception as error:
            reply = refusal_of(error, tracebacks=self._tracebacks)
            if isinstance(outcome, Exception):
                self.broadcast.hear_refusal(Op.STEP, reply)
        if env_warnings.pending:
            reply = env_warnings.attach(reply, Op.STEP, streamed=True)
        return reply._replace(number=frame.number)

    def perform(self, frame: Frame, streamed: bool) -> Frame:
        """Carry out a request and answer it; problems are answers too.

        Args:
            frame: The request.
            streamed: Whether the body of the answer may be `Pieces`.
        """
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
            if env_warnings.pending:
                reply = env_warnings.attach(reply, frame.kind, streamed=streamed)
            return fitting(reply, self._max_answer)
        except Exception as error:
            fork_guard.check()
            reply = refusal_of(error, tracebacks=self._tracebacks)
            if frame.kind in _WATCHED and not self._heard:
                self.broadcast.hear_refusal(frame.kind, reply)
            if env_warnings.pending:
                reply = env_warnings.attach(reply, frame.kind, streamed=streamed)
            return reply

    def _hear(self, op: int, value: Json) -> None:
        fork_guard.check()
        self._heard = True
        self.broadcast.hear(op, value)

    def _reset(self, frame: Frame) -> Json:
        given = optional_object(frame)
        if not lossless(frame):
            given = plain_requests.read_reset(given, self.operations)
        answer = self._exact.reset(given)
        if self.monitor is not None:
            self.monitor.reset(given.get("seed"))
        self._hear(Op.RESET, answer)
        return answer | self._monitor_error() | self._generator(frame, given)

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
        if self.monitor is not None:
            answer = answer | self._monitor_error()
        if len(given) > 1:
            answer = answer | self._generator(frame, given)
        if not wants_lossless(frame):
            answer = dict(answer)
            plain_requests.suit(answer, self.operations)
        return answer

    def _generator(self, frame: Frame, given: Json) -> Json:
        """Return the generator as a member, for a client that keeps it."""
        if not given.get("wants_generator") or not wants_lossless(frame):
            return {}
        try:
            return {"generator": self._exact.generator()}
        except Problem:
            # What was done counts; the client gets this when it asks for it alone.
            return {}

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
        plain_requests.check_monitored(self.operations)
        directory, given = required(frame, "directory")
        if not isinstance(directory, str):
            raise BadParameter(f"directory is {directory!r:.80}: expected a string")
        force, resume = flag(given, "force"), flag(given, "resume")
        if self.monitor is not None:
            raise MonitorActive(
                "the instance is being monitored; close the monitor first"
            )
        file = self._open_file(FileRequest(directory, force, resume))
        self.monitor = self._last_monitor = Monitor(file, directory)
        headers = {"Gym-Monitor-Directory": quote(self.monitor.directory)}
        return answer(204, head=AnswerHead(headers=headers), form=Form.NONE)

    def _monitor(self, frame: Frame) -> Json:
        if self._last_monitor is None:
            return NO_MONITOR
        return self._last_monitor.report() | {"active": self.monitor is not None}

    def _monitor_close(self, frame: Frame) -> Frame:
        self._end_monitor()
        return answer(204, form=Form.NONE)

    def _end_monitor(self) -> None:
        if self.monitor is not None:
            monitor, self.monitor = self.monitor, None
            monitor.close()

    def _monitor_error(self) -> Json:
        """Return the member of answers that reports episodes not written, or none."""
        if self.monitor is None or not self.monitor.error:
            return {}
        return {"monitor_error": self.monitor.error}


class _Watch(BatchObserver):
    """Passes on what happens within a batch."""

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers

    def begin(self) -> None:
        """Tell that the host is not stuck."""
        self._handlers.progress()

    def reset(self, seed: int | None, observation: Any, info: Any) -> None:
        """Tell monitor and audience of an episode."""
        monitor = self._handlers.monitor
        if monitor is not None:
            monitor.reset(seed)
        given = {"info": info, "observation": observation}
        self._handlers.broadcast.hear(Op.RESET, given)

    def step(self, row: tuple[Any, Any, Any, Any, Any]) -> None:
        """Tell monitor and audience of a step."""
        observation, reward, terminated, truncated, info = row
        monitor = self._handlers.monitor
        if monitor is not None:
            monitor.step(reward, bool(terminated), bool(truncated))
        given = {
            "info": info,
            "observation": observation,
            "reward": reward,
            "terminated": terminated,
            "truncated": truncated,
        }
        self._handlers.broadcast.hear(Op.STEP, given)
