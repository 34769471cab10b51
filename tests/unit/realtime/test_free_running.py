"""The free-running mode: ticks, steps that lose nothing, episodes, silence."""

from typing import Any

import pytest

from gym_http_server.host.realtime.settings_request import read_change
from gym_http_wire.problems import (
    BadParameter,
    EnvError,
    ExternalDeadline,
    Paused,
    ResetNeeded,
    WorldEnded,
)
from tests.support.realtime import BOX, MS, Run

GIVEN = {"mode": "free_running", "period_s": 0.01}


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


def values(run: Run) -> list[Any]:
    return [value for _, value in run.world.named("send")]


def test_ticks_go_on_without_an_agent() -> None:
    run = run_of()
    run.sleep(95 * MS)
    assert run.since_start("capture") == [10 * MS * each for each in range(1, 10)]
    assert [event.kind for event in run.events] == ["reset"] + ["step"] * 9
    assert run.events[-1].value["realtime"]["tick"] == 9
    statistics = counts(run)
    assert (statistics["ticks"], statistics["skipped"]) == (9, 0)


def test_a_step_acts_in_the_next_tick_and_loses_no_reward() -> None:
    run = run_of()
    run.world.rewards = iter([1.0, 2.0, 4.0, 8.0, 16.0])
    run.sleep(25 * MS)
    result = run.step(7)
    assert run.clock.now - 5_000_000_000 == 30 * MS
    assert result.reward == 7
    assert list(result.observation) == [3, 7]
    assert result.realtime["merged"] == 2
    assert result.realtime["action"]["value"] == [7]
    assert run.step(8).reward == 8
    # Each tick is an event with its own reward, so that monitors count none twice.
    assert [event.value.get("reward") for event in run.events] == [None, 1, 2, 4, 8]


def test_two_callers_have_their_own_rewards() -> None:
    run = run_of()
    run.world.rewards = iter([1.0, 2.0, 4.0, 8.0])
    assert run.step(1, "a").reward == 1
    # A caller's account begins with its first call.
    assert run.step(2, "b").reward == 2
    assert run.step(3, "a").reward == 2 + 4
    assert run.step(4, "b").reward == 4 + 8


@pytest.mark.parametrize(
    ("no_action", "expected"),
    [
        ("hold", [-3, 5, 5, 5]),
        ("default", [-3, 5, -3, -3]),
        ("zero", [0, 5, 0, 0]),
    ],
)
def test_ticks_without_an_action(no_action: str, expected: list[float]) -> None:
    run = run_of(no_action=no_action, default_action=[-3])
    run.sleep(10 * MS)
    run.act(action=[4])
    run.act(action=[5])
    run.sleep(30 * MS)
    assert values(run) == expected
    assert counts(run)["actions"]["superseded"] == 1


def test_late_ticks_are_skipped() -> None:
    run = run_of()
    run.world.durations["capture"] = iter([35 * MS])
    run.sleep(60 * MS)
    # The tick of 10 ms ends at 45 ms: 20 and 30 are skipped, 40 is late.
    assert run.since_start("capture") == [10 * MS, 45 * MS, 50 * MS, 60 * MS]
    late = run.events[2].value["realtime"]
    assert (late["tick"], late["skipped"], late["late_ns"]) == (4, 2, 5 * MS)
    statistics = counts(run)
    assert (statistics["ticks"], statistics["skipped"]) == (4, 2)


def test_late_ticks_catch_up() -> None:
    run = run_of(on_overrun="catch_up", most=None)
    run.world.durations["capture"] = iter([35 * MS])
    run.sleep(60 * MS)
    captures = run.since_start("capture")
    assert captures == [each * MS for each in (10, 45, 45, 45, 50, 60)]
    assert counts(run)["skipped"] == 0


def test_only_some_late_ticks_catch_up() -> None:
    run = run_of(on_overrun="catch_up", most=1)
    run.world.durations["capture"] = iter([65 * MS])
    run.sleep(75 * MS)
    # At 75 ms, the ticks of 20 to 70 ms are due: 60 and 70 happen.
    assert run.since_start("capture") == [10 * MS, 75 * MS, 75 * MS]
    assert run.events[2].value["realtime"]["skipped"] == 4


