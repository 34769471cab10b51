"""The actions that a world has received, and which of them is in force.

At each tick, of the actions that are valid, the one with the highest priority acts, and
of several with one priority the last. If the last one is held and expires, as that of a
takeover does, the newest of a lower priority acts again. Each action is counted once:
received = applied + superseded + expired + rejected + waiting.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gym_http_server.host.realtime.settings import FREE_RUNNING, ClockSettings
from gym_http_wire.problems import BadParameter

__all__ = ["Action", "Actions"]

MAX_WAITING = 4096


class Action:
    """An action and until when it is valid.

    Attributes:
        number: In the order of receipt, from 1; 0 if no agent sent it.
        valid_until: Time from which it is expired; ``None``: it does not expire.
        settled: Whether it counts as applied, superseded or expired already.
    """

    __slots__ = ("number", "priority", "settled", "valid_until", "value")

    def __init__(
        self, value: Any, number: int, priority: int, valid_until: int | None
    ) -> None:
        self.value = value
        self.number = number
        self.priority = priority
        self.valid_until = valid_until
        self.settled = not number

    def shown(self) -> dict[str, Any]:
        """Return the member of answers that describes the action in force."""
        return {
            "number": self.number,
            "priority": self.priority,
            "value": self.value,
        }


class _Level:
    """The actions of one priority: a single one, and those of chunks by tick."""

    __slots__ = ("held", "latest", "priority", "since", "slots")

    def __init__(self, priority: int) -> None:
        self.priority = priority
        # For the next tick, whenever that is.
        self.latest: Action | None = None
        self.slots: dict[int, Action] = {}
        # Still valid after its tick. Without a time limit, it acts again only when the
        # one in force expires.
        self.held: Action | None = None
        # The tick of that.
        self.since = 0


class Actions:
    """Receives actions, and chooses one for each tick.

    Args:
        settings: The settings of the clock.
    """

    def __init__(self, settings: ClockSettings) -> None:
        self._no_action = settings.no_action
        # Each step of the elastic mode brings an action.
        self._holds = settings.no_action == "hold" and settings.mode == FREE_RUNNING
        self.default = Action(settings.default_action, 0, 0, None)
        self._zero = Action(settings.zero_action, 0, 0, None)
        self.in_force: Action | None = None
        # Whether silence makes the default action come into force.
        self.lost = False
        self._levels: list[_Level] = []
        self._number = 0
        self.waiting = 0
        self.received = 0
        self.applied = 0
        self.superseded = 0
        self.expired = 0
        self.rejected = 0

    def counts(self) -> dict[str, int]:
        """Return how many actions there were, by what became of them."""
        return {
            "received": self.received,
            "applied": self.applied,
            "superseded": self.superseded,
            "expired": self.expired,
            "rejected": self.rejected,
            "waiting": self.waiting,
        }

    def set_default(self, action: Any) -> None:
        """Set the default action."""
        self.default = Action(action, 0, 0, None)

    def reject(self, count: int = 1) -> None:
        """Count actions that are no elements of the action space."""
        self.received += count
        self.rejected += count

    def expire(self, count: int = 1) -> None:
        """Count actions that came too late."""
        self.received += count
        self.expired += count

    def check_room(self, count: int) -> None:
        """Refuse a chunk beyond the actions that may wait.

        One action alone replaces another, and so never has to be refused.

        Raises:
            BadParameter: Too many are waiting.
        """
        if self.waiting + count > MAX_WAITING:
            raise BadParameter(
                f"actions has {count} and {self.waiting} are waiting: expected "
                f"{MAX_WAITING} in all at most"
            )

    def offer(
        self, value: Any, priority: int = 0, valid_until: int | None = None
    ) -> None:
        """Receive one action, for the next tick."""
        self.received += 1
        self._number += 1
        level = self._level(priority)
        if level.latest is not None:
            self._drop(level.latest)
        self._release(level)
        level.latest = Action(value, self._number, priority, valid_until)
        self.waiting += 1

    def offer_chunk(
        self,
        values: Sequence[Any],
        at: int,
        upcoming: int,
        *,
        blend: float | None = None,
        priority: int = 0,
        valid_until: int | None = None,
    ) -> None:
        """Receive a chunk: one action for each tick from ``at`` on.

        Args:
            values: The actions.
            at: The tick of the first.
            upcoming: The next tick; actions for earlier ones are expired.
            blend: Share of the new action where one waits for the same tick.
            priority: Priority of all of them.
            valid_until: Time from which all of them are expired.
        """
        past = min(len(values), max(0, upcoming - at))
        self.expire(past)
        self._number += past
        if past == len(values):
            return
        slots = self._level(priority).slots
        for tick, value in enumerate(values[past:], at + past):
            self.received += 1
            self._number += 1
            old = slots.get(tick)
            if old is not None:
                self._drop(old)
                if blend is not None:
                    value = _blended(old.value, value, blend)
            slots[tick] = Action(value, self._number, priority, valid_until)
            self.waiting += 1

    def choose(self, tick: int, now: int) -> Action:
        """Return the action that is in force from now on."""
        chosen: Action | None = None
        for level in self._levels:
            candidate = self._candidate(level, tick, now)
            if candidate is None:
                continue
            if chosen is None:
                chosen = candidate
            elif candidate is not level.held:
                # It lost its tick to a higher priority.
                self._drop(candidate)
        if chosen is None:
            chosen = self._without(now)
        if not chosen.settled:
            chosen.settled = True
            self.waiting -= 1
            self.applied += 1
        self.in_force = chosen
        return chosen

    def force(self, action: Action) -> None:
        """Put an action of no agent in force, as a reset does."""
        for level in self._levels:
            held = level.held
            if held is not None and held.valid_until is None:
                self._end(held)
                level.held = None
        self.in_force = action

    def clear(self) -> None:
        """Let all waiting actions expire."""
        for level in self._levels:
            for action in (level.latest, level.held, *level.slots.values()):
                if action is not None:
                    self._end(action)
        self._levels.clear()

    def _level(self, priority: int) -> _Level:
        for level in self._levels:
            if level.priority == priority:
                return level
        level = _Level(priority)
        self._levels.append(level)
        self._levels.sort(key=lambda each: -each.priority)
        return level

    def _candidate(self, level: _Level, tick: int, now: int) -> Action | None:
        latest, level.latest = level.latest, None
        if level.slots:
            latest = self._of_chunk(level, tick, latest)
        if latest is not None and _is_over(latest, now):
            self._end(latest)
            latest = None
        if latest is not None:
            self._release(level)
            if self._holds or latest.valid_until is not None:
                level.held, level.since = latest, tick
            return latest
        held = level.held
        if held is None or held.valid_until is None:
            return None
        if _is_over(held, now):
            self._end(held)
            level.held = held = None
        return held

    def _of_chunk(
        self, level: _Level, tick: int, latest: Action | None
    ) -> Action | None:
        """Return the newer of a single action and that of a chunk for a tick."""
        slots = level.slots
        own = slots.pop(tick, None)
        if slots:
            # Ticks were skipped.
            for past in [each for each in slots if each < tick]:
                self._end(slots.pop(past))
        if own is None or latest is None:
            return own or latest
        older, newer = sorted((own, latest), key=lambda each: each.number)
        self._drop(older)
        return newer

    def _without(self, now: int) -> Action:
        """Return the action in force without one from an agent."""
        if self.lost or self._no_action == "default":
            return self.default
        if self._no_action == "zero":
            return self._zero
        last = self.in_force
        if last is None:
            return self.default
        until = last.valid_until
        if until is None or now < until:
            return last
        # Those that are held have no time limit: others would have been chosen.
        below = [level for level in self._levels if level.held is not None]
        if not below:
            return self.default
        # The first of those with the newest tick has the highest priority.
        return max(below, key=lambda level: level.since).held or self.default

    def _release(self, level: _Level) -> None:
        if level.held is not None:
            self._drop(level.held)
            level.held = None

    def _drop(self, action: Action) -> None:
        """Count an action that another one replaces."""
        if not action.settled:
            action.settled = True
            self.waiting -= 1
            self.superseded += 1

    def _end(self, action: Action) -> None:
        """Count an action whose time is over."""
        if not action.settled:
            action.settled = True
            self.waiting -= 1
            self.expired += 1


def _is_over(action: Action, now: int) -> bool:
    return action.valid_until is not None and now >= action.valid_until


def _blended(old: Any, new: Any, share: float) -> Any:
    mixed = (1 - share) * np.asarray(old) + share * np.asarray(new)
    dtype = np.asarray(new).dtype
    return (np.rint(mixed) if dtype.kind in "iu" else mixed).astype(dtype)
