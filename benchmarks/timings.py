"""Measures how long the parts of a step take in one process.

Each measurement is repeated for a while; the result is the median.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from benchmarks.measuring import Plan
from benchmarks.one_process import STAGES, one_process

__all__ = ["Part", "local", "median_us", "stages", "within"]

_US = "us"
_WARM_UP_STEPS = 200


class Part(NamedTuple):
    """The duration of one part.

    Attributes:
        what: Name of the part.
        value: The median.
        unit: Unit of the median.
    """

    what: str
    value: float
    unit: str


def stages(plan: Plan, env: Any, actions: Iterator[Any]) -> list[Part]:
    """Measure each stage of a step in one process."""
    durations: list[list[int]] = []
    with one_process(env) as both:

        def step(action: Any) -> bool:
            result, times = both.step(action)
            durations.append([after - at for at, after in itertools.pairwise(times)])
            return _over(result["terminated"], result["truncated"])

        _episodes(plan, env, actions, step)
    columns = zip(*durations[_WARM_UP_STEPS:], strict=True)
    return [
        Part(stage, median_us(column), _US)
        for stage, column in zip(STAGES, columns, strict=True)
    ]


def within(plan: Plan, env: Any, actions: Iterator[Any]) -> float:
    """Return the median of the environment's own step in `one_process`, in us."""
    durations: list[int] = []
    own = env.step

    def timed(action: Any) -> Any:
        begun = time.perf_counter_ns()
        result = own(action)
        durations.append(time.perf_counter_ns() - begun)
        return result

    env.step = timed
    with one_process(env) as both:

        def step(action: Any) -> bool:
            result, _ = both.step(action)
            return _over(result["terminated"], result["truncated"])

        _episodes(plan, env, actions, step)
    return median_us(durations[_WARM_UP_STEPS:])


def local(
    plan: Plan,
    env: Any,
    actions: Iterator[Any],
    before: Callable[[], object] = lambda: None,
) -> float:
    """Return the median of a local step in us, with a call of `before` before each."""
    durations: list[int] = []

    def step(action: Any) -> bool:
        before()
        begun = time.perf_counter_ns()
        _, _, terminated, truncated, _ = env.step(action)
        durations.append(time.perf_counter_ns() - begun)
        return _over(terminated, truncated)

    _episodes(plan, env, actions, step)
    return median_us(durations[_WARM_UP_STEPS:])


def _episodes(
    plan: Plan, env: Any, actions: Iterator[Any], step: Callable[[Any], bool]
) -> None:
    """Step for a while, and for longer than to warm up; reset after each episode."""
    env.reset(seed=0)
    end = time.monotonic() + plan.rounds * plan.seconds
    steps = 0
    while time.monotonic() < end or steps <= _WARM_UP_STEPS:
        steps += 1
        if step(next(actions)):
            env.reset()
    env.close()


def median_us(durations_ns: Iterable[int]) -> float:
    """Return the median in us, without the cost of reading the clock."""
    return max(0.0, statistics.median(durations_ns) - _clock_ns()) / 1000


def _over(terminated: Any, truncated: Any) -> bool:
    # Vectors reset themselves.
    return not isinstance(terminated, np.ndarray) and bool(terminated or truncated)


def _clock_ns() -> float:
    times = [time.perf_counter_ns() for _ in range(1001)]
    return statistics.median(after - at for at, after in itertools.pairwise(times))
