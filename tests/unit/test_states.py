"""The state of an instance follows from its status page and its own step times."""

from typing import Any

import pytest

from gym_http_server.rundir.status import CLOCK_PAUSED, STEP_BOUNDS_NS, Status
from gym_http_server.supervisor.heartbeats import Heartbeat
from gym_http_server.supervisor.instance import Instance
from gym_http_server.supervisor.states import state_of

NOW = 1000.0
DEADLINE = 50.0


def instance(**changes: Any) -> Instance:
    none: Any = None
    made = Instance(
        *("0a1b2c3d", "CartPole-v1", 1, none, none, none, 0.0),
        heartbeat=Heartbeat(DEADLINE),
        live=True,
    )
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def counts(slowest_s: float) -> tuple[int, ...]:
    """Return counts of steps, most of them fast and one that slow."""
    found = [0] * (len(STEP_BOUNDS_NS) + 1)
    found[0] = 1000
    found[sum(slowest_s * 1e9 > bound for bound in STEP_BOUNDS_NS)] += 1
    return tuple(found)


def state(made: Instance, calling_s: float = 0.0, **numbers: Any) -> str:
    since = int((NOW - calling_s) * 1e9) if calling_s else 0
    page = Status(since, int(990e9), 0, 0, 0)._replace(**numbers)
    return state_of(made, page, NOW, int(NOW * 1e9), DEADLINE)


@pytest.mark.parametrize(
    ("stepped_s_ago", "expected"),
    [(0.1, "running"), (4.9, "running"), (5.1, "waiting")],
)
def test_steps_of_the_last_seconds_count(stepped_s_ago: float, expected: str) -> None:
    assert state(instance(stepped_at=NOW - stepped_s_ago)) == expected
    assert state(instance()) == "waiting"


@pytest.mark.parametrize(
    ("slowest_s", "usual_s"),
    # Without steps, and with some beyond the histogram, half of the deadline.
    [(None, 25.0), (0.001, 10.0), (2.5, 10.0), (9.0, 25.0), (30.0, 25.0)],
)
def test_a_call_is_stuck_beyond_what_is_usual(
    slowest_s: float | None, usual_s: float
) -> None:
    numbers = {} if slowest_s is None else {"step_counts": counts(slowest_s)}
    assert state(instance(), usual_s - 0.1, **numbers) == "running"
    assert state(instance(), usual_s + 0.1, **numbers) == "stuck"
    # The calls of a clock, too, whatever was stepped before.
    ticking = int((NOW - usual_s - 0.1) * 1e9)
    made = instance(stepped_at=NOW)
    assert state(made, ticking_since_ns=ticking, **numbers) == "stuck"


def test_a_short_call_shows_nothing() -> None:
    assert state(instance(), 0.5) == "waiting"
    assert state(instance(), 1.5) == "running"


def test_a_paused_clock_is_told_before_its_last_steps() -> None:
    made = instance(stepped_at=NOW)
    assert state(made, has_clock=CLOCK_PAUSED) == "paused"
    assert state(made, has_clock=1) == "running"
    assert state(made, 30.0, has_clock=CLOCK_PAUSED) == "stuck"


def test_beginning_and_end_come_first() -> None:
    assert state(instance(live=False), 30.0) == "making"
    assert state(instance(reason="idle"), 30.0) == "ending"


def test_steps_are_noted_as_they_grow() -> None:
    made = instance()
    made.note_steps(0, 5.0)
    assert made.stepped_at == float("-inf")
    for steps, now in ((3, 6.0), (3, 7.0), (4, 9.0), (4, 11.0)):
        made.note_steps(steps, now)
    assert (made.stepped, made.stepped_at) == (4, 9.0)