def test_the_grid_shifts() -> None:
    run = run_of(on_overrun="shift")
    run.world.durations["capture"] = iter([35 * MS, 5 * MS])
    run.sleep(70 * MS)
    assert run.since_start("capture") == [each * MS for each in (10, 45, 55, 65)]
    assert run.events[2].value["realtime"]["timed_out"] is True
    statistics = counts(run)
    assert (statistics["reanchored"], statistics["skipped"]) == (1, 0)


def test_an_episode_that_ends_between_steps_is_told_at_once() -> None:
    run = run_of()
    run.world.episode_length = 3
    run.sleep(5 * MS)
    assert run.step(1).reward == 1
    run.sleep(95 * MS)
    assert run.mode.state == "done"
    before = run.clock.now
    end = run.step(2)
    assert run.clock.now == before
    assert (end.terminated, end.reward, end.observation[0]) == (True, 2, 3)
    assert end.realtime["merged"] == 1
    assert counts(run)["actions"]["expired"] == 1
    with pytest.raises(ResetNeeded):
        run.step(3)
    # The clock stood still, and begins anew.
    run.reset()
    run.step(4)
    assert run.since_start("capture")[-1] == 115 * MS
    assert counts(run)["skipped"] == 0


def test_a_world_that_resets_itself_goes_on() -> None:
    run = run_of(on_done="reset")
    run.world.episode_length = 3
    run.step(1)
    run.sleep(45 * MS)
    # The ticks 2 to 5, of which 3 ends the episode.
    end = run.step(2)
    assert (end.terminated, end.reward, end.realtime["episode"]) == (True, 2, 1)
    begun = run.reset()
    assert len(run.world.named("reset")) == 2
    assert begun.realtime["episode"] == 2
    assert begun.observation[0] == 5
    last = run.step(3)
    # The rewards of the ticks 4, 5 and 6.
    assert (last.reward, last.terminated) == (3, True)
    assert [event.kind for event in run.events].count("reset") == 3


def test_ends_beyond_the_buffer_are_counted_as_lost() -> None:
    run = run_of(on_done="reset", buffer=2)
    run.world.episode_length = 2
    run.sleep(85 * MS)
    # Of four episodes, two have ended too long ago.
    assert run.step(1).realtime["episode"] == 3
    assert counts(run)["updates"]["lost"] == 4


def test_a_reset_with_a_seed_begins_an_episode_of_its_own() -> None:
    run = run_of(on_done="reset")
    run.world.episode_length = 3
    run.step(1)
    run.sleep(45 * MS)
    run.step(2)
    run.reset(seed=7)
    assert [value for _, value in run.world.named("reset")] == [None, None, 7]


def test_a_step_that_runs_into_a_reset_that_fails_returns_the_end() -> None:
    run = run_of(on_done="reset")
    run.world.episode_length = 1

    def broken(seed: Any, options: Any) -> Any:
        raise ValueError("stuck")

    run.world.reset = broken  # type: ignore[method-assign]
    assert run.step(1).terminated
    with pytest.raises(EnvError, match="ValueError in reset: stuck"):
        run.step(1)
    with pytest.raises(ResetNeeded):
        run.step(1)


def test_episodes_are_used_up() -> None:
    run = run_of(on_done="reset", episodes=2)
    run.world.episode_length = 2
    run.sleep(1000 * MS)
    assert run.mode.state == "ended"
    answer = run.mode.updates(0, "all")
    assert answer is not None
    assert [each.get("last", False) for each in answer["updates"]] == [False] * 5 + [
        True
    ]
    first = run.step(1)
    # The second episode is over, too, and counts.
    assert run.reset().realtime["episode"] == 2
    second = run.step(1)
    assert (first.reward, second.reward) == (2, 2)
    assert second.realtime["last"] is True
    for call in (lambda: run.step(1), run.reset, lambda: run.act(action=[1])):
        with pytest.raises(WorldEnded):
            call()


def test_an_exception_in_a_tick_stops_the_clock() -> None:
    run = run_of()
    run.world.fail_in = {3: ValueError("sensor")}
    run.sleep(1000 * MS)
    assert run.world.captures == 3
    assert run.mode.state == "failed"
    with pytest.raises(EnvError, match="ValueError"):
        run.step(1)
    with pytest.raises(ResetNeeded):
        run.act()
    run.reset()
    assert run.step(1).observation[0] == 4


def test_an_exception_in_the_tick_of_a_step_is_that_steps() -> None:
    run = run_of()
    run.world.fail_in = {1: ValueError("sensor")}
    with pytest.raises(ValueError, match="sensor"):
        run.step(1)
    with pytest.raises(ResetNeeded):
        run.step(1)


