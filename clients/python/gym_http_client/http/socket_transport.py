"""The transport on one socket that stays open, with little overhead."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from collections.abc import Callable

from gym_http_client.errors import ABSENT, Failure, FailureKind
from gym_http_client.http.addresses import Address
from gym_http_client.http.dialing import Dialer
from gym_http_client.http.http1 import (
    MAX_BODY,
    BadAnswer,
    Reply,
    ReplyReader,
    Request,
    RequestHeads,
)
from gym_http_client.http.ports import OtherPort

__all__ = ["SocketTransport"]

# Up to this size a body is copied and sent together with its head: that is cheaper than
# a second system call and a second packet.
_SMALL = 64 * 1024
_PIECE = 256 * 1024
# What is kept back of a request that is sent ahead.
_LAST = 4 * 1024
_RECEIVED = 64 * 1024
# The operating system counts waits in milliseconds, in 31 bits.
_LONGEST_WAIT = 1e6
# Setting a socket's time limit costs as much as parsing an answer. So it is set only if
# the previous one is too long by more than this factor.
_TOLERANCE = 1.01


class SocketTransport:
    """Sends single requests over a socket, without retries.

    Threads may share it, one at a time. Forked processes must not share it.

    Args:
        address: The server's.
        max_body: Maximum size of an answer's body in bytes.
        clock: Returns the time in seconds, from any start.
        ca_file: A file with trusted certificates; ``None`` for the system's.
        limits_each_part: Whether the time limit restarts when the connection is open,
            and with each part of the answer.
    """

    def __init__(
        self,
        address: Address,
        *,
        max_body: int = MAX_BODY,
        clock: Callable[[], float] = time.monotonic,
        ca_file: str | None = None,
        limits_each_part: bool = False,
    ) -> None:
        self._heads = RequestHeads(address)
        self._dialer = Dialer(address, ca_file)
        self._limits_each_part = limits_each_part
        self._max_body = max_body
        self._clock = clock
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        # The time limit and the end of the current exchange.
        self._limit = 0.0
        self._end = 0.0
        # The time limit of the socket.
        self._set_limit = 0.0
        # A request that was sent but for its last part.
        self._ahead: Request | None = None

    def exchange(
        self,
        request: Request,
        time_limit: float = 60.0,
        fresh: bool = False,
        meanwhile: Callable[[], None] | None = None,
    ) -> Reply:
        """Send a request once and return its answer.

        Args:
            request: The request.
            time_limit: Seconds for everything, from connecting to the last byte.
            fresh: Use a new connection, which cannot have ended meanwhile.
            meanwhile: Called once the request is sent, while the server works on it.

        Raises:
            Failure: There is no answer.
            ValueError: The request is malformed.
        """
        head = self._heads.head(request)
        reader = ReplyReader(request.method == "HEAD", self._max_body)
        with self._lock:
            self._limit = time_limit
            self._end = self._clock() + time_limit
            ahead, self._ahead = self._ahead, None
            if fresh or (ahead is not None and ahead is not request):
                self.abandon()
            kept = self._socket
            try:
                sock = kept or self._dial()
                if kept is not None and ahead is not None:
                    self._send_large(sock, b"", memoryview(request.body)[-_LAST:])
                else:
                    self._send(sock, head, request)
                if meanwhile is not None:
                    meanwhile()
                reply = self._receive(sock, reader)
            except (OSError, BadAnswer) as error:
                self.abandon()
                stale = kept is not None and not reader.begun
                raise self._failure(error, stale) from error
            except BaseException:
                # The rest of this answer would be read as the next one.
                self.abandon()
                raise
            if not reader.keep_alive:
                self.abandon()
            return reply

    def send_ahead(self, request: Request, time_limit: float) -> None:
        """Send a request but for its last part, which its exchange sends.

        So the server receives it before it is time to execute it. Another exchange
        discards it.

        Args:
            request: The request, whose body is large.
            time_limit: Time limit for connecting, and for each part.

        Raises:
            Failure: It could not be sent.
        """
        head = self._heads.head(request)
        with self._lock:
            self._limit = time_limit
            self._end = self._clock() + time_limit
            if self._ahead is not None:
                self.abandon()
            try:
                sock = self._socket or self._dial()
                self._send_large(sock, head, memoryview(request.body)[:-_LAST])
            except OSError as error:
                self.abandon()
                raise self._failure(error, stale=False) from error
            self._ahead = request

    @property
    def busy(self) -> bool:
        """Whether a thread waits for an answer, so that others have to wait."""
        return self._lock.locked()

    def begin(self, request: Request, time_limit: float) -> None:
        """Send a request once, and do not wait for its answer.

        Args:
            request: The request; its body must be small.
            time_limit: Time limit for connecting and sending.

        Raises:
            Failure: The request could not be sent.
        """
        head = self._heads.head(request)
        with self._lock:
            self._limit = time_limit
            self._end = self._clock() + time_limit
            if self._socket is not None and _has_ended(self._socket):
                self.abandon()
            try:
                sock = self._socket or self._dial()
                self._limit_wait(sock)
                sock.sendall(head + request.body)
            except OSError as error:
                self.abandon()
                raise self._failure(error, stale=False) from error

    def finish(self, request: Request, time_limit: float) -> Reply:
        """Return the answer to the request that `begin` sent.

        Args:
            request: The same request.
            time_limit: Seconds to wait for the answer.

        Raises:
            Failure: There is no answer.
        """
        reader = ReplyReader(request.method == "HEAD", self._max_body)
        with self._lock:
            self._limit = time_limit
            self._end = self._clock() + time_limit
            if self._socket is None:
                raise Failure(FailureKind.LOST, "the request was not sent")
            try:
                return self._receive(self._socket, reader)
            except (OSError, BadAnswer) as error:
                raise self._failure(error, stale=False) from error
            finally:
                self.abandon()

    def close(self) -> None:
        """Close the connection; the next exchange opens another."""
        with self._lock:
            self.abandon()

    def abandon(self) -> None:
        """Close the connection without waiting for a thread that uses it.

        A forked process does this with a transport that it inherits.
        """
        sock, self._socket = self._socket, None
        self._ahead = None
        if sock is not None:
            sock.close()

    def interrupt(self) -> None:
        """End the exchange that another thread waits for, as if it were cut off."""
        sock = self._socket
        if sock is not None:
            # Closing it would not wake the thread. The method of a TLS socket would
            # also remove the state that the thread uses.
            with contextlib.suppress(OSError):
                socket.socket.shutdown(sock, socket.SHUT_RDWR)

    def _dial(self) -> socket.socket:
        sock = self._socket = self._dialer.dial(self._left)
        self._set_limit = 0.0
        self._renew_limit()
        return sock

    def _renew_limit(self) -> None:
        if self._limits_each_part:
            self._end = self._clock() + self._limit

    def _left(self) -> float:
        """Return the remaining seconds, or raise `TimeoutError`."""
        left = self._end - self._clock()
        if left <= 0:
            raise TimeoutError
        return min(left, _LONGEST_WAIT)

    def _limit_wait(self, sock: socket.socket) -> None:
        """Set the socket's time limit to the remaining time."""
        left = self._left()
        # Keep the limit that the socket has from the exchange before, if possible.
        self._set_limit = (
            self._limit if left <= self._limit <= left * _TOLERANCE else left
        )
        sock.settimeout(self._set_limit)

    def _send(self, sock: socket.socket, head: bytes, request: Request) -> None:
        if self._set_limit != self._limit:
            self._limit_wait(sock)
        body = request.body
        if len(body) <= _SMALL:
            sock.sendall(head + body)
        else:
            self._send_large(sock, head, body)

    def _receive(self, sock: socket.socket, reader: ReplyReader) -> Reply:
        while True:
            left = self._end - self._clock()
            if not left <= self._set_limit <= left * _TOLERANCE:
                self._limit_wait(sock)
            room = reader.room
            if room is not None:
                received = sock.recv_into(room)
                reply = reader.fill(received)
            else:
                data = sock.recv(_RECEIVED)
                received = len(data)
                reply = reader.feed(data) if data else reader.end()
            if reply is not None:
                return reply
            if not received:
                cut = "in its answer" if reader.begun else "without an answer"
                raise ConnectionResetError(f"the server closed the connection {cut}")
            self._renew_limit()

    def _send_large(
        self, sock: socket.socket, head: bytes, body: bytes | memoryview
    ) -> None:
        rest = memoryview(body)
        # The server may answer and close before it has read everything. Then its
        # answer counts; without one, receiving raises.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            sock.sendall(head)
            for at in range(0, len(body), _PIECE):
                self._limit_wait(sock)
                sock.sendall(rest[at : at + _PIECE])
                self._renew_limit()

    def _failure(self, error: OSError | BadAnswer, stale: bool) -> Failure:
        if isinstance(error, OtherPort):
            return Failure(FailureKind.MISTAKEN, error)
        if isinstance(error, BadAnswer):
            return Failure(FailureKind.MALFORMED, error)
        if isinstance(error, TimeoutError):
            words = f"nothing within {self._limit:g} s"
            return Failure(FailureKind.TIMEOUT, words)
        if isinstance(error, ABSENT):
            return Failure(FailureKind.ABSENT, error)
        return Failure(FailureKind.STALE if stale else FailureKind.LOST, error)


def _has_ended(sock: socket.socket) -> bool:
    """Return whether an idle connection has something to read.

    That is its end, unless the server violates the protocol.
    """
    with selectors.DefaultSelector() as selector:
        selector.register(sock, selectors.EVENT_READ)
        return bool(selector.select(0))
