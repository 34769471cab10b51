"""SupervisorCall the supervisor: one connection a question, and nobody waits."""

from __future__ import annotations

from collections.abc import Callable

from gym_http_server.errors import SupervisorUnavailable
from gym_http_server.gateway.buffered_socket import BufferedSocket, connected
from gym_http_server.gateway.context import Context
from gym_http_wire.frames import Frame, FrameError, FrameReader, encode
from gym_http_wire.messages import problem_answer

__all__ = ["SupervisorCall"]

MAX_ANSWER = 64 * 1024 * 1024
MAX_QUEUED = 16 * 1024 * 1024


class SupervisorCall:
    """A question that is under way.

    Args:
        context: What everybody needs.
        question: The request.
        on_answer: Called once with the answer, a problem included; never at once.
    """

    def __init__(
        self, context: Context, question: Frame, on_answer: Callable[[Frame], None]
    ) -> None:
        self._on_answer = on_answer
        self._reader = FrameReader(MAX_ANSWER)
        self._socket: BufferedSocket | None = None
        try:
            end = connected(context.run.supervisor_socket)
        except OSError:
            context.timers.add(0.0, self._fail)
            return
        self._socket = BufferedSocket(
            context.poller, end, self._hear, self._fail, MAX_QUEUED
        )
        self._socket.send(encode(question))

    def cancel(self) -> Frame | None:
        """Ask no more; give the answer, if it has come this moment."""
        self._on_answer = _nobody
        if self._socket is None:
            return None
        data = self._socket.last_words()
        self._socket.close()
        try:
            return next(iter(self._reader.feed(data)), None)
        except FrameError:
            return None

    def _hear(self, data: bytes) -> None:
        try:
            frames = self._reader.feed(data)
        except FrameError:
            self._fail()
            return
        if frames:
            self._over(frames[0])

    def _fail(self) -> None:
        words = "the supervisor does not answer; the server is starting or stopping"
        self._over(problem_answer(SupervisorUnavailable(words)))

    def _over(self, answer: Frame) -> None:
        if self._socket is not None:
            self._socket.close()
        on_answer, self._on_answer = self._on_answer, _nobody
        on_answer(answer)


def _nobody(answer: Frame) -> None:
    """Nobody wants to know any more."""