def test_a_silent_external_environment_misses_ticks() -> None:
    run = run_of()
    run.world.fail_in = {2: ExternalDeadline("late"), 3: ExternalDeadline("late")}
    run.step(1)
    with pytest.raises(ExternalDeadline):
        run.step(2)
    run.sleep(15 * MS)
    result = run.step(3)
    assert (result.realtime["tick"], result.realtime["skipped"]) == (4, 2)
    statistics = counts(run)
    assert (statistics["ticks"], statistics["skipped"]) == (2, 2)


def test_a_pause_stops_the_ticks_without_debt() -> None:
    run = run_of()
    run.sleep(25 * MS)
    assert run.mode.pause() == {"state": "paused", "now_ns": 25 * MS}
    assert run.mode.due_ns is None
    with pytest.raises(Paused):
        run.step(1)
    run.sleep(500 * MS)
    run.mode.resume()
    run.sleep(20 * MS)
    assert run.since_start("capture") == [each * MS for each in (10, 20, 535, 545)]
    statistics = counts(run)
    assert (statistics["ticks"], statistics["skipped"]) == (4, 0)
    assert statistics["jitter_ns"]["max"] == 0


def test_a_silent_agent() -> None:
    run = run_of(agent_timeout_s=0.035, default_action=[-3])
    run.act(action=[5])
    run.sleep(55 * MS)
    assert values(run) == [5, 5, 5, -3, -3]
    lost = run.events[4].value
    assert lost["agent_lost"] == {"silent_ns": 40 * MS, "then": "default"}
    run.act(action=[6])
    run.sleep(10 * MS)
    assert values(run)[-1] == 6
    assert counts(run)["agent_lost"] == 1


@pytest.mark.parametrize(
    ("then", "state", "sent"),
    [("hold", "running", [5] * 5), ("pause", "paused", [5] * 3)],
)
def test_a_silent_agent_may_be_held_or_paused(
    then: str, state: str, sent: list[float]
) -> None:
    run = run_of(agent_timeout_s=0.035, on_agent_lost=then)
    run.act(action=[5])
    run.sleep(55 * MS)
    assert values(run) == sent
    assert run.mode.state == state
    if then == "pause":
        with pytest.raises(Paused, match="paused, since the agent was silent"):
            run.step(1)
        run.mode.resume()
        run.sleep(10 * MS)
        assert run.events[-1].value["agent_lost"]["then"] == "pause"


def test_the_actions_of_a_lost_agent_expire() -> None:
    run = run_of(agent_timeout_s=0.035, default_action=[-3])
    run.act(actions=[[each] for each in range(10)])
    run.sleep(65 * MS)
    assert values(run) == [0, 1, 2, -3, -3, -3]
    actions = counts(run)["actions"]
    assert (actions["applied"], actions["expired"]) == (3, 7)


def test_several_ticks_make_an_update() -> None:
    run = run_of(ticks_per_update=4)
    run.sleep(45 * MS)
    result = run.step(7)
    assert run.since_start("capture")[-1] == 80 * MS
    # The action acts in the tick that makes the update.
    assert values(run) == [0] * 7 + [7]
    assert result.reward == 8
    assert result.realtime["merged"] == 1
    answer = run.mode.updates(1, "all")
    assert answer is not None
    assert [each["reward"] for each in answer["updates"]] == [4, 4]
    assert counts(run)["ticks"] == 8


def test_an_end_of_an_episode_is_an_update_before_its_ticks_are_full() -> None:
    run = run_of(ticks_per_update=4)
    run.world.episode_length = 6
    assert run.step(1).reward == 4
    run.sleep(100 * MS)
    end = run.step(1)
    assert (end.terminated, end.reward) == (True, 2)


def test_changes_hold_from_the_next_tick_on() -> None:
    run = run_of()
    run.sleep(15 * MS)
    change = {"hz": 50, "default_action": [4]}
    run.mode.change(read_change(change, run.settings, action_space=BOX, max_hz=1000))
    run.sleep(50 * MS)
    assert run.since_start("capture") == [each * MS for each in (10, 20, 40, 60)]
    assert run.mode.statistics()["settings"]["hz"] == 50


