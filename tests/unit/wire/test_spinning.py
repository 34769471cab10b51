"""Spinning goes on while it finds something and disturbs nobody."""

import os

import pytest

from gym_http_wire.spinning import Spinning, cores_are_idle

LIMIT = 50_000
SECOND = 1_000_000_000


class Cores:
    """Cores that are idle or not, and how often that was asked."""

    def __init__(self) -> None:
        self.idle = True
        self.asked = 0

    def __call__(self) -> bool:
        self.asked += 1
        return self.idle


@pytest.fixture
def cores() -> Cores:
    return Cores()


def spinning(cores: Cores, limit: int = LIMIT) -> Spinning:
    """Return one that has found something just now."""
    ours = Spinning(limit, cores)
    ours.waited(0, 1, spun=False)
    return ours


def test_nobody_spins_before_there_was_something_to_find(cores: Cores) -> None:
    ours = Spinning(LIMIT, cores)
    assert ours.wanted
    assert ours.until(SECOND) == 0
    ours.waited(0, 10_000, spun=False)
    assert ours.until(SECOND) == SECOND + LIMIT


def test_a_limit_of_0_is_never(cores: Cores) -> None:
    ours = spinning(cores, 0)
    assert not ours.wanted
    assert ours.until(SECOND) == 0
    assert cores.asked == 0


def test_three_waits_in_vain_end_it_and_one_short_wait_begins_it(cores: Cores) -> None:
    ours = spinning(cores)
    for wait in range(3):
        assert ours.until(wait) == wait + LIMIT
        ours.waited(0, LIMIT + 1, spun=True)
    assert ours.until(4) == 0
    # Without spinning, waking up takes its time.
    ours.waited(0, LIMIT + 100_001, spun=False)
    assert ours.until(5) == 0
    ours.waited(0, LIMIT + 100_000, spun=False)
    assert ours.until(6) == 6 + LIMIT


def test_a_wait_that_is_not_in_vain_is_forgiven_two(cores: Cores) -> None:
    ours = spinning(cores)
    for _ in range(5):
        ours.waited(0, SECOND, spun=True)
        ours.waited(0, SECOND, spun=True)
        ours.waited(0, LIMIT, spun=True)
    assert ours.until(7) == 7 + LIMIT


def test_neighbours_are_looked_for_20_times_a_second(cores: Cores) -> None:
    ours = spinning(cores)
    for now in range(0, SECOND, SECOND // 1000):
        assert ours.until(now)
    assert cores.asked == 20
    cores.idle = False
    assert ours.until(SECOND - 1)
    assert ours.until(SECOND) == 0
    cores.idle = True
    assert ours.until(SECOND + 49_999_999) == 0
    assert ours.until(SECOND + 50_000_000)


def test_one_core_is_never_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0})
    assert not cores_are_idle()
    monkeypatch.delattr(os, "sched_getaffinity")
    assert not cores_are_idle()


def test_cores_are_idle_while_there_are_more_of_them_than_who_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(100_000)))
    assert cores_are_idle()
