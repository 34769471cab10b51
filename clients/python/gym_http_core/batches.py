"""Batches: take several steps of an environment for one request.

The results of every step that was taken are kept, also if a later one fails. A batch
ends early if its results would exceed the size of an answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from gym_http_core.episodes import Episode
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

# Steps between two estimates of the size of the results, at most; and the share of an
# answer that may be filled by these estimates.
_UNSEEN = 64
_FULL = 0.9
# Seconds after which the observer is notified again that a call begins.
_QUIET_SECONDS = 0.02

Values = dict[str, Any]


class BatchObserver:
    """Receives every step of a batch; this base class ignores them."""

    def begin(self) -> None:
        """A call of the environment begins, and none has begun just before."""

    def reset(
        self, seed: int | None, options: Any, observation: Any, info: Any
    ) -> None:
        """An episode has begun."""

    def step(self, action: Any, row: tuple[Any, Any, Any, Any, Any]) -> None:
        """A step with this action has returned this."""


class BatchRun:
    """Takes the steps of one request.

    Args:
        operations: The environment.
        share: Estimates the share of the maximum answer size that values take.
        observer: Receives every step.
        clock: Returns the time in seconds.

    Attributes:
        steps: Steps taken.
        stopped: Why the steps ended: ``None`` (all actions were taken), ``"episode"``
            (the episode ended), ``"steps"`` (`MAX_STEPS`), ``"time"`` (`MAX_SECONDS`)
            or ``"answer-size"``.
        make_plain: Makes reward and flags of a step plain.
    """

    def __init__(
        self,
        operations: Operations,
        share: Callable[[list[Any]], float],
        observer: BatchObserver | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.steps = 0
        self.stopped: str | None = None
        self.make_plain = operations.make_plain
        self._operations = operations
        self._share = share
        self._observer = observer or BatchObserver()
        self._clock = clock
        self._end = clock() + MAX_SECONDS
        self._held = 0.0
        self._looked = 0
        self._next_look = 1

    def reset(self, episode: Episode, seed: int | None, options: Any) -> None:
        """Begin an episode."""
        self._observer.begin()
        observation, info = self._operations.reset(seed, options)
        episode.begin(observation, info)
        self._observer.reset(self._operations.reset_seed, options, observation, info)
        self._held += self._share([observation, info])

    def play(self, episode: Episode, actions: Iterable[Any]) -> None:
        """Take steps until the episode ends or a limit is reached."""
        step, add, clock = self._operations.step, episode.add, self._clock
        observer = self._observer
        notified = 0.0
        self.stopped = None
        for action in actions:
            now = clock()
            if self.steps and self._is_enough(now):
                return
            if now > notified:
                observer.begin()
                notified = now + _QUIET_SECONDS
            row = step(action)
            add(action, row)
            self.steps += 1
            observer.step(action, row)
            _, _, terminated, truncated, _ = row
            if self.steps >= self._next_look:
                self._look(list(row))
            if terminated is False and truncated is False:
                continue
            if any(self._operations.episode_end(terminated, truncated)):
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
        episodes: The episodes that have begun.
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
            run: Takes the steps. In the end its ``stopped`` is ``None`` if all episodes
                were played.
            actions: The actions of each episode; an episode ends after its last action.
            seed: Seed of the first reset; later resets have no seed.
            options: Options of each reset.
        """
        for each in actions:
            episode = Episode(with_reset=True, make_plain=run.make_plain)
            run.reset(episode, seed, options)
            self.episodes.append(episode)
            seed = None
            run.play(episode, each)
            if run.stopped not in (None, "episode"):
                return
        run.stopped = None

    def values(self, count: int | None = None, *, exact: bool) -> Values:
        """Return the results of all episodes, or of the first steps of them."""
        episodes = []
        for episode in self.episodes:
            if count is None:
                episodes.append(episode.values(exact=exact))
            elif count or not episodes:
                length = min(count, episode.length)
                episodes.append(episode.values(length, exact=exact))
                count -= length
        return {"episodes": episodes}