def test_a_higher_rate_does_not_wait_for_the_end_of_a_long_period() -> None:
    run = Run({"mode": "free_running", "hz": 0.1})
    run.reset()
    run.sleep(25 * MS)
    faster = read_change({"hz": 50}, run.settings, action_space=BOX, max_hz=1000)
    run.mode.change(faster)
    run.sleep(50 * MS)
    # It would have been due at 20 ms already.
    assert run.since_start("capture") == [each * MS for each in (25, 45, 65)]
    assert run.mode.statistics()["skipped"] == 0
    run.mode.change(read_change({"hz": 0.1}, faster, action_space=BOX, max_hz=1000))
    run.sleep(20 * MS)
    assert run.since_start("capture")[3:] == [85 * MS]


def test_updates_merge_what_a_reader_skips() -> None:
    run = run_of()
    run.sleep(35 * MS)
    answer = run.mode.updates(1, "latest")
    assert answer is not None
    (latest,) = answer["updates"]
    assert (latest["reward"], latest["realtime"]["merged"]) == (3, 2)
    assert run.mode.updates(4, "latest") is None
    every = run.mode.updates(0, "all", 3)
    assert every is not None
    assert [each["realtime"]["update"] for each in every["updates"]] == [1, 2, 3]
    assert every["updates"][0]["reset"] is True
    newest = run.mode.updates(None)
    assert newest is not None
    assert newest["updates"][0]["realtime"]["update"] == 4
    assert (newest["lost"], newest["state"], newest["now_ns"]) == (
        0,
        "running",
        35 * MS,
    )


def test_updates_beyond_the_buffer_are_lost() -> None:
    run = run_of(buffer=4)
    run.sleep(95 * MS)
    answer = run.mode.updates(2, "latest")
    assert answer is not None
    assert answer["lost"] == 4
    assert answer["updates"][0]["reward"] == 4
    assert counts(run)["updates"] == {"made": 10, "given": 1, "merged": 3, "lost": 4}


def test_the_end_of_an_episode_is_never_merged_away() -> None:
    run = run_of(on_done="reset")
    run.world.episode_length = 3
    run.sleep(55 * MS)
    ended = run.mode.updates(1, "latest")
    assert ended is not None
    assert ended["updates"][0]["terminated"] is True
    assert ended["updates"][0]["reward"] == 3
    number = ended["updates"][0]["realtime"]["update"]
    newest = run.mode.updates(number, "latest")
    assert newest is not None
    assert newest["updates"][0]["realtime"]["tick"] == 5


def test_several_requests_may_wait_for_the_next_updates() -> None:
    run = run_of(buffer=2)
    waiting = [1, 2, 3]
    got = []
    for _ in range(3):
        assert all(run.mode.updates(after) is None for after in waiting)
        run.sleep(10 * MS)
        answer = run.mode.updates(waiting.pop(0))
        assert answer is not None
        got.append(answer["updates"][0]["realtime"]["update"])
    assert got == [2, 3, 4]


def test_a_number_of_no_update_is_refused() -> None:
    run = run_of()
    words = "after is 66: expected the number of an update, or of"
    with pytest.raises(BadParameter, match=words):
        run.mode.updates(66)


def test_an_action_says_which_update_it_answers() -> None:
    run = run_of()
    run.sleep(23 * MS)
    run.act(**{"action": [1], "for": 2})
    run.act(**{"action": [1], "for": 99})
    reaction = run.mode.statistics()["reaction_ns"]
    assert (reaction["count"], reaction["max"]) == (1, 13 * MS)


def test_a_world_that_yields_takes_actions_meanwhile() -> None:
    """A call of an external environment switches to the loop of the host."""
    run = run_of()
    seen: list[Any] = []
    capture = run.world.capture

    def yielding() -> Any:
        seen.append((run.mode.busy, run.mode.due_ns, run.mode.may_step("")))
        run.act(action=[9])
        run.mode.resume()
        run.mode.statistics()
        return capture()

    run.world.capture = yielding  # type: ignore[method-assign]
    run.sleep(15 * MS)
    assert seen == [(True, None, False)]
    assert not run.mode.busy
    run.sleep(10 * MS)
    assert values(run) == [0, 9]


def test_a_pause_while_the_world_is_busy() -> None:
    run = run_of()
    capture = run.world.capture

    def yielding() -> Any:
        run.mode.pause()
        return capture()

    run.world.capture = yielding  # type: ignore[method-assign]
    run.sleep(100 * MS)
    assert run.world.captures == 1
    assert run.mode.state == "paused"
    assert run.mode.due_ns is None
