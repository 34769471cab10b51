"""Frames over a Unix socket between processes of the server, with descriptors.

Every connection inside the server is a `FrameSocket`: of web workers to hosts, broker
and supervisor, of a host to its supervisor and to the broker, and between the processes
of a sharded vector. A descriptor arrives with the first byte of its frame, so it is
there when the frame is complete.
"""

from __future__ import annotations

import array
import contextlib
import os
import socket
import struct
import time
from collections import deque
from collections.abc import Iterable, Sequence

from gym_http_server.rundir.sockets import close_at_once, stop_lingering
from gym_http_wire.frames import Frame, FrameReader, encode

__all__ = [
    "MAX_BODY",
    "MOST_DESCRIPTORS",
    "RECEIVE_BYTES",
    "FrameSocket",
    "close_each",
    "close_unread",
    "limit_sending",
    "receive_with_descriptors",
]

#: Bytes that the body of a frame may have, unless a connection has another limit.
MAX_BODY = 256 * 1024 * 1024
#: Limit of bytes of one read.
RECEIVE_BYTES = 256 * 1024
#: Limit of descriptors that one message can carry.
MOST_DESCRIPTORS = 253
SEND_SECONDS = 5
# The kernel closes descriptors for which there is no room. It blocks if one of them is
# a socket that lingers.
_ANCILLARY_BYTES = socket.CMSG_LEN(MOST_DESCRIPTORS * array.array("i").itemsize)


def receive_with_descriptors(
    end: socket.socket, size: int = RECEIVE_BYTES
) -> tuple[bytes, list[int]]:
    """Receive bytes, and the descriptors that were sent with them.

    Raises:
        OSError: The connection is broken, or a non-blocking socket has no data.
    """
    data, ancillary, _, _ = end.recvmsg(size, _ANCILLARY_BYTES, socket.MSG_CMSG_CLOEXEC)
    numbers = array.array("i")
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            numbers.frombytes(content[: len(content) - len(content) % 4])
    return data, list(numbers)


def close_unread(sock: socket.socket) -> None:
    """Close a connection, and descriptors that were sent over it, without waiting."""
    with contextlib.suppress(OSError):
        # From now on, the peer cannot send.
        sock.shutdown(socket.SHUT_RDWR)
        sock.setblocking(False)
        while True:
            data, descriptors = receive_with_descriptors(sock)
            for descriptor in descriptors:
                close_at_once(descriptor)
            if not data:
                break
    sock.close()


def close_each(descriptors: Iterable[int]) -> None:
    """Close descriptors that this process has opened."""
    for descriptor in descriptors:
        os.close(descriptor)


def limit_sending(end: socket.socket) -> None:
    """Make each send on a blocking socket fail after 5 seconds."""
    limit = struct.pack("ll", SEND_SECONDS, 0)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)


