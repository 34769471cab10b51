"""Connections of web workers to this host: each carries one request at a time.

The first request on a connection may bring a descriptor: the socket of a client that
opens a stream.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Callable

from gym_http_server.frame_socket import RECEIVE_BYTES, FrameSocket

__all__ = ["WorkerConnection"]

SEND_SECONDS = 30
_MARK_MS = 500
_MAX_DESCRIPTORS = 4


class WorkerConnection(FrameSocket):
    """The host's end of a connection.

    Args:
        end: Its socket, which blocks.
        max_body: Bytes that the body of a request may have.
    """

    def __init__(self, end: socket.socket, max_body: int) -> None:
        super().__init__(end, max_body, max_descriptors=_MAX_DESCRIPTORS)
        self._first = True

    def _receive(self) -> bytes:
        if self._first:
            self._first = False
            return super()._receive()
        # A read that takes descriptors costs several times as much.
        return self.socket.recv(RECEIVE_BYTES)

    def send_answer(self, data: bytes, mark_alive: Callable[[], None]) -> None:
        """Send the bytes of an answer.

        Args:
            data: The bytes.
            mark_alive: Called while the web worker does not read, so that the host does
                not count as unresponsive.

        Raises:
            OSError: The connection is broken, or the web worker has read nothing for
                `SEND_SECONDS`.
        """
        sent = self._send_now(data)
        if sent < len(data):
            self._send_rest(memoryview(data)[sent:], mark_alive)

    def _send_now(self, data: bytes | memoryview) -> int:
        try:
            return self.socket.send(data, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0

    def _send_rest(self, data: memoryview, mark_alive: Callable[[], None]) -> None:
        poll = select.poll()
        poll.register(self.socket, select.POLLOUT)
        silent_ms = 0
        while data:
            mark_alive()
            if poll.poll(_MARK_MS):
                silent_ms = 0
                data = data[self._send_now(data) :]
            else:
                silent_ms += _MARK_MS
            if silent_ms >= SEND_SECONDS * 1000:
                raise TimeoutError("the web worker does not read")
