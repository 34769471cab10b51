"""External environments of a fleet: one node has all connections of a name.

So vectors of them, and connections that are resumed or replaced, are as on one server,
though a load balancer sends each connection to any node.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time

import msgspec

from gym_http_server.errors import NodeAway
from gym_http_server.web.api.exchange import (
    SWITCHED,
    Answer,
    json_answer,
)
from gym_http_server.web.api.external import accept, take_in
from gym_http_server.web.api.fleet.forwarding import FleetCall, answer_of, decoded
from gym_http_server.web.api.tango import name_of
from gym_http_server.web.backends.nodes.answers import NodeAnswer
from gym_http_wire.external.handshake import MAX_HELLO_BYTES
from gym_http_wire.websocket import MessageReader, Opcode, WebSocketError

__all__ = ["ANSWERS"]

#: Seconds in which a hello has to arrive; later, it is left to the broker.
HELLO_SECONDS = 10.0
RECEIVE_BYTES = 64 * 1024
#: Bytes that may arrive up to the end of the hello, which pings may precede.
MOST_BYTES = 2 * MAX_HELLO_BYTES


class _NamedHello(msgspec.Struct):
    name: str = ""


def _name_in(hello: bytes) -> str:
    """Return the name in a hello; "" if it is malformed."""
    with contextlib.suppress(msgspec.MsgspecError, ValueError, RecursionError):
        return msgspec.json.decode(hello, type=_NamedHello).name
    return ""


def _connect(call: FleetCall) -> Answer:
    """Accept an environment by WebSocket; its hello has the name."""
    if call.is_forwarded:
        return call.here()
    environ, client = call.environ, call.environ["gunicorn.socket"]
    greeting = accept(call.web, environ)
    early = environ["wsgi.input"].reader.unreader.take_buffered()
    with socket.socket(fileno=os.dup(client.fileno())) as plain:
        plain.settimeout(HELLO_SECONDS)
        plain.sendall(greeting.encode("latin-1"))
        received, hello = _receive_hello(plain, early)
    node = call.fleet.placement.home(_name_in(hello))
    if node.boot != call.fleet.nodes.own.boot:
        # If it does not answer, this node is as good as any.
        with contextlib.suppress(NodeAway):
            opened = call.open_stream(node)
            if not isinstance(opened, NodeAnswer):
                opened.socket.sendall(received)
                rest = opened.early.partition(b"\r\n\r\n")[2]
                call.relay(opened._replace(early=rest))
                return SWITCHED
    take_in(call.web, environ, "", received)
    return SWITCHED


def _receive_hello(plain: socket.socket, early: bytes) -> tuple[bytes, bytes]:
    """Receive the first message.

    Args:
        plain: The connection.
        early: What was received already.

    Returns:
        All that was received, and the message; that is empty if there is none.
    """
    reader = MessageReader(masked=True, max_message=MAX_HELLO_BYTES)
    received = piece = early
    until = time.monotonic() + HELLO_SECONDS
    with contextlib.suppress(OSError, WebSocketError):
        while len(received) <= MOST_BYTES:
            for message in reader.feed(piece):
                if message.opcode in (Opcode.TEXT, Opcode.BINARY):
                    return received, bytes(message.payload)
            plain.settimeout(max(0.001, until - time.monotonic()))
            piece = plain.recv(RECEIVE_BYTES)
            received += piece
            if not piece:
                break
    return received, b""


def _connect_tango(call: FleetCall) -> Answer:
    """Accept a page of Tango, whose address has the name."""
    node = call.fleet.placement.home(name_of(call.web.settings, call.environ))
    if call.is_forwarded or node.boot == call.fleet.nodes.own.boot:
        return call.here()
    opened = call.open_stream(node)
    if isinstance(opened, NodeAnswer):
        return answer_of(opened, node)
    call.relay(opened)
    return SWITCHED


def _hello(call: FleetCall) -> Answer:
    """Connect an environment by long polling; its ID begins with its node's number."""
    body = call.read_body()
    node = call.fleet.placement.home(_name_in(body))
    if not call.is_forwarded and node.boot != call.fleet.nodes.own.boot:
        with contextlib.suppress(NodeAway):
            return call.forward(node, body)
    welcome = decoded(call.with_body(body).here())
    welcome["connection"] = call.web.number + welcome["connection"]
    return json_answer(msgspec.json.encode(welcome) + b"\n")


ANSWERS = {
    "external_connect": _connect,
    "external_hello": _hello,
    "tango_connect": _connect_tango,
}
