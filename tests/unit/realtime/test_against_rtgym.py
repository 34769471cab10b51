"""The elastic mode decides as rtgym does, at the same times.

Durations that are multiples of 2**-9 s are exact in both, as floats and as integers.
"""

import random
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gym_http_server.host.realtime.world import Capture
from gym_http_server.host.realtime.worlds import LimitedWorld
from tests.support.realtime import Run, ScriptedWorld
from tests.support.rtgym_reference import FakeTime, Interface, rtgym_env

TICK = 1_953_125
"""2**-9 s in ns."""

DAYS_30 = 30 * 24 * 3600


class Scenario(NamedTuple):
    """Durations in ns; those of calls are used in turn.

    Attributes:
        pauses: How long the agent thinks before each call.
        resets: Numbers of the calls that are resets, beside those after an episode.
    """

    period: int
    capture: int
    elasticity: Fraction
    pauses: list[int]
    sends: list[int]
    captures: list[int]
    resetting: list[int]
    resets: set[int]
    episode_length: int | None
    keeps_actions: bool
    last_on_reset: bool
    start_s: int = 5
    max_length: int | None = None


class Outcome(NamedTuple):
    """What happened: calls of the world, time-outs, and what the agent received."""

    calls: list[tuple[Fraction, str, Any]]
    timeouts: int
    answers: list[Any]


def of_rtgym(scenario: Scenario) -> Outcome:
    def seconds(durations: list[int]) -> Iterator[float]:
        return iter([each / 1e9 for each in durations])

    time = FakeTime(float(scenario.start_s))
    named = {
        "send": seconds(scenario.sends),
        "capture": seconds(scenario.captures),
        "reset": seconds(scenario.resetting),
    }
    interface = Interface(time, named, scenario.episode_length)
    config = {
        "time_step_duration": scenario.period / 1e9,
        "start_obs_capture": scenario.capture / 1e9,
        "time_step_timeout_factor": float(scenario.elasticity),
        "act_buf_len": 2,
        "reset_act_buf": not scenario.keeps_actions,
        "last_act_on_reset": scenario.last_on_reset,
    }
    if scenario.max_length is not None:
        config["ep_max_length"] = scenario.max_length
    answers: list[Any] = []
    with rtgym_env(time, interface, **config) as env:
        env.reset()
        for call, pause in enumerate(scenario.pauses):
            time.now += pause / 1e9
            if call in scenario.resets or (answers and answers[-1] == "over"):
                observation, _ = env.reset()
                answers.append(_plain(observation))
                continue
            result = env.step(_action(call))
            answers.append((_plain(result[0]), *result[1:4]))
            if result[2] or result[3]:
                answers.append("over")
    calls = [(Fraction(at) * 10**9, name, value) for at, name, value in interface.log]
    return Outcome(calls, len(time.timeouts), answers)


class _World(ScriptedWorld):
    """The same world as `Interface`."""

    def _observation(self) -> Any:
        acting = 0.0 if self.action is None else float(self.action[0])
        return [self.captures, acting]

    def capture(self) -> Capture:
        return super().capture()._replace(rewards=float(self.captures))


def of_ours(scenario: Scenario) -> Outcome:
    run = _run_of(scenario)
    answers: list[Any] = []
    agent = _reset(run)
    for call, pause in enumerate(scenario.pauses):
        agent += pause
        run.until(agent)
        if call in scenario.resets or (answers and answers[-1] == "over"):
            run.wait_for(run.mode.may_reset)
            result = run.mode.reset(None, None, "")
            answers.append(_plain(result.observation))
        else:
            run.wait_for(run.mode.may_step)
            result = run.mode.step(_action(call), "")
            answers.append((_plain(result.observation), *result[1:4]))
            if result.terminated or result.truncated:
                answers.append("over")
                agent = max(agent, run.clock.now)
                continue
        # rtgym sends in its thread, so that its agent goes on at once.
        agent = run.world.named("send")[-1][0]
    # rtgym's threads have already run to their ends.
    run.sleep(10 * scenario.period + scenario.capture)
    calls = [(Fraction(at), name, value) for at, name, value in run.world.log]
    assert run.mode.statistics()["timeouts"] == run.mode.statistics()["reanchored"]
    return Outcome(calls, run.mode.statistics()["timeouts"], answers)


