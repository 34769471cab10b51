"""The worlds that the server has: bandits, a pendulum, and an empty one."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["SHIPPED", "Bandit", "DriftingBandit", "IntermittentBandit", "Pendulum"]

Sensors = NDArray[np.float64]
Rewards = list[float | None]
Step = tuple[Sensors, Rewards, bool, bool, dict[str, object]]

_ARMS = 5
# Chance of each arm, and its reward when it pays: on average 1, 1.2, 1.5, 0.8, 0.5.
_CHANCES = np.array([0.2, 0.4, 0.6, 0.8, 1.0])
_PAID = np.array([5.0, 3.0, 2.5, 1.0, 0.5])

_TORQUES = np.linspace(-2.5, 2.5, 13)
_MASS = 1.0
_LENGTH = 1.0
_GRAVITY = 9.8
_FRICTION = 0.1
# A rod that turns around its end.
_INERTIA = _MASS * _LENGTH**2 / 3
_INTEGRATION_STEPS = 8


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
    """A bandit whose channels are each null in one of ten steps."""

    name = "intermittent-bandit"

    def _reported(self, rewards: Rewards) -> Rewards:
        silent = self._random.random(_ARMS) < 0.1
        return [
            None if each else reward
            for each, reward in zip(silent, rewards, strict=True)
        ]


class Pendulum:
    """A rod on an axis, with a motor that cannot lift it in one go.

    The sensors are its angle (radians, 0 hanging, from -pi to pi) and its angular
    velocity (radians per second). The action has an item for each of 13 torques, from
    -2.5 to 2.5 Nm; each item, from 0 to 1, is the share of its torque. The reward is 0
    for a hanging rod and 1 for an upright one.

    Args:
        episode_steps: Number of steps of an episode; ``None`` for no end.
        dt: Seconds of the pendulum's time in a step.
    """

    name: ClassVar[str] = "pendulum"
    hz: ClassVar[float] = 30.0
    n_sensors: ClassVar[int] = 2
    n_actions: ClassVar[int] = len(_TORQUES)
    n_rewards: ClassVar[int] = 1

    def __init__(
        self, episode_steps: int | None = 1000, dt: float = 1.0 / 30.0
    ) -> None:
        if episode_steps is not None and not episode_steps >= 1:
            raise ValueError(
                f"episode_steps is {episode_steps!r}: expected 1 or more, or null"
            )
        if not 0 < dt <= 1:
            raise ValueError(f"dt is {dt!r}: expected seconds up to 1")
        self._episode_steps = episode_steps
        self._dt = dt
        self._taken = 0
        self._angle = self._velocity = 0.0
        self._random = np.random.default_rng()

    def reset(self, seed: int | None = None) -> Sensors:
        """Let the rod hang, almost at rest; return the sensors."""
        if seed is not None:
            self._random = np.random.default_rng(seed)
        self._taken = 0
        self._angle, self._velocity = self._random.uniform(-0.05, 0.05, 2).tolist()
        return self._sensors()

    def step(self, actions: Sensors) -> Step:
        """Apply torques; return sensors, rewards, terminated, truncated and info."""
        self._taken += 1
        torque = float(np.clip(actions, 0.0, 1.0) @ _TORQUES)
        torque = min(max(torque, _TORQUES[0]), _TORQUES[-1])
        dt = self._dt / _INTEGRATION_STEPS
        for _ in range(_INTEGRATION_STEPS):
            weight = -_MASS * _GRAVITY * _LENGTH / 2 * math.sin(self._angle)
            friction = -_FRICTION * self._velocity
            self._velocity += (torque + weight + friction) / _INERTIA * dt
            self._angle += self._velocity * dt
        self._angle = math.remainder(self._angle, math.tau)
        height = (1.0 - math.cos(self._angle)) / 2
        over = self._episode_steps is not None and self._taken >= self._episode_steps
        return self._sensors(), [height], False, over, {}

    def _sensors(self) -> Sensors:
        return np.array([self._angle, self._velocity])


class Empty:
    """A world that does nothing, with one sensor that is 0, and one action."""

    name: ClassVar[str] = "empty"
    hz: ClassVar[float] = 100.0
    n_sensors: ClassVar[int] = 1
    n_actions: ClassVar[int] = 1
    n_rewards: ClassVar[int] = 1

    def reset(self) -> Sensors:
        """Return the sensors."""
        return np.zeros(1)

    def step(self, actions: Sensors) -> tuple[Sensors, Rewards]:
        """Return sensors and rewards."""
        return np.zeros(1), [0.0]


#: The worlds by name.
SHIPPED = {
    each.name: each
    for each in (Bandit, DriftingBandit, Empty, IntermittentBandit, Pendulum)
}
