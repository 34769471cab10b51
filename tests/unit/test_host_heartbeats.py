"""The times after which a host is pinged, and counts as unresponsive."""

import pytest

from gym_http_server.supervisor.heartbeats import AwakeClock, Heartbeat

BEFORE, AFTER = (0, 5, 0), (0, 5, 9)


def test_a_host_without_marks_is_pinged_once() -> None:
    heartbeat = Heartbeat(2.0)
    heartbeat.look(BEFORE, 10.0)
    assert not heartbeat.ping_due(10.4)
    assert heartbeat.ping_due(11.0)
    assert not heartbeat.ping_due(20.0)
    heartbeat.look(AFTER, 20.2)
    assert not heartbeat.ping_due(20.4)
    assert heartbeat.ping_due(21.4)


@pytest.mark.parametrize("marks", [AFTER, (7, 5, 0), (0, 7, 0)])
def test_any_mark_answers_a_ping(marks: tuple[int, ...]) -> None:
    heartbeat = Heartbeat(2.0)
    heartbeat.look(BEFORE, 0.0)
    assert heartbeat.ping_due(1.0)
    heartbeat.look(marks, 3.0)
    assert not heartbeat.lost(60.0)


def test_an_unanswered_ping_ends_the_host_after_the_deadline() -> None:
    heartbeat = Heartbeat(2.0)
    heartbeat.look(BEFORE, 0.0)
    assert not heartbeat.lost(60.0), "it was not pinged"
    assert heartbeat.ping_due(61.0)
    heartbeat.look(BEFORE, 63.0)
    assert not heartbeat.lost(63.0)
    assert heartbeat.lost(64.0)


@pytest.mark.parametrize(
    ("deadline", "every", "lost_after"),
    [(1.0, 0.6, 2.1), (5.0, 1.0, 6.1), (50.0, 10.0, 51.1), (600.0, 10.0, 601.1)],
)
def test_a_stuck_host_is_found_soon_after_the_deadline(
    deadline: float, every: float, lost_after: float
) -> None:
    """A long deadline needs few pings, and counts from the mark before the ping."""
    heartbeat = Heartbeat(deadline)
    heartbeat.look(BEFORE, 100.0)
    assert heartbeat.rests_for(100.0) == pytest.approx(every)
    assert not heartbeat.ping_due(100.0 + every - 0.01)
    assert heartbeat.ping_due(100.01 + every)
    assert not heartbeat.lost(100.0 + lost_after)
    assert heartbeat.lost(100.0 + lost_after + 0.02)
    left = heartbeat.rests_for(100.01 + every)
    assert left == pytest.approx(lost_after - every)


def test_time_in_which_the_supervisor_was_stopped_does_not_count() -> None:
    clock = AwakeClock()
    start = clock._last
    clock.advance(start + 0.2)
    clock.advance(start + 3600.2)
    clock.advance(start + 3600.4)
    assert clock.now == pytest.approx(0.9)


def test_a_frozen_call_gets_its_whole_time() -> None:
    heartbeat = Heartbeat(2.0)
    heartbeat.look((7, 5, 0), 10.0)
    assert not heartbeat.has_lasted(11.0, seconds=2.0)
    assert heartbeat.has_lasted(12.0, seconds=2.0)
