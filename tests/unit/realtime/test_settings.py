"""Settings of real time: values, defaults, presets, changes, and refusals by name."""

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Tuple

from gym_http_server.host.realtime.settings import ClockSettings
from gym_http_server.host.realtime.settings_request import read_change, zero_of
from gym_http_server.operations.clocks import REALTIME
from gym_http_server.operations.members import ObjectOf
from gym_http_wire.problems import BadParameter
from tests.support.realtime import BOX, settings_of

ELASTIC = {"mode": "elastic", "hz": 20}
FREE = {"mode": "free_running", "hz": 20}


def change(settings: ClockSettings, given: Any) -> ClockSettings:
    return read_change(given, settings, action_space=BOX, max_hz=1000)


@pytest.mark.parametrize(
    ("limits", "space", "default", "words"),
    [
        ({"clip": True}, Discrete(3), 0, "Discrete(3), and only actions of a Box"),
        ({"rate": 1}, Dict(a=Box(0, 1)), {"a": [0]}, "only actions of a Box"),
        ({"rate": 1}, Tuple([Box(0, 1)]), [[0]], "only actions of a Box"),
        (
            {"clip": True},
            Box(-np.inf, np.inf, (1,)),
            [0],
            "limits.clip is True: expected false, since Box(-inf, inf, (1,), float32) "
            "has no bounds",
        ),
        ({"rate": 1}, Box(0, 9, (1,), np.int64), [0], "has integers"),
    ],
)
def test_limits_that_an_action_space_cannot_have(
    limits: Any, space: Any, default: Any, words: str
) -> None:
    given = FREE | {"default_action": default, "limits": limits}
    with pytest.raises(BadParameter) as caught:
        settings_of(given, action_space=space)
    assert words in str(caught.value)


def test_limits_are_shown_with_their_values() -> None:
    space = Box(-1, 1, (2,))
    given: dict[str, Any] = {"limits": {"clip": True, "rate": [2, 0.5]}}
    shown = settings_of(FREE | given, action_space=space).shown()
    assert shown["limits"] == {"clip": True, "rate": [2, 0.5]}
    assert settings_of(FREE | {"limits": {}}).shown()["limits"] is None
    # Bounds of one side are enough, and so is one rate for all.
    half = Box(np.array([0, -np.inf]), np.array([np.inf, np.inf]), dtype=np.float64)
    given = {"limits": {"clip": True, "rate": 3}}
    shown = settings_of(FREE | given, action_space=half).shown()
    assert shown["limits"] == {"clip": True, "rate": 3}


def test_a_strict_server_has_no_clocks_that_are_not() -> None:
    assert settings_of(FREE | {"strict_actions": False}).strict_actions is False
    with pytest.raises(BadParameter, match="--strict-actions"):
        settings_of(FREE | {"strict_actions": False}, strict_actions=True)
    assert settings_of(FREE, strict_actions=True).strict_actions is True


def test_limits_are_fixed() -> None:
    for name in ("limits", "strict_actions"):
        with pytest.raises(BadParameter, match=f"{name} is fixed"):
            change(settings_of(FREE), {name: None})


def test_documented_defaults() -> None:
    assert settings_of(FREE).shown() == {
        "preset": None,
        "mode": "free_running",
        "hz": 20,
        "period_s": 0.05,
        "capture_s": None,
        "elasticity": None,
        "default_action": [0],
        "no_action": "hold",
        "reset_action": "default",
        "history": {"length": 1, "in_observation": False, "reset": True},
        "on_overrun": "skip",
        "most": None,
        "ticks_per_update": 1,
        "on_done": "wait",
        "episodes": None,
        "agent_timeout_s": None,
        "on_agent_lost": "default",
        "rewards": {"channels": None, "scalar": "sum", "skipped": "sum"},
        "buffer": 64,
        "spin_us": 0,
        "strict_actions": True,
        "limits": None,
    }
    shown = settings_of(ELASTIC).shown()
    assert (shown["capture_s"], shown["elasticity"]) == (0.05, 1)
    assert shown["no_action"] is shown["on_overrun"] is None


