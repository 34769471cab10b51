"""An environment that returns large observations and overwrites them afterwards.

A server loads this module with ``--import tests.support.envs.overwritten_array``.
"""

from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces


class OverwrittenArray(gymnasium.Env[Any, Any]):
    """Observes one array, and overwrites it in every step."""

    action_space: ClassVar[Any] = spaces.Discrete(5)
    observation_space: ClassVar[Any] = spaces.Box(0, 255, (20_000,), np.uint8)

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self._array = np.zeros(20_000, np.uint8)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._array[:] = self.np_random.integers(256)
        return self._array, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._array[:] = (int(self._array[0]) + action) % 256
        self._array[::100] = self.np_random.integers(256)
        return self._array, float(action), bool(self._array[0] < 8), False, {}


gymnasium.register("overwritten/Array-v0", OverwrittenArray)