class FrameSocket:
    """One end of a connection that carries frames and descriptors.

    Args:
        end: Its socket, which may block or not.
        max_body: Bytes that the body of a received frame may have.
        max_descriptors: Limit of received descriptors in the queue; 0 if descriptors
            are not received.

    Attributes:
        socket: The socket, for bytes that are not frames.
        stuck_since: When it last accepted none of the queued bytes, in monotonic
            seconds; 0.0 if there are none.
        left_unread: Whether the other end has closed, or its process was killed, before
            it had read all that was sent to it.
    """

    def __init__(
        self,
        end: socket.socket,
        max_body: int = MAX_BODY,
        *,
        max_descriptors: int = 0,
    ) -> None:
        self.socket = end
        self._reader = FrameReader(max_body)
        self._max_descriptors = max_descriptors
        self._descriptors: deque[int] = deque()
        self.stuck_since = 0.0
        self.left_unread = False
        self._unsent: deque[tuple[bytes | memoryview, Sequence[int]]] = deque()

    def fileno(self) -> int:
        """Return the descriptor of the socket; -1 once it is closed."""
        return self.socket.fileno()

    @property
    def closed(self) -> bool:
        """Whether this end has been closed."""
        return self.socket.fileno() < 0

    def send(self, frame: Frame, descriptor: int | None = None) -> None:
        """Send a frame, and a descriptor with it; return when all of it is sent.

        Raises:
            OSError: The other end is closed, or reads nothing for too long.
        """
        data = encode(frame)
        sent = self._send_some(data, descriptor)
        if sent < len(data):
            self.socket.sendall(memoryview(data)[sent:])

    def _send_some(self, data: bytes, descriptor: int | None = None) -> int:
        if descriptor is None:
            # Nearly always all of it, at half the price of sendall().
            return self.socket.send(data)
        return socket.send_fds(self.socket, [data], [descriptor])

    def queue(self, frame: Frame, descriptors: Sequence[int] = ()) -> None:
        """Send the bytes that a non-blocking socket accepts; `flush` sends the rest.

        Descriptors are sent with the first byte, and then closed. What cannot be sent
        is dropped, and the connection ends: `receive` returns ``None``.
        """
        data: bytes | memoryview = encode(frame)
        if not descriptors and not self._unsent:
            # Nearly always all of it, and cheaper than by the queue.
            try:
                sent = self.socket.send(data)
            except OSError:
                # The next attempt, in `flush`, tells why.
                sent = 0
            if sent == len(data):
                return
            data = memoryview(data)[sent:]
        self._unsent.append((data, descriptors))
        self.flush()

    def flush(self) -> None:
        """Send queued bytes, as many as the socket accepts."""
        while self._unsent:
            data, descriptors = self._unsent[0]
            try:
                if descriptors:
                    sent = socket.send_fds(self.socket, [data], descriptors)
                    close_each(descriptors)
                else:
                    sent = self.socket.send(data)
            except BlockingIOError:
                self.stuck_since = self.stuck_since or time.monotonic()
                return
            except OSError:
                self.left_unread = True
                self._drop_unsent()
                with contextlib.suppress(OSError):
                    self.socket.shutdown(socket.SHUT_RDWR)
                return
            self.stuck_since = 0.0
            if sent < len(data):
                self._unsent[0] = (memoryview(data)[sent:], ())
            else:
                self._unsent.popleft()

    def _drop_unsent(self) -> None:
        self.stuck_since = 0.0
        while self._unsent:
            close_each(self._unsent.popleft()[1])

    @property
    def unsent(self) -> bool:
        """Whether queued bytes wait until the socket accepts them."""
        return bool(self._unsent)

    def receive(self) -> list[Frame] | None:
        """Read once; return the frames that are now complete, or ``None`` at the end.

        Raises:
            FrameError: The other end sent bytes that are not a frame.
        """
        try:
            data = self._receive()
        except BlockingIOError:
            return []
        except OSError as error:
            # So the kernel reports it, of Unix sockets.
            self.left_unread |= isinstance(error, ConnectionResetError)
            return None
        if not data or len(self._descriptors) > self._max_descriptors:
            # An environment could send descriptors without frames, without end.
            return None
        return self._reader.feed(data)

    def receive_one(self) -> Frame | None:
        """Wait for a frame, after which the other end waits; ``None`` at the end.

        Raises:
            FrameError: The other end sent bytes that are not a frame.
        """
        while (frames := self.receive()) == []:
            pass
        return None if frames is None else frames[0]

    def _receive(self) -> bytes:
        if not self._max_descriptors:
            return self.socket.recv(RECEIVE_BYTES)
        data, descriptors = receive_with_descriptors(self.socket)
        self._descriptors += descriptors
        return data

    def take_descriptor(self) -> int | None:
        """Remove and return the next received descriptor, or ``None``."""
        return self._descriptors.popleft() if self._descriptors else None

    def take_socket(self) -> socket.socket | None:
        """Remove and return the next received socket, or ``None``."""
        descriptor = self.take_descriptor()
        if descriptor is None:
            return None
        stop_lingering(descriptor)
        try:
            return socket.socket(fileno=descriptor)
        except OSError:
            # It is of another kind.
            os.close(descriptor)
            return None

    def close_descriptors(self) -> None:
        """Close the received descriptors that are still in the queue."""
        while self._descriptors:
            close_at_once(self._descriptors.popleft())

    def close(self) -> None:
        """Close the connection, and the descriptors that are still in its queues."""
        self._drop_unsent()
        self.close_descriptors()
        self.socket.close()
