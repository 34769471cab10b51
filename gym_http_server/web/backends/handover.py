"""Streams: passes a client's connection to the host of an instance, or relays it.

The host gets the client's socket itself, so the stream bypasses the web worker. If a
socket cannot be passed, the web worker relays the bytes.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from typing import Protocol

import msgspec

from gym_http_server.web.backends.host_client import HostClient
from gym_http_wire.frames import Frame
from gym_http_wire.handshakes import StreamHandshake
from gym_http_wire.messages import Op, RequestHead, request

__all__ = ["detach", "pass_socket", "relay", "relay_both_ways"]

RECEIVE_BYTES = 256 * 1024


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
    host = connection.socket
    # The client's own socket has deadlines, and a stream has none.
    client_copy = socket.socket(fileno=os.dup(client.fileno()))
    with client_copy, host:
        with contextlib.suppress(OSError):
            # A client that has gone meanwhile is found by reading.
            client_copy.sendall(connection.early)
        back = threading.Thread(target=_pass_on, args=(host, client_copy), daemon=True)
        back.start()
        _pass_on(client_copy, host)
        back.join()


def _request(hello: StreamHandshake, early: bytes) -> Frame:
    head = RequestHead(value=msgspec.json.encode(hello).decode())
    return request(Op.STREAM, early, head)


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(RECEIVE_BYTES):
            target.sendall(data)
    for each in (source, target):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
