"""Environments beyond Gymnasium's: every action space, and unusual values.

A server loads this module with ``--import tests.support.envs.toys``.
"""

import enum
import os
import pathlib
import time
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces

SPACES: dict[str, spaces.Space[Any]] = {
    "box": spaces.Box(-1, 1, (2, 2), np.float32),
    "box64": spaces.Box(-1, 1, (2,), np.float64),
    "endless": spaces.Box(-np.inf, np.array([np.inf, 9], np.float32), (2,)),
    "bytes": spaces.Box(0, 255, (3,), np.uint8),
    "point": spaces.Box(-1, 1, (), np.float32),
    "dict": spaces.Dict({"go": spaces.Discrete(3), "by": spaces.Box(0, 9, (2,))}),
    "discrete": spaces.Discrete(3),
    "graph": spaces.Graph(spaces.Box(-1, 1, (2,)), spaces.Discrete(3)),
    "multibinary": spaces.MultiBinary(3),
    "multibinary2": spaces.MultiBinary((2, 2)),
    "multidiscrete": spaces.MultiDiscrete([2, 3]),
    "start": spaces.Discrete(3, start=5),
    "text": spaces.Text(4),
    "tuple": spaces.Tuple((spaces.Discrete(2), spaces.Box(0, 1, (2,)))),
}


class Kinds(enum.IntEnum):
    """A class among the attributes of an environment, as `actions` of MiniGrid."""

    LEFT = 0


class Echo(gymnasium.Env[Any, Any]):
    """Returns each action as the observation, in a space of any kind."""

    kinds = Kinds

    def __init__(self, space: str = "box", render_mode: str | None = None) -> None:
        self.action_space = self.observation_space = SPACES[space]
        self.render_mode = render_mode
        self.steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        self.action_space.seed(0)
        return self.observation_space.sample(), {"options": str(options)}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        kind = getattr(action, "dtype", type(action).__name__)
        return action, 1.0, False, False, {"steps": self.steps, "kind": str(kind)}

    def visited(self) -> set[int]:
        """Return what cannot be sent."""
        return {self.steps}


class Heavy(gymnasium.Env[Any, Any]):
    """Takes large actions."""

    observation_space = spaces.Discrete(2)

    def __init__(self, size: int, render_mode: str | None = None) -> None:
        self.action_space = spaces.Box(-1, 1, (size,), np.float64)
        self.render_mode = render_mode

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return 0, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return 1, 0.0, False, False, {}


class Odd(gymnasium.Env[Any, Any]):
    """Returns values that JSON does not have."""

    action_space = spaces.Discrete(2)
    observation_space = spaces.Box(-np.inf, np.inf, (4,), np.float64)
    VALUES = (np.nan, np.inf, -np.inf, 1.0)

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.array(self.VALUES), {"value": np.float32(np.inf)}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        info = {"nan": np.float32(np.nan), "deep": [{"inf": -np.inf}]}
        reward = np.nan if action else np.inf
        return np.array(self.VALUES), reward, False, False, info


class Own(ValueError):
    """Of a class that only this module has, and made from more than a text."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def _group() -> None:
    found: list[Exception] = [ValueError(1, b"2"), Own(3, 4), RuntimeError({5})]
    for error in ("missing", "decode"):
        try:
            ERRORS[error]()
        except Exception as caught:
            found.append(caught)
    raise ExceptionGroup("many", [*found, ExceptionGroup("inner", [KeyError("6")])])


def _list() -> None:
    raise ValueError([b"\xff", "text", {"bytes": 1}])


def _pending() -> None:
    raise gymnasium.error.AlreadyPendingCallError("step is pending", "step")


def _none_pending() -> None:
    raise gymnasium.error.NoAsyncCallError("no step is pending", "step")


ERRORS: dict[str, Callable[[], Any]] = {
    "decode": b"abc\xff".decode,
    "decode file": (b"x" * 100_000 + b"\xff\xfe").decode,
    "encode": "half \ud800 a character".encode,
    "encode file": lambda: ("x" * 5000 + "\u20ac" * 5000).encode("latin-1"),
    "missing": lambda: open("/nonexistent/file"),  # noqa: SIM115
    "missing bytes": lambda: open(b"/nonexistent/file"),  # noqa: SIM115
    "missing path": lambda: pathlib.Path("/nonexistent/file").stat(),
    "missing two": lambda: os.rename("/nonexistent/one", "/nonexistent/two"),
    "a file": lambda: os.listdir("/proc/self/status"),
    "group": _group,
    "list": _list,
    "pending": _pending,
    "none pending": _none_pending,
}


class Raising(gymnasium.Env[Any, Any]):
    """Raises in a step the exception that the action names."""

    action_space = spaces.Text(20)
    observation_space = spaces.Discrete(2)

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, Any]:
        return 0, {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        ERRORS[action]()
        return 0, 0.0, False, False, {}


class Big(gymnasium.Env[Any, Any]):
    """Observes one array of many megabytes, and overwrites it in every step."""

    action_space = spaces.Discrete(2)
    SIZE = 7_000_000

    def __init__(self, size: int = SIZE, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.observation_space = spaces.Box(0, 255, (size,), np.uint8)
        self.steps = 0
        self._array = self.frame = np.zeros(size, np.uint8)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        self._array[:] = 0
        return self._array, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        self._array[:] = self.steps
        return self._array, 1.0, False, False, {}


class SlowPaint(gymnasium.Env[Any, Any]):
    """Renders slowly frames of a shape, and their gray is the number of steps."""

    action_space = spaces.Discrete(2)
    observation_space = spaces.Box(-1, 1, (1,), np.float64)
    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"]}

    def __init__(
        self,
        seconds: float,
        shape: Sequence[int] = (20, 30, 3),
        render_mode: str | None = None,
    ) -> None:
        self.render_mode = render_mode
        self._seconds = seconds
        self._shape = shape
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        return np.zeros(1), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        return np.zeros(1), 1.0, False, False, {}

    def render(self) -> Any:
        time.sleep(self._seconds)
        return np.full(self._shape, self._steps % 256, np.uint8)


gymnasium.register("toys/Big-v0", Big)
gymnasium.register("toys/Echo-v0", Echo)
gymnasium.register("toys/Heavy-v0", Heavy, kwargs={"size": 20_000})
gymnasium.register("toys/Heavier-v0", Heavy, kwargs={"size": 400_000})
gymnasium.register("toys/Odd-v0", Odd)
gymnasium.register("toys/Raising-v0", Raising)
gymnasium.register("toys/SlowPaint-v0", SlowPaint)
