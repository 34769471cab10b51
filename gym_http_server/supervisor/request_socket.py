"""A connection over which the supervisor receives requests."""

from __future__ import annotations

import logging
import socket
from typing import Any

from gym_http_server.processes.frame_server import FrameServer
from gym_http_server.processes.frame_socket import FrameSocket
from gym_http_server.processes.log_lines import SUPERVISOR
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
        server: Serves it.

    A create request may come with the descriptor of its arguments, which is closed with
    the connection.

    Attributes:
        instance: The instance that its create request is making or has made, or
            ``None``.
        held: Whether that instance ends with this connection.
        number: Number of its request, for the answer.
    """

    def __init__(self, end: socket.socket, server: FrameServer[RequestSocket]) -> None:
        end.setblocking(False)
        super().__init__(end, MAX_REQUEST_BYTES, max_descriptors=1)
        self._server = server
        self.instance: Any = None
        self.held = False
        self.number = 0

    @property
    def memory(self) -> int | None:
        """The descriptor that came with the request; ``None`` if there is none."""
        return self._descriptors[0] if self._descriptors else None

    def answer(self, frame: Frame) -> None:
        """Send an answer, or queue the bytes that the socket cannot take at once."""
        self._server.answer(self, frame._replace(number=self.number))

    def refuse(self, problem: Problem) -> None:
        """Answer with a problem."""
        self.answer(problem_answer(problem))

    def fail(self, error: Exception) -> None:
        """Answer that the request failed, and log why: the supervisor goes on."""
        log.error("a request to the supervisor failed", exc_info=error)
        what = f"the supervisor failed with {type(error).__name__}: {error}"
        self.refuse(Problem(what[:500]))
