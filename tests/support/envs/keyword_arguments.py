"""Environments that keep their keyword arguments.

A server loads this module with ``--import tests.support.envs.keyword_arguments``.
"""

import os
import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class KeepsArguments(gymnasium.Env[Any, Any]):
    """Keeps its keyword arguments; ``goal`` has to be an array.

    Args:
        until: Path of a file for which to wait; "" for none.
    """

    action_space = spaces.Discrete(2)
    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)

    def __init__(
        self, render_mode: str | None = None, until: str = "", **kwargs: Any
    ) -> None:
        while until and not os.path.exists(until):
            time.sleep(0.01)
        self.render_mode = render_mode
        self.kept = kwargs
        self.goal = kwargs.get("goal")

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, Any]:
        super().reset(seed=seed)
        goal = np.zeros(2) if self.goal is None else self.goal
        return goal.astype(np.float64), {"kept": str(self.kept)}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        return np.zeros(2), 0.0, False, False, {}


gymnasium.register(
    "keyword/Arguments-v0",
    "tests.support.envs.keyword_arguments:KeepsArguments",
    kwargs={"size": (2, 3)},
)
