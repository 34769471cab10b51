"""The elastic mode beyond rtgym: what rtgym hides, pauses, silence, takeover."""

from typing import Any

import numpy as np
import pytest

from gym_http_server.host.realtime.settings_request import read_change
from gym_http_wire.problems import (
    BadParameter,
    EnvError,
    ExternalAway,
    InvalidAction,
    Paused,
    ResetNeeded,
    WorldEnded,
)
from tests.support.realtime import BOX, MS, Run

GIVEN = {"mode": "elastic", "period_s": 0.05}


def run_of(**given: Any) -> Run:
    run = Run(GIVEN | given)
    run.reset()
    return run


def counts(run: Run) -> Any:
    statistics = run.mode.statistics()
    actions = statistics["actions"]
    received = actions.pop("received")
    assert received == sum(actions.values())
    return statistics


# Defects of rtgym.


def test_an_exception_in_a_capture_is_raised_once_and_needs_a_reset() -> None:
    """rtgym's step blocks for ever."""
    run = run_of()
    run.world.fail_in = {2: ValueError("sensor")}
    run.step(1)
    with pytest.raises(EnvError, match="the environment raised ValueError in step: s"):
        run.step(2)
    assert run.mode.state == "failed"
    assert run.mode.due_ns is None
    for _ in range(2):
        with pytest.raises(ResetNeeded):
            run.step(3)
    run.reset()
    assert run.step(4).observation[0] == 3


def test_an_exception_in_a_send_is_raised_and_needs_a_reset() -> None:
    """rtgym returns the same old observation for ever."""
    run = run_of()
    run.world.send = _broken  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="motor"):
        run.step(1)
    with pytest.raises(ResetNeeded):
        run.step(2)
    del run.world.send  # type: ignore[attr-defined]
    run.reset()
    run.step(1)


def test_a_failure_that_nobody_asked_for_is_told_by_the_next_call() -> None:
    run = run_of()
    run.world.fail_in = {1: ValueError("sensor")}
    run.sleep(100 * MS)
    with pytest.raises(EnvError):
        run.act(action=[1])
    with pytest.raises(ResetNeeded):
        run.mode.updates(1, "latest")
    run.reset()
    assert run.mode.state == "running"


def _broken(action: Any) -> None:
    raise ValueError("motor")


def test_a_late_step_says_how_old_its_observation_is() -> None:
    run = run_of()
    run.sleep(1050 * MS)
    late = run.step(1).realtime
    assert (late["capture_ns"], late["now_ns"]) == (50 * MS, 1050 * MS)
    assert late["age_ns"] == 1000 * MS
    assert late["timed_out"] is True
    assert run.step(2).realtime["timed_out"] is False


def test_time_outs_are_counted() -> None:
    run = run_of()
    for _ in range(3):
        run.sleep(200 * MS)
        assert run.step(1).realtime["timed_out"]
    statistics = counts(run)
    assert statistics["timeouts"] == statistics["reanchored"] == 3
    assert statistics["age_ns"]["max"] == 150 * MS


@pytest.mark.parametrize("length", [0, 1, 3])
def test_observations_of_resets_and_steps_have_the_same_parts(length: int) -> None:
    history = {"length": length, "in_observation": True}
    run = Run(GIVEN | {"history": history})
    begun, step = run.reset().observation, run.step(1).observation
    assert len(begun) == len(step) == 1 + length
    assert [each.shape for each in begun] == [each.shape for each in step]


def test_a_pause_within_the_elasticity_hides_no_later_time_out() -> None:
    run = run_of()
    run.sleep(60 * MS)
    run.mode.pause()
    run.sleep(10 * MS)
    run.mode.resume()
    assert not run.step(1).realtime["timed_out"]
    run.sleep(1000 * MS)
    assert run.step(2).realtime["timed_out"]
    assert counts(run)["timeouts"] == 1


# Pauses.


def test_a_pause_refuses_steps_and_leaves_no_debt() -> None:
    run = run_of()
    run.step(1)
    run.sleep(20 * MS)
    assert run.mode.pause() == {"state": "paused", "now_ns": 70 * MS}
    with pytest.raises(Paused):
        run.step(2)
    with pytest.raises(Paused):
        run.act(action=[2])
    # The time step ends, with its capture.
    run.sleep(500 * MS)
    assert run.since_start("capture") == [50 * MS, 100 * MS]
    assert run.since_start("wait") == [100 * MS]
    assert run.mode.resume() == {"state": "running", "now_ns": 570 * MS}
    run.sleep(30 * MS)
    assert not run.step(2).realtime["timed_out"]
    run.step(3)
    # Late by 30 ms after the resume, and that is all.
    assert run.since_start("send")[-2:] == [600 * MS, 620 * MS]


