"""Histograms within 1 percent in constant memory, and the trace."""

import json
import sys
from types import FrameType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_http_server.envhost.realtime.statistics import Average, Histogram
from gym_http_wire.problems import BadParameter
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
        own = "envhost/realtime" in frame.f_code.co_filename
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


@pytest.mark.parametrize(
    ("last", "form", "words"),
    [(0, "json", "last is 0"), (1, "xml", "format is 'xml': expected 'json'")],
)
def test_wrong_requests_for_a_trace(last: int, form: str, words: str) -> None:
    run = Run({"mode": "elastic", "period_s": 0.05})
    with pytest.raises(BadParameter, match=words):
        run.mode.trace(last, form)
