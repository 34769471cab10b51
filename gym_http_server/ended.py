"""Fates: what callers are told of an instance that is gone."""

from __future__ import annotations

from typing import Any

from gym_http_server.errors import (
    EnvCrashed,
    InstanceEnded,
    StepDeadline,
    UnknownInstance,
)
from gym_http_wire.problems import Problem

__all__ = ["told", "was_in_flight"]

# Within which a client with a call in flight notices that the host has ended.
NOTICED_SECONDS = 1.0
_REASONS = {
    "crashed": "its process ended",
    "step-deadline": "a call took longer than the server allows",
    "unresponsive": "its process did not respond for longer than a call may take",
    "idle": "nobody used it for longer than the server allows",
    "orphaned": "its clients were gone without closing it, and its slot was needed",
    "memory": "it used more memory than the server allows",
    "external-gone": "its environment, which lives elsewhere, has not come back",
    "shutdown": "the server is stopping",
    "closed": "it was closed",
}


def was_in_flight(fate: dict[str, Any], lost_s: float | None) -> bool:
    """Whether an instance ended in the call whose answer was lost with a stream.

    Args:
        fate: What the supervisor says of it.
        lost_s: Seconds since the answer was lost; ``None`` if none was.
    """
    return lost_s is not None and fate["ended_s_ago"] < lost_s + NOTICED_SECONDS


def told(instance_id: str, fate: dict[str, Any], *, in_flight: bool) -> Problem:
    """Give what a caller is told.

    Args:
        instance_id: The instance.
        fate: What the supervisor says of it.
        in_flight: Whether it ended in the caller's call.
    """
    reason = fate["reason"]
    if reason == "closed" and not in_flight:
        return UnknownInstance(instance_id)
    why = fate["detail"] or _REASONS.get(reason, reason)
    how = fate["signal"] or f"exit status {fate['exit_status']}"
    if reason == "crashed":
        why += f" ({how})"
    extras = {"reason": reason, "ended_s_ago": fate["ended_s_ago"]}
    if in_flight and reason == "step-deadline":
        return StepDeadline(
            f"the call took longer than this server allows, so instance {instance_id} "
            "was ended; raise --step-deadline, or create it anew",
            extras=extras,
        )
    if in_flight and reason == "unresponsive":
        return StepDeadline(
            f"the process of instance {instance_id} did not respond for longer than a "
            "call may take on this server, so the instance was ended; create it anew, "
            "or raise --step-deadline if its environment needs that long between calls",
            extras=extras,
        )
    if in_flight and reason in ("crashed", "memory"):
        if reason == "crashed" and fate["last_words"]:
            why += f" {fate['last_words']}"
        extras |= {"signal": fate["signal"], "log_tail": fate["log_tail"]}
        return EnvCrashed(
            f"instance {instance_id} ended in this call: {why}", extras=extras
        )
    return InstanceEnded(f"instance {instance_id} has ended: {why}", extras=extras)
