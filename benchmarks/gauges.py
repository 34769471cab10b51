"""Gauges: compute the figure of a row from a round of players."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from gym_http_client.bench.players import Round

__all__ = ["MICROSECONDS", "STEPS", "Gauge", "rate"]


class Gauge(NamedTuple):
    """Computes a figure from a round.

    Attributes:
        unit: Unit of the figure; a rate ends in ``/s``.
        figure: Computes the figure from a round.
        percentiles: Whether there are rows for percentiles of durations, too. Slow
            steps are measured too rarely for these.
    """

    unit: str
    figure: Callable[[Round], float]
    percentiles: bool = True


def rate(unit: str, each: float, *, percentiles: bool = True) -> Gauge:
    """Return a gauge of units per second, when each step of an agent makes several."""
    return Gauge(unit, lambda result: result.rate * each, percentiles)


def _mean(result: Round) -> float:
    """Return the mean duration of a step in microseconds, without resets."""
    return sum(result.durations) / len(result.durations) * 1e6


STEPS = rate("steps/s", 1)
MICROSECONDS = Gauge("us", _mean)
