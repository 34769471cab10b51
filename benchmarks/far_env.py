"""An environment elsewhere, as Tango's are: a grid at the other end of a WebSocket.

``python -m benchmarks.far_env HOST:PORT/PATH`` connects, and answers until the
connection ends. It knows Tango's messages alone, so the same program serves behind
Tango's gateway and behind our server. Its own step costs next to nothing, so that what
is measured is what lies between.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import sys
from urllib.parse import quote

import msgspec

from gym_http_wire.external.carriers import WebSocketCarrier

__all__ = ["ACTION_SPACE", "NAME", "OBSERVATION_SPACE", "PATH", "SIDE"]

NAME = "grid"
SIDE = 8
OBSERVATION_SPACE = {
    "type": "Box",
    "low": 0,
    "high": 4,
    "shape": [SIDE, SIDE],
    "dtype": "uint8",
}
ACTION_SPACE = {"type": "Discrete", "n": 4}
#: Where it comes in, at either.
PATH = "/game/ws?" + "&".join(
    f"{name}={quote(value if isinstance(value, str) else json.dumps(value))}"
    for name, value in (
        ("name", NAME),
        ("observation_space", OBSERVATION_SPACE),
        ("action_space", ACTION_SPACE),
    )
)
_MAX_MESSAGE = 1024 * 1024
_RECEIVE_BYTES = 65536
_EPISODE = 500


class _Asked(msgspec.Struct):
    type: str
    action: str = ""


def _seen(place: int) -> bytes:
    grid = [[0] * SIDE for _ in range(SIDE)]
    grid[place // SIDE][place % SIDE] = 4
    return msgspec.json.encode(grid)


_SEEN = [_seen(place) for place in range(SIDE**2)]
_RESET = b'{"observation":%b,"info":{}}'
_STEP = b'{"observation":%b,"info":{},"reward":1.0,"terminated":%b,"truncated":false}'
_decode = msgspec.json.Decoder(_Asked).decode


class _Grid:
    """Walks a piece over a grid, for so many steps an episode."""

    def __init__(self) -> None:
        self._place = 0
        self._steps = 0

    def answer(self, asked: _Asked) -> bytes:
        """Do what a message of Tango's asks."""
        if asked.type == "action":
            self._place = (self._place + (1, SIDE)[int(asked.action) % 2]) % SIDE**2
            self._steps += 1
            over = b"true" if self._steps >= _EPISODE else b"false"
            return _STEP % (_SEEN[self._place], over)
        if asked.type == "reset":
            self._place = self._steps = 0
            return _RESET % _SEEN[0]
        return b'{"info":"closed"}'


def serve(address: str) -> None:
    """Connect, and answer until the connection ends.

    Raises:
        ConnectionError: There is no WebSocket.
    """
    host, _, path = address.partition("/")
    name, _, port = host.partition(":")
    with socket.create_connection((name, int(port))) as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        line.sendall(
            f"GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\n"
            "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "
            f"{base64.b64encode(os.urandom(16)).decode()}\r\n\r\n".encode()
        )
        head, early = b"", b""
        while b"\r\n\r\n" not in head:
            head += line.recv(_RECEIVE_BYTES)
        head, _, early = head.partition(b"\r\n\r\n")
        if b" 101 " not in head:
            raise ConnectionError(head.decode("latin-1"))
        _talk(line, early)


def _talk(line: socket.socket, data: bytes) -> None:
    grid, carrier = _Grid(), WebSocketCarrier(_MAX_MESSAGE, client=True)
    while True:
        for heard in carrier.feed(data):
            told = grid.answer(_decode(heard.payload))
            line.sendall(carrier.message(told, text=True))
        if carrier.replies:
            replies, carrier.replies = carrier.replies, b""
            line.sendall(replies)
        data = line.recv(_RECEIVE_BYTES)
        if not data:
            return


if __name__ == "__main__":
    serve(sys.argv[1])
