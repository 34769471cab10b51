"""Ended processes: the names of signals, and the problem of a call to an instance."""

from __future__ import annotations

import signal
from typing import Any

from gym_http_server.errors import (
    EnvCrashed,
    InstanceEnded,
    StepDeadline,
    UnknownInstance,
)
from gym_http_wire.problems import Problem

__all__ = ["end_problem", "signal_name", "was_in_flight"]

# Seconds within which a client with a call in flight notices the end of the host.
NOTICED_SECONDS = 1.0
_REASONS = {
    "crashed": "its process ended",
    "step-deadline": "a call took longer than the server allows (--step-deadline)",
    "unresponsive": "its process did not respond for longer than a call may take",
    "idle": "it was idle for longer than the server allows (--idle-timeout)",
    "orphaned": "its clients were gone without closing it, and its slot was needed",
    "memory": "it used more memory than the server allows (--host-memory)",
    "external-gone": "its external environment has not come back",
    "agent-lost": "its agent was silent for longer than its clock allows",
    "node-drained": "its node was stopped",
    "node-lost": "its node was lost",
    "abandoned": "its create was never answered",
    "shutdown": "the server is stopping",
    "closed": "it was closed",
}


def signal_name(number: int) -> str:
    """Return the name of a signal, such as SIGKILL, or "signal 40" if it has none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        # Most real-time signals have no name.
        return f"signal {number}"


def was_in_flight(end: dict[str, Any], lost_s: float | None) -> bool:
    """Return whether an instance ended in the call whose answer a client lost.

    Args:
        end: The supervisor's record of its end.
        lost_s: Seconds since the answer was lost with a stream, or ``None``.
    """
    return lost_s is not None and end["ended_s_ago"] < lost_s + NOTICED_SECONDS


def end_problem(instance_id: str, end: dict[str, Any], *, in_flight: bool) -> Problem:
    """Return the problem of a call to an instance that has ended.

    Args:
        instance_id: The instance.
        end: The supervisor's record of its end.
        in_flight: Whether it ended in the caller's call.
    """
    reason = end["reason"]
    if reason == "closed" and not in_flight:
        return UnknownInstance(instance_id)
    why = end["detail"] or _REASONS.get(reason, reason)
    how = end["signal"] or f"exit status {end['exit_status']}"
    if reason == "crashed":
        why += f" ({how})"
    extras = {"reason": reason, "ended_s_ago": end["ended_s_ago"]}
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
        if reason == "crashed" and end["last_words"]:
            why += f" {end['last_words']}"
        extras |= {"signal": end["signal"], "log_tail": end["log_tail"]}
        return EnvCrashed(
            f"instance {instance_id} ended in this call: {why}", extras=extras
        )
    return InstanceEnded(f"instance {instance_id} has ended: {why}", extras=extras)
