"""Environments that are resumed, and one that cannot be.

A server loads this module with ``--import tests.support.envs.resumable``.
"""

import os
import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Walker(gymnasium.Env[Any, Any]):
    """Walks at random; its pace, which is an attribute, and its place are its state.

    Args:
        start: Where it begins, float (n,).
    """

    action_space = spaces.Discrete(3)

    def __init__(self, start: Any = (0.0,), render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.start = np.asarray(start, np.float64)
        self.observation_space = spaces.Box(
            -np.inf, np.inf, self.start.shape, np.float64
        )
        self.pace = 1.0
        self.jumps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if options == {"fails": True}:
            self.pace = 7.0
            raise RuntimeError("a reset that fails")
        self.place = self.start + self.np_random.normal()
        return self.place.copy(), {"jumps": self.jumps}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.place += self.pace * (action - 1) + self.np_random.normal()
        if action == 2 and self.jumps == 3:
            self.jumps = 0
            raise RuntimeError("a step that fails")
        return self.place.copy(), float(self.place[0]), False, False, {}

    def jump(self, far: float) -> float:
        """Change the state by a method."""
        self.jumps += 1
        self.place += far * self.np_random.random()
        return float(self.place[0])


class ReadsClock(Walker):
    """Has the time in its infos."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        *result, _ = super().step(action)
        return (*result, {"at": time.time()})  # type: ignore[return-value]


class Unsent:
    """Cannot be sent, and reads otherwise in each process."""

    def __repr__(self) -> str:
        return f"<Unsent of {os.getpid()}>"


class HasUnsent(Walker):
    """Has a value in its infos that cannot be sent."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        *result, _ = super().step(action)
        return (*result, {"unsent": Unsent()})  # type: ignore[return-value]


class Slow(Walker):
    """Takes its time for each step, and far too long after a signal to do so.

    Args:
        seconds: The time for a step.
        signal: A file; while it is there, a step takes a minute.
    """

    def __init__(self, seconds: float, signal: str, **more: Any) -> None:
        super().__init__(**more)
        self.seconds, self.signal = seconds, signal

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        time.sleep(60.0 if os.path.exists(self.signal) else self.seconds)
        return super().step(action)


class TakesNoSeed(Walker):
    """Has a reset without a seed."""

    def reset(self, *, options: Any = None) -> Any:  # type: ignore[override]
        return super().reset(seed=5, options=options)


gymnasium.register("resumable/Walker-v0", Walker, disable_env_checker=True)
gymnasium.register("resumable/ReadsClock-v0", ReadsClock, disable_env_checker=True)
gymnasium.register("resumable/HasUnsent-v0", HasUnsent, disable_env_checker=True)
gymnasium.register("resumable/Slow-v0", Slow, disable_env_checker=True)
gymnasium.register("resumable/TakesNoSeed-v0", TakesNoSeed, disable_env_checker=True)
