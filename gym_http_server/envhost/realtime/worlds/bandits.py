"""Bandits: worlds with five arms, each with a reward channel of its own."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["Bandit", "DriftingBandit", "IntermittentBandit"]

_ARMS = 5
# Chance of each arm, and its reward when it pays: on average 1, 1.2, 1.5, 0.8, 0.5.
_CHANCES = np.array([0.2, 0.4, 0.6, 0.8, 1.0])
_PAID = np.array([5.0, 3.0, 2.5, 1.0, 0.5])

Rewards = list[float | None]
Sensors = NDArray[np.float64]
Step = tuple[Sensors, Rewards, bool, bool, dict[str, object]]


class Bandit:
    """Five arms that pay at random; the third one pays best on average.

    An action pulls the arm with its greatest positive item; zeros pull no arm. There
    are no sensors. Each arm has a reward channel.

    Args:
        episode_steps: Number of steps of an episode; ``None`` for no end.
    """

    name: ClassVar[str] = "bandit"
    hz: ClassVar[float] = 100.0
    n_sensors: ClassVar[int] = 0
    n_actions: ClassVar[int] = _ARMS
    n_rewards: ClassVar[int] = _ARMS

    def __init__(self, episode_steps: int | None = 1000) -> None:
        if episode_steps is not None and not episode_steps >= 1:
            raise ValueError(
                f"episode_steps is {episode_steps!r}: expected 1 or more, or null"
            )
        self._episode_steps = episode_steps
        self._taken = 0
        self._chances = _CHANCES.copy()
        self._random = np.random.default_rng()

    def reset(self, seed: int | None = None) -> Sensors:
        """Begin an episode; return the sensors."""
        if seed is not None:
            self._random = np.random.default_rng(seed)
        self._taken = 0
        self._chances = _CHANCES.copy()
        return np.zeros(0)

    def step(self, actions: Sensors) -> Step:
        """Pull an arm; return sensors, rewards, terminated, truncated and info."""
        self._taken += 1
        self._drift()
        arm = int(np.argmax(actions))
        pulled = actions[arm] > 0
        # Drawn for every arm and step, so that a seed fixes them for all agents.
        pays = self._random.random(_ARMS) < self._chances
        rewards: Rewards = [0.0] * _ARMS
        if pulled and pays[arm]:
            rewards[arm] = float(_PAID[arm])
        over = self._episode_steps is not None and self._taken >= self._episode_steps
        return np.zeros(0), self._reported(rewards), False, over, {}

    def _drift(self) -> None:
        """Change the chances before a step."""

    def _reported(self, rewards: Rewards) -> Rewards:
        """Return the rewards as the channels report them."""
        return rewards


class DriftingBandit(Bandit):
    """A bandit whose chances change slowly, so that no arm stays the best."""

    name = "drifting-bandit"

    def _drift(self) -> None:
        moved = self._chances + self._random.normal(0.0, 0.01, _ARMS)
        # Reflected at 0 and 1.
        self._chances = 1.0 - np.abs(1.0 - np.abs(moved))


class IntermittentBandit(Bandit):
    """A bandit whose channels each say nothing in one of ten steps."""

    name = "intermittent-bandit"

    def _reported(self, rewards: Rewards) -> Rewards:
        silent = self._random.random(_ARMS) < 0.1
        return [
            None if each else reward
            for each, reward in zip(silent, rewards, strict=True)
        ]
