"""Environments with spaces of classes that Gymnasium does not have.

A server loads this module with ``--import tests.support.envs.opaque_spaces``.
"""

import sys
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

#: The words that a `Mission` contains.
WORDS = ("go", "stay", "turn")


class Mission(spaces.Space[str]):
    """Some of `WORDS`, as MiniGrid and others have spaces of text.

    Args:
        make: Makes a text of a word; no client can have it.
    """

    def __init__(self, make: Any) -> None:
        self.make = make
        super().__init__(dtype=str)

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        words = WORDS if mask is None else [WORDS[index] for index in mask]
        return str(self.make(words[self.np_random.integers(len(words))]))

    def contains(self, x: Any) -> bool:
        if x == "broken":
            raise ArithmeticError("contains is broken")
        return isinstance(x, str) and x.startswith("please ")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mission)


class Even(spaces.Discrete):
    """The even numbers below a number.

    Args:
        limit: The number.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__(limit)

    def sample(self, mask: Any = None, probability: Any = None) -> np.int64:
        return np.int64(2 * self.np_random.integers(self.limit // 2))

    def contains(self, x: Any) -> bool:
        return super().contains(x) and int(x) % 2 == 0


class Mute(spaces.Box):
    """A space of which even the description fails, and every method."""

    def __init__(self) -> None:
        super().__init__(0, 1, (2,))
        del self.low

    def sample(self, mask: Any = None, probability: Any = None) -> Any:
        raise ArithmeticError("sample is broken")

    def __repr__(self) -> str:
        raise ArithmeticError("repr is broken")


class Leaving(spaces.Space[Any]):
    """A space that raises `SystemExit` in everything, even when it is shown."""

    def _leave(self, *args: Any, **kwargs: Any) -> Any:
        sys.exit("enough")

    sample = contains = seed = __eq__ = __repr__ = _leave  # type: ignore[assignment]


def polite(word: str) -> str:
    """Make a text of a word."""
    return f"please {word}"


class Errand(gymnasium.Env[Any, Any]):
    """An environment that answers with the mission it was given.

    Args:
        with_mute: Whether the observations have a space that cannot be described.
    """

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None, with_mute: bool = False) -> None:
        self.render_mode = render_mode
        parts: dict[str, spaces.Space[Any]] = {
            "image": spaces.Box(0, 255, (2, 2, 3), np.uint8),
            "mission": Mission(polite),
        }
        if with_mute:
            parts["mute"] = Mute()
        self.observation_space = spaces.Dict(parts)
        self.action_space = spaces.Tuple((Mission(polite), Even(6)))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self._seen(f"please {WORDS[self.np_random.integers(3)]}"), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        mission, number = action
        info = {"types": [type(mission).__name__, type(number).__name__]}
        return self._seen(mission), float(number), False, False, info

    def render(self) -> Any:
        return np.zeros((2, 2, 3), np.uint8)

    def _seen(self, mission: str) -> dict[str, Any]:
        image = self.np_random.integers(0, 256, (2, 2, 3), np.uint8)
        return {"image": image, "mission": mission} | (
            {"mute": None} if "mute" in self.observation_space.spaces else {}
        )


class Sum(gymnasium.Env[Any, Any]):
    """An environment with the sum of its actions, all of which are even."""

    def __init__(self) -> None:
        self.observation_space = spaces.Dict({"sum": Even(100)})
        self.action_space = Even(6)
        self._sum = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._sum = 0
        return {"sum": np.int64(0)}, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._sum += int(action)
        return {"sum": np.int64(self._sum)}, 1.0, self._sum > 20, False, {}


class Exit(gymnasium.Env[Any, Any]):
    """An environment that has another space which exits after each reset."""

    observation_space = spaces.Discrete(1)

    def __init__(self) -> None:
        self.action_space = Leaving()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.action_space = Leaving()
        return 0, {"space": {self.action_space.sample}}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return 0, 0.0, False, False, {}


gymnasium.register("opaque/Errand-v0", Errand)
gymnasium.register("opaque/Exit-v0", Exit, disable_env_checker=True)
gymnasium.register("opaque/Sum-v0", Sum)
