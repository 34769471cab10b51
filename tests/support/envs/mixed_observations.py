"""Environments whose observations have every kind that clients must distinguish.

A server loads this module with ``--import tests.support.envs.mixed_observations``.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

_FULL = np.iinfo(np.int64)
#: Values that text, or a language with one kind of number, would change.
AWKWARD = (-0.0, 5e-324, np.inf, -np.inf, np.nan, 0.1, 1 / 3, 2.0**53 + 2, 1e308)


class Mixture(gymnasium.Env[Any, Any]):
    """Draws its observations and rewards at random, and ends episodes at random.

    Args:
        kind: The observations: a key of `OBSERVATIONS`.
        actions: The actions: a key of `ACTIONS`.
    """

    def __init__(
        self, kind: str, actions: str = "discrete", render_mode: str | None = None
    ) -> None:
        self.observation_space = OBSERVATIONS[kind]
        self.action_space = ACTIONS[actions]
        self.render_mode = render_mode

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self._draw(self.observation_space), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation = self._draw(self.observation_space)
        ends = self.np_random.random(2) < 0.03
        reward = float(self.np_random.choice(AWKWARD)) + _weight(action)
        return observation, reward, bool(ends[0]), bool(ends[1]), {}

    def _draw(self, space: Any) -> Any:
        """Draw an element of a space from the environment's own generator."""
        if isinstance(space, spaces.Dict):
            return {key: self._draw(part) for key, part in space.spaces.items()}
        if isinstance(space, spaces.Tuple):
            return tuple(self._draw(part) for part in space.spaces)
        draw = self.np_random
        if isinstance(space, spaces.Discrete):
            return np.int64(space.start + draw.integers(space.n))
        if space.dtype == np.float64:
            return draw.choice(AWKWARD, space.shape)
        if np.issubdtype(space.dtype, np.floating):
            # An array, even where it has no axes.
            return np.asarray(draw.standard_normal(space.shape)).astype(space.dtype)
        if space.dtype == np.bool_:
            return draw.random(space.shape) < 0.5
        ends = space.low.min(), space.high.max()
        return draw.integers(*ends, space.shape, space.dtype, endpoint=True)


class Growing(Mixture):
    """A mixture with one action more in each episode, so that its space changes."""

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__("int64", render_mode=render_mode)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        count = self.action_space.n + 1  # type: ignore[attr-defined]
        self.action_space = spaces.Discrete(count, start=-1, seed=7)
        return super().reset(seed=seed, options=options)


def _weight(action: Any) -> float:
    """Return a number that depends on every bit of an action."""
    if isinstance(action, dict):
        return sum(map(_weight, action.values()))
    if isinstance(action, tuple):
        return sum(map(_weight, action))
    weights = np.arange(1, np.size(action) + 1)
    return float(np.ravel(np.asarray(action, np.float64)) @ weights)


def _box(shape: tuple[int, ...], dtype: Any) -> spaces.Box:
    if np.issubdtype(dtype, np.integer):
        bounds = np.iinfo(dtype)
        return spaces.Box(bounds.min, bounds.max, shape, dtype)
    return spaces.Box(-np.inf, np.inf, shape, dtype)


OBSERVATIONS: dict[str, spaces.Space[Any]] = {
    "bool": spaces.Box(0, 1, (2, 3), np.bool_),
    "dict": spaces.Dict(
        {
            "bits": spaces.Box(0, 1, (5,), np.bool_),
            "far": _box((3,), np.int64),
            "place": spaces.Discrete(9, start=-4),
            "within": spaces.Dict({"near": _box((2, 2), np.float32)}),
        }
    ),
    "float64": _box((4,), np.float64),
    "half": _box((3,), np.float16),
    "int64": _box((2, 2), np.int64),
    "point": _box((), np.float32),
    "small": spaces.Dict(
        {
            name: _box((3,), np.dtype(name))
            for name in ("int16", "int32", "int8", "uint16", "uint32", "uint8")
        }
    ),
    "tuple": spaces.Tuple(
        (
            spaces.Discrete(5),
            _box((2,), np.float64),
            spaces.Tuple((_box((1,), np.uint8), spaces.Discrete(2))),
        )
    ),
    "uint64": _box((3,), np.uint64),
}
ACTIONS: dict[str, spaces.Space[Any]] = {
    "box": spaces.Box(-1, 1, (2,), np.float32),
    "box64": spaces.Box(-1, 1, (2,), np.float64),
    "dict": spaces.Dict({"by": spaces.Box(0, 9, (2,)), "go": spaces.Discrete(3)}),
    "discrete": spaces.Discrete(3, start=-1),
    "multibinary": spaces.MultiBinary(4),
    "multidiscrete": spaces.MultiDiscrete([2, 5]),
    "tuple": spaces.Tuple((spaces.Discrete(2), spaces.Box(0, 1, (2,)))),
}

_ACTIONS_FOR = {
    "bool": "multibinary",
    "dict": "dict",
    "float64": "box64",
    "half": "box",
    "tuple": "tuple",
    "small": "multidiscrete",
}
#: Their IDs, in order.
ENV_IDS = [f"mixed/{kind.title()}-v0" for kind in OBSERVATIONS]
for _kind, _env_id in zip(OBSERVATIONS, ENV_IDS, strict=True):
    gymnasium.register(
        _env_id,
        Mixture,
        kwargs={"kind": _kind, "actions": _ACTIONS_FOR.get(_kind, "discrete")},
    )
gymnasium.register("mixed/Growing-v0", Growing)
ENV_IDS.append("mixed/Growing-v0")
