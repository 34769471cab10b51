"""Episodes of Gymnasium's environments, recorded locally to be played on a server."""

from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np

from tests.conformance.making import Case
from tests.conformance.making.models import Model, model_of

DESCRIPTION = (
    "Episodes to be had from a live server over REST and over its stream; bits are "
    "those of Gymnasium itself"
)

_STEPS = 50
_SEEDS = 40


def cases() -> Iterator[Case]:
    """Yield all cases."""
    for name, (env_id, kwargs, seed) in _EPISODES.items():
        best = max(
            (_played(env_id, kwargs, seed, choice) for choice in range(_SEEDS)),
            key=lambda case: len(case["steps"]),
        )
        yield {"id": name, **best}


_EPISODES: dict[str, tuple[str, dict[str, Any], int]] = {
    "frozen-lake": ("FrozenLake-v1", {"map_name": "8x8"}, 42),
    "frozen-lake-not-slippery": ("FrozenLake-v1", {"is_slippery": False}, 1),
    "taxi": ("Taxi-v4", {}, 7),
    "blackjack": ("Blackjack-v1", {}, 3),
    "blackjack-natural": ("Blackjack-v1", {"natural": True}, 11),
    "cliff-walking": ("CliffWalking-v1", {}, 0),
    "cart-pole": ("CartPole-v1", {}, 42),
    "mountain-car": ("MountainCar-v0", {}, 5),
    "mountain-car-continuous": ("MountainCarContinuous-v0", {}, 5),
    "pendulum": ("Pendulum-v1", {}, 9),
    "acrobot": ("Acrobot-v1", {}, 2),
}


def _played(env_id: str, kwargs: dict[str, Any], seed: int, choice: int) -> Case:
    """Play until the end of an episode, with actions of a generator of our own."""
    generator = np.random.default_rng(choice)
    env = gymnasium.make(env_id, **kwargs)
    observation, info = env.reset(seed=seed)
    start = {"observation": model_of(observation), "info": model_of(info)}
    actions: list[Any] = []
    steps: list[dict[str, Model | bool]] = []
    for _ in range(_STEPS):
        action = _action(env.action_space, generator)
        actions.append(action.tolist())
        observation, reward, terminated, truncated, info = env.step(action)
        steps.append(
            {
                "observation": model_of(observation),
                "reward": model_of(reward),
                "terminated": bool(terminated),
                "truncated": bool(truncated),
                "info": model_of(info),
            }
        )
        if terminated or truncated:
            break
    env.close()
    create: dict[str, Any] = {
        "env_id": env_id,
        **({"kwargs": kwargs} if kwargs else {}),
    }
    fields = {"create": create, "seed": seed, "reset": start}
    return {**fields, "actions": actions, "steps": steps}


def _action(space: Any, generator: np.random.Generator) -> Any:
    if isinstance(space, gymnasium.spaces.Discrete):
        return np.int64(generator.integers(space.n))
    # What float32 holds exactly in few digits, so that any language reads the same.
    numbers = generator.integers(-8, 9, space.shape) / 8
    return (numbers * space.high).astype(space.dtype)
