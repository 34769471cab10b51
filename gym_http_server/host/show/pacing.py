"""Decides when a watcher gets the newest state, and whether with a picture.

Drawing takes time from the agents of the instance, so each watcher has a rate and a
share of the host's time. Nothing here draws, sends or reads a clock.
"""

from __future__ import annotations

from collections import deque
from enum import IntEnum

__all__ = ["DrawingTimes", "Pacer", "Turn"]

_SECOND = 1_000_000_000


class Turn(IntEnum):
    """What a watcher gets at a moment."""

    NOTHING = 0
    TEXT = 1
    PICTURE = 2


class Pacer:
    """Decides what one watcher gets, and when.

    States of the environment have numbers, which only increase. A state that is
    followed by a newer one is left out. After drawing for a time t, no picture is due
    for t / share since its beginning, whichever watchers the picture was for. Text is
    cheap and goes on; its time counts too.

    Args:
        fps: Updates a second, at most.
        share: Part of the host's time that drawing may take, above 0 and at most 1.
    """

    def __init__(self, fps: float, share: float) -> None:
        self._interval_ns = int(_SECOND / fps)
        self._cost = 1.0 / share
        # The last states that were sent as text, and as picture.
        self._told = -1
        self._drawn = -1
        # When the next update, the next text and the next picture are due.
        self._next_ns = 0
        self._text_ns = 0
        self._picture_ns = 0

    @property
    def ready_ns(self) -> int:
        """The earliest time of an update, if there is a new state by then."""
        return max(self._next_ns, min(self._text_ns, self._picture_ns))

    @property
    def picture_ns(self) -> int:
        """The earliest time of the next picture."""
        return max(self._next_ns, self._picture_ns)

    def due_ns(self, state: int, *, draws: bool, at_once: bool = False) -> int | None:
        """Return when an update is due; ``None`` if the watcher has the newest state.

        Args:
            state: Number of the newest state.
            draws: Whether there may be a picture.
            at_once: Whether rate and share do not limit this watcher.
        """
        news = state != self._told
        if at_once:
            return 0 if news or (draws and state != self._drawn) else None
        if not draws or state == self._drawn:
            return max(self._next_ns, self._text_ns) if news else None
        picture_ns = self.picture_ns
        if not news:
            return picture_ns
        text_ns = max(self._next_ns, self._text_ns)
        # A picture that is due soon is worth a wait: it comes with the same text.
        return picture_ns if picture_ns - text_ns <= self._interval_ns else text_ns

    def choose(
        self, now_ns: int, state: int, *, draws: bool, at_once: bool = False
    ) -> Turn:
        """Return what the watcher gets now.

        Args:
            now_ns: The time.
            state: Number of the newest state.
            draws: Whether there may be a picture.
            at_once: Whether rate and share do not limit this watcher.
        """
        due_ns = self.due_ns(state, draws=draws, at_once=at_once)
        if due_ns is None or now_ns < due_ns:
            return Turn.NOTHING
        may_draw = at_once or now_ns >= self.picture_ns
        return (
            Turn.PICTURE if draws and state != self._drawn and may_draw else Turn.TEXT
        )

    def sent(self, now_ns: int, state: int, turn: Turn) -> None:
        """Record that the watcher gets a state, as `choose` said."""
        self._told = state
        if turn is Turn.PICTURE:
            self._drawn = state
        self.postpone(now_ns)

    def postpone(self, now_ns: int) -> None:
        """Set the time of the next update, as if the watcher had got one now."""
        # On a grid, so that many watchers share one picture.
        self._next_ns = now_ns - now_ns % self._interval_ns + self._interval_ns

    def spent(self, began_ns: int, ended_ns: int, turn: Turn) -> None:
        """Record the time that updates took, for this watcher or for another.

        Args:
            began_ns: When it began.
            ended_ns: When it ended.
            turn: `Turn.PICTURE` if a picture was drawn.
        """
        pause_ns = int((ended_ns - began_ns) * self._cost)
        self._picture_ns = max(self._picture_ns, began_ns) + pause_ns
        if turn is not Turn.PICTURE:
            self._text_ns = began_ns + pause_ns


class DrawingTimes:
    """Estimates how long a picture takes, for an instance whose ticks must be in time.

    The estimate is the shorter of the last two times: the first picture includes the
    start of a renderer, and a single late one should not end the show.
    """

    def __init__(self) -> None:
        self._last: deque[int] = deque(maxlen=2)

    def add(self, took_ns: int) -> None:
        """Record how long a picture took."""
        self._last.append(took_ns)

    def clear(self) -> None:
        """Forget the times, so that drawing is tried again."""
        self._last.clear()

    def fits(self, now_ns: int, until_ns: int | None) -> bool:
        """Whether a picture is ready before a time; ``None``: nothing is due.

        While there are fewer than two times, it is tried.
        """
        if until_ns is None or len(self._last) < 2:
            return True
        return now_ns + min(self._last) <= until_ns