def test_a_reset_ends_a_pause_without_counting_a_time_out() -> None:
    run = run_of()
    run.step(1)
    run.mode.pause()
    run.sleep(5000 * MS)
    assert not run.reset().realtime["timed_out"]
    run.step(1)
    assert counts(run)["timeouts"] == 0
    assert run.since_start("send")[-2:] == [5050 * MS, 5100 * MS]


def test_a_pause_needs_an_episode_and_may_be_repeated() -> None:
    run = Run(GIVEN)
    with pytest.raises(ResetNeeded):
        run.mode.pause()
    run.reset()
    assert run.mode.resume()["state"] == "running"
    run.mode.pause()
    run.mode.pause()
    run.sleep(100 * MS)
    assert len(run.world.named("wait")) == 1


# Actions beside those of steps.


def test_a_person_takes_over() -> None:
    run = run_of()
    run.act("person", action=[9], priority=10, valid_s=0.1)
    # In force from 50 ms on, when its 100 ms have begun already.
    forces = []
    for number in range(4):
        forces.append(run.step(number).realtime["action"])
    assert [each["value"][0] for each in forces] == [0, 9, 1, 2]
    assert forces[1]["priority"] == 10
    assert counts(run)["actions"] == {
        "applied": 4,
        "superseded": 1,
        "expired": 0,
        "rejected": 0,
        "waiting": 0,
    }


def test_a_step_wins_over_an_action_before_it() -> None:
    run = run_of()
    run.act(action=[5])
    run.step(1)
    assert run.world.named("send")[-1][1] == 1
    assert counts(run)["actions"]["superseded"] == 1


# The agent is silent.


def test_a_silent_agents_world_gets_the_default_action_once() -> None:
    run = run_of(agent_timeout_s=0.2, default_action=[-3])
    run.step(1)
    run.sleep(2000 * MS)
    sends = [(at, value) for at, value in run.world.named("send")]
    assert [value for _, value in sends] == [-3, 1, -3]
    # 200 ms after the end of the time step.
    assert run.since_start("send")[-1] == 300 * MS
    result = run.step(2)
    # Both rewards, and the newest observation.
    assert (result.reward, result.observation[0]) == (2, 3)
    assert result.realtime["merged"] == 1
    assert result.realtime["agent_lost"] == {"silent_ns": 250 * MS, "then": "default"}
    assert counts(run)["agent_lost"] == 1
    run.sleep(1000 * MS)
    assert counts(run)["agent_lost"] == 2


def test_signs_of_life_keep_an_agent() -> None:
    run = run_of(agent_timeout_s=0.2)
    for _ in range(20):
        run.sleep(150 * MS)
        answer = run.act()
    assert answer == {"tick": 2, "now_ns": 3000 * MS, "queued": 0}
    assert counts(run)["agent_lost"] == 0


@pytest.mark.parametrize(
    ("then", "state", "sends"),
    [("hold", "running", 1), ("pause", "paused", 1), ("close", "running", 1)],
)
def test_what_happens_to_a_silent_agent(then: str, state: str, sends: int) -> None:
    run = run_of(agent_timeout_s=0.2, on_agent_lost=then)
    run.sleep(1000 * MS)
    assert run.mode.state == state
    assert len(run.world.named("send")) == sends
    assert counts(run)["agent_lost"] == 1
    closing = "the agent was silent for 0.25 seconds"
    assert run.mode.closing == (closing if then == "close" else None)


def test_an_agent_that_waits_is_not_silent() -> None:
    run = run_of(period_s=0.5, agent_timeout_s=0.1)
    for _ in range(4):
        run.step(1)
    assert counts(run)["agent_lost"] == 0


# Worlds that fail or end.


def test_an_absent_external_environment_misses_ticks() -> None:
    run = run_of()
    run.world.fail_in = {2: ExternalAway("away"), 3: ExternalAway("away")}
    run.step(1)
    with pytest.raises(ExternalAway):
        run.step(2)
    with pytest.raises(ExternalAway):
        run.step(2)
    result = run.step(2)
    assert result.realtime["capture_ns"] == 200 * MS
    assert result.realtime["skipped"] == 2
    assert result.realtime["tick"] == 2
    assert counts(run)["skipped"] == 2
    assert counts(run)["actions"]["expired"] == 2


