"""Environments for vectors, whose infos change from step to step.

A server loads this module with ``--import tests.support.envs.varying_infos``.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

_VALUES: tuple[Any, ...] = (
    1,
    2.75,
    True,
    np.float32(0.1),
    np.int8(3),
    None,
    "word",
    np.bool_(True),
)
_ARRAYS: tuple[Any, ...] = (
    np.arange(3, dtype=np.int8),
    np.array([0.5, 2.5, -0.0], np.float32),
)


class VaryingInfos(gymnasium.Env[Any, Any]):
    """Draws its infos at random, of one type for some steps."""

    action_space = spaces.Discrete(2)
    observation_space = spaces.Box(0, 1, (2,), np.float64)

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self._mask = np.zeros(2, np.int8)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self.np_random.random(2), self._info()

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        ends = self.np_random.random() < 0.2
        reward = np.float32(self.np_random.random())
        return self.np_random.random(2), reward, bool(ends), False, self._info()

    def _info(self) -> dict[str, Any]:
        draw = self.np_random
        info: dict[str, Any] = {}
        # One and the same array, which it changes.
        self._mask[:] = draw.integers(0, 2, 2)
        number = draw.random()
        if number < 0.3:
            info["same"] = draw.random()
        if number < 0.6:
            info["mask"] = self._mask
            info["array"] = _ARRAYS[int(draw.random() < 0.1)]
        if draw.random() < 0.3:
            info["inner"] = {"count": 4, "deep": {"number": np.int16(7)}}
        if draw.random() < 0.3:
            info["word"] = "some"
        if draw.random() < 0.1:
            # Never more than NumPy's arrays of the first one's type bear.
            info["number"] = (1, 2.75, True)[draw.integers(3)]
        if draw.random() < 0.05:
            info["_odd"] = 1.5
        if draw.random() < 0.1:
            info["any"] = _VALUES[draw.integers(5, len(_VALUES))]
        return info


class ScriptedInfos(VaryingInfos):
    """Takes its infos from ``script``, one for each step."""

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self.script: Any = []

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        return self.np_random.random(2), float(action), False, False, self._info()

    def _info(self) -> dict[str, Any]:
        return self.script.pop(0) if self.script else {}


gymnasium.register("varying/Infos-v0", VaryingInfos)
gymnasium.register("varying/Scripted-v0", ScriptedInfos)
