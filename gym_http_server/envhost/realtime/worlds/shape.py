"""The numbers of sensors, actions and rewards of a world, and checks against them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Self

import gymnasium
import numpy as np
from numpy.typing import NDArray

__all__ = ["Shape"]

_MOST = 10_000_000


class Shape(NamedTuple):
    """The sizes that a world announces.

    Attributes:
        n_sensors: Length of its array of sensors.
        n_actions: Length of the array of actions that it takes.
        n_rewards: Number of its reward channels.
        hz: Its own rate, or ``None``.
    """

    n_sensors: int
    n_actions: int
    n_rewards: int
    hz: float | None

    @classmethod
    def of(cls, made: Any) -> Self:
        """Read the sizes of a world.

        Raises:
            TypeError: One is missing or is not a count.
            ValueError: One is out of range.
        """
        n_rewards = _count(made, "n_rewards", 1) if hasattr(made, "n_rewards") else 1
        return cls(
            _count(made, "n_sensors", 0),
            _count(made, "n_actions", 1),
            n_rewards,
            _rate(made),
        )

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        """The space of the sensors."""
        return gymnasium.spaces.Box(-np.inf, np.inf, (self.n_sensors,), np.float64)

    @property
    def action_space(self) -> gymnasium.spaces.Box:
        """The space of the actions."""
        return gymnasium.spaces.Box(-np.inf, np.inf, (self.n_actions,), np.float64)

    def sensors(self, given: Any) -> NDArray[np.float64]:
        """Return sensors as an array.

        Raises:
            ValueError: Their number is wrong.
        """
        # A copy, since a world may change its array later.
        sensors = np.array(given, np.float64)
        if sensors.shape != (self.n_sensors,):
            raise ValueError(
                f"the world returned sensors of shape {sensors.shape}: expected "
                f"{(self.n_sensors,)}, as n_sensors says"
            )
        return sensors

    def rewards(self, given: Any) -> list[float | None]:
        """Return rewards as a list, with ``None`` where a channel said nothing.

        Raises:
            ValueError: Their number is wrong, or one is not a number.
        """
        single = isinstance(given, int | float | np.number) or given is None
        items = [given] if single else list(given)
        if len(items) != self.n_rewards:
            raise ValueError(
                f"the world returned {len(items)} rewards: expected {self.n_rewards}, "
                "as n_rewards says"
            )
        rewards = [None if each is None else float(each) for each in items]
        if any(each is not None and math.isnan(each) for each in rewards):
            raise ValueError(
                f"the world returned the rewards {rewards!r:.80}: expected numbers, "
                "and None for a channel that says nothing"
            )
        return rewards


def _count(made: Any, name: str, least: int) -> int:
    value = getattr(made, name, None)
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(
            f"{name} of the world is {value!r:.80}: expected an integer from {least}"
        )
    if not least <= value <= _MOST:
        raise ValueError(
            f"{name} of the world is {value}: expected from {least} to {_MOST}"
        )
    return int(value)


def _rate(made: Any) -> float | None:
    hz = getattr(made, "hz", None)
    if hz is None:
        return None
    if isinstance(hz, bool) or not isinstance(hz, int | float) or not hz > 0:
        raise ValueError(f"hz of the world is {hz!r:.80}: expected a positive number")
    return float(hz)