def test_episodes_are_used_up() -> None:
    run = run_of(episodes=2)
    run.world.episode_length = 1
    first = run.step(1)
    assert first.terminated
    assert "last" not in first.realtime
    with pytest.raises(ResetNeeded):
        run.step(1)
    run.reset()
    last = run.step(1)
    assert last.realtime["last"] is True
    assert run.mode.state == "ended"
    for call in (lambda: run.step(1), run.reset, lambda: run.act(action=[1])):
        with pytest.raises(WorldEnded):
            call()
    assert run.mode.updates(3, "all")["updates"][-1]["last"] is True  # type: ignore[index]
    with pytest.raises(WorldEnded):
        run.mode.updates(4, "all")


def test_a_world_may_say_that_it_has_ended() -> None:
    run = run_of()
    run.world.episode_length = 1
    run.world.ended = True
    assert run.step(1).realtime["last"] is True
    with pytest.raises(WorldEnded):
        run.reset()


def test_the_world_gets_the_default_action_last() -> None:
    run = run_of(default_action=[-3])
    run.step(1)
    run.mode.end()
    assert run.world.named("end") == [(run.clock.now, -3)]
    fresh = Run(GIVEN)
    fresh.mode.end()
    assert fresh.world.log == []


# Captures and updates.


def test_captures_happen_whether_or_not_anybody_asks() -> None:
    run = run_of(capture_s=0.03)
    run.step(1)
    run.sleep(40 * MS)
    assert run.since_start("capture") == [30 * MS, 80 * MS]
    answer = run.mode.updates(2, "latest")
    assert answer is not None
    (update,) = answer["updates"]
    assert update["realtime"]["age_ns"] == 10 * MS
    assert update["realtime"]["action"]["value"] == [1]


def test_the_first_episode_has_no_action_at_its_reset() -> None:
    run = Run(GIVEN)
    first = run.reset()
    assert first.realtime["action"] is None
    assert first.realtime["now_ns"] == first.realtime["capture_ns"] == 0
    run.step(1)
    # On a robot, the last action is in force while it is reset.
    assert run.reset().realtime["action"]["value"] == [1]


def test_a_world_that_writes_into_its_last_observation() -> None:
    run = run_of()
    shared = np.zeros(2)

    def observe() -> Any:
        shared[0] += 1
        return shared

    run.world._observation = observe  # type: ignore[method-assign]
    first, second = run.step(1).observation, run.step(2).observation
    assert (first[0], second[0]) == (1, 2)


@pytest.mark.parametrize(
    ("capture_s", "captured"), [(None, 250), (0.05, 200), (0.225, 225)]
)
def test_a_higher_rate_ends_a_long_time_step(
    capture_s: float | None, captured: int
) -> None:
    """The time step of 10 s began at 0; now it takes 0.25 s, with its capture in it."""
    run = Run({"mode": "elastic", "period_s": 10})
    run.reset()
    run.sleep(200 * MS)
    given = {"period_s": 0.25, "capture_s": capture_s}
    run.mode.change(read_change(given, run.settings, action_space=BOX, max_hz=1000))
    assert run.step(1).realtime["now_ns"] == 250 * MS
    assert run.since_start("capture") == [captured * MS]
    assert run.step(2).realtime["now_ns"] == 500 * MS


def test_refused_actions_are_counted_and_change_nothing() -> None:
    run = run_of()
    for bad in (
        {"action": "x"},
        {"action": [1, 2]},
        {"actions": [[1], ["x"]]},
        {"actions": [[1]], "blend": 2},
        {"action": [1], "priority": 0.5},
    ):
        with pytest.raises((BadParameter, InvalidAction)):
            run.act(**bad)
    run.mode.count_rejected()
    actions = counts(run)["actions"]
    assert actions["rejected"] == 7
    assert actions["waiting"] == 0
    run.step(3)
    assert run.world.named("send")[-1][1] == 3


def test_a_wrapper_may_add_to_the_info_of_a_step() -> None:
    run = run_of()
    run.step(1).info["added"] = True
    answer = run.mode.updates(1, "all")
    assert answer is not None
    assert answer["updates"][0]["info"] == {}


def test_a_reset_that_fails_needs_another() -> None:
    run = run_of()
    run.world.episode_length = 1
    run.sleep(60 * MS)
    run.world.durations["reset"] = _raising()
    with pytest.raises(ValueError, match="stuck"):
        run.reset()
    with pytest.raises(ResetNeeded):
        run.step(1)
    run.reset()
    assert run.step(1).terminated


def _raising() -> Any:
    raise ValueError("stuck")
    yield
