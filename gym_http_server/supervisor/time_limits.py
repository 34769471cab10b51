"""Limits of time: finds instances that are overdue, stuck, idle or orphaned.

Decides only; `hosts` ends them.
"""

from __future__ import annotations

import contextlib

from gym_http_server.config.settings import Settings
from gym_http_server.host.host import PING
from gym_http_server.rundir.status import Status, parse_times
from gym_http_server.supervisor.heartbeats import AwakeClock
from gym_http_server.supervisor.instance import Instance

__all__ = ["TimeLimits", "ends_in", "idle_for", "orphaned_for", "overdue"]

# The supervisor may have been busy since it last looked at the clock.
_LATE_NS = 10_000_000_000


class TimeLimits:
    """Checks hosts against the limits of time, and pings those that are silent.

    Args:
        settings: The limits.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._clock = AwakeClock()

    def advance(self, now: float) -> None:
        """Advance the clock; to be called once before each round of checks.

        Args:
            now: Monotonic seconds.
        """
        self._clock.advance(now)

    def exceeded(self, instance: Instance, now: float, now_ns: int) -> str | None:
        """Return the reason to end an instance, or ``None``.

        Args:
            instance: The instance.
            now: Monotonic seconds.
            now_ns: The same in nanoseconds.
        """
        times = instance.page.read_times()
        if times == instance.times and now < instance.rests_until:
            instance.at_rest = True
            return None
        status = parse_times(times)
        instance.note_steps(status.steps, now)
        reason = self._overdue(instance, status, now, now_ns)
        if reason is not None:
            # The reader may be interrupted within a number: that happens once.
            status = parse_times(instance.page.read_times())
            reason = self._overdue(instance, status, now, now_ns)
        if instance.live and reason is None and not _calling_since(status):
            reason = self._unresponsive(instance)
            self._note_rest(instance, status, now, now_ns)
        else:
            instance.at_rest = False
        instance.times = times
        return reason

    def _note_rest(
        self, instance: Instance, status: Status, now: float, now_ns: int
    ) -> None:
        """Record whether an instance was used, and how long it may stay as it is."""
        use = status.last_used_ns, status.steps
        instance.at_rest = use == instance.use
        instance.use = use
        rests_for = instance.heartbeat.rests_for(self._clock.now)
        idle_timeout = self._settings.idle_timeout
        if idle_timeout and not status.streams:
            idle = (now_ns - status.last_used_ns) / 1e9
            rests_for = min(rests_for, idle_timeout - idle)
        instance.rests_until = now + rests_for

    def _overdue(
        self, instance: Instance, status: Status, now: float, now_ns: int
    ) -> str | None:
        awake, heartbeat = self._clock.now, instance.heartbeat
        heartbeat.look(status.marks, awake)
        settings = self._settings
        reason = overdue(
            status,
            live=instance.live,
            age=now - instance.started,
            now_ns=now_ns,
            settings=settings,
        )
        deadlines = {
            "create-deadline": settings.create_deadline,
            "step-deadline": settings.step_deadline,
        }
        if reason in deadlines and not heartbeat.has_lasted(awake, deadlines[reason]):
            # This process was suspended, and probably the host was, too.
            return None
        if reason == "idle" and heartbeat.pinged_at is not None:
            # A host that does not answer may have a step to take, with its deadline.
            return None
        return reason

    def _unresponsive(self, instance: Instance) -> str | None:
        """Ping a host between calls; return the reason to end it if it is stuck."""
        awake, heartbeat = self._clock.now, instance.heartbeat
        if heartbeat.ping_due(awake):
            with contextlib.suppress(OSError):
                instance.channel.socket.send(PING)
        return "unresponsive" if heartbeat.lost(awake) else None


def overdue(
    status: Status, *, live: bool, age: float, now_ns: int, settings: Settings
) -> str | None:
    """Return the limit of time that an instance has passed.

    Args:
        status: Its status page.
        live: Whether its environment has been made.
        age: Seconds since its host was started.
        now_ns: Monotonic nanoseconds.
        settings: The limits.

    Returns:
        The reason to end it, or ``None``; ``crashed`` if its times are before the
        host's start or in the future.
    """
    calling_since = _calling_since(status)
    if not live and not calling_since and not status.last_used_ns:
        return "create-deadline" if age > settings.create_deadline else None
    # A host that resumes a recording has been used, and may take as long as it calls.
    began_ns = now_ns - int(age * 1e9)
    times = (status.last_used_ns, calling_since or now_ns)
    if not began_ns - _LATE_NS < min(times) <= max(times) < now_ns + _LATE_NS:
        # An environment can cut the page off, or write to it, and then hang for ever.
        return "crashed"
    if calling_since and (now_ns - calling_since) / 1e9 > settings.step_deadline:
        return "step-deadline"
    if status.busy_since_ns:
        return None
    # Calls of a clock are no use.
    idle = (now_ns - status.last_used_ns) / 1e9
    if settings.idle_timeout and not status.streams and idle > settings.idle_timeout:
        return "idle"
    return None


def _calling_since(status: Status) -> int:
    """Return when the present call of the environment began; 0 between calls."""
    began = (status.busy_since_ns, status.ticking_since_ns)
    return min((each for each in began if each), default=0)


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

    It is orphaned if all streams that used it were lost without a closing handshake:
    the clients were killed, or lost their network. A request ends this state.

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
