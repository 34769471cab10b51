"""Received actions: chunks, blending, validity, priorities, repeats."""

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from gym_http_server.host.realtime.act_request import Sequences
from gym_http_server.operations.clocks import MAX_CHUNK
from gym_http_wire.problems import BadParameter, InvalidAction, Paused
from tests.support.realtime import MS, Run

GIVEN = {"mode": "free_running", "period_s": 0.01, "default_action": [-1]}


def run_of(**given: Any) -> Run:
    run = Run(GIVEN | given)
    run.reset()
    return run


def chunk(*values: float) -> list[list[float]]:
    return [[each] for each in values]


def ticked(run: Run, count: int) -> list[float]:
    """Let some ticks pass; return the actions in force in them."""
    run.sleep(count * 10 * MS)
    return [value for _, value in run.world.named("send")[-count:]]


def counts(run: Run) -> dict[str, int]:
    actions = dict(run.mode.statistics()["actions"])
    assert actions.pop("received") == sum(actions.values())
    return {name: count for name, count in actions.items() if count}


def test_a_chunk_is_one_action_a_tick() -> None:
    run = run_of()
    answer = run.act(actions=chunk(1, 2, 3))
    assert answer == {"tick": 1, "now_ns": 0, "queued": 3}
    assert ticked(run, 5) == [1, 2, 3, 3, 3]
    assert counts(run) == {"applied": 3}


def test_a_chunk_for_a_later_tick() -> None:
    run = run_of()
    assert run.act(actions=chunk(1, 2), at=3)["tick"] == 3
    assert ticked(run, 5) == [-1, -1, 1, 2, 2]


def test_past_actions_of_a_chunk_expire() -> None:
    run = run_of()
    ticked(run, 4)
    answer = run.act(actions=chunk(1, 2, 3, 4), at=3)
    assert (answer["tick"], answer["queued"]) == (5, 2)
    assert ticked(run, 2) == [3, 4]
    assert run.act(actions=chunk(1, 2), at=1)["queued"] == 0
    assert counts(run) == {"applied": 2, "expired": 4}


def test_an_overlap_is_replaced() -> None:
    run = run_of()
    run.act(actions=chunk(1, 2, 3, 4), at=1)
    run.act(actions=chunk(7, 8), at=2)
    assert ticked(run, 4) == [1, 7, 8, 4]
    assert counts(run) == {"applied": 4, "superseded": 2}


def test_an_overlap_is_blended() -> None:
    run = run_of()
    run.act(actions=chunk(0, 10, 10), at=1)
    # As LeRobot's weighted average: 0.3 of the old and 0.7 of the new.
    run.act(actions=chunk(20, 20, 20), at=2, blend=0.7)
    assert ticked(run, 4) == [0, 17, 17, 20]
    assert counts(run) == {"applied": 4, "superseded": 2}


def test_blended_integers_are_rounded() -> None:
    space = Box(0, 9, (1,), np.int64)
    run = Run(GIVEN | {"default_action": [0]}, action_space=space)
    run.reset()
    for value in (1, 3):
        chunk_of = {"actions": [np.array([value])], "at": 1, "blend": 0.9}
        run.mode.act(chunk_of, "", None, True)
    assert ticked(run, 1) == [3]
    assert run.events[-1].value["realtime"]["action"]["value"].dtype == np.int64


def test_a_single_action_replaces_one_of_a_chunk() -> None:
    run = run_of()
    run.act(actions=chunk(1, 2, 3))
    run.act(action=[9])
    assert ticked(run, 3) == [9, 2, 3]
    # And the chunk replaces it, if it comes later.
    run.act(action=[9])
    run.act(actions=chunk(4, 5))
    assert ticked(run, 2) == [4, 5]


def test_actions_of_skipped_ticks_expire_but_a_single_one_waits() -> None:
    run = run_of()
    run.world.durations["capture"] = iter([35 * MS])
    run.sleep(10 * MS)
    # At 45 ms: the ticks 2 and 3 will be skipped.
    run.act(actions=chunk(2, 3, 4, 5), at=2)
    run.world.durations["capture"] = iter([30 * MS])
    run.sleep(0)
    # At 75 ms: the ticks 5 and 6 will be skipped.
    run.act(action=[9])
    run.sleep(0)
    assert [value for _, value in run.world.named("send")] == [-1, 4, 9]
    assert counts(run) == {"applied": 2, "expired": 3}


def test_an_action_is_held_while_it_is_valid() -> None:
    run = run_of()
    run.act(action=[5], valid_s=0.025)
    assert ticked(run, 4) == [5, 5, -1, -1]
    run.act(action=[6], valid_s=0.005)
    # It expired before its tick.
    assert ticked(run, 1) == [-1]
    assert counts(run) == {"applied": 1, "expired": 1}


