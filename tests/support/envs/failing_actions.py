"""Environments whose actions raise exceptions, for tests of batches.

A server loads this module with ``--import tests.support.envs.failing_actions``.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

RAISES, UNENCODABLE, HUGE = 13, 14, 15


class FailingActions(gymnasium.Env[Any, Any]):
    """Observes its number of steps, always in the same array."""

    action_space = spaces.Discrete(20)
    observation_space = spaces.Box(0, 100, (1,), np.float64)

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self._count = np.zeros(1)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._count[:] = 0
        return self._count, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if action == RAISES:
            raise ValueError("a mine")
        self._count += 1
        info: dict[str, Any] = {}
        if action == UNENCODABLE:
            info["who"] = self
        if action == HUGE:
            info["much"] = "x" * 100_000
        return self._count, float(action), False, False, info


gymnasium.register("failing/Actions-v0", FailingActions)
