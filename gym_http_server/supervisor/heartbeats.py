"""Heartbeats: detects hosts that are unresponsive outside of calls.

A host that is stopped, or in which a thread keeps the interpreter's lock, does not mark
itself busy. So the supervisor sends a ping to each host with a status page that has not
changed for a while. The host's loop answers with a mark on the page. Each mark counts
as an answer. For a call that has begun, the step deadline holds.

All times are of `AwakeClock`. After the whole machine was suspended, or all processes
were stopped, hosts get the time to answer that they would have had without it.
"""

from __future__ import annotations

import time

__all__ = ["AwakeClock", "Heartbeat"]

#: Seconds without a new mark after which the supervisor sends a host a ping: a fifth of
#: the step deadline, within these bounds. A ping wakes an idle host up, which costs as
#: much as a step.
LEAST_PING_SECONDS, MOST_PING_SECONDS = 0.6, 10.0
#: Seconds that a host has to answer a ping, beyond the rest of the step deadline: with
#: a short deadline, a host that merely waits for a core is not ended.
SLACK_SECONDS = 0.5
_LONGEST_STEP = 0.5

Marks = tuple[int, ...]


class AwakeClock:
    """Counts the seconds in which this process ran or could have run.

    Attributes:
        now: Seconds so far.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self._last = time.monotonic()

    def advance(self, monotonic: float) -> None:
        """Add the time since the last call, or half a second if that is less."""
        self.now += min(monotonic - self._last, _LONGEST_STEP)
        self._last = monotonic


class Heartbeat:
    """The latest marks on the status page of one host, and their time.

    Args:
        deadline: The step deadline, seconds.

    Attributes:
        unchanged_since: When the supervisor first saw the present marks.
        pinged_at: When the unanswered ping was sent; ``None`` if there is none.
    """

    def __init__(self, deadline: float) -> None:
        self.unchanged_since = 0.0
        self.pinged_at: float | None = None
        self._marks: Marks | None = None
        every_s = max(LEAST_PING_SECONDS, min(MOST_PING_SECONDS, deadline / 5))
        self._ping_s = every_s
        # A host may have been stuck since the mark before the ping.
        self._answer_s = deadline + SLACK_SECONDS - (every_s - LEAST_PING_SECONDS)

    def look(self, marks: Marks, now: float) -> None:
        """Record the present marks."""
        if marks != self._marks:
            self._marks = marks
            self.unchanged_since = now
            self.pinged_at = None

    def ping_due(self, now: float) -> bool:
        """Return whether to send the host a ping; assume that it is sent."""
        due = self.pinged_at is None and now - self.unchanged_since >= self._ping_s
        if due:
            self.pinged_at = now
        return due

    def lost(self, now: float) -> bool:
        """Return whether a ping has been unanswered for too long."""
        return self.pinged_at is not None and now - self.pinged_at > self._answer_s

    def rests_for(self, now: float) -> float:
        """Return the seconds until a ping, or the lack of its answer, is due."""
        if self.pinged_at is None:
            return self.unchanged_since + self._ping_s - now
        return self.pinged_at + self._answer_s - now

    def has_lasted(self, now: float, seconds: float) -> bool:
        """Return whether that many seconds have passed since the last mark."""
        return now - self.unchanged_since > seconds - SLACK_SECONDS
