"""Updates: what a world showed at its ticks, kept for readers that fall behind."""

from __future__ import annotations

from collections import deque
from typing import Any

from gym_http_server.host.realtime.actions import Action
from gym_http_server.host.realtime.history import with_history
from gym_http_server.host.realtime.rewards import Rewards

__all__ = ["Merged", "Update", "UpdateBuffer"]


class Update:
    """An observation with rewards, flags, and the circumstances of its capture.

    Attributes:
        number: In the order of capture, from 1.
        queued: How many actions waited at the capture.
        rewards: As `Rewards.read` returns them; ``None`` at a reset.
        known: The last known value of each channel, if they are held.
        history: The last actions, if they are part of observations.
        action: The action in force at the capture.
        agent_lost: What happened because the agent was silent; else ``None``.
        last: Whether there are no more episodes.
    """

    # Most updates keep most of these, and there may be a thousand updates a second.
    number = 0
    tick = 0
    episode = 0
    rewards: Any = None
    known: tuple[float, ...] = ()
    terminated: Any = False
    truncated: Any = False
    action: Action | None = None
    history: tuple[Any, ...] | None = None
    capture_ns = 0
    late_ns = 0
    timed_out = False
    skipped = 0
    queued = 0
    agent_lost: dict[str, Any] | None = None
    last = False

    def __init__(self, observation: Any, info: dict[str, Any]) -> None:
        self.observation = observation
        self.info = info

    @property
    def over(self) -> bool:
        """Whether the episode ended with it."""
        return bool(self.terminated or self.truncated)


class Merged:
    """One or more successive updates as one: the newest, with all their rewards.

    Attributes:
        update: The newest.
        merged: How many older ones it includes.
    """

    __slots__ = (
        "agent_lost",
        "merged",
        "rewards",
        "skipped",
        "timed_out",
        "update",
    )

    def __init__(self, update: Update) -> None:
        self.update = update
        self.rewards = update.rewards
        self.skipped = update.skipped
        self.timed_out = update.timed_out
        self.agent_lost = update.agent_lost
        self.merged = 0

    def add(self, update: Update, rules: Rewards) -> None:
        """Add the next update."""
        self.update = update
        self.merged += 1
        self.skipped += update.skipped
        self.timed_out = self.timed_out or update.timed_out
        if update.agent_lost is not None:
            self.agent_lost = update.agent_lost
        if update.rewards is not None:
            self.rewards = rules.merge(self.rewards, update.rewards)

    def realtime(self, now: int, origin: int) -> dict[str, Any]:
        """Return the member ``realtime``; times in ns since an origin."""
        update = self.update
        action = update.action
        return {
            "update": update.number,
            "tick": update.tick,
            "episode": update.episode,
            "action": None if action is None else action.shown(),
            "capture_ns": update.capture_ns - origin,
            "late_ns": update.late_ns,
            "age_ns": now - update.capture_ns,
            "now_ns": now - origin,
            "timed_out": self.timed_out,
            "skipped": self.skipped,
            "queued": update.queued,
            "merged": self.merged,
        }

    def observation(self) -> Any:
        """Return the observation, with the history if there is one."""
        update = self.update
        if update.history is None:
            return update.observation
        return with_history(update.observation, update.history)

    def value(self, now: int, origin: int, rules: Rewards) -> dict[str, Any]:
        """Return the update as readers get it."""
        update = self.update
        value = {
            "info": update.info,
            "observation": self.observation(),
            "realtime": self.realtime(now, origin),
            "reward": 0.0,
            "terminated": update.terminated,
            "truncated": update.truncated,
        }
        if self.rewards is None:
            value["reset"] = True
        else:
            value["reward"] = rules.reduce(self.rewards, update.known)
            if isinstance(self.rewards, list):
                value["rewards"] = self.rewards
        if self.agent_lost is not None:
            value["agent_lost"] = self.agent_lost
        if update.last:
            value["last"] = True
        return value


class UpdateBuffer:
    """The last updates, by number.

    Args:
        size: How many are kept.
    """

    def __init__(self, size: int) -> None:
        self._kept: deque[Update] = deque(maxlen=size)
        self.newest = 0
        self.given = 0
        self.merged = 0
        self.lost = 0

    def counts(self) -> dict[str, int]:
        """Return how many updates there were, and what became of them."""
        return {
            "made": self.newest,
            "given": self.given,
            "merged": self.merged,
            "lost": self.lost,
        }

    def add(self, update: Update) -> None:
        """Number and keep an update."""
        self.newest += 1
        update.number = self.newest
        self._kept.append(update)

    def since(
        self, after: int, deliver: str, most: int, rules: Rewards
    ) -> tuple[list[Merged], int]:
        """Return the updates after one, and how many are no longer kept.

        Args:
            after: Number of the last update that the reader has.
            deliver: ``all``, or ``latest`` for one that includes those before it. An
                end of an episode is never hidden in a later update.
            most: The most updates to return.
            rules: How to merge rewards.
        """
        first = self.newest - len(self._kept) + 1
        lost = max(0, first - 1 - after)
        found: list[Merged] = []
        for index in range(max(0, after + 1 - first), len(self._kept)):
            update = self._kept[index]
            if deliver == "latest" and found:
                found[0].add(update, rules)
            else:
                found.append(Merged(update))
            full = len(found) == most if deliver == "all" else update.over
            if full:
                break
        self.given += len(found)
        self.merged += sum(each.merged for each in found)
        self.lost += lost
        return found, lost
