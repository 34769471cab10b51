"""The timer descriptor, with real time."""

import contextlib
import select
import time
from collections.abc import Iterator

import pytest

from gym_http_server.host.realtime.timer import Timer


@pytest.fixture
def timer() -> Iterator[Timer]:
    with contextlib.closing(Timer()) as made:
        yield made


def rings(timer: Timer, seconds: float) -> bool:
    """Wait for the timer; return whether its time has come."""
    return bool(select.select([timer], [], [], seconds)[0])


def test_a_timer_can_be_read_from_its_time_on(timer: Timer) -> None:
    assert not rings(timer, 0.0)
    at_ns = time.monotonic_ns() + 20_000_000
    timer.set(at_ns)
    assert not rings(timer, 0.0) or time.monotonic_ns() >= at_ns
    assert rings(timer, 10.0)
    assert time.monotonic_ns() >= at_ns
    timer.set(at_ns)
    assert rings(timer, 0.0)


def test_setting_another_time_takes_back_that_it_has_passed(timer: Timer) -> None:
    timer.set(1)
    assert rings(timer, 10.0)
    timer.set(time.monotonic_ns() + 3600 * 10**9)
    assert not rings(timer, 0.0)
    timer.set(0)
    assert rings(timer, 10.0)
    timer.set(None)
    assert not rings(timer, 0.0)


def test_the_next_time_may_be_a_period_later(timer: Timer) -> None:
    """The kernel's own repetition is used, and times are as exact as without."""
    period_ns = 5_000_000
    at_ns = time.monotonic_ns() + period_ns
    for _ in range(20):
        timer.set(at_ns, period_ns)
        assert rings(timer, 10.0)
        assert time.monotonic_ns() >= at_ns
        at_ns += period_ns
    timer.set(at_ns + 3600 * 10**9, period_ns)
    assert not rings(timer, 0.0)


def test_a_next_time_that_has_passed_rings_at_once(timer: Timer) -> None:
    period_ns = 5_000_000
    at_ns = time.monotonic_ns()
    timer.set(at_ns, period_ns)
    while time.monotonic_ns() < at_ns + 3 * period_ns:
        assert rings(timer, 10.0)
    timer.set(at_ns + period_ns, period_ns)
    assert rings(timer, 0.0)


def test_a_next_time_can_be_set_before_the_last_one_has_come(timer: Timer) -> None:
    hour_ns = 3600 * 10**9
    at_ns = time.monotonic_ns() + hour_ns
    timer.set(at_ns, hour_ns)
    timer.set(at_ns + hour_ns, hour_ns)
    assert not rings(timer, 0.0)
    timer.set(1)
    assert rings(timer, 10.0)
    timer.set(None, hour_ns)
    assert not rings(timer, 0.0)
