"""The one ZeroMQ socket that all peers connect to, and the outbox of each peer."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import time
from collections import deque
from typing import Any, NamedTuple

import zmq
from zmq.utils.monitor import recv_monitor_message

__all__ = ["NONE", "Change", "Message", "Outbox", "Router", "Unreachable", "address_of"]

#: Messages that ZeroMQ queues to a peer, and from it.
HIGH_WATER = 64
#: Milliseconds in which the last messages may still be sent.
LINGER_MS = 500
#: No descriptor.
NONE = -1
_PIECES_OF_DEALER, _PIECES_OF_REQ = 2, 3


class Unreachable(Exception):
    """Raised if a peer has disconnected."""


class Message(NamedTuple):
    """A message.

    Attributes:
        identity: ZeroMQ's identity of the peer, for answers only.
        descriptor: Of the peer's connection; `NONE` if ZeroMQ does not report it.
        by_req: Whether the peer is a REQ, which waits for one answer to each message.
        payload: The message; ``None`` if it had several parts, which is not allowed.
    """

    identity: bytes
    descriptor: int
    by_req: bool
    payload: bytes | None


class Change(NamedTuple):
    """A connection was opened or has ended."""

    descriptor: int
    opened: bool


class Router:
    """The ROUTER socket, and its events of connections.

    Args:
        listener: Descriptor of the TCP socket on which it listens.
        place: Its address, as ``tcp://HOST:PORT``.
        max_message: Bytes that a message may have; more end the connection.
        heartbeat_s: Seconds of silence after which a connection is pinged; it ends
            after as many again.
    """

    def __init__(
        self, listener: int, place: str, max_message: int, heartbeat_s: float
    ) -> None:
        # Its threads do not survive a fork: it is made in the process that uses it.
        self._context: zmq.Context[Any] = zmq.Context()
        self._socket: zmq.Socket[Any] = self._context.socket(zmq.ROUTER)
        heartbeat_ms = max(1, int(heartbeat_s * 1000))
        for option, value in (
            # Sending to a peer that disconnected, or does not read, raises an error.
            (zmq.ROUTER_MANDATORY, 1),
            (zmq.SNDHWM, HIGH_WATER),
            (zmq.RCVHWM, HIGH_WATER),
            (zmq.MAXMSGSIZE, max_message),
            (zmq.HEARTBEAT_IVL, heartbeat_ms),
            (zmq.HEARTBEAT_TIMEOUT, heartbeat_ms),
            (zmq.LINGER, LINGER_MS),
            (zmq.IPV6, 1),
            (zmq.USE_FD, listener),
        ):
            self._socket.set(option, value)
        self._monitor: Any = self._socket.get_monitor_socket(
            zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED
        )
        self._socket.bind(place)

    @property
    def descriptors(self) -> tuple[int, int]:
        """The descriptors that become readable when there may be a message or event.

        They do so once: after that, and after each `send`, receive everything.
        """
        return self._socket.fileno(), self._monitor.fileno()

    def receive(self) -> Message | None:
        """Return the next message, or ``None``."""
        try:
            pieces = self._socket.recv_multipart(zmq.NOBLOCK, copy=False)
        except zmq.Again:
            return None
        identity, last = pieces[0].bytes, pieces[-1]
        by_req = len(pieces) >= _PIECES_OF_REQ and not len(pieces[1])
        whole = len(pieces) == (_PIECES_OF_REQ if by_req else _PIECES_OF_DEALER)
        payload = last.bytes if whole else None
        return Message(identity, _descriptor_of(last), by_req, payload)

    def send(self, identity: bytes, payload: bytes, *, by_req: bool) -> bool:
        """Send a message.

        Returns:
            Whether ZeroMQ accepted it; if not, the peer has to read earlier ones first.

        Raises:
            Unreachable: The peer has disconnected.
        """
        pieces = [identity, b"", payload] if by_req else [identity, payload]
        try:
            self._socket.send_multipart(pieces, zmq.NOBLOCK)
        except zmq.Again:
            return False
        except zmq.ZMQError as error:
            if error.errno != errno.EHOSTUNREACH:
                raise
            raise Unreachable from None
        return True

    def change(self) -> Change | None:
        """Return the next opened or ended connection, or ``None``."""
        try:
            event = recv_monitor_message(self._monitor, zmq.NOBLOCK)
        except zmq.Again:
            return None
        return Change(int(event["value"]), event["event"] == zmq.EVENT_ACCEPTED)

    def close(self) -> None:
        """Close the socket once the last messages are sent, or soon."""
        with contextlib.suppress(zmq.ZMQError):
            self._socket.disable_monitor()
        self._monitor.close(0)
        self._socket.close()
        self._context.term()


class Outbox:
    """Sends messages to one peer, and keeps those that it does not read yet.

    Args:
        router: The socket.
        message: The peer's first message.
        blocked: Outboxes whose peers do not read or have disconnected; it adds itself.

    Attributes:
        identity: ZeroMQ's identity of the peer.
        descriptor: Descriptor of the peer's connection.
        by_req: Whether the peer is a REQ.
        full_since: Since when the peer does not read, monotonic seconds; 0 if it does.
        lost: Whether sending showed that the peer has disconnected.
    """

    def __init__(self, router: Router, message: Message, blocked: set[Outbox]) -> None:
        self.identity = message.identity
        self.descriptor = message.descriptor
        self.by_req = message.by_req
        self.full_since = 0.0
        self.lost = False
        self._router = router
        self._blocked = blocked
        self._waiting: deque[bytes] = deque()

    def send(self, payload: bytes) -> None:
        """Send a message, or keep it until the peer reads."""
        self._waiting.append(payload)
        if not self.full_since:
            self.flush()

    def flush(self) -> None:
        """Send the messages that wait, as far as the peer reads."""
        waiting, taken = self._waiting, False
        try:
            while waiting and self._router.send(
                self.identity, waiting[0], by_req=self.by_req
            ):
                waiting.popleft()
                taken = True
        except Unreachable:
            self.lost = True
            waiting.clear()
        if not waiting:
            self.full_since = 0.0
        elif taken or not self.full_since:
            self.full_since = time.monotonic()
        if self.full_since or self.lost:
            self._blocked.add(self)
        else:
            self._blocked.discard(self)


def address_of(message: Message) -> str:
    """Return the IP address of a message's sender; "" if it has disconnected."""
    try:
        with socket.socket(fileno=os.dup(message.descriptor)) as connection:
            return str(connection.getpeername()[0])
    except OSError:
        return ""


def _descriptor_of(piece: zmq.Frame) -> int:
    try:
        return int(piece.get(zmq.SRCFD))
    except zmq.ZMQError:
        # ZeroMQ accepts other protocols for its oldest versions, which lack this.
        return NONE
