"""Measuring: alternating rounds, their median, and load from other processes."""

from __future__ import annotations

import contextlib
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import psutil

__all__ = ["Plan", "in_turn", "median"]

_T = TypeVar("_T")
_QUIET_CORES = 0.05
_LOOK_SECONDS = 0.3


@dataclass(frozen=True)
class Plan:
    """The number and length of measurements, and the output of progress.

    Attributes:
        rounds: Number of rounds of each side.
        seconds: Length of a round in seconds.
        patience: Seconds for repeating rounds that other processes disturbed.
    """

    rounds: int
    seconds: float
    patience: float

    def halved(self) -> Plan:
        """Return a plan with rounds of half the length, for short steps."""
        return replace(self, seconds=self.seconds / 2)

    def say(self, words: str) -> None:
        """Print progress."""
        print(words, file=sys.stderr, flush=True)


def in_turn(
    plan: Plan, ours: Callable[[], _T], theirs: Callable[[], _T]
) -> tuple[list[_T], list[_T]]:
    """Measure both sides alternately, so that changes of the machine affect both.

    Of each two rounds, either side begins one, in random order: the first one finds
    caches that a pause has left cold, and the machine may have a rhythm. Until the
    plan's patience is over, rounds count only if the machine was quiet. After that, the
    quietest rounds complete the number.
    """
    rounds: list[tuple[float, _T, _T]] = []
    theirs_first: list[bool] = []
    end = time.monotonic() + plan.patience
    while _count_quiet(rounds) < plan.rounds:
        if len(rounds) >= plan.rounds and time.monotonic() > end:
            break
        _wait_for_quiet(end)
        others = _OtherLoad()
        theirs_first = theirs_first or random.sample((False, True), 2)
        if theirs_first.pop():
            second = theirs()
            first = ours()
        else:
            first, second = ours(), theirs()
        rounds.append((others.cores(), first, second))
    best = sorted(rounds, key=lambda each: each[0])[: plan.rounds]
    plan.say(f"  others used up to {best[-1][0]:.2f} cores, in {len(rounds)} rounds")
    return [each[1] for each in best], [each[2] for each in best]


def _wait_for_quiet(end: float) -> None:
    while time.monotonic() < end:
        others = _OtherLoad()
        time.sleep(_LOOK_SECONDS)
        if others.cores() <= _QUIET_CORES:
            return


def _count_quiet(rounds: Sequence[tuple[float, object, object]]) -> int:
    return sum(each[0] <= _QUIET_CORES for each in rounds)


def median(values: Sequence[float]) -> float:
    """Return the median, which is robust against one disturbed round."""
    return statistics.median(values)


class _Used(NamedTuple):
    at: float
    by_all: float
    by_us: float


class _OtherLoad:
    """Measures the load that other processes put on this machine, from now on."""

    def __init__(self) -> None:
        self._begun = _used()

    def cores(self) -> float:
        """Return the number of cores that other processes have used."""
        now, begun = _used(), self._begun
        others = (now.by_all - begun.by_all) - (now.by_us - begun.by_us)
        return max(0.0, others / (now.at - begun.at))


def _used() -> _Used:
    # Without interrupts, which do not count for any process.
    times = psutil.cpu_times()
    us = psutil.Process()
    by_us = 0.0
    for process in [us, *us.children(recursive=True)]:
        with contextlib.suppress(psutil.Error):
            by_us += sum(process.cpu_times()[:4])
    return _Used(time.monotonic(), times.user + times.nice + times.system, by_us)
