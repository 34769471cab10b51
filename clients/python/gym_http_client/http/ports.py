"""Kinds of ports: detects that a client is connected to the wrong port of a server."""

from __future__ import annotations

from enum import Enum

from gym_http_client.http.http1_bodies import BadAnswer

__all__ = ["OtherPort", "Port", "port_of"]

#: The first bytes of a ZeroMQ socket.
_GREETING = b"\xff\0\0\0\0\0\0\0\1\x7f"
_COUNT_BYTES = 4


class Port(Enum):
    """A kind of port; the value is text for a client that expected another kind."""

    HTTP = "this port is for HTTP, and its address begins with http://"
    PLAIN = (
        "this port is for environments that connect in by plain TCP, for which "
        "serve_env takes it as tcp://; it is not that of --zmq"
    )
    ZEROMQ = "this port is for ZeroMQ, and its address begins with zmq+tcp://"


class OtherPort(BadAnswer):
    """The bytes are from a port of another kind.

    Args:
        port: The kind.
    """

    def __init__(self, port: Port) -> None:
        super().__init__(port.value)


def port_of(first: bytes) -> Port | None:
    """Return the kind of a port by the first bytes that it sent, if they show it."""
    if first.startswith(_GREETING):
        return Port.ZEROMQ
    if first.startswith(b"HTTP/1."):
        return Port.HTTP
    if first[_COUNT_BYTES:].startswith(b'{"type":"refused"'):
        return Port.PLAIN
    return None