def test_the_highest_valid_priority_wins() -> None:
    run = run_of()
    run.act(action=[1], priority=5, valid_s=0.025)
    taken = []
    for number in range(10, 14):
        run.act(action=[number])
        taken += ticked(run, 1)
    assert taken == [1, 1, 12, 13]
    assert run.events[1].value["realtime"]["action"] == {
        "number": 1,
        "priority": 5,
        "value": np.array([1.0]),
    }
    assert counts(run) == {"applied": 3, "superseded": 2}


def test_a_lower_priority_waits_while_it_is_valid() -> None:
    run = run_of()
    run.act(action=[1], priority=-1, valid_s=1)
    run.act(action=[2], valid_s=0.015)
    assert ticked(run, 3) == [2, 1, 1]
    assert counts(run) == {"applied": 2}


def test_a_priority_without_validity_lasts_for_one_tick() -> None:
    run = run_of()
    run.act(action=[1], priority=5)
    run.act(actions=chunk(7, 8))
    assert ticked(run, 2) == [1, 8]


def test_a_reset_lets_waiting_actions_expire() -> None:
    run = run_of()
    run.act(actions=chunk(1, 2, 3))
    ticked(run, 1)
    run.reset()
    assert ticked(run, 1) == [-1]
    assert counts(run) == {"applied": 1, "expired": 2}


# Takeovers: the highest of the actions that are valid, and what holds after it.


def test_after_a_takeover_the_newest_action_of_the_policy_acts() -> None:
    run = run_of()
    run.act(action=[1])
    assert ticked(run, 1) == [1]
    run.act(action=[9], priority=10, valid_s=0.035)
    run.act(action=[2])
    assert ticked(run, 1) == [9]
    assert counts(run) == {"applied": 2, "waiting": 1}
    run.act(action=[3])
    assert ticked(run, 4) == [9, 9, 3, 3]
    assert run.events[-1].value["realtime"]["action"] == {
        "number": 4,
        "priority": 0,
        "value": np.array([3.0]),
    }
    assert counts(run) == {"applied": 3, "superseded": 1}


def test_after_a_takeover_an_action_from_before_it_acts() -> None:
    run = run_of()
    run.act(action=[1])
    ticked(run, 1)
    run.act(action=[9], priority=10, valid_s=0.025)
    assert ticked(run, 4) == [9, 9, 1, 1]
    assert counts(run) == {"applied": 2}


def test_after_a_takeover_the_default_acts_if_the_policy_sent_nothing() -> None:
    run = run_of()
    run.act(action=[9], priority=10, valid_s=0.025)
    assert ticked(run, 3) == [9, 9, -1]


def test_a_policy_that_loses_a_tick_to_a_takeover_acts_after_it() -> None:
    run = run_of()
    run.act(action=[2])
    run.act(action=[9], priority=10, valid_s=0.005)
    # The takeover expires before its first tick.
    assert ticked(run, 1) == [2]
    run.act(action=[9], priority=10, valid_s=0.025)
    run.act(action=[3])
    assert ticked(run, 3) == [9, 9, 3]


def test_a_chunk_goes_on_after_a_takeover_and_its_last_action_holds() -> None:
    run = run_of()
    run.act(actions=chunk(1, 2, 3, 4))
    run.act(action=[9], priority=10, valid_s=0.035)
    assert ticked(run, 3) == [9, 9, 9]
    assert ticked(run, 2) == [4, 4]
    run.act(actions=chunk(5, 6))
    run.act(action=[9], priority=10, valid_s=0.045)
    assert ticked(run, 5) == [9, 9, 9, 9, 6]
    # By hand: 1, 2, 3 and 5 lost their ticks; 4, 6 and two takeovers acted.
    assert counts(run) == {"applied": 4, "superseded": 4}


def test_a_chunk_for_later_ticks_leaves_the_action_before_it() -> None:
    run = run_of()
    run.act(action=[1])
    ticked(run, 1)
    run.act(action=[9], priority=10, valid_s=0.025)
    run.act(actions=chunk(7), at=6)
    assert ticked(run, 6) == [9, 9, 1, 1, 7, 7]


def test_an_action_of_the_policy_that_expires_leaves_no_older_one() -> None:
    run = run_of()
    run.act(action=[1])
    ticked(run, 1)
    run.act(action=[2], valid_s=0.025)
    assert ticked(run, 3) == [2, 2, -1]
    # Nor if it expires while a person acts.
    run.act(action=[3])
    ticked(run, 1)
    run.act(action=[4], valid_s=0.005)
    run.act(action=[5], valid_s=0.025)
    run.act(action=[9], priority=10, valid_s=0.045)
    assert ticked(run, 5) == [9, 9, 9, 9, -1]


