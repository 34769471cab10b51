"""gym-http-api's description of spaces, extended to all spaces."""

import json
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces as gs
from hypothesis import given, settings

from gym_http_core.legacy import UnknownInfoKey, info, same_as_info
from gym_http_server.host.plain_json import dumps
from tests.support.spaces import HOSTILE
from tests.support.strict_json import parse_strictly

CARTPOLE = gymnasium.make("CartPole-v1").observation_space

INFOS = [
    (gs.Discrete(2), '{"n":2,"name":"Discrete"}'),
    (gs.Discrete(3, start=-1), '{"n":3,"name":"Discrete","start":-1}'),
    (
        CARTPOLE,
        '{"high":[4.8,1e+100,0.41887903,1e+100],'
        '"low":[-4.8,-1e+100,-0.41887903,-1e+100],"name":"Box","shape":[4]}',
    ),
    (
        gs.Box(-1, 1, (1, 2)),
        '{"high":[1.0,1.0],"low":[-1.0,-1.0],"name":"Box","shape":[1,2]}',
    ),
    (
        gs.Box(0, 255, (2,), np.uint8),
        '{"high":[255.0,255.0],"low":[0.0,0.0],"name":"Box","shape":[2]}',
    ),
    (gs.Box(0, 1, (0,)), '{"high":[],"low":[],"name":"Box","shape":[0]}'),
    (gs.Box(0, 1, (), bool), '{"high":[1.0],"low":[0.0],"name":"Box","shape":[]}'),
    (gs.MultiBinary(3), '{"n":3,"name":"MultiBinary"}'),
    (gs.MultiBinary([3]), '{"name":"MultiBinary","shape":[3]}'),
    (gs.MultiDiscrete([2, 3]), '{"name":"MultiDiscrete","nvec":[2,3]}'),
    (gs.MultiDiscrete([[2], [3]]), '{"name":"MultiDiscrete","nvec":[[2],[3]]}'),
    (gs.Text(3), '{"name":"Text"}'),
    (gs.Graph(gs.Discrete(2), None), '{"name":"Graph"}'),
    (
        gs.Tuple([gs.Discrete(2), gs.Text(3)]),
        '{"name":"Tuple","spaces":[{"n":2,"name":"Discrete"},{"name":"Text"}]}',
    ),
    (
        gs.Dict([("b", gs.Discrete(2)), (1, gs.Tuple([]))]),
        '{"name":"Dict","spaces":{"1":{"name":"Tuple","spaces":[]},'
        '"b":{"n":2,"name":"Discrete"}}}',
    ),
]


class Lights(gymnasium.Space[Any]):
    pass


class Buttons(gs.Discrete):
    pass


@pytest.mark.parametrize(("space", "text"), INFOS)
def test_the_info_is_byte_for_byte_that_of_the_original(
    space: gymnasium.Space[Any], text: str
) -> None:
    assert dumps(info(space)) == text.encode() + b"\n"


def test_a_custom_space_has_a_name_only() -> None:
    assert info(Lights()) == {"name": "Lights"}


def test_a_subclass_goes_by_the_name_that_clients_know() -> None:
    assert info(Buttons(2)) == {"name": "Discrete", "n": 2}


def test_nan_bounds_are_null() -> None:
    space = gs.Box(0, 1, (2,))
    space.low = np.array([np.nan, 0], np.float32)
    assert info(space)["low"] == [None, 0.0]


@settings(deadline=None)
@given(HOSTILE)
def test_an_info_is_the_same_as_itself(space: gymnasium.Space[Any]) -> None:
    text = json.dumps(info(space), allow_nan=False)
    assert same_as_info(space, parse_strictly(text))
    assert parse_strictly(dumps(info(space)).decode()) == parse_strictly(text)


@pytest.mark.parametrize(
    "candidate",
    [
        {},
        {"name": "Box"},
        {"shape": [4]},
        {"shape": [4.0]},
        {"low": [-4.800000190734863, -1e100, -0.418879032135009766, -1e100]},
        {"high": [4.8, 1e100, 0.41887903, 1e100], "name": "Box"},
    ],
)
def test_assumptions_of_clients_that_hold(candidate: dict[str, object]) -> None:
    assert same_as_info(CARTPOLE, candidate)


@pytest.mark.parametrize(
    "candidate",
    [
        {"name": "box"},
        {"name": None},
        {"shape": 4},
        {"shape": [4, 1]},
        {"shape": [True]},
        {"shape": ["4"]},
        {"shape": {"0": 4}},
        {"low": [-4.8, -1e100, -0.41887903]},
        {"low": [-4.8001, -1e100, -0.41887903, -1e100]},
        {"low": [-4.8, -3.4028235e38, -0.41887903, -3.4028235e38]},
        {"low": ["-4.8", -1e100, -0.41887903, -1e100]},
        {"high": [4.8, -1e100, 0.41887903, 1e100]},
        {"high": [10**500, -(10**500), 0.41887903, 1e100]},
        {"name": "Box", "shape": [5]},
    ],
)
def test_assumptions_of_clients_that_do_not_hold(candidate: dict[str, object]) -> None:
    assert not same_as_info(CARTPOLE, candidate)


def test_integers_are_compared_exactly() -> None:
    assert not same_as_info(gs.Discrete(2**24 + 1), {"n": 2**24})
    assert not same_as_info(gs.Discrete(1), {"n": True})


def test_spaces_within_spaces_are_compared() -> None:
    space = gs.Dict(a=gs.Tuple([gs.Discrete(2)]))
    inner = {"name": "Tuple", "spaces": [{"name": "Discrete", "n": 2}]}
    assert same_as_info(space, {"name": "Dict", "spaces": {"a": inner}})
    assert not same_as_info(space, {"spaces": {"b": inner}})
    assert not same_as_info(space, {"spaces": [inner]})
    inner["spaces"] = [{"name": "Discrete", "n": 3}]
    assert not same_as_info(space, {"spaces": {"a": inner}})


@pytest.mark.parametrize("candidate", [{"n": 2}, {"name": "Tuple", "n": 2}])
def test_an_unknown_key_is_named_with_those_known(candidate: dict[str, object]) -> None:
    with pytest.raises(UnknownInfoKey) as caught:
        same_as_info(CARTPOLE, candidate)
    assert isinstance(caught.value, KeyError)
    assert caught.value.key == "n"
    assert (
        str(caught.value)
        == "The space has no 'n'; what it has is high, low, name, shape"
    )
