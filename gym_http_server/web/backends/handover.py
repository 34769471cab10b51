"""Streams: passes a client's connection to the host of an instance, or relays it.

The host gets the client's socket itself, so the stream bypasses the web worker. If a
socket cannot be passed, the web worker relays the bytes.
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
from collections.abc import Callable
from typing import Protocol

import gevent  # type: ignore[import-untyped]
import msgspec
from gevent.event import Event  # type: ignore[import-untyped]

from gym_http_server.web.backends.host_client import HostClient
from gym_http_wire.frames import Frame
from gym_http_wire.handshakes import StreamHandshake
from gym_http_wire.messages import Op, RequestHead, request

__all__ = ["RelayedStreams", "detach", "pass_socket", "relay", "relay_both_ways"]

RECEIVE_BYTES = 256 * 1024
# Of all relays: each sends at once what it received, or copies it.
_received = memoryview(bytearray(RECEIVE_BYTES))
# Events of the loop.
_READ, _WRITE = 1, 2
_NOT_YET = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


def pass_socket(
    hosts: HostClient,
    instance_id: str,
    owner: str,
    hello: StreamHandshake,
    client: socket.socket,
    early: bytes,
    lost_s: float | None = None,
) -> None:
    """Pass a client's socket to a host; the caller must not use it afterwards.

    Args:
        hosts: Calls hosts.
        instance_id: The instance.
        owner: Owner that it must have; "" is any.
        hello: The handshake of the stream.
        client: The client's socket.
        early: Bytes that the client sent after its handshake, and that were read.
        lost_s: Seconds since the client lost an answer with a stream.

    Raises:
        Problem: The host refuses the stream; the client can still be answered.
    """
    frame = _request(hello, early)
    hosts.open_stream(instance_id, frame, owner, client, lost_s).close()
    detach(client)


def relay(
    hosts: HostClient,
    instance_id: str,
    owner: str,
    hello: StreamHandshake,
    client: socket.socket,
    early: bytes,
    lost_s: float | None = None,
) -> None:
    """Relay between client and host until one of them closes.

    The arguments and the exception are those of `pass_socket`.
    """
    frame = _request(hello, early)
    connection = hosts.open_stream(instance_id, frame, owner, None, lost_s)
    relay_both_ways(client, connection)


def detach(client: socket.socket) -> None:
    """Forget a client's socket, which another process has now.

    gunicorn shuts the connection down when it closes this descriptor, for all
    processes. So the descriptor gets another socket.
    """
    dead, other = socket.socketpair()
    with dead, other:
        os.dup2(dead.fileno(), client.fileno())


class Connected(Protocol):
    """A connection to a process that has begun to send."""

    @property
    def socket(self) -> socket.socket:
        """The socket."""

    @property
    def early(self) -> bytes:
        """What it has sent."""


def relay_both_ways(client: socket.socket, connection: Connected) -> None:
    """Relay between a client and another process until one of them closes."""
    # The client's own socket has deadlines, and a stream has none.
    client_copy = socket.socket(fileno=os.dup(client.fileno()))
    over = Event()
    with client_copy, connection.socket as other:
        client_copy.settimeout(0.0)
        other.settimeout(0.0)
        ways = _Way(client_copy, other, over), _Way(other, client_copy, over)
        try:
            for way, early in zip(ways, (b"", connection.early), strict=True):
                way.begin(early)
            over.wait()
        finally:
            for way in ways:
                way.close()
            for each in (client_copy, other):
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)


class RelayedStreams:
    """The streams that a web worker relays to other servers, by their callers.

    Only the instance's server knows a stream itself. If a reload removes a token here
    alone, the stream is ended here.
    """

    def __init__(self) -> None:
        # The connections to the servers, and the names of the callers' tokens.
        self._names: dict[socket.socket, str] = {}

    def relay(
        self,
        client: socket.socket,
        stream: Connected,
        name: str,
        accepts: Callable[[str], bool],
    ) -> None:
        """Relay a stream until one end closes it, or `end_removed` ends it.

        Args:
            client: The client's socket.
            stream: The stream.
            name: Name of the client's token.
            accepts: Whether this server accepts a token with a name.
        """
        self._names[stream.socket] = name
        try:
            # A reload may have come since the handshake was checked.
            self.end_removed(accepts)
            relay_both_ways(client, stream)
        finally:
            del self._names[stream.socket]

    def end_removed(self, accepts: Callable[[str], bool]) -> None:
        """End the streams of tokens that this server does not accept any more."""
        accepted = {name: accepts(name) for name in set(self._names.values())}
        for connection, name in list(self._names.items()):
            if not accepted[name]:
                with contextlib.suppress(OSError):
                    # The method of a socket with TLS would say more than an end.
                    socket.socket.shutdown(connection, socket.SHUT_RDWR)


def _request(hello: StreamHandshake, early: bytes) -> Frame:
    head = RequestHead(value=msgspec.json.encode(hello).decode())
    return request(Op.STREAM, early, head)


class _Way:
    """Sends what one socket receives on another one, in callbacks of the event loop.

    A greenlet would take further calls into the system for each message, and a switch.
    What the target does not take yet is kept, and nothing received meanwhile.

    Args:
        source: Receives without waiting.
        target: Sends without waiting.
        over: Set when one of them is closed.
    """

    def __init__(
        self, source: socket.socket, target: socket.socket, over: Event
    ) -> None:
        loop = gevent.get_hub().loop
        self._arrived = loop.io(source.fileno(), _READ)
        self._writable = loop.io(target.fileno(), _WRITE)
        self._receive_into = source.recv_into
        self._send_some = target.send
        self._over = over
        self._rest = memoryview(b"")

    def begin(self, early: bytes) -> None:
        """Send some bytes, and then what is received."""
        self._arrived.start(self._pass_on)
        if early:
            self._send(memoryview(early))

    def close(self) -> None:
        """Stop for good, before the sockets are closed."""
        self._arrived.close()
        self._writable.close()

    def _pass_on(self) -> None:
        try:
            # It has room for a record of TLS, so nothing of one is left behind.
            size = self._receive_into(_received)
        except _NOT_YET:
            return
        except OSError:
            size = 0
        if size:
            self._send(_received[:size])
        else:
            self._over.set()

    def _send_rest(self) -> None:
        self._send(self._rest)

    def _send(self, data: memoryview) -> None:
        try:
            sent = self._send_some(data)
        except _NOT_YET:
            sent = 0
        except OSError:
            self._over.set()
            return
        waited = bool(self._rest)
        if sent < len(data):
            self._rest = data[sent:] if waited else memoryview(bytes(data[sent:]))
            if not waited:
                self._arrived.stop()
                self._writable.start(self._send_rest)
        elif waited:
            self._rest = memoryview(b"")
            self._writable.stop()
            self._arrived.start(self._pass_on)
