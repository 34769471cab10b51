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


def _ignore(endings: list[Ending]) -> None:
    """Do nothing with episodes."""


class _Ended:
    """The last episodes of an instance.

    Attributes:
        total: Number of episodes that ended.
        on_end: Called with the episodes that a call has ended.
    """

    def __init__(self) -> None:
        self.total = 0
        self.on_end: Callable[[list[Ending]], None] = _ignore
        self._kept: deque[Ending] = deque(maxlen=MAX_KEPT)

    def since(self, number: int, last: int = MAX_KEPT) -> list[Episode]:
        """Return the last episodes of those from a number on, oldest first."""
        skipped = max(
            len(self._kept) - last, 0, number - (self.total - len(self._kept))
        )
        return [ending.described() for ending in list(self._kept)[skipped:]]

    def _add(self, endings: list[Ending]) -> None:
        self.total += len(endings)
        self._kept.extend(endings)
        self.on_end(endings)


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
        members = (
            self.total,
            None,
            self.returned,
            self.length,
            time.monotonic() - self._began,
            self._seed,
            terminated,
            truncated,
            end,
            time.time(),
        )
        # Twice as fast as `Ending`: an agent waits for it.
        ending = tuple.__new__(Ending, members)
        self._add([ending])


class VectorEpisodeLog(_Ended):
    """Counts the episodes of each environment of a vector.

    Args:
        num_envs: Number of environments.
        mode: When the environments reset themselves.
    """

    def __init__(self, num_envs: int, mode: AutoresetMode) -> None:
        super().__init__()
        self._next_step = mode == AutoresetMode.NEXT_STEP
        self._same_step = mode == AutoresetMode.SAME_STEP
        self._returned = np.zeros(num_envs)
        self._steps = 0
        # Numbers of Python are several times as fast as single elements of an array:
        # the vector's steps before each episode, and the time of its begin.
        self._before = [0] * num_envs
        self._began = [time.monotonic()] * num_envs
        self._seeds: dict[int, Any] = {}
        # Environments without an episode that runs.
        self._waiting = list(range(num_envs))
        self.failed = False

    def begin(self, seeds: Iterable[Any], mask: Any = None) -> None:
        """Begin an episode in each environment, or in those of a mask."""
        begun = list(range(len(self._before)))
        if mask is not None:
            begun = np.asarray(mask, np.bool_).nonzero()[0].tolist()
        waiting = set(self._waiting)
        cut = [env for env in begun if env not in waiting and self._length(env)]
        if cut:
            nobody = np.zeros(len(self._before), np.bool_)
            self._end(cut, (nobody, nobody), "failed" if self.failed else "reset")
        self.failed = False
        self._begin(begun)
        self._waiting = sorted(waiting.difference(begun))
        given = dict(enumerate(seeds))
        self._seeds.update((env, given[env]) for env in begun if env in given)

    def step(self, rewards: Any, terminated: Any, truncated: Any) -> int:
        """Count a step of all environments.

        Args:
            rewards: float, (num_envs,) or, of k components, (num_envs, k); the returns
                of others are unknown.
            terminated: bool, (num_envs,).
            truncated: bool, (num_envs,).

        Returns:
            The number of episodes that have ended.
        """
        given = self._fitting(rewards)
        done = np.logical_or(terminated, truncated)
        returned, waiting = self._returned, self._waiting
        self._steps += 1
        if not waiting:
            returned += given
        elif self._next_step:
            # This step was their reset, and counts for the others.
            returned += given
            # Faster than an index of a list, as these are mostly few.
            for env in waiting:
                done[env] = False
            self._begin(waiting)
            self._waiting = []
        else:
            kept = returned[waiting]
            returned += given
            done[waiting], returned[waiting] = False, kept
            for env in waiting:
                self._before[env] += 1
        ended: list[int] = done.nonzero()[0].tolist()
        if ended:
            self._end(ended, (terminated, truncated), "truncated")
            if self._same_step:
                self._begin(ended)
            else:
                self._waiting = self._waiting + ended
        return len(ended)

    def latest(self) -> tuple[Any, int]:
        """Return sum of rewards and steps of the first environment's episode."""
        return plain_return(self._returned[0]), self._length(0)

    def current(self) -> list[Episode]:
        """Return the figures of the episodes that run."""
        now = time.monotonic()
        return [
            _figures(env, self._returned[env], self._length(env), now - began)
            | {"seed": self._seeds.get(env)}
            for env, began in enumerate(self._began)
            if env not in self._waiting
        ]

    def _fitting(self, rewards: Any) -> Any:
        """Return rewards in the shape of the sums, which are given their components."""
        sums = self._returned
        if (
            type(rewards) is np.ndarray
            and rewards.dtype.kind == "f"
            and rewards.shape == sums.shape
        ):
            # As nearly all, which are added without a copy.
            return rewards
        try:
            given = np.asarray(rewards, np.float64)
        except (TypeError, ValueError):
            given = np.array(np.nan)
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

    def _length(self, env: int) -> int:
        """Return the steps of an environment's episode, or of its last one."""
        return self._steps - self._before[env]

    def _begin(self, begun: list[int]) -> None:
        """Begin an episode in environments, by their indices."""
        now = time.monotonic()
        for env in begun:
            self._returned[env] = 0.0
            self._before[env] = self._steps
            self._began[env] = now
        if self._seeds:
            for env in begun:
                self._seeds.pop(env, None)

    def _end(self, ended: list[int], flags: tuple[Any, Any], end: str) -> None:
        """End the episodes of environments, by their indices.

        Args:
            ended: The indices.
            flags: Who has terminated and who was truncated, each bool (num_envs,).
            end: How those end that have not terminated.
        """
        now, at, number = time.monotonic(), time.time(), self.total
        returned = self._returned
        # An element takes several times as long as `item`, which cannot get a row.
        return_of: Callable[[int], Any] = returned.item
        if returned.ndim > 1:
            return_of = returned.tolist().__getitem__
        terminated_of = np.asarray(flags[0], np.bool_).item
        truncated_of = np.asarray(flags[1], np.bool_).item
        # Read once: several episodes may end in a step of many environments.
        steps, before, began = self._steps, self._before, self._began
        seed_of, new = self._seeds.get, tuple.__new__
        endings = []
        for env in ended:
            terminated = terminated_of(env)
            members = (
                number,
                env,
                return_of(env),
                steps - before[env],
                now - began[env],
                seed_of(env),
                terminated,
                truncated_of(env),
                "terminated" if terminated else end,
                at,
            )
            # Twice as fast as `Ending`.
            endings.append(new(Ending, members))
            number += 1
        self._add(endings)


def _figures(env: int | None, returned: Any, length: int, seconds: Any) -> Episode:
    return {
        "env": env,
        "return": plain_return(returned),
        "length": length,
        "seconds": round(float(seconds), 6),
    }