def test_defaults_in_documents_are_those_that_hold() -> None:
    shown = settings_of(FREE).shown()
    shown["most"] = settings_of(FREE | {"on_overrun": "catch_up"}).most
    shown["elasticity"] = settings_of(ELASTIC).elasticity
    for name, member in REALTIME.items():
        if isinstance(member.kind, ObjectOf):
            inner = member.kind.members
            found = {each: inner[each].default for each in inner}
            assert shown[name] in (found, None), name
        elif member.default is not None:
            assert shown[name] == member.default, name


@pytest.mark.parametrize(
    ("given", "numerator", "denominator"),
    [
        ({"hz": 30}, 100_000_000, 3),
        ({"hz": 29.97}, 100_000_000_000, 2997),
        ({"hz": 1000.0}, 1_000_000, 1),
        ({"period_s": 0.05}, 50_000_000, 1),
        ({"period_s": 10}, 10_000_000_000, 1),
        ({"hz": 0.1}, 10_000_000_000, 1),
        # As a lossless form has it.
        ({"hz": np.float64(29.97)}, 100_000_000_000, 2997),
    ],
)
def test_a_period_is_the_decimal_fraction_that_was_written(
    given: Any, numerator: int, denominator: int
) -> None:
    settings = settings_of({"mode": "elastic"} | given)
    assert settings.period == (numerator, denominator)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], "realtime is []: expected an object"),
        ({"mode": "elastic"}, "neither hz nor period_s"),
        (ELASTIC | {"period_s": 1}, "hz is 20 and period_s 1: expected one"),
        ({"hz": 20}, "mode is missing: expected 'elastic' or 'free_running'"),
        (
            {"mode": "elastisch", "hz": 20},
            "mode is 'elastisch': expected 'elastic' or 'free_running'; did you mean "
            "'elastic'?",
        ),
        (ELASTIC | {"herz": 1}, "unknown member 'herz'"),
        (ELASTIC | {"on_done": "reset"}, "on_done is 'reset': expected 'wait'"),
        (ELASTIC | {"hz": 1001}, "hz is 1001: expected a number from 0.1 to 1000"),
        (ELASTIC | {"hz": 0.05}, "hz is 0.05"),
        (ELASTIC | {"hz": True}, "hz is True"),
        (ELASTIC | {"hz": float("nan")}, "hz is nan"),
        (ELASTIC | {"hz": "20"}, "hz is '20'"),
        (ELASTIC | {"hz": 10**400}, "hz is 1000"),
        (ELASTIC | {"elasticity": 10**400}, "elasticity is 1000"),
        (
            {"mode": "elastic", "period_s": 10.5},
            "period_s is 10.5: expected seconds from 0.001 to 10 (from 1/--max-hz)",
        ),
        ({"mode": "elastic", "period_s": 0.0009}, "period_s is 0.0009"),
        (ELASTIC | {"capture_s": 11}, "capture_s is 11"),
        (ELASTIC | {"capture_s": -0.1}, "capture_s is -0.1"),
        (ELASTIC | {"elasticity": -1}, "elasticity is -1"),
        (ELASTIC | {"elasticity": 1e9}, "elasticity is 1000000000.0"),
        (ELASTIC | {"on_overrun": "skip"}, "only the mode 'free_running' has"),
        (ELASTIC | {"no_action": "zero"}, "no_action is 'zero' with mode 'elastic'"),
        (FREE | {"capture_s": 0.01}, "only the mode 'elastic' has capture_s"),
        (FREE | {"elasticity": 1}, "only the mode 'elastic' has elasticity"),
        (FREE | {"no_action": "none"}, "no_action is 'none': expected 'hold', "),
        (FREE | {"most": 3}, "most is 3 with on_overrun 'skip'"),
        (FREE | {"on_overrun": "catch_up", "most": 0}, "most is 0"),
        (FREE | {"ticks_per_update": 0}, "ticks_per_update is 0"),
        (FREE | {"episodes": 1.5}, "episodes is 1.5"),
        (FREE | {"buffer": 1025}, "buffer is 1025"),
        (
            FREE | {"spin_us": 1001},
            "spin_us is 1001: expected an integer from 0 to 1000",
        ),
        (FREE | {"agent_timeout_s": 0}, "agent_timeout_s is 0"),
        (FREE | {"on_agent_lost": "kill"}, "on_agent_lost is 'kill'"),
        (FREE | {"reset_action": "zero"}, "reset_action is 'zero'"),
        (FREE | {"history": 3}, "history is 3: expected an object"),
        (FREE | {"strict_actions": "no"}, "strict_actions is 'no': expected true"),
        (FREE | {"limits": 3}, "limits is 3: expected an object"),
        (FREE | {"limits": {"speed": 1}}, "limits has the unknown member 'speed'"),
        (FREE | {"limits": {"clip": 1}}, "limits.clip is 1: expected true or false"),
        (
            FREE | {"limits": {"rate": 0}},
            "limits.rate is 0: expected a number above 0, the change in a second, or "
            "an array of the shape (1,)",
        ),
        (FREE | {"limits": {"rate": [1, 2]}}, "limits.rate is [1, 2]: expected"),
        (FREE | {"limits": {"rate": [[1], 2]}}, "limits.rate is [[1], 2]: expected"),
        (FREE | {"limits": {"rate": "fast"}}, "limits.rate is 'fast'"),
        (FREE | {"limits": {"rate": True}}, "limits.rate is True"),
        (FREE | {"limits": {"rate": float("inf")}}, "limits.rate is inf"),
        (
            FREE | {"limits": {"clip": True}, "strict_actions": False},
            "limits is {'clip': True} with strict_actions False: expected true",
        ),
        (FREE | {"history": {"length": -1}}, "history.length is -1"),
        (FREE | {"history": {"reset": 1}}, "history.reset is 1: expected true"),
        (FREE | {"history": {"size": 1}}, "history has the unknown member 'size'"),
        (FREE | {"rewards": {"channels": []}}, "rewards.channels has 0 items"),
        (
            FREE | {"rewards": {"channels": ["a", "a"]}},
            "rewards.channels is ['a', 'a']",
        ),
        (FREE | {"rewards": {"scalar": "max"}}, "rewards.scalar is 'max'"),
        (
            FREE | {"rewards": {"channels": 3, "scalar": [1, 2]}},
            "rewards.scalar has 2 weights: expected 3",
        ),
        (FREE | {"rewards": {"scalar": [1, "x"]}}, "rewards.scalar[1] is 'x'"),
        (FREE | {"rewards": {"scalar": [10**400]}}, "rewards.scalar[0] is 1000"),
        (FREE | {"rewards": {"skipped": "all"}}, "rewards.skipped is 'all'"),
        (FREE | {"default_action": [1, 2]}, "default_action is [1, 2]"),
        (FREE | {"default_action": [2000]}, "default_action is [2000]: expected"),
        (FREE | {"preset": "tmrl"}, "preset is 'tmrl': expected 'rtgym' or 'myrtle'"),
        (FREE | {"preset": "rtgym"}, "mode is 'free_running' with the preset 'rtgym'"),
    ],
)
def test_refused(given: Any, words: str) -> None:
    with pytest.raises(BadParameter) as caught:
        settings_of(given)
    assert words in str(caught.value)


