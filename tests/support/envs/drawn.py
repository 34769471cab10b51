"""Environments that can be drawn, and some that cannot."""

import os
import subprocess
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Discrete

#: One line for each drawing, with the seed of its reset.
DRAWINGS = Path(__file__).with_name("drawings")
COLOUR = (200, 60, 20)


class Painted(gymnasium.Env[int, int]):
    """One colour everywhere."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012
    action_space = observation_space = Discrete(2)

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, Any]:
        with DRAWINGS.open("a") as file:
            file.write(f"{seed}\n")
        return 0, {}

    def render(self) -> Any:
        return np.full((400, 600, 3), COLOUR, np.uint8)


class Hangs(Painted):
    """Starts a process, and waits without end."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, Any]:
        subprocess.Popen(["sleep", "600"], start_new_session=True)
        time.sleep(600)
        return 0, {}


class Dies(Painted):
    """Ends its process."""

    def render(self) -> Any:
        os.abort()


class Hungry(Painted):
    """Takes memory without end."""

    def render(self) -> Any:
        kept = []
        while True:
            kept.append(np.ones(1 << 24))


class Blind(gymnasium.Env[int, int]):
    """Has nothing to see."""

    action_space = observation_space = Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, Any]:
        return 0, {}


for each in (Painted, Hangs, Dies, Hungry, Blind):
    gymnasium.register(f"drawn/{each.__name__}-v0", f"{__name__}:{each.__name__}")
