"""A client's connection with deadlines for its waits."""

from __future__ import annotations

import contextlib
import enum
import select
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import gevent  # type: ignore[import-untyped]
from gevent import monkey
from gevent.socket import socket as gevent_socket  # type: ignore[import-untyped]

#: A client must send a request and read an answer at this rate (bytes a second), after
#: the time that each of both has in any case.
SLOWEST_CLIENT = 64 * 1024
#: Before as many bytes of an answer are sent at once, other events are handled.
_LARGE = 128 * 1024
_LINGER_S = 1.0
_LINGER_STEP = 256 * 1024
# Not select(), which refuses descriptors from 1024 on. gevent's poll() reports nothing
# with a timeout of 0.
_Poll = monkey.get_original("select", "poll")


#: Has a function called, with anything, when something has ended.
CallAtEnd = Callable[[Callable[[Any], None]], None]


class Wait(enum.IntEnum):
    """The event that a connection waits for; NOTHING while the server works."""

    NOTHING = 0
    FIRST_BYTE = 1
    REST = 2
    SENT = 3
    GONE = 4


# Without the lookup in an enumeration: each request needs them.
_NOTHING, _FIRST_BYTE = Wait.NOTHING, Wait.FIRST_BYTE
_REST, _SENT = Wait.REST, Wait.SENT


@dataclass
class ConnectionLimits:
    """Limits of all connections of a worker.

    Attributes:
        request_deadline_s: From a request's first byte to its last.
        keepalive_s: From an answer to the next request's first byte.
        send_timeout_s: For a client to read an answer.
        last_answers: Whether connections close after their present answers.
    """

    request_deadline_s: float
    keepalive_s: float
    send_timeout_s: float
    last_answers: bool = False


class CutOff(BaseException):
    """Raised when a wait ends: the client was too slow, or its place is needed.

    It is not an `Exception`, so that an application that reads a body does not handle
    it as an error of that application.

    Attributes:
        waited_for: The event that the connection was waiting for.
        evicted: Whether the place is needed for another connection.
    """

    def __init__(self, evicted: bool) -> None:
        super().__init__()
        self.waited_for = _NOTHING
        self.evicted = evicted


