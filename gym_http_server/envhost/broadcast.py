"""The audience: who watches an instance, and what they are told.

Everybody is told what an environment gave in the form that they chose, whatever form
who asked wanted it in, and through whatever door.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gym_http_core.operations import Operations
from gym_http_core.session_log import SessionLog
from gym_http_server.envhost import plain_requests
from gym_http_server.envhost.codec import fitting, value_frame
from gym_http_server.envhost.failures import problem_frame, unforeseen
from gym_http_server.envhost.watchers import Watcher
from gym_http_wire.frames import Frame, Pieces
from gym_http_wire.messages import Form, Op, problem_of
from gym_http_wire.problems import Problem
from gym_http_wire.values import binary
from gym_http_wire.values.writing import Writing

__all__ = ["Broadcast"]

_PLAIN = int(Form.PLAIN)


class Broadcast:
    """Those who watch one instance.

    Args:
        operations: The environment.
        sessions: Hold what the quick lane answered while nobody watched.
        max_answer: Bytes that an answer's body may have.

    Attributes:
        watchers: Those who watch; always the same list.
        attend: Called with each that could not be told everything at once.
    """

    def __init__(
        self, operations: Operations, sessions: SessionLog, max_answer: int
    ) -> None:
        self.watchers: list[Watcher] = []
        self.attend: Callable[[Watcher], None] = lambda watcher: None
        self._operations = operations
        self._sessions = sessions
        self._max_answer = max_answer
        self._writing = Writing()
        # What the environment gave last, and after how many steps.
        self._latest: tuple[int, Any] | None = None
        self._steps = 0

    def admit(self, watcher: Watcher) -> None:
        """Have somebody watch from now on; begin with what came last."""
        self.watchers.append(watcher)
        latest = self._newest()
        if latest is not None:
            watcher.greet(self._copy(*latest, watcher.form))

    def dismiss(self, watcher: Watcher) -> None:
        """Forget one who watches no more."""
        self.watchers.remove(watcher)

    def hear(self, op: int, value: Any) -> None:
        """Hear what the environment gave.

        Args:
            op: The operation: reset, step or render.
            value: What `gym_http_core.lossless_calls.LosslessCalls` gives for it.
        """
        if op != Op.RENDER:
            self._latest = op, value
            self._steps = self._operations.steps
        if not self.watchers:
            return
        copies: dict[int, Frame] = {}
        for watcher in self.watchers:
            copy = copies.get(watcher.form)
            if copy is None:
                copy = copies[watcher.form] = self._copy(op, value, watcher.form)
            self._show(watcher, copy)

    def hear_refusal(self, op: int, refusal: Frame) -> None:
        """Hear that the answer to an operation tells of a problem."""
        if not self.watchers:
            return
        # A traceback shows code to callers who may only watch.
        problem = problem_of(refusal)
        problem.extras.pop("traceback", None)
        copy = problem_frame(problem)._replace(kind=op, number=refusal.number)
        for watcher in self.watchers:
            self._show(watcher, copy)

    def _show(self, watcher: Watcher, copy: Frame) -> None:
        watcher.show(copy)
        if watcher.writing:
            self.attend(watcher)

    def _newest(self) -> tuple[int, Any] | None:
        if self._operations.steps == self._steps:
            return self._latest
        # Steps of the quick lane, of which nobody was told here.
        last = self._sessions.last_step()
        return None if last is None else (Op.STEP, binary.decode(last.body.join()))

    def _copy(self, op: int, value: Any, form: int) -> Frame:
        """Give what somebody would be answered who asked for this form."""
        try:
            if form == _PLAIN:
                value = self._thin(op, value)
            told = value_frame(Frame(op, form=form << 4), value, self._writing)
            reply = fitting(told, self._max_answer)
        except Exception as error:
            problem = error if isinstance(error, Problem) else unforeseen(error)
            reply = problem_frame(problem)
        body = reply.body
        if isinstance(body, Pieces) and not body.lasting:
            body = Pieces(body.signature, [b"".join(body.leaves)], body.size)
        return reply._replace(kind=op, body=body)

    def _thin(self, op: int, value: Any) -> Any:
        if op == Op.RENDER:
            return value["rendered"]
        if op == Op.STEP:
            value = dict(value)
            plain_requests.suit(value, self._operations)
        return value
