"""Tango's two sides, by hand: its page over a WebSocket, its agent over a REQ."""

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
    """A page that is connected, and speaks Tango's messages alone.

    Args:
        server: Where to connect.
        query: What its address says.
    """

    def __init__(self, server: Server, **query: str) -> None:
        path = f"/game/ws?{urlencode(query or SPACES)}"
        self.line = open_websocket(Api(server), path=path)
        if self.line.response.status != 101:
            self.line.close()
            raise AssertionError(self.line.response.body)

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
        """Say something."""
        self.line.send_frame(1, json.dumps(message).encode())

    def receive(self) -> Any:
        """Hear what the server says next; its pings are answered."""
        while True:
            opcode, payload = self.line.read_frame()
            if opcode == 9:
                self.line.send_frame(10, payload)
                continue
            assert opcode == 1, (opcode, payload)
            return parse_strictly(payload.decode())

    def answer(self, asked: Any, answer: Any) -> None:
        """Hear just this, and answer it."""
        heard = self.receive()
        assert heard == asked, heard
        self.send_message(answer)

    def receive_close(self) -> tuple[int, str]:
        """Hear code and words by which the server ends the connection."""
        while True:
            opcode, payload = self.line.read_frame()
            if opcode == 8:
                return int.from_bytes(payload[:2]), payload[2:].decode()

    def drop(self) -> None:
        """Drop the connection without a word."""
        self.line.close()


class TangoAgent(ZmqPeer):
    """A REQ that is connected."""

    def __init__(self, server: Server) -> None:
        super().__init__(server, zmq.REQ)

    def reset(self, **given: Any) -> Any:
        """Ask for a reset, as Tango does."""
        return self.ask(type="reset", **{"seed": None, "options": None, **given})

    def act(self, action: str) -> Any:
        """Ask for an action."""
        return self.ask(type="action", action=action)

    def close(self) -> Any:
        """Ask for the end."""
        return self.ask(type="close")
