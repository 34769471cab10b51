"""Environments whose rewards are arrays, as those of MO-Gymnasium.

A server loads this module with ``--import tests.support.envs.several_rewards``.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

LENGTH = 3


def reward(count: int, components: int) -> Any:
    """Return the reward of a step: 1.25, -2.5, 3.75 and so on, times its number."""
    signs = np.array([1.25, -2.5, 3.75, -5.0], np.float32)
    return signs[:components] * np.float32(count)


class SeveralRewards(gymnasium.Env[Any, Any]):
    """Returns rewards of some components, and may return flags as arrays, too."""

    action_space = spaces.Discrete(2)
    observation_space = spaces.Discrete(100)

    def __init__(self, components: int = 2, *, flags: bool = False) -> None:
        self._components = components
        self._flags = flags

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._count = 0
        return 0, {}

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        self._count += 1
        over = self._count == LENGTH
        flags = (np.array([over]), np.array([False])) if self._flags else (over, False)
        return self._count, reward(self._count, self._components), *flags, {}


class SeveralRewardsVector(VectorEnv[Any, Any, Any]):
    """A vector that makes batches of such rewards itself."""

    single_action_space = SeveralRewards.action_space
    single_observation_space = SeveralRewards.observation_space

    def __init__(self, num_envs: int = 1, components: int = 2) -> None:
        self.num_envs = num_envs
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self._components = components

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        self._count = 0
        return np.zeros(self.num_envs, np.int64), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        self._count = (self._count + 1) % (LENGTH + 1)
        rewards = [reward(self._count, self._components)] * self.num_envs
        over = np.full(self.num_envs, self._count == LENGTH)
        observation = np.full(self.num_envs, self._count)
        return observation, np.array(rewards), over, np.zeros_like(over), {}


gymnasium.register(
    "several/Rewards-v0",
    SeveralRewards,
    vector_entry_point=SeveralRewardsVector,
    disable_env_checker=True,
)
