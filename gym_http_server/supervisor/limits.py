"""Which instance is over its limits, or idle. Decides; the supervisor acts."""

from __future__ import annotations

from gym_http_server.rundir.status import Status
from gym_http_server.settings import Settings

__all__ = ["ends_in", "idle_for", "orphaned_for", "overdue"]

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


def idle_for(status: Status, now_ns: int) -> float | None:
    """Return the seconds without use; ``None`` during a call or with open streams.

    Args:
        status: The status page of the instance.
        now_ns: Monotonic nanoseconds.
    """
    if status.busy_since_ns or status.streams:
        return None
    return (now_ns - status.last_used_ns) / 1e9


def orphaned_for(status: Status, now_ns: int) -> float | None:
    """Return the seconds for which an instance has been orphaned, or ``None``.

    It is orphaned if it was used over streams, and their clients are gone without a
    closing handshake: they were killed, or lost their network. A request ends it.

    Args:
        status: The status page of the instance.
        now_ns: Monotonic nanoseconds.
    """
    if idle_for(status, now_ns) is None or status.orphaned_ns <= status.last_used_ns:
        return None
    return (now_ns - status.orphaned_ns) / 1e9


def ends_in(status: Status, now_ns: int, settings: Settings) -> float | None:
    """Return the seconds until an idle instance is ended if it stays unused.

    Args:
        status: The status page of the instance.
        now_ns: Monotonic nanoseconds.
        settings: The limits.

    Returns:
        0 if this is overdue; ``None`` if the instance is not idle, or is never ended.
    """
    idle, orphaned = idle_for(status, now_ns), orphaned_for(status, now_ns)
    left = []
    if idle is not None and settings.idle_timeout:
        left.append(settings.idle_timeout - idle)
    if orphaned is not None and settings.orphan_timeout:
        left.append(settings.orphan_timeout - orphaned)
    return max(0.0, min(left)) if left else None
