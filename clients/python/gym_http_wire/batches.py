"""Batches: several steps of one environment for one request.

Whatever happens, no step that was taken gets lost: what was gained until then is kept,
and a batch ends early rather than with more than an answer holds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from gym_http_wire.columns import SIMPLE, Column, kept, packed
from gym_http_wire.operations import Operations

__all__ = [
    "MAX_EPISODES",
    "MAX_SECONDS",
    "MAX_STEPS",
    "Episode",
    "Rollout",
    "Run",
    "Watch",
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


class Watch:
    """Hears of every step of a batch; this one does nothing about it."""

    def begin(self) -> None:
        """Hear that a call of the environment begins, unless one just did."""

    def reset(self, seed: int | None) -> None:
        """Hear that an episode has begun."""

    def step(self, reward: Any, terminated: Any, truncated: Any) -> None:
        """Hear what came of a step."""


class Episode:
    """What the steps of one episode, or of a part of it, gave.

    Args:
        with_reset: Whether observations and infos begin with those of the reset, and
            the actions are kept.
    """

    def __init__(self, *, with_reset: bool = False) -> None:
        self.length = 0
        self._with_reset = with_reset
        self._observations = Column()
        self._actions = Column()
        self._rewards: list[Any] = []
        self._terminated: list[Any] = []
        self._truncated: list[Any] = []
        self._infos: list[Any] = []

    def begin(self, observation: Any, info: Any) -> None:
        """Keep what the reset gave."""
        self._observations.append(observation)
        self._infos.append(kept(info))

    def add(self, action: Any, row: tuple[Any, Any, Any, Any, Any]) -> None:
        """Keep an action and what came of it."""
        observation, reward, terminated, truncated, info = row
        if self._with_reset:
            self._actions.append(action)
        self._observations.append(observation)
        simple = SIMPLE
        self._rewards.append(reward if type(reward) in simple else kept(reward))
        self._terminated.append(
            terminated if type(terminated) in simple else kept(terminated)
        )
        self._truncated.append(
            truncated if type(truncated) in simple else kept(truncated)
        )
        self._infos.append(kept(info))
        self.length += 1

    def values(self, count: int | None = None, *, exact: bool) -> Values:
        """Give the columns, of all steps or of the first ones.

        Args:
            count: Steps to tell of.
            exact: Say exactly what the environment gave; else numbers and flags are
                what thin clients expect.
        """
        count = self.length if count is None else count
        first = int(self._with_reset)
        told: Values = {
            "infos": self._infos[: count + first],
            "observations": self._observations.value(count + first),
            "rewards": self._rewards[:count],
            "terminated": self._terminated[:count],
            "truncated": self._truncated[:count],
        }
        if self._with_reset:
            told["actions"] = self._actions.value(count)
            told["length"] = count
            told["return"] = _sum(told["rewards"])
        return _packed(told) if exact else _suited(told)


def _packed(told: Values) -> Values:
    scalars = []
    for name in ("actions", "observations", "rewards", "terminated", "truncated"):
        if name in told:
            told[name], is_numpy = packed(told[name])
            scalars += [name] * is_numpy
    told["scalars"] = scalars
    return told


def _suited(told: Values) -> Values:
    terminated, truncated = told["terminated"], told["truncated"]
    terminated = told["terminated"] = [_as_flag(flag) for flag in terminated]
    truncated = told["truncated"] = [_as_flag(flag) for flag in truncated]
    told["done"] = [a | b for a, b in zip(terminated, truncated, strict=True)]
    told["rewards"] = [_as_float(reward) for reward in told["rewards"]]
    return told


def _as_flag(flag: Any) -> Any:
    return flag if type(flag) is bool or _is_batch(flag) else bool(flag)


def _as_float(reward: Any) -> Any:
    # float32 is written as its own shortest decimal.
    if type(reward) is float or getattr(reward, "dtype", "") == "float32":
        return reward
    if _is_batch(reward):
        return reward
    return float(reward)


def _sum(rewards: Any) -> float | None:
    try:
        return float(sum(map(float, rewards)))
    except (TypeError, ValueError):
        return None


def _is_over(terminated: Any, truncated: Any) -> bool:
    if _is_batch(terminated) or _is_batch(truncated):
        # Each of them goes on by itself.
        return False
    return bool(terminated or truncated)


def _is_batch(value: Any) -> bool:
    """Whether it is of many environments that step as one."""
    return bool(getattr(value, "ndim", 0))


class Run:
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
        watch: Watch | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.steps = 0
        self.stopped: str | None = None
        self._operations = operations
        self._share = share
        self._watch = watch or Watch()
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
        self._watch.reset(seed)
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
            _, reward, terminated, truncated, _ = row
            watch.step(reward, terminated, truncated)
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
        run: Run,
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
