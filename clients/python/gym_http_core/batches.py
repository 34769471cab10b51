"""Batches: several steps of one environment for one request.

Whatever happens, no step that was taken gets lost: what was gained until then is kept,
and a batch ends early rather than with more than an answer holds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from gym_http_core.episodes import Episode, is_batch
from gym_http_core.operations import Operations

__all__ = [
    "MAX_EPISODES",
    "MAX_SECONDS",
    "MAX_STEPS",
    "BatchObserver",
    "BatchRun",
    "Episode",
    "Rollout",
]

MAX_STEPS = 10_000
"""Steps of one batch."""

MAX_EPISODES = 1_000
"""Episodes of one rollout."""

MAX_SECONDS = 20.0
"""Seconds after which a batch takes no further step."""

# How many steps there may be between two looks at how much a step has to tell, and how
# full an answer may get by what those looks found.
_UNSEEN = 64
_FULL = 0.9
# How long a watch may wait to hear that a call has begun.
_QUIET_SECONDS = 0.02

Values = dict[str, Any]


class BatchObserver:
    """Hears of every step of a batch; this one does nothing about it."""

    def begin(self) -> None:
        """Hear that a call of the environment begins, unless one just did."""

    def reset(self, seed: int | None, observation: Any, info: Any) -> None:
        """Hear that an episode has begun, and with what."""

    def step(self, row: tuple[Any, Any, Any, Any, Any]) -> None:
        """Hear what came of a step, as the environment gave it."""


class BatchRun:
    """The steps of one request.

    Args:
        operations: The environment.
        share: Tells of what a step gave which share it takes of what an answer holds.
        watch: Hears of every step.
        clock: Tells the time in seconds.

    Attributes:
        steps: Steps taken.
        stopped: Why there are no more: ``None`` (there were no more actions),
            ``"episode"`` (it is over), ``"steps"`` (`MAX_STEPS`), ``"time"``
            (`MAX_SECONDS`) or ``"answer-size"``.
    """

    def __init__(
        self,
        operations: Operations,
        share: Callable[[list[Any]], float],
        watch: BatchObserver | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.steps = 0
        self.stopped: str | None = None
        self._operations = operations
        self._share = share
        self._watch = watch or BatchObserver()
        self._clock = clock
        self._end = clock() + MAX_SECONDS
        self._held = 0.0
        self._looked = 0
        self._next_look = 1

    def reset(self, episode: Episode, seed: int | None, options: Any) -> None:
        """Begin an episode."""
        self._watch.begin()
        observation, info = self._operations.reset(seed, options)
        episode.begin(observation, info)
        self._watch.reset(seed, observation, info)
        self._held += self._share([observation, info])

    def play(self, episode: Episode, actions: Iterable[Any]) -> None:
        """Take steps until the episode ends, or there is a reason to stop."""
        step, add, clock = self._operations.step, episode.add, self._clock
        watch = self._watch
        told = 0.0
        self.stopped = None
        for action in actions:
            now = clock()
            if self.steps and self._is_enough(now):
                return
            if now > told:
                watch.begin()
                told = now + _QUIET_SECONDS
            row = step(action)
            add(action, row)
            self.steps += 1
            watch.step(row)
            _, _, terminated, truncated, _ = row
            if self.steps >= self._next_look:
                self._look(list(row))
            if terminated is False and truncated is False:
                continue
            if _is_over(terminated, truncated):
                self.stopped = "episode"
                return

    def _is_enough(self, now: float) -> bool:
        if self._held >= 1.0:
            self.stopped = "answer-size"
        elif self.steps >= MAX_STEPS:
            self.stopped = "steps"
        elif now > self._end:
            self.stopped = "time"
        else:
            return False
        return True

    def _look(self, row: list[Any]) -> None:
        share = max(self._share(row), 1e-9)
        self._held += share * (self.steps - self._looked)
        self._looked = self.steps
        room = (_FULL - self._held) / share
        if room < 1:
            self._held = 1.0
        self._next_look = self.steps + min(max(int(room / 4), 1), _UNSEEN)


class Rollout:
    """Whole episodes, each from its reset on.

    Attributes:
        episodes: Those that have begun.
    """

    def __init__(self) -> None:
        self.episodes: list[Episode] = []

    def play(
        self,
        run: BatchRun,
        actions: Iterable[Iterable[Any]],
        *,
        seed: int | None = None,
        options: Any = None,
    ) -> None:
        """Play episodes.

        Args:
            run: Takes the steps, and tells in the end why it stopped: ``None`` if all
                episodes were played.
            actions: The actions of each episode; it is over when they are used up.
            seed: Seed of the first reset; the later ones have none.
            options: Options of each reset.
        """
        for each in actions:
            episode = Episode(with_reset=True)
            run.reset(episode, seed, options)
            self.episodes.append(episode)
            seed = None
            run.play(episode, each)
            if run.stopped not in (None, "episode"):
                return
        run.stopped = None

    def values(self, count: int | None = None, *, exact: bool) -> Values:
        """Give what the episodes gave, or only the first steps of it."""
        told = []
        for episode in self.episodes:
            if count is None:
                told.append(episode.values(exact=exact))
            elif count or not told:
                length = min(count, episode.length)
                told.append(episode.values(length, exact=exact))
                count -= length
        return {"episodes": told}


def _is_over(terminated: Any, truncated: Any) -> bool:
    if is_batch(terminated) or is_batch(truncated):
        # Each of them goes on by itself.
        return False
    return bool(terminated or truncated)