def _run_of(scenario: Scenario) -> Run:
    run = Run(
        {
            "preset": "rtgym",
            "period_s": scenario.period / 1e9,
            "capture_s": scenario.capture / 1e9,
            "elasticity": float(scenario.elasticity),
            "default_action": [-1.0],
            "reset_action": "last" if scenario.last_on_reset else "default",
            "history": {"length": 2, "reset": not scenario.keeps_actions},
        },
        max_hz=10_000,
    )
    run.clock.now = scenario.start_s * 10**9
    run.world.__class__ = _World
    run.world.episode_length = scenario.episode_length
    if scenario.max_length is not None:
        run.mode._world = LimitedWorld(run.world, scenario.max_length)
    run.world.durations = {
        "send": iter(scenario.sends),
        "capture": iter(scenario.captures),
        "reset": iter(scenario.resetting),
    }
    return run


def _reset(run: Run) -> int:
    run.mode.reset(None, None, "")
    return run.world.named("send")[-1][0]


def _action(call: int) -> Any:
    return [float(call)]


def _plain(observation: Any) -> list[float]:
    """Return captures, acting control, and the history of actions."""
    parts = list(observation)
    return [float(each[0]) if hasattr(each, "__len__") else each for each in parts]


def scenario_of(draw: random.Random, unit: int, calls: int, start_s: int) -> Scenario:
    """Draw a scenario whose durations are multiples of a unit of ns."""
    period = unit * draw.randint(1, 40)

    def durations(most: float, share: float = 1.0) -> list[int]:
        # Ties are frequent: whole periods, and multiples of a large unit.
        longest = max(1, round(most * period / unit))
        return [
            unit * draw.randint(0, longest) if draw.random() < share else 0
            for _ in range(calls + 1)
        ]

    pauses = durations(1.2)
    for index in range(calls):
        if draw.random() < 0.1:
            pauses[index] = period * draw.randint(0, 4)
    keeps = draw.random() < 0.5
    return Scenario(
        period=period,
        capture=unit * draw.randint(0, 60) if draw.random() < 0.5 else period,
        elasticity=Fraction(draw.randint(0, 8), 4),
        pauses=pauses,
        sends=durations(0.6, 0.3),
        captures=durations(0.8, 0.4),
        resetting=durations(2, 0.5),
        resets={index for index in range(calls) if draw.random() < 0.03},
        episode_length=draw.choice([None, 1, 5, 30]),
        keeps_actions=keeps,
        last_on_reset=keeps and draw.random() < 0.5,
        start_s=start_s,
        max_length=draw.choice([None, 1, 4, 30]),
    )


def compare(scenario: Scenario, most_ns: int) -> Outcome:
    expected, ours = of_rtgym(scenario), of_ours(scenario)
    assert ours.answers == expected.answers
    assert ours.timeouts == expected.timeouts
    assert [call[1:] for call in ours.calls] == [call[1:] for call in expected.calls]
    apart = [
        abs(call[0] - other[0])
        for call, other in zip(ours.calls, expected.calls, strict=True)
    ]
    assert max(apart) <= most_ns
    return ours


@settings(deadline=None, max_examples=60)
@given(st.randoms(use_true_random=False), st.integers(1, 30))
def test_multiples_of_a_512th_of_a_second_are_exact(
    draw: random.Random, calls: int
) -> None:
    compare(scenario_of(draw, TICK, calls, 5), 0)


@pytest.mark.parametrize("start_s", [0, 5, DAYS_30])
def test_long_runs_are_exact(start_s: int) -> None:
    timeouts = 0
    for seed in range(4):
        draw = random.Random(seed)
        timeouts += compare(scenario_of(draw, TICK, 500, start_s), 0).timeouts
    assert timeouts > 100


