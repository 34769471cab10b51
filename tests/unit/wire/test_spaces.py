"""Spaces are described as data, and rebuilt from untrusted descriptions."""

import json
import sys
import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces as gs
from hypothesis import given, settings
from hypothesis import strategies as st

from gym_http_wire.space_parsing import MAX_BYTES, BadDescription, parse_space
from gym_http_wire.spaces import UndescribableSpace, describe
from tests.support.spaces import HOSTILE, assert_same_element, assert_same_space
from tests.support.strict_json import parse_strictly

CARTPOLE = {
    "type": "Box",
    "dtype": "float32",
    "shape": [4],
    "low": [-4.8, "-inf", -0.41887903, "-inf"],
    "high": [4.8, "inf", 0.41887903, "inf"],
    "bounded_below": [True, False, True, False],
    "bounded_above": [True, False, True, False],
}

DESCRIPTIONS = [
    (
        gs.Box(0, 255, (2, 3), np.uint8),
        {
            "type": "Box",
            "dtype": "uint8",
            "shape": [2, 3],
            "low": 0,
            "high": 255,
            "bounded_below": True,
            "bounded_above": True,
        },
    ),
    (
        gs.Box(-np.inf, 2**62, (1,), np.int64),
        {
            "type": "Box",
            "dtype": "int64",
            "shape": [1],
            "low": "-9223372036854775808",
            "high": "4611686018427387904",
            "bounded_below": False,
            "bounded_above": True,
        },
    ),
    (
        gs.Discrete(3, start=-1, dtype=np.int8),
        {"type": "Discrete", "n": 3, "start": -1, "dtype": "int8"},
    ),
    (
        gs.Discrete(2**53, start=2**53 + 1),
        {
            "type": "Discrete",
            "n": 9007199254740992,
            "start": "9007199254740993",
            "dtype": "int64",
        },
    ),
    (gs.MultiBinary(5), {"type": "MultiBinary", "n": 5}),
    (gs.MultiBinary([5]), {"type": "MultiBinary", "n": [5]}),
    (
        gs.MultiDiscrete([[2, 3], [4, 5]], start=[[1, 1], [1, 1]]),
        {
            "type": "MultiDiscrete",
            "dtype": "int64",
            "shape": [2, 2],
            "nvec": [2, 3, 4, 5],
            "start": 1,
        },
    ),
    (
        gs.Text(4, min_length=2, charset="zax"),
        {"type": "Text", "min_length": 2, "max_length": 4, "charset": "zax"},
    ),
    (
        gs.Dict([("b", gs.MultiBinary(1)), (1, gs.MultiBinary(2))]),
        {
            "type": "Dict",
            "spaces": [
                ["b", {"type": "MultiBinary", "n": 1}],
                [1, {"type": "MultiBinary", "n": 2}],
            ],
        },
    ),
    (
        gs.Dict([("b", gs.MultiBinary(1)), ("a", gs.MultiBinary(2))]),
        {
            "type": "Dict",
            "spaces": [
                ["b", {"type": "MultiBinary", "n": 1}],
                ["a", {"type": "MultiBinary", "n": 2}],
            ],
        },
    ),
    (
        gs.Dict({"a": gs.MultiBinary(1)}, sort_keys=False),
        {
            "type": "Dict",
            "spaces": [["a", {"type": "MultiBinary", "n": 1}]],
            "sort_keys": False,
        },
    ),
    (gs.Tuple([]), {"type": "Tuple", "spaces": []}),
    (
        gs.OneOf([gs.MultiBinary(1)]),
        {"type": "OneOf", "spaces": [{"type": "MultiBinary", "n": 1}]},
    ),
    (
        gs.Sequence(gs.MultiBinary(1), stack=True),
        {
            "type": "Sequence",
            "space": {"type": "MultiBinary", "n": 1},
            "stack": True,
        },
    ),
    (
        gs.Graph(gs.MultiBinary(1), None),
        {
            "type": "Graph",
            "node_space": {"type": "MultiBinary", "n": 1},
            "edge_space": None,
        },
    ),
]


class Renamed(gs.Discrete):
    def __init__(self) -> None:
        super().__init__(3)


def sampled(space: gymnasium.Space[Any]) -> object:
    """Sample a space, or return Gymnasium's error for bounds it cannot sample."""
    space.seed(7)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return tuple(space.sample() for _ in range(2))
        except (ValueError, OverflowError, TypeError) as error:
            return str(error)


