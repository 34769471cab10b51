"""Lines: the socket of a far side, as a host has it."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import time

__all__ = ["ALONE_SECONDS", "Line", "Lost"]

RECEIVE_BYTES = 256 * 1024
#: Longest that one line is waited for alone, in seconds.
ALONE_SECONDS = 0.1
_TIMEVAL = struct.pack("@ll", 0, int(ALONE_SECONDS * 1e6))


class Lost(ConnectionError):
    """The connection has ended."""


class Line:
    """The bytes of one connection.

    Args:
        line: The socket.

    Attributes:
        socket: The socket.
    """

    def __init__(self, line: socket.socket) -> None:
        # It blocks for a moment only, and only where nothing else is waited for.
        line.setblocking(True)
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _TIMEVAL)
        self.socket = line

    def fileno(self) -> int:
        """Give the descriptor; -1 after `close`."""
        return self.socket.fileno()

    def read(self, *, wait: bool) -> bytes:
        """Read what has come; nothing, if nothing has.

        Args:
            wait: Whether to wait `ALONE_SECONDS` for it.

        Raises:
            Lost: The connection has ended.
        """
        try:
            data = self.socket.recv(RECEIVE_BYTES, 0 if wait else socket.MSG_DONTWAIT)
        except BlockingIOError:
            return b""
        except OSError as error:
            raise Lost(error) from None
        if not data:
            raise Lost("it ended the connection")
        return data

    def send(self, data: bytes, until: float | None) -> None:
        """Send bytes.

        Args:
            data: The bytes.
            until: Monotonic seconds; ``None``: the other side has to take them at once.

        Raises:
            Lost: It did not take them in time, or the connection has ended.
        """
        rest: bytes | memoryview = data
        while rest:
            try:
                sent = self.socket.send(rest, socket.MSG_DONTWAIT)
                rest = memoryview(rest)[sent:] if sent < len(rest) else b""
            except BlockingIOError:
                left = 0.0 if until is None else until - time.monotonic()
                if left <= 0 or not self._writable(left):
                    raise Lost("it takes nothing") from None
            except OSError as error:
                raise Lost(error) from None

    def exchange(self, data: bytes, until: float) -> bytes:
        """Send bytes, and wait a moment for what comes then.

        Args:
            data: The bytes.
            until: Monotonic seconds; when the other side has to have taken them.

        Raises:
            Lost: It has not, or the connection has ended.
        """
        line = self.socket
        try:
            sent = line.send(data, socket.MSG_DONTWAIT)
        except OSError:
            sent = 0
        if sent != len(data):
            self.send(data[sent:], until)
        return self.read(wait=True)

    def _writable(self, seconds: float) -> bool:
        poll = select.poll()
        with contextlib.suppress(ValueError):
            poll.register(self.socket, select.POLLOUT)
        return bool(poll.poll(seconds * 1000))

    def close(self) -> None:
        """End it."""
        self.socket.close()
