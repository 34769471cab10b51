"""A pool of connections on which web workers call hosts, supervisor and broker.

In a web worker `socket` is gevent's, so waiting here does not block other requests. A
connection returns to the pool only after a complete answer. `Pool.sweep` closes those
whose other end has closed.
"""

from __future__ import annotations

import errno
import socket
import time
from collections.abc import Callable

from gym_http_server.errors import AnswerBudgetFull
from gym_http_server.processes.frame_socket import RECEIVE_BYTES, FrameSocket
from gym_http_server.rundir.sockets import refuse_descriptors
from gym_http_server.web.backends.budget import LARGE, Budget, LargeBody, Room
from gym_http_wire.frames import HEADER, Frame, FrameError, encode
from gym_http_wire.messages import problem_answer

__all__ = ["CallSocket", "ConnectionLost", "NothingSent", "Pool", "Wait"]

BACKLOG_SECONDS = 5.0
MAX_IDLE = 256
_LAST_NUMBER = 0xFFFFFFFF
# Buffer for bytes that are discarded.
_DISCARDED = bytearray(RECEIVE_BYTES)

#: Waits until a socket can be read.
Wait = Callable[[socket.socket], None]


class ConnectionLost(Exception):
    """Raised if the other end closed before it had answered."""


class NothingSent(ConnectionLost):
    """Raised if the other end had closed before a byte of the request was sent."""


class CallSocket(FrameSocket):
    """A connection that carries one request at a time.

    Args:
        path: Path of the Unix socket.
        max_body: Bytes that an answer's body may have.
        budget: Counts large answers; ``None`` if they are not limited.
        timeout_s: Seconds for connecting, and for each send or receive; ``None``: no
            limit.
        max_descriptors: Limit of the descriptors that arrive with an answer.

    Attributes:
        large: Bytes of the last answer's body, if it was large; else 0.

    Raises:
        OSError: No process listens there.
    """

    def __init__(
        self,
        path: str,
        max_body: int,
        budget: Budget | None = None,
        *,
        timeout_s: float | None = None,
        max_descriptors: int = 0,
    ) -> None:
        end = _connect(path, timeout_s, refuse=not max_descriptors)
        super().__init__(end, max_body, max_descriptors=max_descriptors)
        self.path = path
        self.large = 0
        self._budget = budget
        self._calls = 0

    def call(
        self, frame: Frame, expected: Room | None = None, wait: Wait | None = None
    ) -> Frame:
        """Send a request and wait for its answer, without a deadline.

        Args:
            frame: The request.
            expected: Room in the budget that was reserved for the answer.
            wait: Called before the answer is received.

        Raises:
            NothingSent: The other end had closed before.
            ConnectionLost: The other end closed, or sent malformed bytes.
        """
        number = self._calls = self._calls + 1 & _LAST_NUMBER
        kind, _, _, form, head, body = frame
        self.send(Frame(kind, number, 0, form, head, body))
        if wait is not None:
            wait(self.socket)
        answer = self.receive_answer(expected)
        if answer.number != number:
            # It answers none of the requests sent here.
            raise ConnectionLost
        return answer

    def send(self, frame: Frame, descriptor: int | None = None) -> None:
        """Send a request, and a descriptor with it.

        Raises:
            NothingSent: The other end had closed before.
            ConnectionLost: The other end closed.
        """
        data = encode(frame)
        try:
            if descriptor is None:
                sent = self.socket.send(data)
            else:
                sent = self._send_some(data, descriptor)
        except OSError as error:
            raise NothingSent from error
        if sent < len(data):
            try:
                self.socket.sendall(memoryview(data)[sent:])
            except OSError as error:
                raise ConnectionLost from error

    def receive_answer(self, expected: Room | None = None) -> Frame:
        """Wait for an answer.

        Args:
            expected: Room in the budget that was reserved for the answer.

        Returns:
            The answer; a large one's body is a `LargeBody`. If the budget has no room
            for it, the answer is that problem.

        Raises:
            ConnectionLost: The other end closed, or sent malformed bytes.
        """
        self.large = 0
        try:
            while data := self.socket.recv(RECEIVE_BYTES):
                frames = self._reader.feed(data)
                if frames:
                    return frames[0]
                if self._budget is not None and self._reader.announced > LARGE:
                    return self._receive_large(self._budget, expected)
        except (OSError, FrameError) as error:
            raise ConnectionLost from error
        raise ConnectionLost

    def _receive_large(self, budget: Budget, expected: Room | None) -> Frame:
        """Receive the rest of an answer, directly into the memory of its body."""
        begun = self._reader.rest()
        size, head_size, status, kind, form, number = HEADER.unpack_from(begun)
        start = HEADER.size + head_size
        while len(begun) < start:
            received = self.socket.recv(start - len(begun))
            if not received:
                raise ConnectionLost
            begun += received
        self.large = size
        try:
            body = LargeBody(budget.take(size, self.path, expected))
        except AnswerBudgetFull as problem:
            # The host must not wait, and the connection stays in use.
            self._discard(start + size - len(begun))
            return problem_answer(problem, number)
        ready = len(begun) - start
        with memoryview(body) as view:
            view[:ready] = memoryview(begun)[start:]
            while ready < size:
                with view[ready:] as rest:
                    count = self.socket.recv_into(rest)
                if not count:
                    raise ConnectionLost
                ready += count
        head = begun[HEADER.size : start]
        return Frame(kind, number, status, form, head, body)

    def _discard(self, size: int) -> None:
        while size:
            count = self.socket.recv_into(_DISCARDED, min(size, RECEIVE_BYTES))
            if not count:
                raise ConnectionLost
            size -= count

    def receive_first(self) -> Frame:
        """Wait for an answer after which the connection carries a stream.

        Raises:
            ConnectionLost: The other end closed, or sent malformed bytes.
        """
        try:
            while data := self.socket.recv(RECEIVE_BYTES):
                frame = self._reader.feed_first(data)
                if frame is not None:
                    return frame
        except (OSError, FrameError) as error:
            raise ConnectionLost from error
        raise ConnectionLost

    @property
    def early(self) -> bytes:
        """The bytes that followed the answer of `receive_first`."""
        return self._reader.rest()

    @property
    def usable(self) -> bool:
        """Whether the other end is open and has sent nothing."""
        # gevent's sockets wait in spite of MSG_DONTWAIT, but heed a timeout of 0.
        self.socket.settimeout(0.0)
        try:
            self.socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            self.socket.settimeout(None)
            return True
        except OSError:
            pass
        return False


