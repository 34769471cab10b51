"""The preset ``myrtle`` ticks and acts as a Myrtle world with a Pacemaker does."""

import random
from fractions import Fraction
from typing import Any
from unittest import mock

import pytest
from pacemaker import pacemaker

from gym_http_server.host.realtime.pacers import GridPacer
from tests.support.realtime import Run

TICK = 1_953_125
START_S = 5


class FakeTime:
    def __init__(self) -> None:
        self.now = float(START_S)

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def beats_of_pacemaker(hz: float, works: list[int]) -> list[Fraction]:
    """Return when each iteration begins; its work takes a number of ns."""
    time = FakeTime()
    with mock.patch.object(pacemaker, "time", time):
        pace = pacemaker.Pacemaker(hz)
        begun = []
        for work in works:
            pace.beat()
            begun.append(Fraction(time.now) * 10**9)
            time.now += work / 1e9
    return begun


def beats_of_ours(period: tuple[int, int], works: list[int]) -> list[int]:
    pacer = GridPacer(period, "catch_up", None)
    now = START_S * 10**9
    pacer.anchor(now)
    begun = []
    for work in works:
        now = max(now, pacer.due)
        assert pacer.take(now) == (0, False)
        begun.append(now)
        now += work
    return begun


@pytest.mark.parametrize("exponent", range(9))
def test_dyadic_rates_are_exact(exponent: int) -> None:
    draw = random.Random(exponent)
    period = 2 ** (9 - exponent) * TICK
    works = [draw.choice([0, 1, 3, 2 ** (9 - exponent)]) * TICK for _ in range(300)]
    works[100] = 20 * period
    assert beats_of_ours((period, 1), works) == beats_of_pacemaker(2**exponent, works)


@pytest.mark.parametrize("hz", [3, 10, 30, 60, 100, 250])
def test_other_rates_are_closer_than_100_ns(hz: int) -> None:
    draw = random.Random(hz)
    period = Fraction(10**9, hz)
    works = [draw.randint(0, int(1.2 * period)) for _ in range(500)]
    ours = beats_of_ours((period.numerator, period.denominator), works)
    theirs = beats_of_pacemaker(hz, works)
    apart = [abs(a - b) for a, b in zip(ours, theirs, strict=True)]
    assert max(apart) < 100


def test_a_stall_of_105_ms_at_100_hz_is_followed_by_ten_beats_at_once() -> None:
    works = [0, 105_000_000, *[0] * 12]
    begun = beats_of_ours((10_000_000, 1), works)
    start = START_S * 10**9
    in_ms = [(each - start) / 1e6 for each in begun]
    assert in_ms == [10, 20, *[125] * 10, 130, 140]


def log_of_myrtle(
    works: list[int], arrivals: list[tuple[int, float]]
) -> list[tuple[Any, float]]:
    """Run the loop of a Myrtle world: zeros, then the last action that came."""
    time = FakeTime()
    log = []
    queue = list(arrivals)
    with mock.patch.object(pacemaker, "time", time):
        pace = pacemaker.Pacemaker(64)
        for work in works:
            pace.beat()
            now = Fraction(time.now) * 10**9
            action = 0.0
            while queue and queue[0][0] + START_S * 10**9 <= now:
                _, action = queue.pop(0)
            log.append((now, action))
            time.now += work / 1e9
    return log


def log_of_ours(
    works: list[int], arrivals: list[tuple[int, float]]
) -> list[tuple[Any, float]]:
    run = Run({"preset": "myrtle", "hz": 64})
    run.reset()
    run.world.durations["capture"] = iter(works)
    # A host receives what came while the world was busy before it ticks again.
    queue = list(arrivals)
    while len(run.world.named("send")) < len(works):
        due = run.mode.due_ns
        assert due is not None
        run.clock.now = max(run.clock.now, due)
        while queue and queue[0][0] + START_S * 10**9 <= run.clock.now:
            run.act(action=[queue.pop(0)[1]])
        run.mode.advance()
    return run.world.named("send")


def test_the_preset_acts_as_a_myrtle_world() -> None:
    for seed in range(5):
        draw = random.Random(seed)
        works = [draw.choice([0, 1, 2, 8, 30]) * TICK for _ in range(200)]
        arrivals, now = [], 0
        for number in range(150):
            now += draw.choice([1, 2, 5, 20, 60]) * TICK + 1
            arrivals.append((now, float(number + 1)))
        assert log_of_ours(works, arrivals) == log_of_myrtle(works, arrivals)
