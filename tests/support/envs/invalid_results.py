"""Environments that return invalid results or have invalid attributes.

A server loads this module with ``--import tests.support.envs.invalid_results``. Action
1 returns the result that ``gives`` names; ``has`` names the attribute that is invalid
from the start.
"""

import os
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces


class BadKey:
    """A key that cannot be converted to text."""

    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class BadMapping(dict[str, Any]):
    """A mapping whose items cannot be read."""

    def items(self) -> Any:
        raise RuntimeError("no items")


class Unsampled(spaces.Space[Any]):
    """A space of an unknown class that cannot be sampled."""

    def sample(self, mask: Any = None, probability: Any = None) -> Any:
        raise RuntimeError("no sample")


class Wordless(Exception):
    """An exception whose text cannot be read."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


def _circular() -> dict[str, Any]:
    info: dict[str, Any] = {}
    info["self"] = info
    return info


def _nested(depth: int) -> spaces.Space[Any]:
    space: spaces.Space[Any] = spaces.Discrete(2)
    for _ in range(depth):
        space = spaces.Tuple((space,))
    return space


def _step(**other: Any) -> tuple[Any, ...]:
    usual = {"observation": 0, "reward": 1.0, "terminated": False, "truncated": False}
    return tuple({**usual, "info": {}, **other}.values())


class InvalidResults(gymnasium.Env[Any, Any]):
    """Has invalid results or attributes, which its arguments name."""

    metadata: ClassVar[Any] = {"render_modes": ["rgb_array", "ansi"]}
    action_space: Any = spaces.Discrete(2)
    observation_space: Any = spaces.Discrete(1000)

    STEPS: ClassVar[dict[str, Any]] = {
        "flags": _step(terminated=np.array([True, False])),
        "text": _step(reward="much"),
        "none": _step(reward=None),
        "rewards": _step(reward=np.array(["much", "more"])),
        "complex": _step(reward=1j),
        "huge": _step(reward=10**400),
        "circle": _step(info=_circular()),
        "key": _step(info={BadKey(): None}),
        "mapping": _step(info={"a": BadMapping(a=1), "b": None}),
        "three": (0, 1.0, False),
    }
    ERRORS: ClassVar[dict[str, Exception]] = {
        "half a character": RuntimeError("\ud800"),
        "wordless": Wordless(),
        "large": ValueError(2**70, 2**600),
        "larger": ValueError(10**5000),
    }
    FRAMES: ClassVar[dict[str, Any]] = {
        "half a character": "\ud800",
        "circle": _circular(),
    }
    TRAITS: ClassVar[dict[str, dict[str, Any]]] = {
        "no metadata": {"metadata": None},
        "odd modes": {"metadata": {"render_modes": 5}},
        "metadata in itself": {"metadata": _circular()},
        "odd mode": {"render_mode": 5},
        "no space": {"observation_space": None},
        "own space": {"observation_space": Unsampled()},
        "deep space": {"observation_space": _nested(400)},
        "no action": {"action_space": None},
        "deep action": {"action_space": _nested(1500)},
    }

    def __init__(
        self, gives: str = "", has: str = "", render_mode: str | None = None
    ) -> None:
        self.gives = gives
        self.render_mode = render_mode
        for name, value in self.TRAITS.get(has, {}).items():
            setattr(self, name, value)
        if has in self.ERRORS:
            raise self.ERRORS[has]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return 0, {}

    def step(self, action: Any) -> Any:
        if action and self.gives == "no output":
            os.close(1)
            os.close(2)
            raise RuntimeError("nowhere to print this to")
        if action and self.gives in self.ERRORS:
            raise self.ERRORS[self.gives]
        return (
            self.STEPS[self.gives] if action and self.gives in self.STEPS else _step()
        )

    def render(self) -> Any:
        return self.FRAMES[self.gives]


gymnasium.register("invalid/Results-v0", InvalidResults)
