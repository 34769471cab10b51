"""Passing: frames between processes of the server, with descriptors along.

A descriptor comes with the first byte of its frame, so it is there when the frame is
whole.
"""

from __future__ import annotations

import array
import os
import socket
import struct
from collections import deque

from gym_http_server.rundir import close_at_once, stop_lingering
from gym_http_wire.frames import Frame, FrameError, FrameReader, encode

__all__ = ["FrameSocket"]

MAX_BODY = 256 * 1024 * 1024
SEND_SECONDS = 5
RECEIVE_BYTES = 256 * 1024
_DESCRIPTORS = 16
# What the kernel lets a message bring. It closes what has no room, lingering or not.
_MOST_IN_MESSAGE = 253
_SPACE = socket.CMSG_LEN(_MOST_IN_MESSAGE * array.array("i").itemsize)


class FrameSocket:
    """One end of a Unix socket.

    Args:
        end: The socket; it blocks while sending, for 5 seconds at most.
    """

    def __init__(self, end: socket.socket) -> None:
        limit = struct.pack("ll", SEND_SECONDS, 0)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        self.end = end
        self._reader = FrameReader(MAX_BODY)
        self._brought: deque[int] = deque()

    def fileno(self) -> int:
        """Give the descriptor."""
        return self.end.fileno()

    def send(self, frame: Frame, passed: socket.socket | None = None) -> None:
        """Send a frame, and a socket along with it.

        Raises:
            OSError: The other end is gone, or takes nothing.
        """
        data = encode(frame)
        if passed is not None:
            sent = socket.send_fds(self.end, [data], [passed.fileno()])
            data = data[sent:]
        if data:
            self.end.sendall(data)

    def receive(self) -> list[Frame] | None:
        """Read once; give the frames that are now whole, and ``None`` at the end."""
        try:
            data, ancillary, _, _ = self.end.recvmsg(
                RECEIVE_BYTES, _SPACE, socket.MSG_CMSG_CLOEXEC
            )
        except BlockingIOError:
            return []
        except OSError:
            return None
        for level, kind, content in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                numbers = array.array("i")
                numbers.frombytes(content[: len(content) - len(content) % 4])
                self._brought += numbers
        if not data or len(self._brought) > _DESCRIPTORS:
            # An environment that sends more than there are frames would take them all.
            return None
        try:
            return self._reader.feed(data)
        except FrameError:
            return None

    def taken(self) -> socket.socket | None:
        """Give the next socket that came along; ``None`` if there is none."""
        if not self._brought:
            return None
        descriptor = self._brought.popleft()
        stop_lingering(descriptor)
        try:
            return socket.socket(fileno=descriptor)
        except OSError:
            # It is no socket.
            os.close(descriptor)
            return None

    def surrender(self) -> socket.socket:
        """Give the socket itself, for something else than frames."""
        return self.end

    def close(self) -> None:
        """Close it, and what came along and was not taken."""
        while self._brought:
            close_at_once(self._brought.popleft())
        self.end.close()
