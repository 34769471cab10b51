"""The last events of a clock, in constant memory, for people and for Perfetto."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

__all__ = [
    "ACT",
    "CAPTURE",
    "CHANGE",
    "EVENTS",
    "FAILURE",
    "LOST",
    "PAUSE",
    "RESET",
    "RESUME",
    "SEND",
    "STEP",
    "TICK",
    "TIME_OUT",
    "Trace",
]

EVENTS = (
    "reset",
    "send",
    "capture",
    "tick",
    "step",
    "act",
    "pause",
    "resume",
    "change",
    "agent-lost",
    "time-out",
    "failure",
)
"""What a trace records. Those with a duration are world calls, ticks and steps."""

RESET, SEND, CAPTURE, TICK, STEP, ACT = range(6)
PAUSE, RESUME, CHANGE, LOST, TIME_OUT, FAILURE = range(6, len(EVENTS))

CAPACITY = 4096
_LANES = {"tick": "clock", "step": "agent", "act": "agent"}
_WORLD = ("reset", "send", "capture")
# Event, tick, beginning, duration, and a number that depends on the event.
_RECORD = struct.Struct("5q")
_NUMBERS = {
    "act": "actions",
    "capture": "late_ns",
    "send": "action",
    "step": "action",
    "tick": "late_ns",
}


class Trace:
    """A ring of the last events."""

    def __init__(self) -> None:
        self._ring = bytearray(CAPACITY * _RECORD.size)
        self._count = 0

    def add(
        self, event: int, tick: int, start: int, duration: int = 0, number: int = 0
    ) -> None:
        """Record an event by its index in `EVENTS`."""
        offset = self._count % CAPACITY * _RECORD.size
        _RECORD.pack_into(self._ring, offset, event, tick, start, duration, number)
        self._count += 1

    def events(self, last: int, origin: int) -> list[dict[str, Any]]:
        """Return the last events, oldest first; times in ns since an origin."""
        return [
            {
                "event": EVENTS[event],
                "tick": tick,
                "start_ns": start - origin,
                "duration_ns": duration,
                _NUMBERS.get(EVENTS[event], "number"): number,
            }
            for event, tick, start, duration, number in self._records(last)
        ]

    def chrome(self, last: int, origin: int) -> dict[str, Any]:
        """Return the last events in Chrome's trace format, which Perfetto opens."""
        lanes = ("clock", "world", "agent")
        events: list[dict[str, Any]] = [
            {
                "name": "thread_name",
                "ph": "M",
                "pid": 1,
                "tid": lane,
                "args": {"name": name},
            }
            for lane, name in enumerate(lanes, 1)
        ]
        for event, tick, start, duration, number in self._records(last):
            name = EVENTS[event]
            lane = "world" if name in _WORLD else _LANES.get(name, "clock")
            members: dict[str, Any] = {"ph": "i", "s": "t"}
            if duration or name in _WORLD:
                members = {"ph": "X", "dur": duration / 1000}
            events.append(
                {
                    "name": name,
                    "pid": 1,
                    "tid": lanes.index(lane) + 1,
                    "ts": (start - origin) / 1000,
                    "args": {"tick": tick, _NUMBERS.get(name, "number"): number},
                    **members,
                }
            )
        return {"displayTimeUnit": "ns", "traceEvents": events}

    def _records(self, last: int) -> Iterator[tuple[int, ...]]:
        kept = min(self._count, CAPACITY, last)
        for index in range(self._count - kept, self._count):
            yield _RECORD.unpack_from(self._ring, index % CAPACITY * _RECORD.size)
