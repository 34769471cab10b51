"""A client of OpenEnv's protocol that writes its messages by hand."""

import json
from typing import Any, Self

from tests.support.api import Api, Instance
from tests.support.server import Server
from tests.support.strict_json import parse_strictly
from tests.support.websocket import PING, PONG, WebSocket

__all__ = ["OpenEnvClient"]


class OpenEnvClient(WebSocket):
    """A connection, or the answer to a refused handshake."""

    @classmethod
    def connect(
        cls,
        server: Server,
        env_id: str = "CartPole-v1",
        query: str = "",
        **more: Any,
    ) -> Self:
        """Send a handshake; `response` is the answer.

        Args:
            server: The server.
            env_id: The environment, as it stands in the address.
            query: The query, with its question mark.
            more: As for `WebSocket.to`.
        """
        path = f"/openenv/{env_id}/ws{query}"
        return cls.to(
            Instance(Api(server), ""),
            **{"path": path, "sec_websocket_protocol": None, **more},
        )

    def receive(self) -> Any:
        """Read an answer; answer pings meanwhile, as all clients do."""
        opcode, payload = self.read_frame()
        while opcode == PING:
            self.send_frame(PONG, payload)
            opcode, payload = self.read_frame()
        assert opcode == 1, (opcode, payload)
        return parse_strictly(payload.decode())

    def ask(self, kind: str, data: Any = None) -> Any:
        """Send a message; return the answer, with its type."""
        message = {"type": kind} if data is None else {"type": kind, "data": data}
        self.send_frame(1, json.dumps(message).encode())
        return self.receive()

    def reset(self, **data: Any) -> dict[str, Any]:
        """Reset, and return the data of the observation."""
        return self._observation(self.ask("reset", data))

    def step(self, action: Any, **more: Any) -> dict[str, Any]:
        """Step, and return the data of the observation."""
        return self._observation(self.ask("step", {"action": action, **more}))

    def state(self) -> dict[str, Any]:
        """Return the state."""
        answer = self.ask("state")
        assert answer["type"] == "state", answer
        data: dict[str, Any] = answer["data"]
        return data

    def error(self, kind: str, data: Any = None) -> dict[str, Any]:
        """Send a message, and return the data of the error that answers it."""
        answer = self.ask(kind, data)
        assert answer["type"] == "error", answer
        error: dict[str, Any] = answer["data"]
        return error

    @staticmethod
    def _observation(answer: Any) -> dict[str, Any]:
        assert answer["type"] == "observation", answer
        data: dict[str, Any] = answer["data"]
        return data
