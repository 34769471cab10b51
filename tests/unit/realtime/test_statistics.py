"""Histograms within 1 percent in constant memory, and the trace."""

import json
import sys
from types import FrameType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_http_server.host.realtime.statistics import Average, Histogram
from gym_http_wire.problems import ExternalAway
from tests.support.realtime import MS, Run


@given(
    st.lists(st.integers(0, 2**36) | st.integers(0, 300), min_size=1, max_size=60),
    st.sampled_from([0.01, 0.5, 0.9, 0.99, 1]),
)
def test_quantiles_are_within_1_percent(times: list[int], share: float) -> None:
    histogram = Histogram()
    for each in times:
        histogram.add(each)
    exact = int(np.quantile(times, share, method="inverted_cdf"))
    found = histogram.quantile(share)
    assert found is not None
    assert abs(found - exact) <= 0.01 * exact


def test_a_histogram_takes_constant_memory_and_any_time() -> None:
    histogram = Histogram()
    assert histogram.shown() == dict.fromkeys(("p50", "p90", "p99", "max")) | {
        "count": 0
    }
    histogram.add(2**60)
    histogram.add(-5)
    assert histogram.shown()["max"] == 2**60
    assert histogram.quantile(0.5) == 0
    assert sys.getsizeof(histogram._counters) < 20_000


def test_an_average_is_polyaks() -> None:
    average = Average()
    for value in (10.0, 20.0, 20.0):
        average.add(value)
    # By hand: 10, then 11 and 11.9; deviations 0, 1 and 1.8.
    assert average.mean == pytest.approx(11.9)
    assert average.deviation == pytest.approx(1.8)


def test_shares_of_time() -> None:
    run = Run({"mode": "free_running", "period_s": 0.01})
    run.world.durations = {"capture": iter([2 * MS] * 10)}
    run.reset()
    run.sleep(40 * MS)
    run.mode.answers_ns += 4 * MS
    shares = run.mode.statistics()["shares"]
    assert shares["answers"] == pytest.approx(4 / 42)
    assert shares["world"] == pytest.approx(8 / 42)


def test_jitter_and_lateness() -> None:
    run = Run({"mode": "free_running", "period_s": 0.01})
    run.reset()
    run.clock.now += 13 * MS
    run.mode.advance()
    run.sleep(30 * MS)
    statistics = run.mode.statistics()
    assert statistics["lateness_ns"]["max"] == 3 * MS
    assert statistics["jitter_ns"]["max"] == 3 * MS
    assert statistics["lateness_ns"]["p50"] == 0


STALL = 4750 * MS


def stalled(**given: Any) -> Run:
    """Return a run at 50 Hz, of which the fourth tick was 4.75 s late."""
    run = Run({"mode": "free_running", "period_s": 0.02} | given)
    run.reset()
    run.sleep(60 * MS)
    # The fourth tick would be due 20 ms later.
    run.clock.now += 20 * MS + STALL
    run.sleep(10_000 * MS - run.mode.now_ns)
    return run


def test_a_stall_is_reported_and_each_tick_that_it_left_out() -> None:
    """By hand: at 4.83 s, ticks are left out that are 4.75 to 0.03 s late: 237.

    The one that happens is 10 ms late. Of 500 ticks, 238 are late, so the median is 0,
    and the 50th from the top is 4.75 - 49 * 0.02 s late.
    """
    statistics = stalled().mode.statistics()
    assert (statistics["ticks"], statistics["skipped"]) == (263, 237)
    assert statistics["stall_ns"] == STALL + 20 * MS
    lateness, lateness_all = statistics["lateness_ns"], statistics["lateness_all_ns"]
    assert (lateness["count"], lateness["max"]) == (263, 10 * MS)
    assert (lateness_all["count"], lateness_all["max"]) == (500, STALL)
    assert lateness_all["p50"] == 0
    assert lateness_all["p90"] == pytest.approx(3_760 * MS, rel=0.02)
    assert lateness_all["p99"] == pytest.approx(4_650 * MS, rel=0.01)


@pytest.mark.parametrize(
    ("given", "counted"),
    [
        # All ticks happen, so nothing is hidden.
        ({"on_overrun": "catch_up", "most": None}, 0),
        # Five of those that are late, and the one that is due, happen.
        ({"on_overrun": "catch_up", "most": 5}, 232),
        ({"on_overrun": "shift"}, 237),
    ],
)
def test_a_stall_is_reported_whatever_happens_to_its_ticks(
    given: Any, counted: int
) -> None:
    statistics = stalled(**given).mode.statistics()
    assert statistics["stall_ns"] == STALL + 20 * MS
    lateness_all = statistics["lateness_all_ns"]
    assert lateness_all["count"] == statistics["ticks"] + counted
    assert lateness_all["max"] == pytest.approx(STALL, abs=20 * MS)
    assert lateness_all["p99"] == pytest.approx(4_650 * MS, rel=0.02)


