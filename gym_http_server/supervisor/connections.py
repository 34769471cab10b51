"""Connections to the supervisor, from web workers and the launcher."""

from __future__ import annotations

import contextlib
import socket
from typing import Any

from gym_http_wire.frames import Frame, FrameReader, encode
from gym_http_wire.messages import problem_answer
from gym_http_wire.problems import Problem

__all__ = ["Connection"]

RECEIVE_BYTES = 256 * 1024


class Connection:
    """One connection; it has at most one request under way.

    Attributes:
        instance: The instance that its create request is making, if any.
    """

    def __init__(self, sock: socket.socket, max_body: int) -> None:
        sock.setblocking(False)
        self.socket = sock
        self.instance: Any = None
        self._reader = FrameReader(max_body)
        self._out = bytearray()
        self._number = 0

    def receive(self) -> list[Frame] | None:
        """Give the requests that have arrived; ``None`` at the end.

        Raises:
            FrameError: What arrived is none.
        """
        try:
            data = self.socket.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return []
        except OSError:
            return None
        if not data:
            return None
        frames = self._reader.feed(data)
        if frames:
            self._number = frames[-1].number
        return frames

    @property
    def closed(self) -> bool:
        """Whether this end has been closed."""
        return self.socket.fileno() < 0

    def close(self) -> None:
        """Close it; answers to it are lost from now on."""
        self.socket.close()

    def answer(self, frame: Frame) -> None:
        """Queue an answer, and send what can be sent."""
        if self.closed:
            return
        self._out += encode(frame._replace(number=self._number))
        self.flush()

    def refuse(self, problem: Problem) -> None:
        """Answer with a problem."""
        self.answer(problem_answer(problem))

    def flush(self) -> None:
        """Send what can be sent."""
        with contextlib.suppress(BlockingIOError):
            try:
                while self._out:
                    del self._out[: self.socket.send(self._out)]
            except (BrokenPipeError, ConnectionResetError):
                self._out.clear()

    @property
    def unsent(self) -> bool:
        """Whether something waits to be sent."""
        return bool(self._out)
