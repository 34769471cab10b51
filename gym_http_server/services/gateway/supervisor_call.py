"""Requests to the supervisor: one connection each, without blocking."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import IO

from gym_http_server.errors import SupervisorUnavailable
from gym_http_server.services.gateway.buffered_socket import BufferedSocket, connected
from gym_http_server.services.gateway.context import Context
from gym_http_wire.frames import Frame, FrameError, FrameReader, encode
from gym_http_wire.messages import problem_answer

__all__ = ["SupervisorCall"]

MAX_ANSWER = 64 * 1024 * 1024
MAX_QUEUED = 16 * 1024 * 1024


class SupervisorCall:
    """A request that is under way.

    Args:
        context: The state that all peers share.
        frame: The request.
        on_answer: Called once, later, with the answer, which may be a problem.
        memory: Sent with the request, by its descriptor.
    """

    def __init__(
        self,
        context: Context,
        frame: Frame,
        on_answer: Callable[[Frame], None],
        memory: IO[bytes] | None = None,
    ) -> None:
        self._on_answer = on_answer
        self._reader = FrameReader(MAX_ANSWER)
        self._socket: BufferedSocket | None = None
        data = encode(frame)
        try:
            end = connected(context.run.supervisor_socket)
            if memory is not None:
                data = data[socket.send_fds(end, [data], [memory.fileno()]) :]
        except OSError:
            context.timers.add(0.0, self._fail)
            return
        self._socket = BufferedSocket(
            context.poller, end, self._receive, self._fail, MAX_QUEUED
        )
        self._socket.send(data)

    def cancel(self) -> Frame | None:
        """Drop the request; return the answer if it has just arrived."""
        self._on_answer = _drop_answer
        if self._socket is None:
            return None
        data = self._socket.read_rest()
        self._socket.close()
        try:
            return next(iter(self._reader.feed(data)), None)
        except FrameError:
            return None

    def _receive(self, data: bytes) -> None:
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
        on_answer, self._on_answer = self._on_answer, _drop_answer
        on_answer(answer)


def _drop_answer(answer: Frame) -> None:
    """Drop an answer."""
