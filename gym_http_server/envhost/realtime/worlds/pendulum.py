"""The pendulum: a rod on an axis, to be swung up and held there by weak torques."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["Pendulum"]

_TORQUES = np.linspace(-2.5, 2.5, 13)
_MASS = 1.0
_LENGTH = 1.0
_GRAVITY = 9.8
_FRICTION = 0.1
# A rod that turns around its end.
_INERTIA = _MASS * _LENGTH**2 / 3
_INTEGRATION_STEPS = 8

Sensors = NDArray[np.float64]
Step = tuple[Sensors, list[float | None], bool, bool, dict[str, object]]


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