def test_a_takeover_that_is_renewed_ends_once() -> None:
    run = run_of()
    run.act(action=[1])
    run.act(action=[8], priority=10, valid_s=0.025)
    assert ticked(run, 1) == [8]
    run.act(action=[9], priority=10, valid_s=0.025)
    assert ticked(run, 3) == [9, 9, 1]


def test_of_nested_takeovers_the_next_lower_one_acts() -> None:
    run = run_of()
    run.act(action=[1])
    run.act(action=[5], priority=5, valid_s=0.055)
    run.act(action=[9], priority=10, valid_s=0.035)
    assert ticked(run, 6) == [9, 9, 9, 5, 5, 1]


def test_a_takeover_without_validity_holds_until_the_policy_acts() -> None:
    run = run_of()
    run.act(action=[1])
    ticked(run, 1)
    run.act(action=[9], priority=10)
    assert ticked(run, 2) == [9, 9]
    run.act(action=[2])
    assert ticked(run, 1) == [2]
    # A second one is limited: then the policy's acts, not the person's first.
    run.act(action=[8], priority=10, valid_s=0.025)
    assert ticked(run, 3) == [8, 8, 2]


def test_of_two_policies_the_one_that_acted_last_acts_after_a_takeover() -> None:
    run = run_of()
    run.act(action=[5], priority=5)
    ticked(run, 1)
    run.act(action=[1])
    ticked(run, 1)
    run.act(action=[9], priority=10, valid_s=0.025)
    assert ticked(run, 3) == [9, 9, 1]
    # In one tick, the higher one.
    run.act(action=[9], priority=10, valid_s=0.025)
    run.act(action=[6], priority=5)
    run.act(action=[2])
    assert ticked(run, 3) == [9, 9, 6]


@pytest.mark.parametrize(("no_action", "then"), [("default", -1), ("zero", 0)])
def test_an_action_of_one_tick_does_not_act_after_a_takeover(
    no_action: str, then: int
) -> None:
    run = run_of(no_action=no_action)
    run.act(action=[9], priority=10, valid_s=0.025)
    run.act(action=[2])
    assert ticked(run, 3) == [9, 9, then]
    assert counts(run) == {"applied": 1, "superseded": 1}


def test_a_reset_forgets_what_would_act_after_a_takeover() -> None:
    run = run_of(on_done="reset")
    run.world.episode_length = 2
    run.act(action=[1])
    run.act(action=[9], priority=10, valid_s=0.045)
    # The episode ends after the second tick; the next one begins with the default.
    assert ticked(run, 6) == [9, 9, 9, 9, -1, -1]
    assert counts(run) == {"applied": 1, "expired": 1}
    run.act(action=[2])
    run.act(action=[9], priority=10, valid_s=0.025)
    run.reset(seed=1)
    assert ticked(run, 1) == [-1]


def test_a_lost_agent_gets_the_default_after_a_takeover() -> None:
    run = run_of(agent_timeout_s=0.02)
    run.act(action=[1])
    run.act(action=[9], priority=10, valid_s=1)
    assert ticked(run, 3) == [9, -1, -1]
    assert counts(run) == {"applied": 1, "expired": 1}


def test_after_a_takeover_in_the_elastic_mode_the_policy_acts() -> None:
    run = Run({"mode": "elastic", "period_s": 0.01, "default_action": [-1]})
    run.reset()
    run.act(action=[9], priority=10, valid_s=0.015)
    for number in range(1, 4):
        run.step(number)
    assert [value for _, value in run.world.named("send")] == [-1, 9, 2, 3]


# Sequences.


def test_a_repeat_acts_once() -> None:
    run = run_of()
    first = run.act(action=[1], session="s", sequence=1)
    assert first == {"tick": 1, "now_ns": 0, "sequence": 1, "queued": 1}
    ticked(run, 1)
    again = run.act(action=[1], session="s", sequence=1)
    assert (again["repeated"], again["queued"]) == (True, 0)
    assert counts(run) == {"applied": 1}


def test_a_repeat_is_answered_while_the_clock_is_paused() -> None:
    run = run_of()
    run.act(action=[1], sequence=1)
    run.mode.pause()
    assert run.act(action=[1], sequence=1)["repeated"] is True
    with pytest.raises(Paused):
        run.act(action=[2], sequence=2)
    run.mode.resume()
    assert "repeated" not in run.act(action=[2], sequence=2)


