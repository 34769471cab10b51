"""Counts the episodes of an environment: returns, lengths, durations and ends."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from gym_http_core.returns import added, plain_return

__all__ = ["MAX_KEPT", "EpisodeLog", "VectorEpisodeLog"]

#: Episodes that a log keeps; all of them are counted.
MAX_KEPT = 1000

Episode = dict[str, Any]


def _ignore(episode: Episode) -> None:
    """Do nothing with an episode."""


class _Ended:
    """The last episodes of an instance.

    Attributes:
        total: Number of episodes that ended.
        on_end: Called with each episode that ends.
    """

    def __init__(self) -> None:
        self.total = 0
        self.on_end: Callable[[Episode], None] = _ignore
        self._kept: deque[Episode] = deque(maxlen=MAX_KEPT)

    def since(self, number: int, last: int = MAX_KEPT) -> list[Episode]:
        """Return the last episodes of those from a number on, oldest first."""
        skipped = max(
            len(self._kept) - last, 0, number - (self.total - len(self._kept))
        )
        return list(self._kept)[skipped:]

    def _add(
        self, env: int | None, returned: Any, length: int, began: float, **more: Any
    ) -> None:
        episode = {
            "number": self.total,
            **_figures(env, returned, length, began),
            **more,
            "ended_at": round(time.time(), 3),
        }
        self.total += 1
        self._kept.append(episode)
        self.on_end(episode)


class EpisodeLog(_Ended):
    """Counts the episodes of a single environment.

    Attributes:
        returned: Sum of the rewards of the present episode; float (k,) if they have k
            components.
        length: Its steps.
        failed: Whether a call of the environment has raised an exception in it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.returned: Any = 0.0
        self.length = 0
        self.failed = False
        self._runs = False
        self._seed: Any = None
        self._began = time.monotonic()

    def begin(self, seed: Any) -> None:
        """Begin an episode, and end the one that it cuts short, if that has a step."""
        if self._runs and self.length:
            self._end(False, False, "failed" if self.failed else "reset")
        self._runs, self.failed = True, False
        self._seed = seed
        self._began = time.monotonic()
        self.returned, self.length = 0.0, 0

    def add(self, reward: Any) -> None:
        """Add a reward of any type to the sum."""
        self.returned = added(self.returned, reward)

    def end(self, terminated: Any, truncated: Any) -> None:
        """End the episode, whose last step is counted already."""
        self._end(
            bool(terminated),
            bool(truncated),
            "terminated" if terminated else "truncated",
        )
        self._runs = False

    def latest(self) -> tuple[Any, int]:
        """Return sum of rewards and steps of the present episode, or the last one."""
        figures = _figures(None, self.returned, self.length, self._began)
        return figures["return"], self.length

    def current(self) -> list[Episode]:
        """Return the figures of the present episode, if one runs."""
        if not self._runs:
            return []
        figures = _figures(None, self.returned, self.length, self._began)
        return [figures | {"seed": self._seed}]

    def _end(self, terminated: bool, truncated: bool, end: str) -> None:
        self._add(
            None,
            self.returned,
            self.length,
            self._began,
            seed=self._seed,
            terminated=terminated,
            truncated=truncated,
            end=end,
        )


class VectorEpisodeLog(_Ended):
    """Counts the episodes of each environment of a vector.

    Args:
        count: Number of environments.
        mode: When the environments reset themselves.
    """

    def __init__(self, count: int, mode: AutoresetMode) -> None:
        super().__init__()
        self._mode = mode
        self._returned = np.zeros(count)
        self._lengths = np.zeros(count, np.int64)
        self._began = np.full(count, time.monotonic())
        self._seeds: list[Any] = [None] * count
        self._runs = np.zeros(count, np.bool_)
        self.failed = False

    def begin(self, seeds: Iterable[Any], mask: Any = None) -> None:
        """Begin an episode in each environment, or in those of a mask."""
        begun = np.ones_like(self._runs) if mask is None else np.asarray(mask, np.bool_)
        for index in np.flatnonzero(begun & self._runs & (self._lengths > 0)):
            self._end(index, False, False, "failed" if self.failed else "reset")
        self.failed = False
        self._begin(begun)
        for env, seed in enumerate(seeds):
            if begun[env]:
                self._seeds[env] = seed

    def step(self, rewards: Any, terminated: Any, truncated: Any) -> None:
        """Count a step of all environments.

        Args:
            rewards: float, (num_envs,) or, of k components, (num_envs, k); the returns
                of others are unknown.
            terminated: bool, (num_envs,).
            truncated: bool, (num_envs,).
        """
        runs = self._runs
        given = self._fitting(rewards)
        done = np.logical_or(terminated, truncated)
        if runs.all():
            self._returned += given
            self._lengths += 1
        else:
            self._returned[runs] += given[runs]
            self._lengths += runs
            done &= runs
            if self._mode == AutoresetMode.NEXT_STEP:
                # This step was their reset.
                self._begin(~runs)
        if done.any():
            for index in np.flatnonzero(done):
                ended, cut = bool(terminated[index]), bool(truncated[index])
                self._end(index, ended, cut, "terminated" if ended else "truncated")
            if self._mode == AutoresetMode.SAME_STEP:
                self._begin(done)
            else:
                self._runs = self._runs & ~done

    def latest(self) -> tuple[Any, int]:
        """Return sum of rewards and steps of the first environment's episode."""
        length = int(self._lengths[0])
        figures = _figures(0, self._returned[0], length, self._began[0])
        return figures["return"], length

    def current(self) -> list[Episode]:
        """Return the figures of the episodes that run."""
        return [
            _figures(
                int(index),
                self._returned[index],
                int(self._lengths[index]),
                self._began[index],
            )
            | {"seed": self._seeds[index]}
            for index in np.flatnonzero(self._runs)
        ]

    def _fitting(self, rewards: Any) -> Any:
        """Return rewards in the shape of the sums, which are given their components."""
        try:
            given = np.asarray(rewards, np.float64)
        except (TypeError, ValueError):
            given = np.array(np.nan)
        sums = self._returned
        if given.shape == sums.shape:
            return given
        count = len(sums)
        if given.shape == (count,):
            # Where all environments are reset, an asynchronous vector has numbers.
            return np.broadcast_to(given[:, np.newaxis], sums.shape)
        if given.ndim == 2 and len(given) == count and sums.ndim == 1:
            self._returned = np.repeat(sums[:, np.newaxis], given.shape[1], axis=1)
            return given
        return np.full_like(sums, np.nan)

    def _begin(self, begun: Any) -> None:
        self._runs = self._runs | begun
        self._returned[begun] = 0.0
        self._lengths[begun] = 0
        self._began[begun] = time.monotonic()
        for index in np.flatnonzero(begun):
            self._seeds[index] = None

    def _end(self, index: Any, terminated: bool, truncated: bool, end: str) -> None:
        self._add(
            int(index),
            self._returned[index],
            int(self._lengths[index]),
            self._began[index],
            seed=self._seeds[index],
            terminated=terminated,
            truncated=truncated,
            end=end,
        )


def _figures(env: int | None, returned: Any, length: int, began: float) -> Episode:
    return {
        "env": env,
        "return": plain_return(returned),
        "length": length,
        "seconds": round(float(time.monotonic() - began), 6),
    }