def through_json(description: object) -> Any:
    return parse_strictly(json.dumps(description, allow_nan=False))


@pytest.mark.parametrize(("space", "description"), DESCRIPTIONS)
def test_a_space_is_described_by_the_contract(
    space: gymnasium.Space[Any], description: object
) -> None:
    assert describe(space) == description
    assert_same_space(parse_space(description), space)


def test_float32_bounds_are_their_shortest_decimals() -> None:
    space = gymnasium.make("CartPole-v1").observation_space
    assert json.dumps(describe(space)) == json.dumps(CARTPOLE)


@settings(max_examples=100, deadline=None)
@given(HOSTILE)
def test_a_space_comes_back_through_json_as_it_was(space: gymnasium.Space[Any]) -> None:
    description = through_json(describe(space))
    again = parse_space(description)
    assert again == space
    assert_same_space(again, space)
    # Gymnasium takes seconds to sample a graph of graphs.
    if str(description).count("Graph") < 2:
        assert_same_element(sampled(again), sampled(space))


@settings(deadline=None)
@given(HOSTILE)
def test_a_description_has_plain_types_only(space: gymnasium.Space[Any]) -> None:
    def check(value: object) -> None:
        assert type(value) in {int, float, str, bool, list, dict, type(None)}
        if type(value) is int:
            assert abs(value) <= 2**53
        for inner in value if isinstance(value, list) else ():
            check(inner)
        for inner in value.values() if isinstance(value, dict) else ():
            check(inner)

    check(describe(space))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_largest_floats_come_back(dtype: Any) -> None:
    limit = np.finfo(dtype).max
    tiny = np.finfo(dtype).smallest_subnormal
    low = np.array([-limit, -0.0, tiny, -np.inf], dtype)
    space = gs.Box(low, np.array([limit, 0.0, limit, np.inf], dtype), dtype=dtype)
    assert_same_space(parse_space(through_json(describe(space))), space)


def test_signed_zeros_are_not_taken_for_one_another() -> None:
    space = gs.Box(np.array([0.0, -0.0]), np.ones(2), dtype=np.float64)
    assert json.dumps(describe(space)["low"]) == "[0.0, -0.0]"


def test_nan_in_a_bound_comes_back() -> None:
    space = gs.Box(0, 1, (2,), np.float64)
    space.low = np.array([np.nan, 0.0])
    description = describe(space)
    assert description["low"] == ["nan", 0.0]
    assert np.isnan(parse_space(description).low[0])  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (gs.Box(0, 1, (2,), np.longdouble), "dtype"),
        (gs.Dict([(1.5, gs.Discrete(2))]), "1.5"),  # type: ignore[list-item]
        (gs.Dict([(True, gs.Discrete(2))]), "True"),  # type: ignore[list-item]
        (gs.Dict([(2**60, gs.Discrete(2))]), str(2**60)),  # type: ignore[list-item]
        (gs.Text(2, charset="\ud800"), "Unicode"),
    ],
)
def test_spaces_without_a_description_are_named(
    space: gymnasium.Space[Any], words: str
) -> None:
    with pytest.raises(UndescribableSpace, match=words):
        describe(space)


def test_a_subclass_that_changes_nothing_is_its_base() -> None:
    assert describe(Renamed()) == describe(gs.Discrete(3))


def test_a_space_is_described_down_to_32_levels() -> None:
    space: gymnasium.Space[Any] = gs.Discrete(2)
    for _ in range(31):
        space = gs.Tuple([space])
    description = describe(space)
    assert parse_space(description) == space
    with pytest.raises(UndescribableSpace, match="32"):
        describe(gs.Tuple([space]))
    with pytest.raises(BadDescription, match="32"):
        parse_space({"type": "Tuple", "spaces": [description]})


def test_a_space_that_contains_itself_is_refused() -> None:
    space = gs.Dict()
    space["again"] = space
    with pytest.raises(UndescribableSpace, match="32"):
        describe(space)


