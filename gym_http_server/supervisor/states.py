"""What an instance does at present, in a word for people: `state_of` decides.

The facts are those of its status page, and when its steps were last seen to grow.
"""

from __future__ import annotations

from gym_http_server.rundir.status import CLOCK_PAUSED, STEP_BOUNDS_NS, Status
from gym_http_server.supervisor.instance import Instance

__all__ = ["RUNNING_SECONDS", "state_of"]

#: Seconds for which an instance counts as running after a step.
RUNNING_SECONDS = 5.0
# A call of so many seconds shows that the instance runs; shorter ones may only look.
_LONG_CALL = 1.0
# A call is longer than usual after so many of the slowest steps, but not before so many
# seconds: a reset often takes longer than a step, and its time is not recorded.
_SLOWEST, _LEAST_SECONDS = 3, 10.0


def state_of(
    instance: Instance, status: Status, now: float, now_ns: int, deadline: float
) -> str:
    """Return the state of an instance.

    Args:
        instance: The instance.
        status: Its status page.
        now: Monotonic seconds.
        now_ns: The same in nanoseconds.
        deadline: Seconds that a call may take.

    Returns:
        ``making``, ``ending``, ``stuck`` in a call for longer than usual, ``paused``
        like its clock, ``running`` or ``waiting`` for its clients.
    """
    if instance.reason:
        return "ending"
    if not instance.live:
        return "making"
    calling = 0.0
    # Most of the thousands in a list are between calls.
    if status.busy_since_ns or status.ticking_since_ns:
        calling = _calling_seconds(status, now_ns)
        if calling > _usual_seconds(status, deadline):
            return "stuck"
    if status.has_clock == CLOCK_PAUSED:
        return "paused"
    stepped = now - instance.stepped_at <= RUNNING_SECONDS
    return "running" if stepped or calling > _LONG_CALL else "waiting"


def _calling_seconds(status: Status, now_ns: int) -> float:
    """Return how long the present call has lasted."""
    began = status.busy_since_ns, status.ticking_since_ns
    return (now_ns - min(each for each in began if each)) / 1e9


def _usual_seconds(status: Status, deadline: float) -> float:
    """Return the seconds beyond which a call is longer than usual.

    Half of the deadline at most, and so before the first step.
    """
    most = deadline / 2
    reached = [index for index, count in enumerate(status.step_counts) if count]
    if not reached or reached[-1] >= len(STEP_BOUNDS_NS):
        return most
    slowest = STEP_BOUNDS_NS[reached[-1]] / 1e9
    return min(most, max(_LEAST_SECONDS, _SLOWEST * slowest))
