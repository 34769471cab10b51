"""OpenEnv's own server with CartPole, for the Python that has OpenEnv."""

from __future__ import annotations

import socket
from typing import Any

import gymnasium
import uvicorn
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
from pydantic import Field


class CartAction(Action):  # type: ignore[misc]
    """0 or 1."""

    action: int


class CartObservation(Observation):  # type: ignore[misc]
    """What our server sends, too."""

    observation: list[float]
    terminated: bool = False
    truncated: bool = False
    info: dict[str, Any] = Field(default_factory=dict)


class Cart(Environment[CartAction, CartObservation, State]):  # type: ignore[misc]
    """CartPole, as OpenEnv has environments."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._env = gymnasium.make("CartPole-v1")
        self._state = State()

    def reset(self, seed: int | None = None, **_: Any) -> CartObservation:
        """Begin an episode."""
        observation, info = self._env.reset(seed=seed)
        self._state = State()
        return CartObservation(observation=observation.tolist(), info=info)

    def step(self, action: CartAction, **_: Any) -> CartObservation:
        """Take a step."""
        observation, reward, terminated, truncated, info = self._env.step(action.action)
        self._state.step_count += 1
        return CartObservation(
            observation=observation.tolist(),
            terminated=terminated,
            truncated=truncated,
            info=info,
            reward=float(reward),
            done=terminated or truncated,
        )

    @property
    def state(self) -> State:
        """The number of steps."""
        return self._state


def main() -> None:
    """Serve on a free port, and print the address."""
    app = create_fastapi_app(Cart, CartAction, CartObservation, max_concurrent_envs=64)
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"Listening on http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    config = uvicorn.Config(app, log_level="warning", ws_per_message_deflate=False)
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
