"""Environments whose entry points no client can import, and whose spaces change.

A server loads this module with ``--import tests.support.envs.corridors``.
"""

import functools
from collections.abc import Callable
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.envs.registration import WrapperSpec
from gymnasium.spaces import Box, Discrete, Space
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space


class Corridor(gymnasium.Env[Any, Any]):
    """Ten places in a row, the goal at the end, as in the README."""

    action_space: Space[Any] = Discrete(2)
    observation_space: Space[Any] = Discrete(10)
    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"]}

    def __init__(
        self,
        length: int = 10,
        reward: Callable[[int], float] | None = None,
        render_mode: str | None = None,
    ) -> None:
        self.render_mode = render_mode
        self.length = length
        self.reward = reward
        self.place = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.place = 0
        return self.place, {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.place = max(0, self.place + (1 if action else -1))
        return self.place, -1.0, self.place == self.length - 1, False, {}

    def render(self) -> str:
        return "." * self.place + "x"


def no_reward(place: int) -> float:
    """Return a reward; a function, which cannot be sent."""
    return 0.0


gymnasium.register("corridor/Class-v0", Corridor, max_episode_steps=100)
gymnasium.register(
    "corridor/Lambda-v0",
    lambda **kwargs: Corridor(**kwargs),
    max_episode_steps=7,
    reward_threshold=-9.0,
)
gymnasium.register(
    "corridor/Partial-v0",
    functools.partial(Corridor, length=5),
    nondeterministic=True,
    vector_entry_point=lambda num_envs, **kwargs: gymnasium.vector.SyncVectorEnv(
        [lambda: Corridor(**kwargs) for _ in range(num_envs)]
    ),
)
gymnasium.register(
    "corridor/Function-v0",
    Corridor,
    max_episode_steps=50,
    kwargs={"length": 6, "reward": no_reward},
    additional_wrappers=(
        WrapperSpec(
            "TransformReward",
            "gymnasium.wrappers:TransformReward",
            {"func": no_reward},
        ),
    ),
)


class Changing(gymnasium.Env[Any, Any]):
    """Its spaces change: in a reset with options, by a method, and in a step."""

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.action_space: Space[Any] = Discrete(2)
        self.observation_space: Space[Any] = Box(-1, 1, (2,))

    def set_actions(self, count: int) -> None:
        """Assign another action space."""
        self.action_space = Discrete(count)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        given = options or {}
        # An equal space is no change.
        self.action_space = Discrete(given.get("actions", self.action_space.n))
        if "size" in given:
            self.observation_space = Box(-1, 1, (given["size"],))
        return self.observation_space.low, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), f"{action!r} of {self.action_space}"
        if action == 9:
            self.action_space = Discrete(5, start=1)
        return self.observation_space.high, float(action), False, False, {}


class Computing(Changing):
    """Computes its action space anew whenever it is read, from the place."""

    def __init__(self, render_mode: str | None = None) -> None:
        self.count = 2
        super().__init__(render_mode)

    @property  # type: ignore[override]
    def action_space(self) -> Space[Any]:
        """One action more after each step."""
        return Discrete(self.count)

    @action_space.setter
    def action_space(self, space: Any) -> None:
        self.count = int(space.n)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        result = super().step(action)
        self.count += 1
        return result


class ChangingVector(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """A vector whose action spaces change by a method, and in a step."""

    metadata: ClassVar[dict[str, Any]] = {"autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(self, num_envs: int, render_mode: str | None = None) -> None:
        self.num_envs = num_envs
        self.render_mode = render_mode
        self.single_observation_space = Discrete(3)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.set_actions(2)

    def set_actions(self, count: int) -> None:
        """Assign other action spaces."""
        self.single_action_space = Discrete(count)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(self.num_envs, np.int64), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        self.set_actions(int(max(actions)) + 2)
        flags = np.zeros(self.num_envs, np.bool_)
        observations = np.ones(self.num_envs, np.int64)
        return observations, np.zeros(self.num_envs), flags, flags, {}


gymnasium.register("corridor/Changing-v0", Changing, vector_entry_point=ChangingVector)
gymnasium.register("corridor/Computing-v0", Computing)
