"""An external environment that sends exactly the messages of a test."""

import json
from types import TracebackType
from typing import Any, Self

from tests.support.api import Api, Instance
from tests.support.raw import Response
from tests.support.strict_json import parse_strictly
from tests.support.websocket import WebSocket, handshake

BOX = {"type": "Box", "low": 0, "high": 1, "shape": [2], "dtype": "float32"}
THREE = {"type": "Discrete", "n": 3}
RESULT = {"observation": [0.25, 0.5], "reward": 2, "terminated": False}
RESULT |= {"truncated": False, "info": {"score": 7}}


class ExternalEnv:
    """A WebSocket of an external environment, after its hello, in plain JSON.

    Args:
        api: Where to connect.
        hello: Members of the hello to change; None removes one.
    """

    def __init__(self, api: Api, **hello: Any) -> None:
        message = {
            "type": "hello",
            "protocol": 1,
            "name": "game",
            "observation_space": BOX,
            "action_space": THREE,
            "capabilities": ["reset", "seed"],
            **hello,
        }
        message = {name: value for name, value in message.items() if value is not None}
        shown = api.headers.get("Authorization")
        self.websocket = open_websocket(
            api, **({"authorization": shown} if shown else {})
        )
        self.send_message(**message)
        self.welcome = self.receive()

    @classmethod
    def to(cls, api: Api, **hello: Any) -> Self:
        """Connect, and check that the server sends a welcome."""
        external = cls(api, **hello)
        assert external.welcome["type"] == "welcome", external.welcome
        return external

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.drop()

    def send_message(self, **message: Any) -> None:
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

    def expect(self, kind: str) -> Any:
        """Receive a request, which must be of this type."""
        message = self.receive()
        assert message["type"] == kind, message
        return message

    def answer(self, kind: str, **result: Any) -> Any:
        """Answer the next request, which must be of this type; return the request."""
        request = self.expect(kind)
        self.send_message(id=request["id"], result=result)
        return request

    def expect_fault(self) -> Any:
        """Receive a fault."""
        return self.expect("fault")

    def drop(self) -> None:
        """Close the TCP connection without a closing handshake."""
        self.websocket.close()


def open_websocket(api: Api, **changes: Any) -> WebSocket:
    """Open a WebSocket for an external environment."""
    websocket = WebSocket(api.server.port)
    changes = {"path": "/v1/external/", "sec_websocket_protocol": None, **changes}
    websocket.send(handshake(Instance(api, ""), **changes))
    websocket.response = websocket.read_response()
    return websocket


def refused_handshake(api: Api, **changes: Any) -> Response:
    """Return the answer to a handshake that the server refuses."""
    websocket = open_websocket(api, **changes)
    websocket.close()
    return websocket.response