def test_default_action_of_the_request_the_world_or_zero() -> None:
    given = settings_of(FREE | {"default_action": [3]}, default_action=np.ones(1))
    assert given.default_action == [3]
    assert given.default_action.dtype == np.float64
    assert settings_of(FREE, default_action=np.ones(1)).default_action == [1]
    assert settings_of(FREE).default_action == [0]


@pytest.mark.parametrize("space", [Discrete(2), Box(1, 2), MultiDiscrete([2, 2])])
def test_a_default_action_is_needed_where_zero_is_not_known_to_be_safe(
    space: Any,
) -> None:
    with pytest.raises(BadParameter, match="default_action is missing"):
        settings_of(FREE, action_space=space)


def test_zero_of_spaces() -> None:
    space = Dict({"a": Box(-1, 1, (2,)), "b": Tuple([Discrete(3)])})
    zero = zero_of(space)
    assert zero in space
    assert zero["b"] == (0,)
    assert zero_of(Discrete(3, start=1)) is None
    assert zero_of(Tuple([Box(1, 2)])) is None
    with pytest.raises(BadParameter, match="no_action is 'zero'"):
        settings_of(
            FREE | {"no_action": "zero", "default_action": [1]},
            action_space=Box(1, 2, (1,)),
        )


def test_an_agent_of_a_real_world_times_out_by_default() -> None:
    assert settings_of(FREE, external=True).agent_timeout_ns == 10**9
    assert settings_of(FREE).agent_timeout_ns is None
    silent = settings_of(FREE | {"agent_timeout_s": None}, external=True)
    assert silent.agent_timeout_ns is None
    assert silent.shown()["agent_timeout_s"] is None
    assert settings_of({"preset": "rtgym"}, external=True).agent_timeout_ns is None


