"""Handing a client's connection to the host of an instance, for a stream.

The host gets the socket itself, and the web worker is out of it. Where that cannot
be, the web worker passes on what goes either way.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading

import msgspec

from gym_http_server.instances.call_socket import CallSocket
from gym_http_server.instances.host_client import HostClient
from gym_http_wire.frames import Frame
from gym_http_wire.handshakes import StreamHandshake
from gym_http_wire.messages import Op, RequestHead, request

__all__ = ["give_away", "hand_over", "pass_both_ways", "relay"]

RECEIVE_BYTES = 256 * 1024


def hand_over(
    hosts: HostClient,
    instance_id: str,
    owner: str,
    hello: StreamHandshake,
    client: socket.socket,
    early: bytes,
    lost_s: float | None = None,
) -> None:
    """Hand a client's socket over; then it is no longer the caller's to use.

    Args:
        hosts: The hosts.
        instance_id: The instance.
        owner: Owner that it must have; "" is any.
        hello: How the stream begins.
        client: The client's socket.
        early: What the client sent behind its handshake, and has been read.
        lost_s: Seconds since it lost an answer along with a stream.

    Raises:
        Problem: The host does not take it; the client can be answered.
    """
    asked = _asked(hello, early)
    hosts.open_stream(instance_id, asked, owner, client, lost_s).close()
    give_away(client)


def relay(
    hosts: HostClient,
    instance_id: str,
    owner: str,
    hello: StreamHandshake,
    client: socket.socket,
    early: bytes,
    lost_s: float | None = None,
) -> None:
    """Pass on what client and host send, until one of them closes.

    Args:
        hosts: The hosts.
        instance_id: The instance.
        owner: Owner that it must have; "" is any.
        hello: How the stream begins.
        client: The client's socket.
        early: What the client sent behind its handshake, and has been read.
        lost_s: Seconds since it lost an answer along with a stream.

    Raises:
        Problem: The host does not take it; the client can be answered.
    """
    asked = _asked(hello, early)
    connection = hosts.open_stream(instance_id, asked, owner, None, lost_s)
    pass_both_ways(client, connection)


def give_away(client: socket.socket) -> None:
    """Forget a client's socket, which another process has now.

    Whoever closes this descriptor shuts the connection down for everybody, so let it
    hit another one.
    """
    dead, other = socket.socketpair()
    with dead, other:
        os.dup2(dead.fileno(), client.fileno())


def pass_both_ways(client: socket.socket, connection: CallSocket) -> None:
    """Pass on what a client and another process send, until one of them closes."""
    far = connection.socket
    # The client's own has an end to each wait, and a stream has none.
    near = socket.socket(fileno=os.dup(client.fileno()))
    with near, far:
        with contextlib.suppress(OSError):
            # A client that has gone meanwhile is found by reading.
            near.sendall(connection.early)
        back = threading.Thread(target=_pass_on, args=(far, near), daemon=True)
        back.start()
        _pass_on(near, far)
        back.join()


def _asked(hello: StreamHandshake, early: bytes) -> Frame:
    head = RequestHead(value=msgspec.json.encode(hello).decode())
    return request(Op.STREAM, early, head)


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(RECEIVE_BYTES):
            target.sendall(data)
    for each in (source, target):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