def test_other_durations_are_closer_than_100_ns() -> None:
    # Ties of these differ by the rounding of floats: none occur.
    for seed in range(6):
        compare(scenario_of(random.Random(seed), 99_991, 500, 5), 99)


@pytest.mark.parametrize("elasticity", [Fraction(0), Fraction(1), Fraction(2)])
@pytest.mark.parametrize("late", [-1, 0, 1])
def test_a_tie_at_the_elasticity_times_out(elasticity: Fraction, late: int) -> None:
    """A step exactly the elasticity late begins a new grid, in both."""
    period = 32 * TICK
    pause = int(period * (1 + elasticity)) + late * TICK
    scenario = Scenario(
        period, period, elasticity, [pause] * 3, [], [], [], set(), None, False, False
    )
    outcome = compare(scenario, 0)
    if late < 0 and elasticity:
        # The first is in time; then the debt adds up.
        assert outcome.timeouts < 3
    if late >= 0:
        assert outcome.timeouts >= 3


def test_stalls_of_75_and_175_ms_at_50_ms() -> None:
    """A stall within the elasticity is made up for; a longer one is forgiven."""
    ms = 1_000_000
    pauses = [0, 75 * ms, 0, 0, 175 * ms, 0, 0]
    scenario = Scenario(
        50 * ms, 50 * ms, Fraction(1), pauses, [], [], [], set(), None, False, False
    )
    outcome = compare(scenario, 99)
    sends = [int(at) for at, name, _ in outcome.calls if name == "send"]
    apart = [(later - sooner) // ms for sooner, later in pairwise(sends)]
    assert apart == [50, 75, 25, 50, 175, 50, 50]
    assert outcome.timeouts == 1


def durations_of_rtgym(pauses: list[int], sends: list[int]) -> dict[str, Any]:
    time = FakeTime(5.0)
    captures = [TICK * (each % 3) for each in range(len(pauses))]
    named = {
        "send": iter([each / 1e9 for each in sends]),
        "capture": iter([each / 1e9 for each in captures]),
    }
    config = {
        "time_step_duration": 16 * TICK / 1e9,
        "start_obs_capture": 8 * TICK / 1e9,
    }
    with rtgym_env(time, Interface(time, named), benchmark=True, **config) as env:
        env.reset()
        env.step(_action(0))
        for pause in pauses:
            time.now += pause / 1e9
            env.step(_action(0))
        found: dict[str, Any] = env.benchmarks()
    return found


def durations_of_ours(pauses: list[int], sends: list[int]) -> dict[str, Any]:
    scenario = Scenario(
        16 * TICK,
        8 * TICK,
        Fraction(1),
        pauses,
        sends,
        [TICK * (each % 3) for each in range(len(pauses))],
        [],
        set(),
        None,
        False,
        False,
    )
    run = _run_of(scenario)
    agent = _reset(run)
    for pause in [0, *pauses]:
        run.until(agent + pause)
        # It arrives during a call of the world.
        busy, run.clock.now = run.clock.now, agent + pause
        run.mode.arrive("")
        run.clock.now = busy
        run.wait_for(run.mode.may_step)
        run.mode.step(_action(0), "")
        agent = run.world.named("send")[-1][0]
    run.sleep(100 * TICK)
    found: dict[str, Any] = run.mode.statistics()["durations"]
    return found


@pytest.mark.parametrize("sends", [[], [TICK, 0, 2 * TICK] * 20])
def test_the_six_durations_are_those_of_rtgym(sends: list[int]) -> None:
    draw = random.Random(1)
    pauses = [draw.randint(0, 30) * TICK for _ in range(50)]
    expected, ours = durations_of_rtgym(pauses, sends), durations_of_ours(pauses, sends)
    assert list(ours) == list(expected)
    for name, (mean, deviation) in expected.items():
        if sends and name in ("step_duration", "inference_duration"):
            # A host answers after it has sent the action; rtgym sends in a thread.
            continue
        assert ours[name]["mean_ns"] == pytest.approx(mean * 1e9, abs=1)
        assert ours[name]["deviation_ns"] == pytest.approx(deviation * 1e9, abs=1)