def test_presets() -> None:
    rtgym = settings_of({"preset": "rtgym"}).shown()
    assert rtgym["mode"] == "elastic"
    assert (rtgym["period_s"], rtgym["capture_s"], rtgym["elasticity"]) == (
        0.05,
        0.05,
        1,
    )
    assert rtgym["history"] == {"length": 1, "in_observation": True, "reset": True}
    myrtle = settings_of({"preset": "myrtle", "hz": 4}).shown()
    assert (myrtle["mode"], myrtle["hz"]) == ("free_running", 4)
    assert (myrtle["no_action"], myrtle["on_done"]) == ("zero", "reset")
    assert (myrtle["on_overrun"], myrtle["most"]) == ("catch_up", None)
    assert myrtle["rewards"]["skipped"] == "last"


def test_members_beside_a_preset_prevail() -> None:
    given = {"preset": "rtgym", "hz": 100, "history": {"length": 3}}
    shown = settings_of(given).shown()
    assert shown["period_s"] == 0.01
    assert shown["history"] == {"length": 3, "in_observation": True, "reset": True}
    assert settings_of({"preset": "myrtle", "on_overrun": "skip"}).on_overrun == "skip"


def test_changes_at_run_time() -> None:
    settings = settings_of(ELASTIC)
    changed = change(settings, {"hz": 30, "elasticity": 0.5, "default_action": [1]})
    assert changed.period == (100_000_000, 3)
    # Half a period of 33,333,333.3 ns, up to the next integer.
    assert changed.elastic_ns == 16_666_667
    assert changed.default_action == [1]
    assert changed.shown()["capture_s"] == pytest.approx(1 / 30)
    captured = change(changed, {"capture_s": 0.02, "agent_timeout_s": 2})
    assert (captured.capture_ns, captured.agent_timeout_ns) == (20_000_000, 2 * 10**9)
    again = change(captured, {"capture_s": None, "agent_timeout_s": None})
    assert again.capture_ns is again.agent_timeout_ns is None
    nothing = dict.fromkeys(("hz", "period_s", "elasticity", "default_action"))
    for unchanged in (change(captured, nothing), change(captured, {})):
        assert unchanged.shown() == captured.shown()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"mode": "elastic"}, "mode is fixed when an instance is created"),
        ({"buffer": 3}, "buffer is fixed"),
        ({"hertz": 3}, "unknown member 'hertz'"),
        ({"hz": 0}, "hz is 0"),
        ({"hz": 3, "period_s": 1}, "expected one of them"),
        ({"capture_s": 99}, "capture_s is 99"),
        ({"default_action": ["x"]}, 'default_action[0] is "x"'),
        (3, "the change is 3: expected an object"),
    ],
)
def test_changes_refused(given: Any, words: str) -> None:
    with pytest.raises(BadParameter) as caught:
        change(settings_of(ELASTIC), given)
    assert words in str(caught.value)
