"""Sequence numbers of actions, so that one that is sent again acts once."""

from __future__ import annotations

from collections import OrderedDict

__all__ = ["Sequences"]

MAX_SESSIONS = 64
# Of a session: older ones than these count as repeated.
_REMEMBERED = 1024


class _Session:
    """The sequence numbers that a session has used."""

    __slots__ = ("forgotten", "last", "seen")

    def __init__(self) -> None:
        self.seen: dict[int, None] = {}
        self.last = 0
        # The highest that is no longer among those seen.
        self.forgotten = 0


class Sequences:
    """The sequence numbers of each session, so that a repeat acts once."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, _Session] = OrderedDict()

    def state_of(self, name: str, sequence: int) -> str:
        """Return ``new``, ``repeated``, or ``late`` if a later one came before."""
        session = self._sessions.get(name)
        if session is None or sequence > session.last:
            return "new"
        if sequence in session.seen or sequence <= session.forgotten:
            return "repeated"
        return "late"

    def add(self, name: str, sequence: int) -> None:
        """Record an accepted request."""
        session = self._sessions.get(name)
        if session is None:
            session = self._sessions[name] = _Session()
            if len(self._sessions) > MAX_SESSIONS:
                self._sessions.popitem(last=False)
        self._sessions.move_to_end(name)
        session.last = max(session.last, sequence)
        session.seen[sequence] = None
        if len(session.seen) > _REMEMBERED:
            oldest = next(iter(session.seen))
            del session.seen[oldest]
            session.forgotten = max(session.forgotten, oldest)
