"""Measuring: rounds in turn, what is typical of them, and what disturbed them."""

from __future__ import annotations

import contextlib
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import psutil  # type: ignore[import-untyped]

__all__ = ["OtherLoad", "Plan", "in_turn", "median", "percentile"]

_T = TypeVar("_T")


@dataclass(frozen=True)
class Plan:
    """How much is measured.

    Attributes:
        rounds: How often each side has its turn.
        seconds: How long a turn of steps takes.
    """

    rounds: int
    seconds: float

    def say(self, words: str) -> None:
        """Tell how far the work is."""
        print(words, file=sys.stderr, flush=True)


def in_turn(
    rounds: int, ours: Callable[[], _T], theirs: Callable[[], _T]
) -> tuple[list[_T], list[_T]]:
    """Measure both sides in turn, so that what changes meanwhile meets both."""
    pairs = [(ours(), theirs()) for _ in range(rounds)]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def median(values: Sequence[float]) -> float:
    """Give the median, which one disturbed round does not move."""
    return statistics.median(values)


def percentile(values: Sequence[float], percent: float) -> float:
    """Give the smallest value that so many percent of all do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


class _Used(NamedTuple):
    at: float
    by_all: float
    by_us: float


class OtherLoad:
    """How busy other processes keep this machine, from now on."""

    def __init__(self) -> None:
        self._begun = _used()

    def cores(self) -> float:
        """Give how many cores others have used."""
        now, begun = _used(), self._begun
        others = (now.by_all - begun.by_all) - (now.by_us - begun.by_us)
        return max(0.0, others / (now.at - begun.at))


def _used() -> _Used:
    # Without interrupts, which no process is charged for.
    times = psutil.cpu_times()
    us = psutil.Process()
    by_us = 0.0
    for process in [us, *us.children(recursive=True)]:
        with contextlib.suppress(psutil.Error):
            by_us += sum(process.cpu_times()[:4])
    return _Used(time.monotonic(), times.user + times.nice + times.system, by_us)
