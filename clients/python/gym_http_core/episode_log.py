"""Counts the episodes of an environment: returns, lengths, durations and ends."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector import AutoresetMode

from gym_http_core.returns import added, plain_return

__all__ = ["MAX_KEPT", "Ending", "EpisodeLog", "VectorEpisodeLog"]

#: Episodes that a log keeps; all of them are counted.
MAX_KEPT = 1000

Episode = dict[str, Any]


class Ending(NamedTuple):
    """An episode that has ended.

    Many end and few are looked at, so they are described only then.
    """

    number: int
    env: int | None
    returned: Any
    length: int
    seconds: float
    seed: Any
    terminated: bool
    truncated: bool
    end: str
    at: float

    def described(self) -> Episode:
        """Return its figures, as `since` does."""
        return {
            "number": self.number,
            **_figures(self.env, self.returned, self.length, self.seconds),
            "seed": self.seed,
            "terminated": self.terminated,
            "truncated": self.truncated,
            "end": self.end,
            "ended_at": round(self.at, 3),
        }


def _ignore(ending: Ending) -> None:
    """Do nothing with an episode."""


class _Ended:
    """The last episodes of an instance.

    Attributes:
        total: Number of episodes that ended.
        on_end: Called with each episode that ends.
    """

    def __init__(self) -> None:
        self.total = 0
        self.on_end: Callable[[Ending], None] = _ignore
        self._kept: deque[Ending] = deque(maxlen=MAX_KEPT)

    def since(self, number: int, last: int = MAX_KEPT) -> list[Episode]:
        """Return the last episodes of those from a number on, oldest first."""
        skipped = max(
            len(self._kept) - last, 0, number - (self.total - len(self._kept))
        )
        return [ending.described() for ending in list(self._kept)[skipped:]]

    def _add(
        self,
        env: int | None,
        returned: Any,
        length: int,
        began: float,
        seed: Any,
        terminated: bool,
        truncated: bool,
        end: str,
    ) -> None:
        ending = Ending(
            self.total,
            env,
            returned,
            length,
            time.monotonic() - began,
            seed,
            terminated,
            truncated,
            end,
            time.time(),
        )
        self.total += 1
        self._kept.append(ending)
        self.on_end(ending)


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
        return plain_return(self.returned), self.length

    def current(self) -> list[Episode]:
        """Return the figures of the present episode, if one runs."""
        if not self._runs:
            return []
        seconds = time.monotonic() - self._began
        figures = _figures(None, self.returned, self.length, seconds)
        return [figures | {"seed": self._seed}]

    def _end(self, terminated: bool, truncated: bool, end: str) -> None:
        self._add(
            None,
            self.returned,
            self.length,
            self._began,
            self._seed,
            terminated,
            truncated,
            end,
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
        # Environments without an episode that runs.
        self._waiting = np.arange(count)
        self.failed = False

    def begin(self, seeds: Iterable[Any], mask: Any = None) -> None:
        """Begin an episode in each environment, or in those of a mask."""
        begun = np.ones_like(self._runs) if mask is None else np.asarray(mask, np.bool_)
        cut = begun & self._runs & (self._lengths > 0)
        end = "failed" if self.failed else "reset"
        self._end(cut.nonzero()[0], (False, False, end))
        self.failed = False
        self._begin(begun.nonzero()[0])
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
        given = self._fitting(rewards)
        done = np.logical_or(terminated, truncated)
        returned, lengths, waiting = self._returned, self._lengths, self._waiting
        before = returned[waiting], lengths[waiting]
        returned += given
        lengths += 1
        if len(waiting):
            returned[waiting], lengths[waiting] = before
            done[waiting] = False
            if self._mode == AutoresetMode.NEXT_STEP:
                # This step was their reset.
                self._begin(waiting)
        if np.count_nonzero(done):
            ended = done.nonzero()[0]
            for index in ended.tolist():
                by = bool(terminated[index]), bool(truncated[index])
                end = "terminated" if by[0] else "truncated"
                self._end([index], (*by, end))
            if self._mode == AutoresetMode.SAME_STEP:
                self._begin(ended)
            else:
                self._runs[ended] = False
                self._waiting = (~self._runs).nonzero()[0]

    def latest(self) -> tuple[Any, int]:
        """Return sum of rewards and steps of the first environment's episode."""
        return plain_return(self._returned[0]), int(self._lengths[0])

    def current(self) -> list[Episode]:
        """Return the figures of the episodes that run."""
        return [
            _figures(
                int(index),
                self._returned[index],
                int(self._lengths[index]),
                time.monotonic() - self._began[index],
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
        """Begin an episode in environments, by their indices."""
        self._runs[begun] = True
        self._waiting = (~self._runs).nonzero()[0]
        self._returned[begun] = 0.0
        self._lengths[begun] = 0
        self._began[begun] = time.monotonic()
        for index in begun.tolist():
            self._seeds[index] = None

    def _end(self, ended: Iterable[int], how: tuple[bool, bool, str]) -> None:
        """End the episodes of environments, by their indices."""
        terminated, truncated, end = how
        for index in ended:
            self._add(
                int(index),
                # Numbers of Python are several times as fast as NumPy's.
                self._returned[index].tolist(),
                self._lengths.item(index),
                self._began.item(index),
                self._seeds[index],
                terminated,
                truncated,
                end,
            )


def _figures(env: int | None, returned: Any, length: int, seconds: Any) -> Episode:
    return {
        "env": env,
        "return": plain_return(returned),
        "length": length,
        "seconds": round(float(seconds), 6),
    }
