"""Which instance is over its limits. Decides; what follows is the supervisor's."""

from __future__ import annotations

from gym_http_server.rundir import Status
from gym_http_server.settings import Settings

__all__ = ["overdue"]

# The supervisor may have been busy since it last looked at the clock.
_LATE_NS = 10_000_000_000


def overdue(
    status: Status, *, live: bool, age: float, now_ns: int, settings: Settings
) -> str | None:
    """Say which limit of time an instance has passed.

    Args:
        status: Its status page.
        live: Whether its environment has been made.
        age: Seconds since its host was started.
        now_ns: Monotonic nanoseconds.
        settings: The limits.

    Returns:
        The reason to end it, or ``None``; ``crashed`` if it tells of times when there
        was no host.
    """
    if not live:
        return "create-deadline" if age > settings.create_deadline else None
    began_ns = now_ns - int(age * 1e9)
    times = (status.last_used_ns, status.busy_since_ns or now_ns)
    if not began_ns - _LATE_NS < min(times) <= max(times) < now_ns + _LATE_NS:
        # An environment can cut the page off, or write to it, and then hang for ever.
        return "crashed"
    if status.busy_since_ns:
        busy = (now_ns - status.busy_since_ns) / 1e9
        return "step-deadline" if busy > settings.step_deadline else None
    idle = (now_ns - status.last_used_ns) / 1e9
    if settings.idle_timeout and not status.streams and idle > settings.idle_timeout:
        return "idle"
    return None
