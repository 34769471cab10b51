"""The agents that take steps, by session."""

from __future__ import annotations

from collections import OrderedDict, deque

from gym_http_server.host.realtime.updates import Merged

__all__ = ["Caller", "Callers"]

MAX_CALLERS = 64


class Caller:
    """An agent that takes steps: what happened since its last answer.

    Attributes:
        pending: The updates since then.
        ends: Ends of episodes among them, each with the updates before it.
        episode: Episode of the last answer.
        arrived: When its waiting request arrived.
        answered: When the last answer was given.
        capture_ns: When the last answer's observation was captured.
    """

    __slots__ = (
        "answered",
        "arrived",
        "capture_ns",
        "ends",
        "episode",
        "pending",
    )

    def __init__(self, most: int) -> None:
        self.pending: Merged | None = None
        self.ends: deque[Merged] = deque(maxlen=most)
        self.episode = 0
        self.arrived: int | None = None
        self.answered: int | None = None
        self.capture_ns: int | None = None


class Callers:
    """The last agents that took steps.

    Args:
        most: How many ends of episodes are kept for each.

    Attributes:
        known: By session.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.known: OrderedDict[str, Caller] = OrderedDict()

    def __getitem__(self, name: str) -> Caller:
        """Return the agent of a session, new or not."""
        caller = self.known.get(name)
        if caller is None:
            caller = self.known[name] = Caller(self._most)
            if len(self.known) > MAX_CALLERS:
                self.known.popitem(last=False)
        else:
            self.known.move_to_end(name)
        return caller
