"""The lean connection: one kept-alive socket, and as little as possible around it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable

from gym_http_client.addresses import Address
from gym_http_client.dialing import Dialer
from gym_http_client.failures import Failure, FailureKind
from gym_http_client.heads import Request, RequestHeads
from gym_http_client.http1 import MAX_BODY, BadAnswer, Reply, ReplyReader
from gym_http_client.processes import PerProcess

__all__ = ["LeanConnection"]

# Up to this size a body is copied behind its head, which is cheaper than a second
# system call and a second packet.
_SMALL = 64 * 1024
_PIECE = 256 * 1024
_RECEIVED = 64 * 1024
# The operating system's waits are counted in milliseconds, in 31 bits.
_LONGEST_WAIT = 1e6


class LeanConnection:
    """Makes one exchange after the other with a server, each of them once.

    Threads take turns. A forked process opens a connection of its own and leaves
    the one that it inherits alone.

    Args:
        address: The server's.
        max_body: Bytes that the body of an answer may have.
        clock: Tells the time, in seconds from whenever.
    """

    def __init__(
        self,
        address: Address,
        *,
        max_body: int = MAX_BODY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._heads = RequestHeads(address)
        self._max_body = max_body
        self._clock = clock
        dialer = Dialer(address)
        self._lines = PerProcess(lambda: _Line(dialer), _Line.drop)

    def exchange(
        self, request: Request, *, time_limit: float = 60.0, fresh: bool = False
    ) -> Reply:
        """Send a request once and return its answer.

        Args:
            request: What is sent.
            time_limit: Seconds for everything, from connecting to the last byte.
            fresh: Use a new connection, which cannot have ended meanwhile.

        Raises:
            Failure: There is no answer.
            ValueError: This is no request.
        """
        head = self._heads.head(request)
        bodyless = request.method == "HEAD"
        reader = ReplyReader(bodyless=bodyless, max_body=self._max_body)
        line = self._lines.get()
        with line.lock:
            deadline = _Deadline(self._clock, time_limit)
            return line.exchange(head, request.body, reader, deadline, fresh)

    def close(self) -> None:
        """Close the connection; the next exchange opens another."""
        line = self._lines.get()
        with line.lock:
            line.drop()


class _Deadline:
    """Tells how much time is left."""

    __slots__ = ("_clock", "_end", "_limit")

    def __init__(self, clock: Callable[[], float], limit: float) -> None:
        self._clock = clock
        self._limit = limit
        self._end = clock() + limit

    def left(self) -> float:
        """Return the seconds that are left, or raise when there are none."""
        left = self._end - self._clock()
        if left <= 0:
            raise self.passed()
        return left if left < _LONGEST_WAIT else _LONGEST_WAIT

    def passed(self) -> Failure:
        return Failure(FailureKind.TIMEOUT, f"nothing within {self._limit:g} s")


class _Line:
    """One process's socket, if it has one at the moment."""

    def __init__(self, dialer: Dialer) -> None:
        self.lock = threading.Lock()
        self._dialer = dialer
        self._socket: socket.socket | None = None

    def drop(self) -> None:
        """Close the socket without a word: it may be inherited."""
        dropped, self._socket = self._socket, None
        if dropped is not None:
            dropped.close()

    def exchange(
        self,
        head: bytes,
        body: bytes,
        reader: ReplyReader,
        deadline: _Deadline,
        fresh: bool,
    ) -> Reply:
        """Send a request and read its answer; the caller holds the lock."""
        if fresh:
            self.drop()
        used = self._socket
        try:
            line = used or self._dialer.dial(deadline.left)
            self._socket = line
            lost = _send(line, head, body, deadline)
            reply = _receive(line, reader, deadline)
            if lost is not None or not reader.keep_alive:
                self.drop()
            return reply
        except BaseException as error:
            # Whatever it was: the rest of an answer would be taken for the next.
            self.drop()
            if isinstance(error, TimeoutError):
                raise deadline.passed() from error
            if isinstance(error, BadAnswer):
                raise Failure(FailureKind.MALFORMED, error) from error
            if isinstance(error, OSError):
                stale = used is not None and not reader.begun
                kind = FailureKind.STALE if stale else FailureKind.LOST
                raise Failure(kind, error) from error
            raise


def _send(
    line: socket.socket, head: bytes, body: bytes, deadline: _Deadline
) -> OSError | None:
    """Send a request; return the error if the server does not take all of it."""
    line.settimeout(deadline.left())
    try:
        if len(body) <= _SMALL:
            line.sendall(head + body)
            return None
        line.sendall(head)
        rest = memoryview(body)
        for at in range(0, len(body), _PIECE):
            line.settimeout(deadline.left())
            line.sendall(rest[at : at + _PIECE])
    except (BrokenPipeError, ConnectionResetError) as error:
        # It may have answered before, as to a body that is too large.
        return error
    return None


def _receive(line: socket.socket, reader: ReplyReader, deadline: _Deadline) -> Reply:
    while True:
        line.settimeout(deadline.left())
        data = line.recv(_RECEIVED)
        reply = reader.feed(data) if data else reader.end()
        if reply is not None:
            return reply
        if not data:
            cut = "in its answer" if reader.begun else "without an answer"
            raise ConnectionResetError(f"the server closed the connection {cut}")