def test_an_overtaken_action_expires() -> None:
    run = run_of()
    run.act(action=[3], session="s", sequence=3)
    late = run.act(action=[2], session="s", sequence=2)
    assert "repeated" not in late
    assert ticked(run, 1) == [3]
    # And its repeat counts no more.
    assert run.act(action=[2], session="s", sequence=2)["repeated"] is True
    assert counts(run) == {"applied": 1, "expired": 1}


def test_a_new_session_starts_at_1() -> None:
    run = run_of()
    run.act(action=[5], session="s", sequence=900)
    assert "repeated" not in run.act(action=[6], session="t", sequence=1)
    # The session of the request, if it names none.
    assert "repeated" not in run.act("caller", action=[7], sequence=1)
    assert run.act("caller", action=[7], sequence=1)["repeated"] is True
    assert ticked(run, 1) == [7]


def test_a_refused_action_may_be_sent_again() -> None:
    run = run_of()
    with pytest.raises(InvalidAction):
        run.act(action="x", sequence=1)
    assert "repeated" not in run.act(action=[1], sequence=1)
    assert counts(run) == {"rejected": 1, "waiting": 1}


def test_sequences_are_kept_in_constant_memory() -> None:
    sequences = Sequences()
    for session in range(200):
        sequences.add(str(session), 1)
    assert len(sequences._sessions) == 64
    for sequence in range(1, 5000):
        sequences.add("long", sequence)
    assert len(sequences._sessions["long"].seen) == 1024
    assert sequences.state_of("long", 1) == "repeated"
    assert sequences.state_of("long", 5000) == "new"


# Refusals.


@pytest.mark.parametrize(
    ("request_", "words", "count"),
    [
        ({"action": [1], "actions": [[1]]}, "has action and actions", 1),
        ({"actions": []}, "actions has 0 items: expected a list", 0),
        ({"actions": 3}, "actions is 3: expected a list", 1),
        (
            {"actions": [[1]] * 1025},
            "has 1025 items: expected a list of 1 to 1024",
            1025,
        ),
        ({"action": [1], "at": 3}, "at is 3: expected with actions", 1),
        ({"action": [1], "blend": 0.5}, "blend is 0.5: expected with actions", 1),
        ({"actions": [[1]], "at": -1}, "at is -1: expected an integer from 0", 1),
        ({"actions": [[1]], "at": 10**9}, "at is 1000000000", 1),
        ({"actions": [[1]], "blend": 1.5}, "blend is 1.5", 1),
        ({"action": [1], "for": "x"}, "for is 'x'", 1),
        (
            {"action": [1], "sequence": 0},
            "sequence is 0: expected an integer from 1",
            1,
        ),
        ({"action": [1], "sequence": True}, "sequence is True", 1),
        ({"action": [1], "session": ""}, "session is ''", 1),
        ({"action": [1], "valid_s": 0}, "valid_s is 0", 1),
        ({"action": [1], "valid_s": float("inf")}, "valid_s is inf", 1),
        ({"action": [1], "valid_s": 10**400}, "valid_s is 1000", 1),
        ({"actions": [[1]], "blend": 10**400}, "blend is 1000", 1),
        ({"action": [1], "priority": 101}, "priority is 101", 1),
        ({"acton": [1]}, "unknown member 'acton'", 0),
        ([1], "the request is [1]: expected an object", 0),
    ],
)
def test_refused(request_: Any, words: str, count: int) -> None:
    run = run_of()
    with pytest.raises(BadParameter) as caught:
        run.mode.act(request_, "", None, True)
    assert words in str(caught.value)
    assert counts(run) == ({"rejected": count} if count else {})


def test_too_many_actions_wait() -> None:
    run = run_of()
    for index in range(4):
        run.act(actions=chunk(*[1.0] * MAX_CHUNK), at=1 + index * MAX_CHUNK)
    with pytest.raises(BadParameter, match="4096 are waiting"):
        run.act(actions=chunk(1.0))
    assert counts(run) == {"waiting": 4096, "rejected": 1}
    # A person can always take over.
    run.act(action=[2], priority=1)
    assert ticked(run, 1) == [2]


def test_only_boxes_are_blended() -> None:
    run = Run(GIVEN | {"default_action": 0}, action_space=Discrete(3))
    run.reset()
    with pytest.raises(BadParameter, match="only actions of a Box can be blended"):
        run.mode.act({"actions": [1], "blend": 0.5}, "", None, False)
    assert run.mode.act({"actions": [1, 2]}, "")["queued"] == 2
