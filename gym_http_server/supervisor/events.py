"""The last events of instances: made, ended and why, and creates that were refused."""

from __future__ import annotations

import re
import time
from typing import Any

import msgspec

from gym_http_server.datadir.retention import Retention

__all__ = ["MAX_EVENTS", "MAX_REASON", "Events"]

#: Events that are kept, of all owners together.
MAX_EVENTS = 500
#: Characters of a reason.
MAX_REASON = 300
_NUMBER = re.compile(r"[0-9]+")


class _Event(msgspec.Struct):
    """An event, with its members in the order of the names."""

    at: float
    count: int
    env_id: str
    event: str
    instance_id: str | None
    label: str | None
    number: int
    owner: str | None
    reason: str | None


class Events:
    """Keeps the last events; each owner has a share.

    The number of an event is its time in milliseconds, or one more than that of the
    event before. So the numbers grow over restarts, and nodes of a fleet can be asked
    for events from the same number on.
    """

    def __init__(self) -> None:
        self._next = 0
        self._kept: dict[int, _Event] = {}
        self._retention = Retention[int](MAX_EVENTS)

    def add(
        self,
        event: str,
        env_id: str,
        owner: str,
        *,
        instance_id: str = "",
        label: str | None = None,
        reason: str = "",
    ) -> None:
        """Add an event: ``made``, ``ended`` or ``refused``.

        A create that is refused again and again, for the same reason, is one event
        with a count. Numbers in the reason do not count: the seconds until there is
        room differ.
        """
        names = event, env_id, instance_id or None, label, owner or None
        reason = reason[:MAX_REASON]
        count = 1
        if event == "refused" and self._kept:
            last = next(reversed(self._kept.values()))
            before = last.event, last.env_id, last.instance_id, last.label, last.owner
            if before == names and _alike(last.reason or "", reason):
                count += last.count
                self._retention.discard(last.number)
                del self._kept[last.number]
        now = time.time()
        number = self._from_now(now)
        self._kept[number] = _Event(
            at=round(now, 3),
            count=count,
            env_id=env_id,
            event=event,
            instance_id=instance_id or None,
            label=label,
            number=number,
            owner=owner or None,
            reason=reason or None,
        )
        self._next += 1
        for old in self._retention.add(number, owner):
            del self._kept[old]

    def since(self, number: int, owner: str) -> dict[str, Any]:
        """Return the events from a number on, oldest first, for clients.

        Args:
            number: The number.
            owner: Name of the token whose events these are; "" for all.
        """
        found = [
            each
            for each in self._kept.values()
            if each.number >= number and owner in ("", each.owner)
        ]
        return {"events": found, "next": self._from_now(time.time())}

    def _from_now(self, now: float) -> int:
        """Return a number that all later events reach, and no earlier one does."""
        self._next = max(self._next, int(now * 1000))
        return self._next


def _alike(one: str, other: str) -> bool:
    return _NUMBER.sub("0", one) == _NUMBER.sub("0", other)
