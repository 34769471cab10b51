"""Connections to Unix sockets, kept for reuse.

In a web worker `socket` is gevent's, so that waiting here stops nobody else. A
connection goes back into the pool only after a whole answer; one whose far end has
closed is found by `Pool.sweep` before it can pile up.
"""

from __future__ import annotations

import errno
import socket
import time

from gym_http_server.errors import AnswerBudgetFull
from gym_http_server.instances.budget import LARGE, Budget, LargeBody, Room
from gym_http_server.rundir import refuse_descriptors
from gym_http_wire.frames import HEADER, Frame, FrameError, FrameReader, encode
from gym_http_wire.messages import problem_answer

__all__ = ["Connection", "ConnectionLost", "NothingSent", "Pool"]

RECEIVE_BYTES = 256 * 1024
BACKLOG_SECONDS = 5.0
MAX_IDLE = 256
_LAST_NUMBER = 0xFFFFFFFF
# Buffer for bytes that are discarded.
_DISCARDED = bytearray(RECEIVE_BYTES)


class ConnectionLost(Exception):
    """The far end closed before it had answered."""


class NothingSent(ConnectionLost):
    """The far end had closed before a byte of the request was sent."""


class Connection:
    """A connection that carries one request at a time.

    Args:
        path: Path of the Unix socket.
        max_body: Bytes that an answer's body may have.
        budget: Counts large answers; ``None`` if they are not limited.
        patience_s: Seconds that connecting, and each sending or receiving, may take;
            ``None``: however long it takes.

    Attributes:
        large: Bytes of the last answer's body, if it was large; else 0.

    Raises:
        OSError: Nobody listens there.
    """

    def __init__(
        self,
        path: str,
        max_body: int,
        budget: Budget | None = None,
        *,
        patience_s: float | None = None,
    ) -> None:
        self.path = path
        self.large = 0
        self._budget = budget
        self.socket = _connect(path, patience_s)
        self._reader = FrameReader(max_body)
        self._calls = 0

    def call(self, frame: Frame, expected: Room | None = None) -> Frame:
        """Send a request and wait for its answer, however long that takes.

        Args:
            frame: The request.
            expected: What is reserved in the budget for the answer.

        Raises:
            NothingSent: The far end had closed before.
            ConnectionLost: The far end closed, or sent nonsense.
        """
        number = self._calls = self._calls + 1 & _LAST_NUMBER
        kind, _, _, form, head, body = frame
        self.send(Frame(kind, number, 0, form, head, body))
        answer = self.receive(expected)
        if answer.number != number:
            # Something that nobody has asked for, now or before.
            raise ConnectionLost
        return answer

    def send(self, frame: Frame, line: socket.socket | None = None) -> None:
        """Send a request, and a socket along with it.

        Raises:
            NothingSent: The far end had closed before.
            ConnectionLost: The far end closed.
        """
        data = encode(frame)
        try:
            if line is None:
                # Nearly always all of it, at half the price of sendall().
                sent = self.socket.send(data)
            else:
                sent = socket.send_fds(self.socket, [data], [line.fileno()])
        except OSError as error:
            raise NothingSent from error
        if sent < len(data):
            try:
                self.socket.sendall(memoryview(data)[sent:])
            except OSError as error:
                raise ConnectionLost from error

    def receive(self, expected: Room | None = None) -> Frame:
        """Wait for an answer.

        Args:
            expected: What is reserved in the budget for the answer.

        Returns:
            It; a large one's body is a `LargeBody`. If there is no room for that, the
            answer is that problem.

        Raises:
            ConnectionLost: The far end closed, or sent nonsense.
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
        """Receive the rest of an answer, straight into the memory where it stays."""
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
        """Wait for an answer behind which a stream may follow.

        Raises:
            ConnectionLost: The far end closed, or sent nonsense.
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
        """What has come behind the answer of `receive_first`."""
        return self._reader.rest()

    @property
    def usable(self) -> bool:
        """Whether the far end is still there and has nothing to say."""
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

    def close(self) -> None:
        """Close it."""
        self.socket.close()


def _connect(path: str, patience_s: float | None) -> socket.socket:
    backlog_s = BACKLOG_SECONDS if patience_s is None else patience_s
    deadline = time.monotonic() + backlog_s
    while True:
        sock = socket.socket(socket.AF_UNIX)
        # What an environment sends could take hours to close, in this process.
        refuse_descriptors(sock)
        sock.settimeout(patience_s)
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
        self._idle: dict[str, list[Connection]] = {}
        self._count = 0

    def take(self, path: str) -> tuple[Connection, bool]:
        """Give a connection, and whether it has been used before.

        Raises:
            OSError: Nobody listens there.
        """
        idle = self._idle.get(path)
        if idle:
            connection = idle.pop()
            self._count -= 1
            if not idle:
                del self._idle[path]
            return connection, True
        return Connection(path, self._max_body, self._budget), False

    def give_back(self, connection: Connection) -> None:
        """Keep a connection for the next call, if there is room."""
        if self._count >= MAX_IDLE:
            connection.close()
            return
        self._idle.setdefault(connection.path, []).append(connection)
        self._count += 1

    def drop(self, path: str) -> None:
        """Close what is kept for a path whose host has ended."""
        for connection in self._idle.pop(path, []):
            connection.close()
            self._count -= 1

    def sweep(self) -> None:
        """Close every kept connection whose far end has closed."""
        for path, idle in list(self._idle.items()):
            if not all(connection.usable for connection in idle):
                self.drop(path)
