"""Which instances exceed their limits, by the status pages of their hosts."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from gym_http_server.config.settings import Settings
from gym_http_server.rundir.status import Status, StatusPage, StatusReader
from gym_http_server.supervisor.heartbeats import Heartbeat
from gym_http_server.supervisor.instance import Instance
from gym_http_server.supervisor.time_limits import (
    TimeLimits,
    ends_in,
    orphaned_for,
    overdue,
)

NOW_S = 5000.0
LIMITS = Settings(step_deadline=10.0, idle_timeout=20.0, create_deadline=5.0)


def reason(busy_since: float, used: float, age: float, streams: int = 0) -> str | None:
    """Return the exceeded limit of a host that wrote these seconds."""
    numbers = (int(seconds * 1e9) for seconds in (busy_since, used))
    status = Status(*numbers, 0, 0, streams)
    now_ns = int(NOW_S * 1e9)
    return overdue(status, live=True, age=age, now_ns=now_ns, settings=LIMITS)


@pytest.mark.parametrize(
    ("busy_for", "answer"), [(9.0, None), (11.0, "step-deadline"), (-1.0, None)]
)
def test_a_call_may_take_so_long(busy_for: float, answer: str | None) -> None:
    assert reason(NOW_S - busy_for, NOW_S - 1000, age=2000.0) == answer


@pytest.mark.parametrize(
    ("ticking_for", "idle_for", "expected"),
    [
        (9.0, 5.0, None),
        (11.0, 5.0, "step-deadline"),
        (0.5, 21.0, "idle"),
        (0.5, 19.0, None),
    ],
)
def test_a_tick_has_the_deadline_of_a_call_and_is_no_use(
    ticking_for: float, idle_for: float, expected: str | None
) -> None:
    used_ns, ticking_ns = (
        int((NOW_S - each) * 1e9) for each in (idle_for, ticking_for)
    )
    status = Status(0, used_ns, 0, 0, 0, ticking_since_ns=ticking_ns)
    now_ns = int(NOW_S * 1e9)
    given = overdue(status, live=True, age=2000.0, now_ns=now_ns, settings=LIMITS)
    assert given == expected


@pytest.mark.parametrize(("idle_for", "answer"), [(19.0, None), (21.0, "idle")])
def test_between_calls_there_may_be_so_much(
    idle_for: float, answer: str | None
) -> None:
    assert reason(0.0, NOW_S - idle_for, age=2000.0) == answer
    assert reason(0.0, NOW_S - idle_for, age=2000.0, streams=1) is None


@pytest.mark.parametrize(
    ("busy_since", "used"),
    [
        (0.0, 0.0),
        (1.0, NOW_S - 1),
        (NOW_S - 1, 1.0),
        (0.0, NOW_S + 1000),
        (NOW_S + 1000, NOW_S - 1),
    ],
    ids=["cut-off", "busy-before", "used-before", "used-later", "busy-later"],
)
def test_no_host_was_there_before_it_was_started_or_is_later(
    busy_since: float, used: float
) -> None:
    assert reason(busy_since, used, age=5.0) == "crashed"


@pytest.mark.parametrize(("age", "answer"), [(4.0, None), (6.0, "create-deadline")])
def test_making_may_take_so_long(age: float, answer: str | None) -> None:
    blank = Status(0, 0, 0, 0, 0)
    given = overdue(blank, live=False, age=age, now_ns=1, settings=LIMITS)
    assert given == answer


@pytest.mark.parametrize(
    ("busy_for", "answer"), [(9.0, None), (11.0, "step-deadline"), (NOW_S, None)]
)
def test_a_resume_may_take_long_if_each_call_does_not(
    busy_for: float, answer: str | None
) -> None:
    # The last one is between two calls.
    began, used = (int((NOW_S - each) * 1e9) for each in (busy_for, 9.0))
    status = Status(began, used, 0, 0, 0)
    now_ns = int(NOW_S * 1e9)
    given = overdue(status, live=False, age=100.0, now_ns=now_ns, settings=LIMITS)
    assert given == answer


@pytest.mark.parametrize(
    ("busy_since", "used", "streams", "orphaned", "answer"),
    [
        (0.0, 100.0, 0, 300.0, 200.0),
        (0.0, 100.0, 0, 0.0, None),
        (0.0, 400.0, 0, 300.0, None),
        (0.0, 100.0, 1, 300.0, None),
        (450.0, 100.0, 0, 300.0, None),
    ],
    ids=["orphaned", "never", "used since", "streaming", "busy"],
)
def test_orphaned_since_the_last_stream_unless_used(
    busy_since: float, used: float, streams: int, orphaned: float, answer: float | None
) -> None:
    busy_ns, used_ns, orphaned_ns = (int(s * 1e9) for s in (busy_since, used, orphaned))
    status = Status(busy_ns, used_ns, 0, 0, streams, orphaned_ns=orphaned_ns)
    assert orphaned_for(status, int(500e9)) == answer


@pytest.mark.parametrize(
    ("idle_timeout", "orphan_timeout", "orphaned", "answer"),
    [
        (900.0, 150.0, 0.0, 500.0),
        (900.0, 150.0, 400.0, 50.0),
        (900.0, 150.0, 300.0, 0.0),
        (420.0, 150.0, 400.0, 20.0),
        (900.0, 0.0, 400.0, 500.0),
        (0.0, 150.0, 400.0, 50.0),
        (0.0, 150.0, 0.0, None),
    ],
)
def test_an_idle_instance_ends_by_the_first_timeout(
    idle_timeout: float, orphan_timeout: float, orphaned: float, answer: float | None
) -> None:
    limits = Settings(idle_timeout=idle_timeout, orphan_timeout=orphan_timeout)
    status = Status(0, int(100e9), 0, 0, 0, orphaned_ns=int(orphaned * 1e9))
    assert ends_in(status, int(500e9), limits) == answer


class CountingLimits(TimeLimits):
    """Limits that count how often an instance is compared with them."""

    compared = 0

    def _overdue(self, *args: Any) -> str | None:
        self.compared += 1
        return super()._overdue(*args)


class Rounds:
    """Rounds of checks of one instance, on a clock of their own."""

    def __init__(self, limits: Settings) -> None:
        self.now = 1000.0
        self.reader = StatusReader()
        self.page = StatusPage(self.reader.file)
        self.pings = 0
        # As a host's channel: a ping is answered before the next round.
        channel = SimpleNamespace(socket=SimpleNamespace(send=self.ping))
        self.instance: Any = Instance(
            *("0a1b2c3d", "CartPole-v1", 1, channel, self.reader, None, self.now),
            heartbeat=Heartbeat(limits.step_deadline),
            live=True,
        )
        self.limits = CountingLimits(limits)
        self.answers = True
        self.page.end(self.now_ns, used=True)

    @property
    def now_ns(self) -> int:
        return int(self.now * 1e9)

    def ping(self, data: bytes) -> None:
        self.pings += 1
        if self.answers:
            self.page.mark_alive(self.now_ns)

    def go_on(self, seconds: float, every: float = 0.2) -> str | None:
        """Check it every so many seconds; return the reason of the first limit."""
        until = self.now + seconds
        while self.now < until:
            self.now += every
            self.limits._clock.now = self.now
            if found := self.limits.exceeded(self.instance, self.now, self.now_ns):
                return found
        return None

    def close(self) -> None:
        self.page.close()
        self.reader.close()


@pytest.fixture
def rounds() -> Iterator[Rounds]:
    found = Rounds(Settings(step_deadline=50.0, idle_timeout=200.0))
    yield found
    found.close()


def test_an_instance_at_rest_is_looked_at_and_pinged_rarely(rounds: Rounds) -> None:
    assert rounds.go_on(100.0) is None
    assert rounds.instance.at_rest
    assert rounds.pings in (9, 10)
    # Before and after each ping and its answer.
    assert rounds.limits.compared <= 3 * rounds.pings + 2


def test_the_end_of_an_idle_instance_is_not_late(rounds: Rounds) -> None:
    began = rounds.now
    assert rounds.go_on(300.0) == "idle"
    assert rounds.now - began == pytest.approx(200.0, abs=0.5)


@pytest.mark.parametrize("every", [0.2, 1.0])
def test_a_call_that_begins_after_a_rest_has_its_deadline(
    rounds: Rounds, every: float
) -> None:
    assert rounds.go_on(33.0, every) is None
    rounds.page.begin(rounds.now_ns)
    began = rounds.now
    assert rounds.go_on(0.1, every) is None
    assert not rounds.instance.at_rest
    assert rounds.go_on(100.0) == "step-deadline"
    assert rounds.now - began == pytest.approx(50.0, abs=every + 0.3)


def test_a_host_that_is_stuck_between_calls_is_found(rounds: Rounds) -> None:
    assert rounds.go_on(33.0) is None
    rounds.answers = False
    began = rounds.now
    assert rounds.go_on(100.0) == "unresponsive"
    assert 40.0 < rounds.now - began < 52.0


def test_a_stuck_host_is_not_ended_as_idle(rounds: Rounds) -> None:
    # A step may wait in it, and has its deadline.
    assert rounds.go_on(175.0) is None
    rounds.answers = False
    began = rounds.now
    assert rounds.go_on(100.0) == "unresponsive"
    assert 40.0 < rounds.now - began < 62.0


def test_a_host_that_answers_late_is_ended_as_idle_then(rounds: Rounds) -> None:
    assert rounds.go_on(175.0) is None
    rounds.answers = False
    assert rounds.go_on(40.0) is None
    rounds.answers = True
    rounds.page.mark_alive(rounds.now_ns)
    assert rounds.go_on(1.0) == "idle"


def test_an_instance_that_is_used_is_not_at_rest(rounds: Rounds) -> None:
    for step in range(5):
        rounds.page.begin(rounds.now_ns)
        rounds.page.finish_step(rounds.now_ns, step + 1, 0)
        assert rounds.go_on(0.2) is None
        assert not rounds.instance.at_rest
    assert rounds.go_on(0.4) is None
    assert rounds.instance.at_rest
