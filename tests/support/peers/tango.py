"""Tango's two peers: its page over a WebSocket, and its agent over a REQ socket."""

import json
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode

import zmq

from tests.support.api import Api
from tests.support.peers.external_env import open_websocket
from tests.support.peers.zmq_peers import ZmqPeer
from tests.support.server import Server
from tests.support.strict_json import parse_strictly

BOARD = {"type": "Box", "low": 0, "high": 6, "shape": [2, 2], "dtype": "uint8"}
MOVES = {"type": "Discrete", "n": 4}
SPACES = {"observation_space": json.dumps(BOARD), "action_space": json.dumps(MOVES)}
CELLS = [[0, 5], [6, 1]]
STEPPED = {"observation": CELLS, "reward": 1, "terminated": False, "truncated": False}
STEPPED |= {"info": {"moves": 1}}


class TangoPage:
    """A connected page that sends and receives Tango's messages.

    Args:
        server: Where to connect.
        query: Parameters of its address.
    """

    def __init__(self, server: Server, **query: str) -> None:
        path = f"/game/ws?{urlencode(query or SPACES)}"
        self.websocket = open_websocket(Api(server), path=path)
        if self.websocket.response.status != 101:
            self.websocket.close()
            raise AssertionError(self.websocket.response.body)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.drop()

    def send_message(self, message: Any) -> None:
        """Send a message."""
        self.websocket.send_frame(1, json.dumps(message).encode())

    def receive(self) -> Any:
        """Return the next message of the server; answer its pings."""
        while True:
            opcode, payload = self.websocket.read_frame()
            if opcode == 9:
                self.websocket.send_frame(10, payload)
                continue
            assert opcode == 1, (opcode, payload)
            return parse_strictly(payload.decode())

    def answer(self, request: Any, answer: Any) -> None:
        """Receive exactly this message, and answer it."""
        message = self.receive()
        assert message == request, message
        self.send_message(answer)

    def receive_close(self) -> tuple[int, str]:
        """Return code and reason with which the server closes the connection."""
        while True:
            opcode, payload = self.websocket.read_frame()
            if opcode == 8:
                return int.from_bytes(payload[:2]), payload[2:].decode()

    def drop(self) -> None:
        """Close the TCP connection without a closing handshake."""
        self.websocket.close()


class TangoAgent(ZmqPeer):
    """A connected REQ socket."""

    def __init__(self, server: Server) -> None:
        super().__init__(server, zmq.REQ)

    def reset(self, **given: Any) -> Any:
        """Request a reset, as Tango does."""
        return self.call(type="reset", **{"seed": None, "options": None, **given})

    def act(self, action: str) -> Any:
        """Request a step."""
        return self.call(type="action", action=action)

    def close(self) -> Any:
        """Request the end of the game."""
        return self.call(type="close")
