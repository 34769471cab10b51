"""A connection over which the supervisor receives requests."""

from __future__ import annotations

import logging
import socket
from typing import Any

from gym_http_server.frame_socket import FrameSocket
from gym_http_server.log_lines import SUPERVISOR
from gym_http_server.poller import READ, WRITE, Poller
from gym_http_wire.frames import Frame
from gym_http_wire.messages import problem_answer
from gym_http_wire.problems import Problem

__all__ = ["RequestSocket"]

log = logging.getLogger(SUPERVISOR)

MAX_REQUEST_BYTES = 1024 * 1024


class RequestSocket(FrameSocket):
    """The supervisor's end of a connection, which carries one request at a time.

    Args:
        end: The socket.
        poller: Polls the socket.

    Attributes:
        instance: The instance that its create request is making, or ``None``.
    """

    def __init__(self, end: socket.socket, poller: Poller) -> None:
        end.setblocking(False)
        super().__init__(end, MAX_REQUEST_BYTES)
        self._poller = poller
        self.instance: Any = None
        self._number = 0

    def receive(self) -> list[Frame] | None:
        """Read once, and keep the number of the request for its answer."""
        frames = super().receive()
        if frames:
            self._number = frames[-1].number
        return frames

    def answer(self, frame: Frame) -> None:
        """Send an answer, or queue the bytes that the socket cannot take at once."""
        self.queue(frame._replace(number=self._number))
        self.listen()

    def listen(self) -> None:
        """Poll for requests, and until the queued bytes are sent."""
        if not self.closed:
            self._poller.want(self, READ | WRITE if self.unsent else READ)

    def refuse(self, problem: Problem) -> None:
        """Answer with a problem."""
        self.answer(problem_answer(problem))

    def fail(self, error: Exception) -> None:
        """Answer that the request failed, and log why: the supervisor goes on."""
        log.error("a request to the supervisor failed", exc_info=error)
        what = f"the supervisor failed with {type(error).__name__}: {error}"
        self.refuse(Problem(what[:500]))
