"""Environments with values in their infos that have no exact form on the wire.

A server loads this module with ``--import tests.support.envs.odd_infos``.
"""

import dataclasses
import datetime
import decimal
import enum
import pathlib
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Colour(enum.Enum):
    """An enumeration."""

    RED = 1


@dataclasses.dataclass
class Point:
    """A class of data."""

    x: int = 1


#: By name: the value, its ``repr`` and the name of its class.
ODD: dict[str, tuple[Any, str, str]] = {
    "set": ({7}, "{7}", "set"),
    "enum": (Colour.RED, "<Colour.RED: 1>", f"{__name__}.Colour"),
    "time": (
        datetime.datetime(2026, 1, 2, 3, 4),
        "datetime.datetime(2026, 1, 2, 3, 4)",
        "datetime.datetime",
    ),
    "path": (
        pathlib.PurePosixPath("/a"),
        "PurePosixPath('/a')",
        "pathlib.PurePosixPath",
    ),
    "data": (Point(), "Point(x=1)", f"{__name__}.Point"),
    "decimal": (decimal.Decimal("1.5"), "Decimal('1.5')", "decimal.Decimal"),
    "fields": (
        np.zeros(1, [("a", "i4")]),
        "array([(0,)], dtype=[('a', '<i4')])",
        "numpy.ndarray",
    ),
}


class OddInfos(gymnasium.Env[Any, Any]):
    """Returns such values in each info, or in an observation after the action 1."""

    action_space = spaces.Discrete(2)
    observation_space = spaces.Discrete(100)

    def __init__(self, *, only_complex: bool = False) -> None:
        self._only_complex = only_complex

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._count = 0
        return 0, self._info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._count += 1
        observation = {1, 2} if action else self._count
        return observation, 1.0, False, False, self._info()

    def _info(self) -> dict[str, Any]:
        info: dict[str, Any] = {"count": self._count, "complex": 1 - 2j}
        if not self._only_complex:
            info |= {name: odd[0] for name, odd in ODD.items()}
            info["inner"] = {"list": [1, {7}], "keys": {Colour.RED: 1}}
        return info


gymnasium.register("odd/Infos-v0", OddInfos, disable_env_checker=True)
