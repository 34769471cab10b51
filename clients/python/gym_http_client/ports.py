"""Ports: which of a server's ports somebody has come upon."""

from __future__ import annotations

from enum import Enum

from gym_http_client.http1_bodies import BadAnswer

__all__ = ["OtherPort", "Port", "port_that_says"]

#: How whoever speaks ZeroMQ begins, unasked.
_GREETING = b"\xff\0\0\0\0\0\0\0\1\x7f"
_COUNT_BYTES = 4


class Port(Enum):
    """A kind of port, in words for who looked for another."""

    HTTP = "this port is for HTTP, and its address begins with http://"
    PLAIN = (
        "this port is for environments that connect in by plain TCP, for which "
        "serve_env takes it as tcp://; it is not that of --zmq"
    )
    ZEROMQ = "this port is for ZeroMQ, and its address begins with zmq+tcp://"


class OtherPort(BadAnswer):
    """What came is said by a port of another kind.

    Args:
        port: The kind.
    """

    def __init__(self, port: Port) -> None:
        super().__init__(port.value)


def port_that_says(said: bytes) -> Port | None:
    """Tell a port by the first bytes that come from it, if they tell."""
    if said.startswith(_GREETING):
        return Port.ZEROMQ
    if said.startswith(b"HTTP/1."):
        return Port.HTTP
    if said[_COUNT_BYTES:].startswith(b'{"type":"refused"'):
        return Port.PLAIN
    return None