@pytest.mark.parametrize(
    ("description", "space"),
    [
        ({"type": "Discrete", "n": 2}, gs.Discrete(2)),
        ({"type": "Discrete", "n": 2.0, "start": "1"}, gs.Discrete(2, start=1)),
        (
            {"type": "Box", "shape": [2], "low": -1, "high": ["inf", 4.8]},
            gs.Box(np.float32([-1, -1]), np.float32([np.inf, 4.8])),
        ),
        ({"type": "MultiDiscrete", "nvec": [2, 3]}, gs.MultiDiscrete([2, 3])),
        ({"type": "Text", "max_length": 3}, gs.Text(3)),
        (
            {"type": "Sequence", "space": {"type": "Discrete", "n": 2}},
            gs.Sequence(gs.Discrete(2)),
        ),
        (
            {"type": "Graph", "node_space": {"type": "Discrete", "n": 2}},
            gs.Graph(gs.Discrete(2), None),
        ),
    ],
)
def test_gymnasiums_defaults_may_be_left_out(
    description: object, space: gymnasium.Space[Any]
) -> None:
    assert_same_space(parse_space(description), space)


def box(**fields: object) -> dict[str, object]:
    base = {"type": "Box", "dtype": "int8", "shape": [2], "low": 0, "high": 1}
    return {**base, **fields}


@pytest.mark.parametrize(
    ("description", "field", "words"),
    [
        (None, "", 'the whole is null, but must be an object with a "type"'),
        ([], "", "object"),
        ({}, "type", "is missing, but.* one of Box, Discrete"),
        ({"type": "Ball"}, "type", '"Ball", but'),
        ({"type": ["Box"]}, "type", "one of"),
        (box(dtype="complex64"), "dtype", '"complex64", but .* int8'),
        (box(dtype="object"), "dtype", "one of"),
        (box(dtype=[]), "dtype", "one of"),
        ({"type": "Discrete", "n": 2, "dtype": "float32"}, "dtype", "one of int8"),
        (box(shape=2), "shape", "is 2, but must.* list"),
        (box(shape=[-1]), "shape", "from 0 on"),
        (box(shape=[1.5]), "shape", "from 0 on"),
        (box(shape=[True]), "shape", "from 0 on"),
        (box(shape=[1] * 33), "shape", "32"),
        (box(shape=[2**40]), "shape", str(MAX_BYTES)),
        (box(shape=[0, 2**62]), "shape", str(MAX_BYTES)),
        (box(shape=[2**32] * 3), "shape", str(MAX_BYTES)),
        (box(shape=["9" * 20]), "shape", "from 0 on"),
        (box(low=[0]), "low", "flat list of 2"),
        (box(low=[[0, 0]]), "low", "flat list of 2"),
        (box(low=[0, 0.5]), "low[1]", "is 0.5, but must.* from -128 to 127"),
        (box(low=[0, -129]), "low[1]", "is -129, but must"),
        (box(high="128"), "high", '"128", but'),
        (box(high="inf"), "high", '"inf", but'),
        (box(high="1e2"), "high", "from -128 to 127"),
        (box(high=True), "high", "from -128 to 127"),
        (box(high=None), "high", "is null, but"),
        (box(low=1, high=0), "low", "above high"),
        (box(dtype="float32", high=1e39), "high", "1e\\+39, but .* 3.4028235e\\+38"),
        (box(dtype="float32", high=10**400), "high", ", but must be an? "),
        (box(dtype="float32", high="infinite"), "high", '"infinite", but'),
        (box(dtype="bool", high=2), "high", "true or false"),
        (box(bounded_below=[True]), "bounded_below", "flat list of 2"),
        (box(bounded_above="yes"), "bounded_above", "true or false"),
        ({"type": "Discrete"}, "n", "is missing, but"),
        ({"type": "Discrete", "n": 0}, "n", "from 1 on"),
        ({"type": "Discrete", "n": 128, "dtype": "int8"}, "n", "is 128, .* 127"),
        ({"type": "Discrete", "n": 1, "start": 2**63}, "start", ", but must be an? "),
        ({"type": "MultiBinary", "n": 2**40}, "n", str(MAX_BYTES)),
        ({"type": "MultiBinary", "n": [2**40]}, "n", str(MAX_BYTES)),
        ({"type": "MultiBinary", "n": 0}, "", "positive"),
        ({"type": "MultiBinary", "n": "x"}, "n", '"x", but'),
        ({"type": "MultiDiscrete", "nvec": [2, 0]}, "nvec", "from 1 on"),
        ({"type": "MultiDiscrete", "nvec": 2}, "shape", "is missing, but"),
        ({"type": "Text", "max_length": 1, "min_length": 2}, "", "min_length"),
        ({"type": "Text", "max_length": 1, "charset": ["a"]}, "charset", "a string"),
        ({"type": "Dict", "spaces": {}}, "spaces", "a list"),
        ({"type": "Dict", "spaces": [["a"]]}, "spaces[0]", "a pair"),
        ({"type": "Dict", "spaces": [[None, {}]]}, "spaces[0][0]", "a string, or"),
        ({"type": "Dict", "spaces": [[True, {}]]}, "spaces[0][0]", "a string, or"),
        ({"type": "Dict", "spaces": [["a", {}]]}, "spaces[0][1].type", "one of"),
        (
            {"type": "Dict", "spaces": [["a", {"type": "MultiBinary", "n": 1}]] * 2},
            "spaces[1][0]",
            "not used before",
        ),
        ({"type": "Dict", "spaces": [], "sort_keys": 1}, "sort_keys", "true or false"),
        ({"type": "Tuple", "spaces": [box(), {}]}, "spaces[1].type", "one of"),
        ({"type": "OneOf", "spaces": []}, "", "Empty"),
        ({"type": "Sequence", "space": None}, "space", "object"),
        ({"type": "Sequence", "space": box(), "stack": 1}, "stack", "true or false"),
        ({"type": "Graph", "node_space": box(high=2.5)}, "node_space.high", "2.5"),
        ({"type": "Graph", "node_space": box(), "edge_space": 1}, "edge_space", "1"),
    ],
)
def test_a_bad_description_is_refused_by_its_field(
    description: object, field: str, words: str
) -> None:
    with pytest.raises(BadDescription, match=words) as caught:
        parse_space(description)
    assert caught.value.field == field
    assert len(str(caught.value)) < 400


