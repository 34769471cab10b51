"""A stand-in for OpenEnv's client, which needs gigabytes of other packages."""

import json
from typing import Any, NamedTuple

from websockets.sync.client import ClientConnection, connect


class StepResult(NamedTuple):
    """What a reset or a step gave."""

    observation: dict[str, Any]
    reward: float | None
    done: bool


class GenericEnvClient:
    """A client that connects with its first call, as the real one does."""

    def __init__(self, base_url: str) -> None:
        self._url = f"ws{base_url.removeprefix('http')}/ws"
        self._connection: ClientConnection | None = None

    def sync(self) -> "GenericEnvClient":
        """Return itself, which waits already."""
        return self

    def reset(self, **kwargs: Any) -> StepResult:
        """Reset."""
        return self._call({"type": "reset", "data": kwargs})

    def step(self, action: dict[str, Any]) -> StepResult:
        """Step."""
        return self._call({"type": "step", "data": action})

    def close(self) -> None:
        """Leave."""
        if self._connection is not None:
            self._connection.send('{"type": "close"}')
            self._connection.close()

    def _call(self, message: dict[str, Any]) -> StepResult:
        if self._connection is None:
            self._connection = connect(self._url, proxy=None)
        self._connection.send(json.dumps(message))
        answer = json.loads(self._connection.recv())
        if answer["type"] == "error":
            raise RuntimeError(answer["data"])
        names = ("observation", "reward", "done")
        return StepResult(*(answer["data"][name] for name in names))
