"""When time steps begin and ticks are due, in integer nanoseconds.

A period is a ratio of integers: 30 Hz are 100000000/3 ns. The remainder of each
division is carried over, so that a grid does not drift.
"""

from __future__ import annotations

__all__ = ["ElasticPacer", "FollowingPacer", "GridPacer"]

Period = tuple[int, int]


class ElasticPacer:
    """Time steps that may begin late, up to the elasticity, and then are shorter.

    Args:
        period: Numerator and denominator of the time step, in ns.
        capture_ns: From a time step's beginning to its capture; ``None``: a period.
        elastic_ns: How late a time step may begin without a new anchor.

    Attributes:
        start: When the time step began, on the grid.
        capture: When its capture is due.
        end: When it ends.
    """

    __slots__ = (
        "_capture_ns",
        "_denominator",
        "_elastic_ns",
        "_numerator",
        "_remainder",
        "capture",
        "end",
        "start",
    )

    def __init__(self, period: Period, capture_ns: int | None, elastic_ns: int) -> None:
        self.start = self.capture = self.end = 0
        self._set(period, capture_ns, elastic_ns)

    def change(
        self, period: Period, capture_ns: int | None, elastic_ns: int, now: int
    ) -> None:
        """Set other durations, for the next time step.

        A shorter period shortens the present time step, too, which may be a long one.
        """
        shorter = period[0] * self._denominator < self._numerator * period[1]
        self._set(period, capture_ns, elastic_ns)
        if shorter:
            self.end = min(self.end, max(now, self.start + period[0] // period[1]))
            self.capture = min(self.capture, max(now, self._planned_capture()))

    def anchor(self, now: int) -> None:
        """Begin a new grid: the next time step begins now, without debt."""
        self.start = self.capture = self.end = now
        self._remainder = 0

    def begin(self, now: int) -> bool:
        """Begin the next time step.

        Returns:
            Whether it is later than the elasticity permits, and so begins a new grid.
        """
        late = now >= self.end + self._elastic_ns
        if late:
            self.start, self._remainder = now, 0
        else:
            self.start = self.end
        self._set_end()
        return late

    def extend(self) -> None:
        """Let the time step take one more period, since its capture failed."""
        self.start = self.end
        self._set_end()

    def _set_end(self) -> None:
        whole, self._remainder = divmod(
            self._numerator + self._remainder, self._denominator
        )
        self.end = self.start + whole
        self.capture = self._planned_capture()

    def _set(self, period: Period, capture_ns: int | None, elastic_ns: int) -> None:
        self._numerator, self._denominator = period
        self._capture_ns = capture_ns
        self._elastic_ns = elastic_ns
        self._remainder = 0

    def _planned_capture(self) -> int:
        return self.end if self._capture_ns is None else self.start + self._capture_ns


class GridPacer:
    """Ticks on a grid, and what happens if the loop is late by a period or more.

    Args:
        period: Numerator and denominator of the period, in ns.
        policy: ``skip`` drops all late ticks but the newest; ``catch_up`` executes
            them at once; ``shift`` begins a new grid.
        most: The most late ticks that ``catch_up`` executes; ``None``: all.

    Attributes:
        index: Number of the last tick. Skipped ticks have numbers, too.
        time: When the last tick was due.
        due: When the next tick is due.
    """

    __slots__ = (
        "_denominator",
        "_most",
        "_numerator",
        "_policy",
        "_remainder",
        "_rest",
        "_shortest",
        "due",
        "index",
        "time",
    )

    def __init__(self, period: Period, policy: str, most: int | None) -> None:
        self._policy = policy
        self._most = most
        self.index = 0
        self.time = self.due = 0
        self._set(period)

    def change(self, period: Period, now: int) -> None:
        """Set another period, which holds from the next tick on.

        That tick comes earlier if the new period is shorter.
        """
        shorter = period[0] * self._denominator < self._numerator * period[1]
        self._set(period)
        if shorter:
            self.due = min(self.due, max(now, self.time + self._shortest))

    def _set(self, period: Period) -> None:
        self._numerator, self._denominator = period
        self._shortest, self._rest = divmod(self._numerator, self._denominator)
        self._remainder = 0

    def anchor(self, now: int) -> None:
        """Begin a new grid: the next tick is due a period from now, without debt."""
        self.time = self.due = now
        self._remainder = 0
        self._add(1)

    def take(self, now: int) -> tuple[int, bool]:
        """Move on to the tick that is to be executed now.

        Args:
            now: The time, from ``due`` on.

        Returns:
            How many ticks were skipped, and whether a new grid begins.
        """
        skipped, shifted = 0, False
        if now - self.due >= self._shortest:
            skipped, shifted = self._catch_up(now)
        self.index += skipped + 1
        self.time = due = self.due
        # As `_add`, without a call.
        remainder = self._remainder + self._rest
        if remainder >= self._denominator:
            remainder -= self._denominator
            due += 1
        self.due, self._remainder = due + self._shortest, remainder
        return skipped, shifted

    def _catch_up(self, now: int) -> tuple[int, bool]:
        """Skip late ticks, or begin a new grid; return both as `take` does."""
        # Of the ticks after the one that is due, those that are due as well.
        behind = (
            (now - self.due + 1) * self._denominator - 1 - self._remainder
        ) // self._numerator
        skipped = 0
        if behind > 0:
            if self._policy == "shift":
                self.due, self._remainder = now, 0
                return 0, True
            if self._policy == "skip":
                skipped = behind
            elif self._most is not None:
                skipped = max(0, behind - self._most)
            if skipped:
                self._add(skipped)
        return skipped, False

    def _add(self, periods: int) -> None:
        whole, self._remainder = divmod(
            periods * self._numerator + self._remainder, self._denominator
        )
        self.due += whole


class FollowingPacer(GridPacer):
    """Ticks that something else makes; without it, one comes after two periods.

    Args:
        period: Numerator and denominator of the expected period, in ns.
    """

    __slots__ = ()

    def __init__(self, period: Period) -> None:
        super().__init__(period, "shift", None)

    def change(self, period: Period, now: int) -> None:
        """Expect another period from now on."""
        self._set(period)
        self.due = max(now, self.time + 2 * self._shortest)

    def anchor(self, now: int) -> None:
        """Expect the next tick a period from now."""
        self.time, self.due = now, now + 2 * self._shortest

    def follow(self, now: int) -> int:
        """Note a tick; return how much later it is than a period after the last one."""
        late = now - self.time - self._shortest
        self.index += 1
        self.anchor(now)
        return max(0, late)

    def wait_on(self, now: int) -> None:
        """Note a tick that came by itself, and expect the next one as before."""
        self.index += 1
        self.due = now + 2 * self._shortest
