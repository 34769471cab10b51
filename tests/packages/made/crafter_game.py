"""Crafter, whose environment has Gym's old interface, as one of Gymnasium."""

from typing import Any, ClassVar

import crafter
import gymnasium
import numpy as np
from gymnasium import spaces


class Crafter(gymnasium.Env[Any, Any]):
    """Seeds Crafter by its constructor, which is all that it offers."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"]}

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self._game = crafter.Env(seed=0)
        self.observation_space = spaces.Box(0, 255, (64, 64, 3), np.uint8)
        self.action_space = spaces.Discrete(self._game.action_space.n)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin a game."""
        super().reset(seed=seed)
        if seed is not None:
            self._game = crafter.Env(seed=seed)
        return self._game.reset(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Play on; an episode that ends with discount 1 was cut."""
        observation, reward, done, info = self._game.step(action)
        dead = info["discount"] == 0
        return observation, reward, done and dead, done and not dead, info

    def render(self) -> Any:
        """Return the picture of the game."""
        return self._game.render()


gymnasium.register("made/Crafter-v0", Crafter)
