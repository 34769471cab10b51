"""Figures of all instances by env ID, for operators; they outlive the instances."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gym_http_server.rundir.status import STEP_BOUNDS_NS, Status
from gym_http_server.supervisor.instance import Instance

__all__ = ["MAX_ENV_IDS", "OTHER", "Figures"]

#: Env IDs that have figures of their own: clients choose the names.
MAX_ENV_IDS = 200
#: Stands for all further ones.
OTHER = "other"

_COUNTS = ("steps", "episodes", "timed_steps", "step_ns", "recorded_bytes")
_FRAMES = ("frames_dropped", "frames_shown")


class Figures:
    """Adds up what instances did. No sum falls when an instance ends."""

    def __init__(self) -> None:
        self._envs: dict[str, dict[str, Any]] = {}

    def add_made(self, env_id: str) -> None:
        """Count an instance that was made."""
        self._of(env_id)["made"] += 1

    def add_ended(self, env_id: str, reason: str, page: Status) -> None:
        """Count the end of an instance that was made, and keep what it did."""
        figures = self._of(env_id)
        figures["ended"][reason] = figures["ended"].get(reason, 0) + 1
        _add(figures, page)

    def all(self, instances: Iterable[Instance]) -> dict[str, dict[str, Any]]:
        """Return the figures by env ID, those of present instances included."""
        found = {env_id: _copied(each) for env_id, each in self._envs.items()}
        for instance in instances:
            if not instance.live:
                continue
            figures = found[self._name(instance.env_id)]
            page = instance.page.read()
            _add(figures, page)
            state = "ending" if instance.reason else "idle"
            figures["states"]["busy" if page.busy_since_ns else state] += 1
            figures["streams"] += page.streams
            figures["watchers"] += page.watchers
        return found

    def _of(self, env_id: str) -> dict[str, Any]:
        return self._envs.setdefault(self._name(env_id), _empty())

    def _name(self, env_id: str) -> str:
        known = env_id in self._envs or len(self._envs) < MAX_ENV_IDS
        return env_id if known else OTHER


def _empty() -> dict[str, Any]:
    return {
        **dict.fromkeys(("made", "streams", "watchers", *_COUNTS, *_FRAMES), 0),
        "ended": {},
        "states": dict.fromkeys(("idle", "busy", "ending"), 0),
        "step_counts": [0] * (len(STEP_BOUNDS_NS) + 1),
    }


def _copied(figures: dict[str, Any]) -> dict[str, Any]:
    return {
        **figures,
        "ended": dict(figures["ended"]),
        "states": dict(figures["states"]),
        "step_counts": list(figures["step_counts"]),
    }


def _add(figures: dict[str, Any], page: Status) -> None:
    for name in (*_COUNTS, *_FRAMES):
        figures[name] += getattr(page, name)
    for index, count in enumerate(page.step_counts):
        figures["step_counts"][index] += count
