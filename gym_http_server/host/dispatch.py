"""Answers requests; executes each key once, and keeps its answer.

The body of a request is decoded here once, and the body of its answer encoded once. Web
workers forward the bytes as they are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

from gym_http_core.idempotency import IdempotencyStore, as_replay, request_fingerprint
from gym_http_core.lossless_calls import LosslessCalls
from gym_http_core.operations import Operations
from gym_http_core.session_log import SessionLog
from gym_http_server.host.activity import Activity
from gym_http_server.host.branch_limits import BranchLimits
from gym_http_server.host.broadcast import Broadcast
from gym_http_server.host.codec import lossless
from gym_http_server.host.external.connections import ExternalConnections
from gym_http_server.host.failures import problem_frame
from gym_http_server.host.handlers import Handlers
from gym_http_server.host.inspection import Inspection
from gym_http_server.host.monitor_files import FileRequest
from gym_http_wire.external.steps import PackedStep
from gym_http_wire.frames import Frame
from gym_http_wire.messages import NODE_KEY, Op, RequestHead, request_head
from gym_http_wire.problems import ExternalAway, Problem
from gym_http_wire.streams import ACKNOWLEDGED, KEYLESS

if TYPE_CHECKING:
    from gym_http_server.host.external.fast_step import FastStep

__all__ = ["Dispatch"]

_ACTING = frozenset({Op.ACT, Op.RESET, Op.ROLLOUT, Op.STEP})


class Dispatch:
    """Answers the requests for one instance.

    Args:
        operations: The environment.
        exact: Its lossless calls.
        inspection: Describes it.
        activity: Records calls.
        open_file: Opens the file of a monitor, and returns its descriptor.
        max_answer: Bytes that an answer's body may have.
        tracebacks: Whether clients may see tracebacks of the environment.
        watch_share: Part of the host's time that drawing for watchers may take.
        external: The connections of an external environment; ``None`` for any other.
        external_step: The fast path for its steps over streams, or ``None``.
        broadcast: The class that sends copies to watchers.
        handlers: The class that executes requests.

    Attributes:
        broadcast: Sends copies of answers to watchers.
        exact: The environment's lossless calls.
        handlers: Execute requests.
        inspection: Describes the environment.
        operations: The environment.
        external: The connections of an external environment; ``None`` for any other.
        external_step: The fast path for its steps over streams, or ``None``.
        sessions: The sessions of streams.
    """

    def __init__(
        self,
        operations: Operations,
        exact: LosslessCalls,
        inspection: Inspection,
        activity: Activity,
        *,
        open_file: Callable[[FileRequest], int],
        max_answer: int,
        tracebacks: bool = True,
        watch_share: float = 0.1,
        external: ExternalConnections | None = None,
        external_step: FastStep[PackedStep] | None = None,
        broadcast: type[Broadcast] = Broadcast,
        handlers: type[Handlers] = Handlers,
        branches: BranchLimits | None = None,
    ) -> None:
        self.operations = operations
        self.exact = exact
        self.inspection = inspection
        self.external = external
        self.external_step = external_step
        self._replays = IdempotencyStore()
        # Of requests without a key of their client, whose answers must not take the
        # places of others.
        self._node_replays = IdempotencyStore()
        self.sessions = SessionLog(self._replays)
        self.broadcast = broadcast(
            operations,
            self.sessions,
            max_answer,
            watch_share=watch_share,
            away=lambda: external is not None and external.any_lost,
            count_shown=activity.page.add_shown,
        )
        self.handlers = handlers(
            operations,
            exact,
            inspection,
            self.broadcast,
            activity,
            open_file=open_file,
            max_answer=max_answer,
            tracebacks=tracebacks,
            branches=branches,
        )

    def answer(self, frame: Frame, session: str = "", *, behind: bool = False) -> Frame:
        """Return the answer to a request; problems are answers, too.

        Args:
            frame: The request.
            session: Its session, if it arrived over a stream; then the body of the
                answer may be `Pieces`.
            behind: Whether its sender may not know the outcome of all earlier requests.
        """
        number = frame.number
        sessions = self.sessions
        if session:
            sessions.copy_last(session, number if frame.status == ACKNOWLEDGED else 0)
            if frame.kind in KEYLESS:
                return _numbered(self.handlers.perform(frame, True), number)
            return self._answer_in_session(frame, session, number, True, behind)
        sessions.copy_last()
        head = request_head(frame)
        key = head.key
        if not key:
            return _numbered(self._perform("", frame, False), number)
        place = sessions.parse_key(key)
        if place is not None:
            return self._answer_in_session(frame, *place, False, False)
        return self._answer_with_key(frame, head)

    def is_known(self, frame: Frame, session: str = "") -> bool:
        """Whether a request is answered without being executed, as a repetition is.

        Args:
            frame: The request.
            session: Its session, if it arrived over a stream.
        """
        if session:
            return self.sessions.is_known(session, frame.number)
        key = request_head(frame).key
        if not key:
            return False
        place = self.sessions.parse_key(key)
        if place is None:
            return key in self._replays_of(key)
        return self.sessions.is_known(*place)

    def record(self, session: str, number: int, request: Frame, reply: Frame) -> None:
        """Keep the answer to a request of a session, or expect the request again."""
        if self._will_be_retried(reply):
            self.sessions.retract(session, number)
        else:
            self.sessions.keep(session, number, request, reply)

    def _answer_in_session(
        self, frame: Frame, session: str, number: int, streamed: bool, behind: bool
    ) -> Frame:
        try:
            reply = self.sessions.replay_or_begin(
                session, number, frame, outcomes_known=not behind
            )
            if reply is None:
                reply = self._perform(f"{session}-{number}", frame, streamed)
                self.record(session, number, frame, reply)
            else:
                reply = as_replay(reply)
        except Problem as problem:
            reply = problem_frame(problem)
        return _numbered(reply, frame.number)

    def _replays_of(self, key: str) -> IdempotencyStore:
        """Return the store that has the answers of a kind of keys."""
        return self._node_replays if key.startswith(NODE_KEY) else self._replays

    def _answer_with_key(self, frame: Frame, head: RequestHead) -> Frame:
        key, fingerprint = head.key, request_fingerprint(frame, head)
        replays = self._replays_of(key)
        try:
            if key in replays:
                reply = as_replay(replays.recall(key, fingerprint))
            else:
                reply = self._perform(key, frame, False)
                # A refused request did not reach the environment, and may be sent
                # again. But a conflict with the environment's state has to remain one.
                status = reply.status
                final = not 400 <= status < 500 or status == 409
                if status == 200 or (final and not self._will_be_retried(reply)):
                    replays.keep(key, fingerprint, reply)
        except Problem as problem:
            reply = problem_frame(problem)
        return _numbered(reply, frame.number)

    def _perform(self, key: str, frame: Frame, streamed: bool) -> Frame:
        if self.broadcast.showing is not None and frame.kind in _ACTING:
            # The key of a session's request begins with its name.
            self.broadcast.note_actor(key.rpartition("-")[0])
        external = self.external
        if external is None:
            return self.handlers.perform(frame, streamed)
        # A lambda would make the arguments slower for all other environments, too.
        perform = functools.partial(self.handlers.perform, frame, streamed)
        plain = frame.kind == Op.STEP and not lossless(frame)
        return external.perform(key, perform, plain=plain)

    def _will_be_retried(self, reply: Frame) -> bool:
        """Whether an external environment was away, so that the client retries."""
        return self.external is not None and reply.status == ExternalAway.default_status


def _numbered(reply: Frame, number: int) -> Frame:
    return reply if reply.number == number else reply._replace(number=number)
