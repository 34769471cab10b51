"""An external environment that does nothing: ``counting.py URL DIALECT``.

As fast as one in Python can be, so that a benchmark measures the way to it.
"""

from __future__ import annotations

import sys
from typing import Any

import gymnasium
import numpy as np

from benchmarks.external_programs import NAME
from gym_http_client import serve_env

__all__: list[str] = []


class _Counting(gymnasium.Env[np.ndarray, np.int64]):
    observation_space = gymnasium.spaces.Box(-1, 1, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self) -> None:
        self._observation = np.zeros(4, np.float32)
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        self._steps = 0
        return self._observation, {}

    def step(
        self, action: np.int64
    ) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        return self._observation, 1.0, False, self._steps == 500, {}


if __name__ == "__main__":
    serve_env(_Counting, sys.argv[1], name=NAME, dialect=sys.argv[2])
