"""Ports: which of a server's ports somebody has come upon."""

from __future__ import annotations

import contextlib
import time
from enum import Enum

from gym_http_client.addresses import Address
from gym_http_client.bodies import BadAnswer
from gym_http_client.dialing import Dialer

__all__ = ["OtherPort", "Port", "port_at", "port_that_says"]

#: How whoever speaks ZeroMQ begins, unasked.
_GREETING = b"\xff\0\0\0\0\0\0\0\1\x7f"
# No request line, and as a count and a message no hello: both are answered at once.
_QUESTION = b"\4\0\0\0{}\r\n\r\n"
_COUNT_BYTES = 4
_RECEIVE_BYTES = 1024


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


def port_at(address: Address, seconds: float) -> Port | None:
    """Ask a port which one it is; ``None`` if it does not say so.

    Args:
        address: Where it is.
        seconds: For the connection and what it says, together.
    """
    end = time.monotonic() + seconds

    def left() -> float:
        seconds = end - time.monotonic()
        if seconds <= 0:
            raise TimeoutError
        return seconds

    with contextlib.suppress(OSError), Dialer(address).dial(left) as line:
        line.settimeout(left())
        line.sendall(_QUESTION)
        return port_that_says(line.recv(_RECEIVE_BYTES))
    return None
