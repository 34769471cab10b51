"""Actions that a world may get: elements of its space, within bounds and a rate."""

import warnings
from typing import Any

import msgspec
import numpy as np
import pytest
from gymnasium.spaces import (
    Box,
    Dict,
    Discrete,
    MultiBinary,
    MultiDiscrete,
    Space,
    Tuple,
)

from gym_http_server.host.realtime.limits import ActionCheck
from gym_http_wire.elements import NotAnElement
from gym_http_wire.problems import ExternalAway
from tests.support.envs.opaque_spaces import Even
from tests.support.realtime import MS, Run

FREE = {"mode": "free_running", "period_s": 0.01, "default_action": [0]}
ELASTIC = FREE | {"mode": "elastic"}
NARROW = Box(-0.7, 0.7, (2,), np.float32)
OPEN = Box(-np.inf, np.inf, (1,), np.float32)
BYTES = Box(0, 255, (1,), np.uint8)
NESTED = Dict(arm=NARROW, grip=Discrete(2), rest=Tuple([OPEN, MultiBinary(2)]))
ELEMENT = {
    "arm": np.array([0.7, 0.7]),
    "grip": 1,
    "rest": (np.array([3.0]), np.array([0, 1], np.int8)),
}


def refusal(space: Space[Any], action: Any, *, bounds: bool = True) -> str:
    """Return why an action is refused, or ""."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            ActionCheck(space, bounds=bounds)(action)
        except NotAnElement as error:
            return str(error)
    return ""


@pytest.mark.parametrize(
    ("space", "action"),
    [
        (NARROW, NARROW.high),
        (NARROW, NARROW.low),
        (NARROW, NARROW.high.astype(np.float64)),
        # Gymnasium refuses these: 0.7 is more in float64, and half and double
        # precision cannot be cast.
        (NARROW, np.array([0.7, -0.7])),
        (NARROW, np.array([0.5, 0.25], np.float16)),
        (NARROW, np.array([0, 0])),
        (NARROW, [0.7, -0.7]),
        (Box(-0.7, 0.7, (2,), np.float64), np.array([0.7, -0.7])),
        (Box(-0.7, 0.7, (2,), np.float64), np.array([0.5, -0.5], np.float32)),
        (Box(-2, 2, (), np.float32), np.float64(2)),
        (OPEN, np.array([1e38])),
        (BYTES, np.array([255])),
        (BYTES, np.array([255.0])),
        (Box(-(2**62), 2**62, (1,), np.int64), np.array([2**53 + 1])),
        (Discrete(3, start=-1), 1),
        (Discrete(3), np.int64(2)),
        (MultiDiscrete([3, 4]), np.array([2, 3], np.int32)),
        (MultiBinary(2), np.array([0, 1])),
        (NESTED, ELEMENT),
        (Tuple([Even(6), NARROW]), (4, np.array([0.7, -0.7]))),
    ],
)
def test_legal_actions_pass_in_any_dtype(space: Space[Any], action: Any) -> None:
    assert refusal(space, action) == ""


@pytest.mark.parametrize(
    ("space", "action", "words"),
    [
        (
            NARROW,
            np.float32([0, 1e30]),
            "action[1] is 1e+30, but must be a finite number from -0.7 to 0.7",
        ),
        (NARROW, np.array([0, 0.7001]), "action[1] is 0.7001, but must be"),
        (NARROW, np.array([1e300, 0]), "action[0] is 1e+300, but must be"),
        (NARROW, np.array([np.nan, 0]), "action[0] is NaN, but must be a finite"),
        (
            NARROW,
            np.array([0, -np.inf]),
            "action[1] is -Infinity, but must be a finite",
        ),
        (NARROW, np.zeros(3), "but must be numbers in an array of the shape (2,)"),
        (NARROW, np.zeros((1, 2)), "of the shape (2,)"),
        (NARROW, [[0], [0, 1]], "of the shape (2,)"),
        (NARROW, np.array(["x", "y"]), "of the shape (2,)"),
        (NARROW, np.array([1j, 0]), "of the shape (2,)"),
        (NARROW, None, "of the shape (2,)"),
        (
            OPEN,
            np.array([np.inf]),
            "action[0] is Infinity, but must be a finite number",
        ),
        (OPEN, np.array([1e39]), "action[0] is 1e+39, but must be a finite number"),
        (BYTES, np.array([256]), "action[0] is 256.0, but must be an integer from 0"),
        (BYTES, np.array([1.5]), "action[0] is 1.5, but must be an integer from 0"),
        (BYTES, np.array([np.nan]), "action[0] is NaN, but must be an integer"),
        (Discrete(3), 3, "action is 3, but must be an element of Discrete(3)"),
        (Discrete(3), "x", "but must be an element of Discrete(3)"),
        (
            Tuple([Even(6), NARROW]),
            (3, np.zeros(2)),
            "action[0] is 3, but must be an element of "
            "tests.support.envs.opaque_spaces:Even",
        ),
        (MultiDiscrete([3, 4]), np.array([3, 0]), "an element of MultiDiscrete"),
        (NESTED, {"arm": NARROW.high}, "but must be an object with the keys ['arm'"),
        (
            NESTED,
            ELEMENT | {"rest": (np.array([np.nan]), np.zeros(2, np.int8))},
            'action["rest"][0][0] is NaN, but must be a finite number',
        ),
        (NESTED, ELEMENT | {"rest": (OPEN.low,)}, "but must be a list of 2"),
    ],
)
def test_others_are_refused_with_what_would_be_right(
    space: Space[Any], action: Any, words: str
) -> None:
    assert words in refusal(space, action)


def test_what_is_clipped_need_not_be_within_the_bounds() -> None:
    for space, action in (
        (NARROW, np.array([1e30, -5])),
        (BYTES, np.array([-7])),
    ):
        assert refusal(space, action, bounds=False) == ""
    assert "must be a finite" in refusal(NARROW, np.array([np.nan, 0]), bounds=False)
    assert "must be an integer" in refusal(BYTES, np.array([np.inf]), bounds=False)


# Limits, at 100 Hz. A rate of 100 is 1 in a period.


def run_of(limits: dict[str, Any], **given: Any) -> Run:
    space = Box(-3, 3, (1,), np.float64)
    run = Run(FREE | {"limits": limits} | given, action_space=space)
    run.reset()
    return run


def ticked(run: Run, count: int) -> list[float]:
    """Let some ticks pass; return what the world got in them."""
    run.sleep(count * 10 * MS)
    return [value for _, value in run.world.named("send")[-count:]]


def in_force(run: Run) -> dict[str, Any]:
    action: dict[str, Any] = run.events[-1].value["realtime"]["action"]
    return action


def test_an_action_is_clipped_and_the_update_says_so() -> None:
    run = run_of({"clip": True})
    run.act(action=[9])
    assert ticked(run, 2) == [3, 3]
    assert in_force(run) == {
        "number": 1,
        "priority": 0,
        "value": [3],
        "asked": [9],
        "limited": ["clip"],
    }
    run.act(action=[-2])
    assert ticked(run, 1) == [-2]
    assert in_force(run) == {"number": 2, "priority": 0, "value": [-2]}
    assert run.mode.statistics()["limited"] == 2


def test_an_action_changes_by_the_rate_until_it_is_reached() -> None:
    run = run_of({"rate": 100})
    run.act(action=[2.5])
    assert ticked(run, 4) == [1, 2, 2.5, 2.5]
    assert [
        each.value["realtime"]["action"].get("limited") for each in run.events[1:]
    ] == [["rate"], ["rate"], None, None]
    run.act(action=[-3])
    assert ticked(run, 2) == [1.5, 0.5]
    assert run.mode.statistics()["limited"] == 4
    # With a shorter period, a tick has less time.
    run.mode.change(settings_with_period(run, 0.005))
    run.sleep(5 * MS)
    assert run.world.named("send")[-1][1] == 0


def settings_with_period(run: Run, period_s: float) -> Any:
    return msgspec.structs.replace(run.settings, period=(round(period_s * 1e9), 1))


def test_clip_and_rate_together() -> None:
    run = run_of({"clip": True, "rate": [200]})
    run.act(action=[100])
    assert ticked(run, 2) == [2, 3]
    events = [each.value["realtime"]["action"]["limited"] for each in run.events[1:]]
    assert events == [["clip", "rate"], ["clip"]]


def test_each_element_has_a_rate() -> None:
    space = Box(-3, 3, (2,), np.float32)
    given = FREE | {"default_action": [0, 0], "limits": {"rate": [100, 10]}}
    run = Run(given, action_space=space)
    run.reset()
    run.mode.act({"action": np.array([3.0, 3.0])}, "")
    run.sleep(20 * MS)
    value = in_force(run)["value"]
    assert (value.dtype, value.shape) == (np.float32, (2,))
    assert value == pytest.approx([2, 0.2])


def test_a_late_tick_gets_no_larger_change() -> None:
    run = run_of({"rate": 100})
    run.act(action=[3])
    run.world.durations["capture"] = iter([35 * MS])
    assert ticked(run, 1) == [1]
    # At 45 ms, after the ticks 2 and 3 were skipped; then at 50 ms, 5 ms later.
    run.sleep(0)
    assert run.world.named("send")[-1][1] == 2
    run.until(run.mode.due_ns or 0)
    assert run.world.named("send")[-1][1] == 2.5


def test_ticks_at_once_get_no_more_than_one_change() -> None:
    run = run_of({"rate": 100}, on_overrun="catch_up")
    run.act(action=[3])
    run.world.durations["capture"] = iter([40 * MS])
    # Ticks at 10 ms, and at 50 ms those of 20, 30, 40 and 50 ms.
    run.sleep(50 * MS)
    assert [value for _, value in run.world.named("send")] == [1, 2, 2, 2, 2]


@pytest.mark.parametrize(("reset_action", "first"), [("default", 0), ("last", 2)])
def test_the_first_action_starts_from_that_of_the_reset(
    reset_action: str, first: float
) -> None:
    run = run_of({"rate": 100}, reset_action=reset_action)
    run.act(action=[3])
    assert ticked(run, 2) == [1, 2]
    run.reset(seed=1)
    run.act(action=[-3])
    assert ticked(run, 1) == [first - 1]


def test_default_actions_and_takeovers_change_by_the_rate_too() -> None:
    run = run_of({"rate": 100}, agent_timeout_s=0.035)
    run.act(action=[3])
    run.act(action=[-3], priority=1, valid_s=0.015)
    assert ticked(run, 6) == [-1, 0, 1, 0, 0, 0]
    assert run.mode.statistics()["agent_lost"] == 1


def test_zero_is_approached_by_the_rate() -> None:
    run = run_of({"rate": 100}, no_action="zero")
    run.act(actions=[[3], [3]])
    assert ticked(run, 5) == [1, 2, 1, 0, 0]


def test_a_pause_gives_no_larger_change() -> None:
    run = run_of({"rate": 100})
    run.act(action=[3])
    ticked(run, 1)
    run.mode.pause()
    run.sleep(1000 * MS)
    run.mode.resume()
    assert ticked(run, 1) == [2]


def test_what_the_world_did_not_get_is_no_change() -> None:
    run = run_of({"rate": 100})
    run.act(action=[3])
    run.world.fail_in = {2: ExternalAway("away"), 3: ExternalAway("away")}
    assert ticked(run, 4) == [1, 2, 2, 2]


def test_the_last_action_of_all_is_not_limited() -> None:
    run = run_of({"rate": 100})
    run.act(action=[3])
    ticked(run, 3)
    run.mode.end()
    assert run.world.named("end")[-1][1] == 0


def test_the_history_has_what_the_world_got() -> None:
    run = run_of({"rate": 100}, history={"length": 2, "in_observation": True})
    run.act(action=[3])
    ticked(run, 2)
    assert [each.tolist() for each in run.events[-1].update.history or ()] == [[1], [2]]


def test_an_elastic_world_is_limited() -> None:
    space = Box(-3, 3, (1,), np.float64)
    given = ELASTIC | {"limits": {"clip": True, "rate": 100}, "agent_timeout_s": 0.05}
    run = Run(given, action_space=space)
    run.reset()
    steps = [run.step(9), run.step(9), run.step(-3)]
    assert [value for _, value in run.world.named("send")] == [0, 1, 2, 1]
    assert steps[2].realtime["action"] == {
        "number": 2,
        "priority": 0,
        "value": [2],
        "asked": [9],
        "limited": ["clip", "rate"],
    }
    # No further time step would reach the default action of a silent agent.
    run.sleep(80 * MS)
    assert run.world.named("send")[-1][1] == 0
    run.step(3)
    assert run.world.named("send")[-1][1] == 1
