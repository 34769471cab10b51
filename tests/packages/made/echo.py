"""An environment that returns samples of a package's spaces, and its actions."""

from typing import Any

import gymnasium


class Echo(gymnasium.Env[Any, Any]):
    """Returns seeded samples of its observation space.

    Args:
        observation_space: The space of a package.
        action_space: The space of a package.
    """

    def __init__(self, observation_space: Any, action_space: Any) -> None:
        self.observation_space = observation_space
        self.action_space = action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Seed the space, and return a sample."""
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Return the next sample, and the action."""
        return self._observe(), 0.5, False, False, {"action": action}

    def _observe(self) -> Any:
        return self.observation_space.sample()
