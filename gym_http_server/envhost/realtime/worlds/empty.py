"""The empty world, which does nothing: for measurements of clocks and transports."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

__all__ = ["Empty"]

_SENSORS = np.zeros(1)


class Empty:
    """A world that does nothing, with one sensor that is 0, and one action."""

    name: ClassVar[str] = "empty"
    hz: ClassVar[float] = 100.0
    n_sensors: ClassVar[int] = 1
    n_actions: ClassVar[int] = 1
    n_rewards: ClassVar[int] = 1

    def reset(self) -> Any:
        """Return the sensors."""
        return _SENSORS

    def step(self, actions: Any) -> Any:
        """Return sensors and rewards."""
        return _SENSORS, [0.0]