def _connect(path: str, timeout_s: float | None, refuse: bool) -> socket.socket:
    backlog_s = BACKLOG_SECONDS if timeout_s is None else timeout_s
    deadline = time.monotonic() + backlog_s
    while True:
        sock = socket.socket(socket.AF_UNIX)
        if refuse:
            # A socket that an environment sends could take hours to close, here.
            refuse_descriptors(sock)
        sock.settimeout(timeout_s)
        try:
            sock.connect(path)
            return sock
        except OSError as error:
            sock.close()
            full = error.errno in (errno.EAGAIN, errno.EINPROGRESS)
            if not full or time.monotonic() > deadline:
                raise
        time.sleep(0.01)


class Pool:
    """Idle connections by path, the last used at the end.

    Args:
        max_body: Bytes that an answer's body may have.
        budget: Counts large answers.
    """

    def __init__(self, max_body: int, budget: Budget) -> None:
        self._max_body = max_body
        self._budget = budget
        self._idle: dict[str, list[CallSocket]] = {}
        self._count = 0

    def take(self, path: str) -> tuple[CallSocket, bool]:
        """Return a connection, and whether it has been used before.

        Raises:
            OSError: No process listens there.
        """
        idle = self._idle.get(path)
        if idle:
            connection = idle.pop()
            self._count -= 1
            if not idle:
                del self._idle[path]
            return connection, True
        return CallSocket(path, self._max_body, self._budget), False

    def release(self, connection: CallSocket) -> None:
        """Keep a connection for the next call, or close it if the pool is full."""
        if self._count >= MAX_IDLE:
            connection.close()
            return
        self._idle.setdefault(connection.path, []).append(connection)
        self._count += 1

    def drop(self, path: str) -> None:
        """Close the connections to a host that has ended."""
        for connection in self._idle.pop(path, []):
            connection.close()
            self._count -= 1

    def sweep(self) -> None:
        """Close the idle connections whose other end has closed."""
        for path, idle in list(self._idle.items()):
            if not all(connection.usable for connection in idle):
                self.drop(path)