def test_the_size_of_all_spaces_together_is_limited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gym_http_wire.space_parsing.fields.MAX_BYTES", 100_000)
    half = box(shape=[10_000])
    with pytest.raises(BadDescription, match="100000") as caught:
        parse_space({"type": "Tuple", "spaces": [half, half, half]})
    assert caught.value.field == "spaces[2].shape"


@pytest.mark.parametrize(
    ("outer", "fields"),
    [
        ({"type": "Sequence", "stack": True}, ["space"]),
        ({"type": "Graph"}, ["node_space"]),
        ({"type": "Graph"}, ["node_space", "edge_space"]),
    ],
)
def test_copies_that_gymnasium_would_make_are_limited(
    outer: dict[str, object], fields: list[str]
) -> None:
    inner: dict[str, object] = {"type": "Discrete", "n": 2}
    for _ in range(12):
        inner = {**outer, **dict.fromkeys(fields, inner)}
    with pytest.raises(BadDescription, match=str(MAX_BYTES)):
        parse_space(inner)


JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-3, 3),
        st.sampled_from([2**31, 2**63, 2**64, 2**200, -(2**63), 1e300, 0.5, -0.0]),
        st.sampled_from(["inf", "nan", "Box", "int8", "float32", "9" * 19, "x", ""]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["type", "n", "spaces"]), inner, max_size=3),
    ),
    max_leaves=6,
)


@settings(max_examples=100, deadline=None)
@given(HOSTILE, st.data())
def test_a_damaged_description_is_refused_or_rebuilt(
    space: gymnasium.Space[Any], data: st.DataObject
) -> None:
    description = through_json(describe(space))
    places: list[tuple[Any, Any]] = []

    def collect(part: Any) -> None:
        pairs = part.items() if isinstance(part, dict) else enumerate(part)
        for key, value in pairs:
            places.append((part, key))
            if isinstance(value, dict | list):
                collect(value)

    collect(description)
    part, key = data.draw(st.sampled_from(places))
    part[key] = data.draw(JSON)
    try:
        rebuilt = parse_space(description)
    except BadDescription:
        return
    assert_same_space(parse_space(through_json(describe(rebuilt))), rebuilt)


def test_a_deep_description_needs_no_deep_stack() -> None:
    description: object = {}
    for _ in range(sys.getrecursionlimit() * 2):
        description = {"type": "Tuple", "spaces": [description]}
    with pytest.raises(BadDescription, match="32"):
        parse_space(description)
