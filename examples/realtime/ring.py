"""A ring of ten places. Only one of them has a reward, and moving takes no time."""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium.spaces import Discrete

PLACES = 10
GOAL = 5


class Ring(gymnasium.Env[int, int]):
    """Actions 0, 1 and 2 move back, stay and move on. The reward is for the goal."""

    def __init__(self) -> None:
        self.observation_space = Discrete(PLACES)
        self.action_space = Discrete(3)
        self._place = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        """Go to the place opposite to the goal."""
        super().reset(seed=seed)
        self._place = 0
        return self._place, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Move, and return the place and its reward."""
        self._place = (self._place + int(action) - 1) % PLACES
        return self._place, float(self._place == GOAL), False, False, {}


gymnasium.register("Ring-v0", Ring, disable_env_checker=True, order_enforce=False)
