"""Episodes of rollout workers: seeding, playing, and their columns."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium import spaces

from gym_http_core.episodes import Column, Episode, packed
from gym_http_core.returns import added

__all__ = [
    "Columns",
    "EpisodePlay",
    "Mode",
    "Policy",
    "episode_seed",
    "play_episode",
    "return_words",
]

Mode = Literal["training", "evaluation", "expert"]
Columns = dict[str, Any]
Policy = Callable[[Any, Any, np.random.Generator], Any]
"""A function of weights, observation and random generator, which returns an action, or
an action and a dict with further columns, such as ``{"log_probability": -0.7}``."""

#: Member of an info with the action that a person or a controller took instead.
INTERVENTION = "intervene_action"
_MODES: tuple[Mode, ...] = ("training", "evaluation", "expert")
_RESERVED = frozenset(
    {
        "actions",
        "done",
        "episode",
        "infos",
        "intervention",
        "length",
        "mode",
        "observations",
        "return",
        "rewards",
        "scalars",
        "start",
        "terminated",
        "truncated",
    }
)


def episode_seed(
    seed: int, worker: str, number: int, mode: Mode = "training"
) -> tuple[int, np.random.Generator]:
    """Return the seed of an episode's reset, and the random generator of its policy.

    They are the same wherever and whenever the episode is played.

    Args:
        seed: Seed of the run; 0 or more.
        worker: Name of the worker.
        number: Number of the episode, from 1.
        mode: Mode of the episode; each has its own numbers.
    """
    name = int.from_bytes(hashlib.sha256(worker.encode()).digest()[:16], "big")
    sequence = np.random.SeedSequence([seed, name, _MODES.index(mode), number])
    reset, generator = sequence.spawn(2)
    return int(reset.generate_state(1)[0]), np.random.default_rng(generator)


def play_episode(
    env: gymnasium.Env[Any, Any],
    policy: Policy,
    weights: Any,
    *,
    seed: int,
    worker: str,
    number: int,
    mode: Mode = "training",
    max_steps: int | None = None,
) -> Columns:
    """Play an episode as a rollout worker plays it, and return its columns.

    Args:
        env: The environment.
        policy: Chooses the actions.
        weights: First argument of the policy.
        seed: Seed of the run.
        worker: Name of the worker.
        number: Number of the episode, from 1.
        mode: Mode of the episode.
        max_steps: Steps after which it is over; None for no limit.
    """
    play = EpisodePlay(
        env, policy, weights, seed=seed, worker=worker, number=number, mode=mode
    )
    while not play.step() and play.length != max_steps:
        pass
    return play.take()


class EpisodePlay:
    """Plays an episode step by step, and collects its columns in one part or more.

    Args:
        env: The environment.
        policy: Chooses the actions.
        weights: First argument of the policy.
        seed: Seed of the run.
        worker: Name of the worker.
        number: Number of the episode, from 1.
        mode: Mode of the episode.

    Attributes:
        length: Number of steps.
        total: Sum of the rewards; float (k,) if they have k components.
        count: Number of steps of the current part.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        policy: Policy,
        weights: Any,
        *,
        seed: int,
        worker: str,
        number: int,
        mode: Mode = "training",
    ) -> None:
        self.length = 0
        self.total: Any = 0.0
        self._env = env
        self._policy = policy
        self._weights = weights
        self._number = number
        self._mode = mode
        reset_seed, self._rng = episode_seed(seed, worker, number, mode)
        # For policies that sample from it.
        env.action_space.seed(reset_seed)
        self._last = env.reset(seed=reset_seed)
        self._names: frozenset[str] | None = None
        self._begin()

    @property
    def count(self) -> int:
        """Number of steps of the current part."""
        return self._part.length

    def step(self) -> bool:
        """Play a step, and return whether the episode is over."""
        action, further = self._act(self._last[0])
        row = self._env.step(action)
        observation, reward, terminated, truncated, info = row
        taken = info.get(INTERVENTION)
        self._part.add(action if taken is None else taken, row)
        self._interventions.append(taken is not None)
        for name, value in further.items():
            self._further[name].append(value)
        self.length += 1
        self.total = added(self.total, reward)
        self._last = observation, info
        return bool(terminated or truncated)

    def take(self) -> Columns:
        """Return the columns of the current part, and begin the next one.

        They are those of ``rollout``, ``intervention``, further ones of the policy, and
        single values: ``episode`` is the number, ``start`` the number of steps before
        this part, and ``mode`` the mode.
        """
        columns = self._part.values(exact=True)
        for name, column in self._further.items():
            columns[name], is_numpy = packed(column.value())
            columns["scalars"] += [name] * is_numpy
        columns["intervention"] = np.array(self._interventions, bool)
        columns["episode"] = self._number
        columns["start"] = self.length - self._part.length
        columns["mode"] = self._mode
        self._begin()
        return columns

    def _begin(self) -> None:
        self._part = Episode(with_reset=True)
        self._part.begin(*self._last)
        self._interventions: list[bool] = []
        self._further = {name: Column() for name in self._names or ()}

    def _act(self, observation: Any) -> tuple[Any, Columns]:
        found = self._policy(self._weights, observation, self._rng)
        action, further = found, {}
        if self._has_further(found):
            action, further = found
        if self._names is None:
            self._names = _checked(further)
            self._further = {name: Column() for name in self._names}
        elif further.keys() != self._names:
            raise ValueError(
                f"the policy returned the columns {sorted(further)} in step "
                f"{self.length + 1}, and {sorted(self._names)} before: expected the "
                "same in each step"
            )
        return action, further

    def _has_further(self, found: Any) -> bool:
        if not (type(found) is tuple and len(found) == 2 and type(found[1]) is dict):
            return False
        space = self._env.action_space
        return not (isinstance(space, spaces.Tuple) and space.contains(found))


def return_words(total: Any) -> str:
    """Format a return for people, with one decimal for each component."""
    return ", ".join(f"{part:.1f}" for part in np.atleast_1d(total))


def _checked(further: Columns) -> frozenset[str]:
    for name in further:
        if not isinstance(name, str) or name in _RESERVED:
            raise ValueError(
                f"the policy returned a column {name!r}: expected a string that is not "
                f"one of {', '.join(sorted(_RESERVED))}"
            )
    return frozenset(further)
