"""Gauges: what of the players' rounds becomes the figure of a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from gym_http_client.bench.players import Round

__all__ = ["MICROSECONDS", "STEPS", "Gauge", "rate"]


class Gauge(NamedTuple):
    """What is told of a round.

    Attributes:
        unit: Of the figure; a rate ends in ``/s``.
        figure: Reads it off a round.
        percentiles: Whether rows tell as well how long steps took at most. What takes
            long is not measured often enough for that.
    """

    unit: str
    figure: Callable[[Round], float]
    percentiles: bool = True


def rate(unit: str, each: float, *, percentiles: bool = True) -> Gauge:
    """Tell what is done a second, when each of the agents' steps does so much of it."""
    return Gauge(unit, lambda told: told.rate * each, percentiles)


def _mean(told: Round) -> float:
    """Give the microseconds of a step; what resets take is left out."""
    return sum(told.durations) / len(told.durations) * 1e6


STEPS = rate("steps/s", 1)
MICROSECONDS = Gauge("us", _mean)
