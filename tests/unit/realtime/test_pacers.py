"""Properties of the pacers: no drift, no debt, no bursts, and no lost periods."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gym_http_server.host.realtime.pacers import ElasticPacer, GridPacer

START = 7_000_000_000
periods = st.one_of(
    st.sampled_from([(100_000_000, 3), (1_000_000, 1), (100_000_000_000, 2997)]),
    st.tuples(st.integers(1_000_000, 10**10), st.integers(1, 1000)),
)
# Times that pass between two ticks, in periods; mostly short.
delays = st.lists(st.one_of(st.floats(0, 1), st.floats(0, 12)), max_size=40)


def grid(period: Any, policy: str, most: int | None = None) -> GridPacer:
    pacer = GridPacer(period, policy, most)
    pacer.anchor(START)
    return pacer


@given(periods, st.integers(1, 300))
def test_a_grid_does_not_drift(period: Any, count: int) -> None:
    numerator, denominator = period
    pacer = grid(period, "skip")
    for number in range(1, count + 1):
        exact = START + number * numerator // denominator
        assert pacer.due == exact
        pacer.take(pacer.due)
        assert (pacer.index, pacer.time) == (number, exact)


@given(periods, delays, st.sampled_from(["skip", "catch_up"]), st.integers(1, 5))
def test_ticks_and_skipped_ones_are_all_periods(
    period: Any, waits: list[float], policy: str, most: int
) -> None:
    numerator, denominator = period
    pacer = grid(period, policy, most if policy == "catch_up" else None)
    now, ticks, skipped = START, 0, 0
    for wait in waits:
        now = max(now + int(wait * numerator / denominator), pacer.due)
        dropped, shifted = pacer.take(now)
        assert not shifted
        ticks, skipped = ticks + 1, skipped + dropped
        assert ticks + skipped == pacer.index
        assert pacer.time == START + pacer.index * numerator // denominator
        assert pacer.time <= now
        if policy == "skip":
            # It is the newest, so no two ticks are in one period.
            assert pacer.due > now
        else:
            behind = ((now - START + 1) * denominator - 1) // numerator - pacer.index
            assert behind <= most


@given(periods, delays)
def test_a_grid_that_shifts_has_no_debt(period: Any, waits: list[float]) -> None:
    numerator, denominator = period
    pacer = grid(period, "shift")
    now = START
    for number, wait in enumerate(waits, 1):
        now = max(now + int(wait * numerator / denominator), pacer.due)
        due = pacer.due
        skipped, shifted = pacer.take(now)
        assert (skipped, pacer.index) == (0, number)
        if shifted:
            assert pacer.time == now
            assert pacer.due == now + numerator // denominator
        else:
            assert pacer.time == due


@given(periods, st.integers(1, 100))
def test_time_steps_do_not_drift(period: Any, count: int) -> None:
    numerator, denominator = period
    pacer = ElasticPacer(period, None, numerator // denominator)
    pacer.anchor(START)
    for number in range(1, count + 1):
        assert not pacer.begin(pacer.end)
        assert pacer.end == START + number * numerator // denominator
        assert pacer.capture == pacer.end


@given(periods, delays, st.integers(0, 3), st.integers(0, 10**9))
def test_late_time_steps_borrow_up_to_the_elasticity(
    period: Any, waits: list[float], elasticity: int, capture: int
) -> None:
    numerator, denominator = period
    elastic_ns = elasticity * numerator // denominator
    pacer = ElasticPacer(period, capture, elastic_ns)
    pacer.anchor(START)
    now = START
    for wait in waits:
        now = max(now + int(wait * numerator / denominator), pacer.end)
        end = pacer.end
        if pacer.begin(now):
            assert now - end >= elastic_ns
            # No debt is left.
            assert pacer.start == now
            assert pacer.end == now + numerator // denominator
        else:
            assert now - end < elastic_ns
            assert pacer.start == end
        assert pacer.capture == pacer.start + capture


def test_other_periods_from_the_next_tick_on() -> None:
    pacer = grid((10, 1), "skip")
    pacer.take(pacer.due)
    pacer.change((13, 1), START + 15)
    assert pacer.due == START + 20
    pacer.take(pacer.due)
    assert pacer.due == START + 33
    # A shorter one shortens the present period, but not to a time in the past.
    pacer.change((7, 1), START + 25)
    assert pacer.due == START + 27
    pacer.change((2, 1), START + 26)
    assert pacer.due == START + 26
    assert pacer.take(pacer.due) == (0, False)
    assert pacer.due == START + 28
