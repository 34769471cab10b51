"""The environment that the test programs of Lua and JavaScript provide, in Python."""

from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces


class LocalToy(gymnasium.Env[Any, Any]):
    """Draws its observations and rewards; ends after 50 steps."""

    SPACES: ClassVar[dict[str, spaces.Space[Any]]] = {
        "discrete": spaces.Discrete(1000),
        "box": spaces.Box(-1, 1, (2, 3), np.float32),
        "dict": spaces.Dict(
            {
                "place": spaces.Discrete(1000),
                "seen": spaces.Box(0, 255, (4,), np.uint8),
            }
        ),
    }

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.observation_space = self.SPACES[kind]
        is_box = kind == "box"
        self.action_space = spaces.Box(-1, 1, (2,)) if is_box else spaces.Discrete(5)
        self._state = self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self._state = seed % 2**32
        self._steps = 0
        return self._observed(), {"options": options or {}}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        observation = self._observed()
        over = self._steps == 50
        return observation, self._draw(), over, False, {"steps": self._steps}

    def _draw(self) -> float:
        self._state = (self._state * 1664525 + 1013904223) % 2**32
        return self._state / 2**32

    def _observed(self) -> Any:
        if self.kind == "discrete":
            return np.int64(int(self._draw() * 1000))
        if self.kind == "box":
            drawn = [self._draw() * 2 - 1 for _ in range(6)]
            return np.array(drawn, np.float32).reshape(2, 3)
        place = np.int64(int(self._draw() * 1000))
        seen = [int(self._draw() * 256) for _ in range(4)]
        return {"place": place, "seen": np.array(seen, np.uint8)}


def assert_same(one: Any, other: Any) -> None:
    """Compare two observations, types included."""
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert list(one) == list(other)
        for key, value in one.items():
            assert_same(value, other[key])
    else:
        assert one.dtype == other.dtype
        assert np.array_equal(one, other)
