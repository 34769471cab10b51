"""An environment that prints the bytes that its actions encode.

A server loads it with ``--import tests.support.envs.printing``.
"""

import os
import sys
import time
from typing import Any

import gymnasium
from gymnasium import spaces


class PrintsActions(gymnasium.Env[Any, Any]):
    """Prints the bytes that an action contains in hex behind an ``x``.

    Args:
        farewell: Printed when it is closed.
        seconds: How long its creation takes.
    """

    action_space = spaces.Text(1_000_000)
    observation_space = spaces.Discrete(1)

    def __init__(
        self,
        farewell: str = "bye\n",
        seconds: float = 0.0,
        render_mode: str | None = None,
    ) -> None:
        self.render_mode = render_mode
        self._farewell = farewell
        if seconds:
            print("being made", flush=True)
            time.sleep(seconds)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return 0, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if action == "crash":
            print("about to crash", flush=True)
            os._exit(3)
        sys.stdout.buffer.write(bytes.fromhex(action.removeprefix("x")))
        sys.stdout.flush()
        return 0, 0.0, False, False, {}

    def close(self) -> None:
        print(self._farewell, end="", flush=True)


gymnasium.register(
    "printing/Actions-v0", entry_point=PrintsActions, disable_env_checker=True
)