def test_ticks_that_the_world_does_not_answer_are_a_stall_that_goes_on() -> None:
    run = Run({"mode": "free_running", "period_s": 0.02})
    run.reset()
    run.world.fail_in = dict.fromkeys(range(4, 54), ExternalAway("away"))
    run.sleep(80 * MS + 49 * 20 * MS)
    statistics = run.mode.statistics()
    assert statistics["stall_ns"] == 1000 * MS
    assert statistics["lateness_all_ns"]["max"] == 1000 * MS
    run.sleep(20 * MS)
    statistics = run.mode.statistics()
    assert (statistics["ticks"], statistics["skipped"]) == (4, 50)
    assert statistics["stall_ns"] == 1020 * MS
    assert statistics["lateness_ns"]["max"] == 0
    lateness_all = statistics["lateness_all_ns"]
    assert (lateness_all["count"], lateness_all["max"]) == (54, 1000 * MS)
    assert run.mode.left_out == [(20 * MS, 50)]


def test_a_clock_that_stands_still_is_no_stall() -> None:
    run = Run({"mode": "free_running", "period_s": 0.02})
    assert run.mode.statistics()["stall_ns"] == 0
    run.reset()
    run.sleep(40 * MS)
    run.mode.pause()
    run.sleep(3000 * MS)
    assert run.mode.statistics()["stall_ns"] == 20 * MS
    run.mode.resume()
    run.sleep(40 * MS)
    run.world.episode_length = 1
    run.reset(seed=1)
    run.sleep(3000 * MS)
    # The episode is over: the world waits for a reset.
    run.reset()
    statistics = run.mode.statistics()
    assert statistics["stall_ns"] == 20 * MS
    assert statistics["jitter_ns"]["max"] == 0
    # But the time from a reset to the first tick counts.
    run.clock.now += 500 * MS
    run.mode.advance()
    assert run.mode.statistics()["stall_ns"] == 500 * MS


def test_an_elastic_world_has_no_stall_since_it_waits_for_its_agent() -> None:
    run = Run({"mode": "elastic", "period_s": 0.02})
    run.reset()
    run.sleep(3000 * MS)
    assert run.mode.statistics()["stall_ns"] is None


@given(
    st.integers(0, 2**38),
    st.integers(1, 2**30),
    st.integers(1, 300),
)
def test_a_series_of_times_is_counted_as_each_alone(
    first: int, step: int, count: int
) -> None:
    one_by_one, series = Histogram(), Histogram()
    for index in range(count):
        one_by_one.add(first + index * step)
    series.add_series(first, step, count)
    assert series.shown() == one_by_one.shown()
    assert series._counters == one_by_one._counters
    both = series.plus(one_by_one)
    assert both.count == 2 * count
    assert both.shown() | {"count": count} == series.shown()


def test_a_long_series_is_counted_whole() -> None:
    """An hour at 1 kHz."""
    histogram = Histogram()
    histogram.add_series(0, MS, 3_600_000)
    assert histogram.count == sum(histogram._counters) == 3_600_000
    assert histogram.quantile(0.01) == pytest.approx(36_000 * MS, rel=0.01)


def test_the_lateness_of_ticks_is_that_of_their_updates() -> None:
    """Not that of the capture, which the call before it delays in every tick."""
    run = Run({"mode": "free_running", "period_s": 0.01})
    run.world.durations["send"] = iter([4 * MS] * 3)
    run.reset()
    run.sleep(30 * MS)
    assert [each.value["realtime"]["late_ns"] for each in run.events[1:]] == [0, 0, 0]
    lateness = run.mode.statistics()["lateness_ns"]
    assert (lateness["count"], lateness["max"]) == (3, 0)


def test_a_tick_takes_few_calls() -> None:
    """Each function that is called after a sleep has to be read from memory."""
    run = Run({"mode": "free_running", "period_s": 0.01})
    run.reset()
    run.sleep(1000 * MS)
    called = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal called
        own = "gym_http_server/host/realtime" in frame.f_code.co_filename
        called += event == "call" and own

    sys.setprofile(count)
    try:
        for _ in range(160):
            run.clock.now += 10 * MS
            run.mode.advance()
    finally:
        sys.setprofile(None)
    assert run.mode.statistics()["ticks"] == 260
    assert called / 160 <= 30


def test_a_trace_opens_in_perfetto() -> None:
    """The trace event format: names, phases, and microseconds as numbers."""
    run = Run({"mode": "elastic", "period_s": 0.05})
    run.reset()
    run.act(action=[1])
    run.step(2)
    run.mode.pause()
    trace = json.loads(json.dumps(run.mode.trace(4096, "chrome")))
    events = trace["traceEvents"]
    assert [each["args"]["name"] for each in events[:3]] == ["clock", "world", "agent"]
    for each in events[3:]:
        assert each.keys() >= {"name", "ph", "pid", "tid", "ts", "args"}
        assert each["ph"] in ("X", "i")
        assert ("dur" in each) == (each["ph"] == "X")
    assert [each["name"] for each in events[3:]] == [
        "reset",
        "send",
        "act",
        "capture",
        "send",
        "step",
        "pause",
    ]
    step = events[-2]
    assert (step["ts"], step["dur"]) == (0, 50_000)


def test_a_trace_keeps_the_last_events() -> None:
    run = Run({"mode": "free_running", "period_s": 0.001})
    run.reset()
    run.sleep(2000 * MS)
    events = run.mode.trace(10**6)["events"]
    assert len(events) == 4096
    assert events[-1] == {
        "event": "tick",
        "tick": 2000,
        "start_ns": 2000 * MS,
        "duration_ns": 0,
        "late_ns": 0,
    }
    assert len(run.mode.trace(3)["events"]) == 3
    assert sys.getsizeof(run.mode._trace._ring) < 200_000
