"""The environment that the C++ test program provides, written in Python."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

Observation = dict[str, Any]
STEPS = 20


class LocalGame(gymnasium.Env[Observation, tuple[int, Any]]):
    """Draws its observations; actions change what is drawn."""

    observation_space = spaces.Dict(
        {
            "place": spaces.Discrete(1000),
            "seen": spaces.Box(0, 255, (4,), np.uint8),
            "speed": spaces.Box(-1, 1, (2, 3), np.float32),
        }
    )
    action_space = spaces.Tuple(
        (spaces.Discrete(5), spaces.Box(-1, 1, (2,), np.float32))
    )

    def __init__(self) -> None:
        self._drawn = 1
        self._steps = 0

    def _draw(self) -> int:
        self._drawn = (self._drawn * 1664525 + 1013904223) % 2**32
        return self._drawn

    def _observed(self) -> Observation:
        place = np.int64((self._draw() >> 8) % 1000)
        seen = [self._draw() >> 24 for _ in range(4)]
        speed = [(self._draw() >> 8) / 2**23 - 1 for _ in range(6)]
        return {
            "place": place,
            "seen": np.array(seen, np.uint8),
            "speed": np.array(speed, np.float32).reshape(2, 3),
        }

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        if seed is not None:
            self._drawn = seed % 2**32
        self._steps = 0
        return self._observed(), {"steps": 0}

    def step(
        self, action: tuple[int, Any]
    ) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        self._drawn ^= int(action[0])
        reward = float(action[1][0]) + self._drawn % 8
        self._steps += 1
        info = {"steps": self._steps}
        return self._observed(), reward, self._steps == STEPS, False, info
