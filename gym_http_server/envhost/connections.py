"""Connections of web workers to this host: a frame with a request, one with its answer.

The first frame on a connection may bring a descriptor along: a client's socket.
"""

from __future__ import annotations

import array
import select
import socket
from collections.abc import Callable

from gym_http_server.rundir import close_at_once
from gym_http_wire.frames import Frame, FrameReader

__all__ = ["WorkerConnection"]

RECEIVE_BYTES = 256 * 1024
SEND_SECONDS = 30
_MARK_MS = 500
_DESCRIPTORS = 4
_SPACE = socket.CMSG_LEN(_DESCRIPTORS * array.array("i").itemsize)


class WorkerConnection:
    """One of them.

    Args:
        line: Its socket, which blocks.
        max_body: Bytes that the body of a request may have.
    """

    def __init__(self, line: socket.socket, max_body: int) -> None:
        self.line = line
        self._reader = FrameReader(max_body)
        self._fresh = True
        self._brought: list[int] = []

    def receive(self) -> list[Frame] | None:
        """Give the requests that are now whole; ``None`` at the end.

        Raises:
            OSError: The connection is broken.
            FrameError: This is no request.
        """
        if self._fresh:
            self._fresh = False
            data = self._receive_first()
        else:
            data = self.line.recv(RECEIVE_BYTES)
        return self._reader.feed(data) if data else None

    def send(self, data: bytes, mark_alive: Callable[[], None]) -> None:
        """Send an answer.

        Args:
            data: Its bytes.
            mark_alive: Called while the web worker does not read, so that the host does
                not count as unresponsive.

        Raises:
            OSError: The connection is broken, or the web worker has read nothing for
                `SEND_SECONDS`.
        """
        sent = self._send_some(data)
        if sent < len(data):
            self._send_rest(memoryview(data)[sent:], mark_alive)

    def _send_some(self, data: bytes | memoryview) -> int:
        try:
            return self.line.send(data, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0

    def _send_rest(self, data: memoryview, mark_alive: Callable[[], None]) -> None:
        poll = select.poll()
        poll.register(self.line, select.POLLOUT)
        silent_ms = 0
        while data:
            mark_alive()
            if poll.poll(_MARK_MS):
                silent_ms = 0
                data = data[self._send_some(data) :]
            else:
                silent_ms += _MARK_MS
            if silent_ms >= SEND_SECONDS * 1000:
                raise TimeoutError("the web worker does not read")

    def taken(self) -> socket.socket | None:
        """Give the socket that came along, once; ``None`` if there was none."""
        if not self._brought:
            return None
        line = socket.socket(fileno=self._brought.pop())
        self._drop_brought()
        return line

    def close(self) -> None:
        """Close it, and what came along and was not taken."""
        self._drop_brought()
        self.line.close()

    def _receive_first(self) -> bytes:
        # Descriptors can only be had by the read that gets the bytes they came with.
        data, ancillary, _, _ = self.line.recvmsg(
            RECEIVE_BYTES, _SPACE, socket.MSG_CMSG_CLOEXEC
        )
        for level, kind, content in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                numbers = array.array("i")
                numbers.frombytes(content[: len(content) - len(content) % 4])
                self._brought += numbers
        return data

    def _drop_brought(self) -> None:
        while self._brought:
            close_at_once(self._brought.pop())