class ClientSocket(gevent_socket):  # type: ignore[misc]
    """A socket with a deadline for each wait, which the worker enforces.

    Only waits count: the server's work between them does not reduce the client's time.
    A wait has no timer. The worker checks `waiting` and `deadline` of all connections a
    few times a second, and calls `cut_off`.

    Attributes:
        limits: The limits of this connection.
        waiting: The event that it waits for at the moment.
        deadline: Until when, on the monotonic clock.
        since: When the connection, its present request or its idle time began.
        served: Whether it has brought a whole request before this one.
        answered: Whether an answer to the present request was begun.
        lost: Whether the connection itself has failed.
        at_relay_end: Has a function called when the relay for TLS has ended that has
            the client's own socket; ``None``: there is none.
    """

    __slots__ = (
        "_receiving",
        "_send_timeout_s",
        "_timeout_s",
        "answered",
        "at_relay_end",
        "deadline",
        "limits",
        "lost",
        "served",
        "since",
        "waiting",
    )

    def __init__(self, limits: ConnectionLimits, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.limits = limits
        self.waiting = _NOTHING
        self.deadline = 0.0
        self.since = time.monotonic()
        self.served = False
        self.answered = False
        self.lost = False
        self.at_relay_end: CallAtEnd | None = None
        self._receiving = _FIRST_BYTE
        self._timeout_s = limits.request_deadline_s
        self._send_timeout_s = limits.send_timeout_s

    def expect_request(self, begun: bool) -> None:
        """Begin to wait for another request.

        Args:
            begun: Whether bytes of it have been read already.
        """
        self.since = time.monotonic()
        self.served = True
        self.answered = False
        self._send_timeout_s = self.limits.send_timeout_s
        if begun:
            self._receiving = _REST
            self._timeout_s = self.limits.request_deadline_s
        else:
            self._receiving = _FIRST_BYTE
            self._timeout_s = self.limits.keepalive_s

    def has_left(self) -> bool:
        """Return whether the client has closed the connection, without waiting."""
        poll = _Poll()
        poll.register(self.fileno(), select.POLLIN)
        try:
            return bool(poll.poll(0)) and not self.recv(1, socket.MSG_PEEK)
        except OSError:
            return True

    def recv(self, size: int, flags: int = 0) -> bytes:
        """Receive, within the time that is left for it."""
        kind = self._receiving
        data: bytes = self._in_time(super().recv, size, flags)
        self._note_received(kind, len(data))
        return data

    def recv_into(self, buffer: Any, size: int = 0, flags: int = 0) -> int:
        """Receive into memory, within the time that is left for it."""
        kind = self._receiving
        count: int = self._in_time(super().recv_into, buffer, size, flags)
        self._note_received(kind, count)
        return count

    def recv_into_now(self, buffer: Any) -> int | None:
        """Receive what has arrived into memory; ``None`` if nothing has.

        Unlike the other methods, it may be called in a thread.
        """
        try:
            count = int(self._sock.recv_into(buffer))
        except BlockingIOError:
            return None
        except OSError:
            self.lost = True
            raise
        # There was no wait.
        self._timeout_s += count / SLOWEST_CLIENT
        return count

    def _in_time(self, receive: Callable[..., Any], *arguments: Any) -> Any:
        kind = self._receiving
        self.deadline = time.monotonic() + self._timeout_s
        self.waiting = kind
        try:
            return receive(*arguments)
        except CutOff as cut:
            cut.waited_for = kind
            raise
        except OSError:
            self.lost = True
            raise
        finally:
            self.waiting = _NOTHING

    def _note_received(self, kind: Wait, count: int) -> None:
        if kind is _FIRST_BYTE:
            self.since = time.monotonic()
            self._receiving = _REST
            self._timeout_s = self.limits.request_deadline_s
        else:
            self._timeout_s = self.deadline - time.monotonic()
            if kind is _REST:
                # A large body may take longer, as long as it arrives.
                self._timeout_s += count / SLOWEST_CLIENT

    def send(self, data: Any, flags: int = 0, **options: Any) -> int:
        """Send some of the data, within the time that is left for it."""
        try:
            # Bytes that the buffers accept do not show that the client reads.
            sent: int = super().send(data, flags, timeout=0.0)
            return sent
        except BlockingIOError:
            if self.timeout == 0.0:
                raise
        except OSError:
            self.lost = True
            raise
        sent = self._send_in_time(partial(super().send, **options), data, flags)
        self._send_timeout_s += sent / SLOWEST_CLIENT
        return sent

    def sendall(self, data: Any, flags: int = 0) -> None:
        """Send all of the data, each piece within the time that is left."""
        self.answered = True
        waited = self._let_others_run() if len(data) >= _LARGE else 0.0
        sent = self.send(data, flags)
        # The wait made room for these bytes: a slow client has read as many meanwhile.
        self._send_timeout_s += min(waited, sent / SLOWEST_CLIENT)
        if sent < len(data):
            super().sendall(memoryview(data)[sent:], flags)

    def _let_others_run(self) -> float:
        """Wait until the socket accepts data, which it usually does at once.

        It returns the seconds that this took of the client's time.

        Unlike a sleep of no length, this handles the events of other connections, which
        would wait until a large answer is sent, as long as its client reads it.
        """
        before = self._send_timeout_s
        self._send_in_time(self._wait, self._write_event)
        return before - self._send_timeout_s

    def _send_in_time(self, send: Callable[..., Any], *arguments: Any) -> Any:
        self.deadline = time.monotonic() + self._send_timeout_s
        self.waiting = _SENT
        try:
            return send(*arguments)
        except (OSError, CutOff) as error:
            if isinstance(error, CutOff):
                error.waited_for = _SENT
            self.lost = True
            raise
        finally:
            self.waiting = _NOTHING
            self._send_timeout_s = self.deadline - time.monotonic()

    def cut_off(self, *, evicted: bool = False) -> None:
        """End the present wait with `CutOff`, unless it ends by itself before."""
        sending = self.waiting is _SENT
        watcher = self._write_event if sending else self._read_event
        self.hub.cancel_wait(watcher, CutOff(evicted))

    def close_lingering(self) -> None:
        """Close so that the last answer arrives, although the client still sends.

        Closed with bytes unread, the connection would be reset, and the answer lost.
        """
        self._receiving = Wait.GONE
        self._timeout_s = max(self._timeout_s, _LINGER_S)
        end = time.monotonic() + self._timeout_s
        with contextlib.suppress(OSError, CutOff):
            self.setblocking(True)
            self.shutdown(socket.SHUT_WR)
            while time.monotonic() < end and self.recv(_LINGER_STEP):
                # If there is always data, receiving alone would starve the others.
                gevent.sleep(0)
        self.close()

    def close_at_once(self) -> None:
        """Close, and drop the bytes that the client has not read yet."""
        with contextlib.suppress(OSError):
            reset = struct.pack("ii", 1, 0)
            self.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
        self.close()
