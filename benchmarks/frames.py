"""An environment whose steps take no time and return 64 images.

Our server imports it, so it must not import other benchmark modules.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

__all__ = ["ENV_ID", "SHAPE", "Frames"]

ENV_ID = "benchmarks/Frames-v0"
#: Shape of an observation: 64 Atari images in one array.
SHAPE = (64, 210, 160, 3)

Pictures = NDArray[np.uint8]


class Frames(gymnasium.Env[Pictures, np.int64]):
    """Returns the same images at each step."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0, 255, SHAPE, np.uint8)
        self.action_space = spaces.Discrete(2)
        # Random bytes cannot be compressed.
        generator = np.random.default_rng(0)
        self._pictures = generator.integers(0, 256, SHAPE, np.uint8)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Pictures, dict[str, Any]]:
        """Begin an episode, which never ends."""
        super().reset(seed=seed)
        return self._pictures, {}

    def step(
        self, action: np.int64
    ) -> tuple[Pictures, float, bool, bool, dict[str, Any]]:
        """Return the images."""
        return self._pictures, 0.0, False, False, {}


gymnasium.register(ENV_ID, entry_point=f"{__name__}:Frames", disable_env_checker=True)
