"""The limiter: how many transitions are drawn for each one that is inserted.

It is the ``SampleToInsertRatio`` of Reverb, in transitions. The trainer reports how
many it has drawn in all; the relay holds back inserts when draws lag behind.
"""

from __future__ import annotations

import math

import msgspec

from gym_http_wire.problems import BadParameter

__all__ = ["Limiter", "LimiterSettings"]


class LimiterSettings(msgspec.Struct):
    """The limiter of a run, as a client sets it.

    Attributes:
        samples_per_insert: Draws for each inserted transition.
        min_size: Inserts before the first draw.
        error_buffer: How far draws may deviate from `samples_per_insert` times the
            inserts: a number on both sides of `samples_per_insert` times `min_size`,
            or the lowest and the highest difference.
    """

    samples_per_insert: float
    min_size: int
    error_buffer: float | tuple[float, float]


class Limiter:
    """The limiter of a run.

    Args:
        settings: What the client has set.

    Attributes:
        samples_per_insert: Draws for each insert.
        min_size: Inserts before the first draw.
        min_diff: Draws wait below this difference.
        max_diff: Inserts wait above this difference.

    Raises:
        BadParameter: The settings end in a deadlock.
    """

    def __init__(self, settings: LimiterSettings) -> None:
        ratio, size = settings.samples_per_insert, settings.min_size
        buffer = settings.error_buffer
        start = ratio * size
        if isinstance(buffer, tuple):
            self.min_diff, self.max_diff = buffer
        else:
            self.min_diff, self.max_diff = start - buffer, start + buffer
        self.samples_per_insert, self.min_size = ratio, size
        if not all(map(math.isfinite, (start, self.min_diff, self.max_diff))):
            raise BadParameter("the numbers of limiter must be finite")
        needed = 2 * max(1.0, ratio)
        if self.max_diff - self.min_diff < needed:
            raise BadParameter(
                f"limiter.error_buffer allows differences from {self.min_diff:g} to "
                f"{self.max_diff:g}: expected a range of {needed:g} or more, which is "
                "2 * max(1, samples_per_insert), or inserts and draws could block "
                "each other"
            )
        if self.min_diff > start:
            raise BadParameter(
                f"limiter.error_buffer begins at {self.min_diff:g}, above "
                f"samples_per_insert * min_size, which is {start:g}: draws could "
                "never begin. Use a lower one"
            )

    def difference(self, inserts: int, draws: int) -> float:
        """Return by how much draws lag behind inserts, in draws."""
        return inserts * self.samples_per_insert - draws

    def inserts_wait(self, inserts: int, draws: int) -> bool:
        """Return whether inserts must wait for draws."""
        if inserts < self.min_size:
            return False
        return self.difference(inserts, draws) > self.max_diff
