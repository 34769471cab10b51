"""Statistics of a clock in constant memory."""

from __future__ import annotations

from array import array
from typing import Any

__all__ = ["Average", "Durations", "Histogram", "Statistics"]

_BITS = 6
_PER_DOUBLING = 1 << _BITS
# Longer times are counted in the last bucket: over two minutes.
_MAX_BITS = 37
_COUNTERS = (_MAX_BITS - _BITS + 1) * _PER_DOUBLING
_SMOOTHING = 0.1
_NAMES = ("time_step", "step", "join", "inference", "send_control", "get_obs")


class Histogram:
    """Times in ns, in 64 buckets for each doubling: quantiles within 1 percent."""

    __slots__ = ("_counters", "count", "largest")

    def __init__(self) -> None:
        self._counters = array("Q", bytes(8 * _COUNTERS))
        self.count = 0
        self.largest = 0

    def add(self, ns: int) -> None:
        """Count a time; a negative one as 0."""
        if ns < 0:
            ns = 0
        self.count += 1
        if ns > self.largest:
            self.largest = ns
        shift = ns.bit_length() - _BITS - 1
        if shift > 0:
            ns = (shift << _BITS) + (ns >> shift)
            if ns >= _COUNTERS:
                ns = _COUNTERS - 1
        self._counters[ns] += 1

    def add_series(self, first: int, step: int, count: int) -> None:
        """Count times that differ by a step; as fast for many as for few.

        Args:
            first: The shortest, not negative.
            step: By how much each is longer than the one before, at least 1.
            count: How many.
        """
        self.largest = max(self.largest, first + step * (count - 1))
        self.count += count
        while count > 0:
            shift = max(0, first.bit_length() - _BITS - 1)
            bucket = (shift << _BITS) + (first >> shift)
            within = count
            if bucket < _COUNTERS - 1:
                end = ((first >> shift) + 1) << shift
                within = min(count, -((first - end) // step))
            self._counters[min(bucket, _COUNTERS - 1)] += within
            first += step * within
            count -= within

    def plus(self, other: Histogram) -> Histogram:
        """Return a histogram of the times of both."""
        both = Histogram()
        pairs = zip(self._counters, other._counters, strict=True)
        both._counters = array("Q", map(sum, pairs))
        both.count = self.count + other.count
        both.largest = max(self.largest, other.largest)
        return both

    def quantile(self, share: float) -> int | None:
        """Return the time below or at which a share of all times lies.

        Returns:
            The middle of its bucket; ``None`` before the first time.
        """
        if not self.count:
            return None
        rank = max(1, -int(-share * self.count // 1))
        for index, counter in enumerate(self._counters):
            rank -= counter
            if counter and rank <= 0:
                return min(_middle(index), self.largest)
        return self.largest

    def shown(self) -> dict[str, int | None]:
        """Return count, p50, p90, p99 and max."""
        return {
            "count": self.count,
            "p50": self.quantile(0.5),
            "p90": self.quantile(0.9),
            "p99": self.quantile(0.99),
            "max": self.largest if self.count else None,
        }


def _middle(index: int) -> int:
    shift = (index >> _BITS) - 1
    if shift <= 0:
        return index
    base = (index - (shift << _BITS)) << shift
    return base + ((1 << shift) - 1) // 2


class Average:
    """A moving average and the average deviation from it, as rtgym computes them."""

    __slots__ = ("deviation", "mean")

    def __init__(self) -> None:
        self.mean: float | None = None
        self.deviation = 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        if self.mean is None:
            self.mean = value
            return
        delta = value - self.mean
        self.mean += _SMOOTHING * delta
        self.deviation += _SMOOTHING * (abs(delta) - self.deviation)


class Durations:
    """The six durations of rtgym's benchmark, under its names.

    Attributes:
        time_step: Between two actions sent.
        step: From the request of a step to its answer.
        join: The part of it until the time step's end.
        inference: From an answer to the next request.
        send_control: Sending an action.
        get_obs: Capturing an observation.
    """

    __slots__ = _NAMES

    def __init__(self) -> None:
        self.time_step = Average()
        self.step = Average()
        self.join = Average()
        self.inference = Average()
        self.send_control = Average()
        self.get_obs = Average()

    def shown(self) -> dict[str, Any]:
        """Return mean and deviation of each, in ns; null before the first."""
        return {
            f"{name}_duration": {
                "mean_ns": None if average.mean is None else round(average.mean),
                "deviation_ns": round(average.deviation),
            }
            for name in _NAMES
            for average in (getattr(self, name),)
        }


class Statistics:
    """What a clock has measured and counted.

    Attributes:
        age: Of observations when they are delivered.
        reaction: From a capture to the action that answers it.
        left_out: Lateness of ticks that were left out, at the tick after them.
        stall_ns: The longest time from one tick, or the beginning of a grid, to the
            next.
        losses: How often the agent was silent for too long.
    """

    def __init__(self) -> None:
        self.durations = Durations()
        self.lateness = Histogram()
        self.left_out = Histogram()
        self.jitter = Histogram()
        self.age = Histogram()
        self.reaction = Histogram()
        self.ticks = 0
        self.skipped = 0
        self.timeouts = 0
        self.reanchored = 0
        self.losses = 0
        self.stall_ns = 0
        # Since when there has been no tick; None: the clock stands still.
        self._since: int | None = None
        self._last_capture: int | None = None
        self._last_send: int | None = None

    def add_send(self, start: int, duration: int) -> None:
        """Count an action sent."""
        if self._last_send is not None:
            self.durations.time_step.add(start - self._last_send)
        self._last_send = start
        self.durations.send_control.add(duration)

    def add_capture(self, start: int, duration: int, late: int, period_ns: int) -> None:
        """Count a capture that was so late."""
        self.ticks += 1
        self.durations.get_obs.add(duration)
        self.lateness.add(late)
        if self._last_capture is not None:
            self.jitter.add(abs(start - self._last_capture - period_ns))
        if self._since is not None and start - self._since > self.stall_ns:
            self.stall_ns = start - self._since
        self._last_capture = self._since = start

    def begin_anew(self, now: int | None = None) -> None:
        """Measure no interval across a time in which the clock stood still.

        Args:
            now: When a grid begins; ``None``: the clock stands still.
        """
        self._last_capture = self._last_send = None
        self._since = now

    def stall_until(self, now: int) -> int:
        """Return the longest time without a tick, up to now."""
        since = now if self._since is None else self._since
        return max(self.stall_ns, now - since)

    def shown(
        self, elapsed: int, world_ns: int, answers_ns: int, missing: Histogram
    ) -> dict[str, Any]:
        """Return all of it but the stall, which only free-running worlds have.

        Args:
            elapsed: The time since the clock began, of which shares are computed.
            world_ns: Time in calls of the world.
            answers_ns: Time spent on answers.
            missing: Lateness of ticks that were left out since the last one.
        """
        lateness_all = self.lateness.plus(self.left_out).plus(missing)
        times = {"world": world_ns, "answers": answers_ns}
        return {
            "shares": {
                name: ns / elapsed if elapsed else 0.0 for name, ns in times.items()
            },
            "lateness_ns": self.lateness.shown(),
            "lateness_all_ns": lateness_all.shown(),
            "jitter_ns": self.jitter.shown(),
            "age_ns": self.age.shown(),
            "reaction_ns": self.reaction.shown(),
            "durations": self.durations.shown(),
            "ticks": self.ticks,
            "skipped": self.skipped,
            "timeouts": self.timeouts,
            "reanchored": self.reanchored,
            "agent_lost": self.losses,
        }
