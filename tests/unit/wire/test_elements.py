"""Actions and masks of thin clients are read as elements of the spaces."""

import json
import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces as gs
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gym_http_server.host.plain_json import dumps, loads
from gym_http_wire.elements import NotAnElement, reader
from gym_http_wire.spaces import UndescribableSpace
from tests.support.envs.opaque_spaces import Even
from tests.support.spaces import TAME, Custom, array, assert_same_element

INF = float("inf")
NAN = float("nan")
PAD = gs.Dict(
    {
        "motors": gs.MultiDiscrete([2, 2, 2]),
        "light": gs.Tuple([gs.Discrete(2), gs.Text(3, charset="abc")]),
    }
)
NUMBERED = gs.Dict([(2, gs.Discrete(2)), ("b", gs.Discrete(2))])
LINKED = gs.Graph(gs.Box(0, 1, (2,)), gs.Discrete(3))


ELEMENTS: list[tuple[gymnasium.Space[Any], object, object]] = [
    (gs.Discrete(2), 1, np.int64(1)),
    (gs.Discrete(2), 1.0, np.int64(1)),
    (gs.Discrete(2), "1", np.int64(1)),
    (gs.Discrete(2), [1], np.int64(1)),
    (gs.Discrete(2), ["0"], np.int64(0)),
    (gs.Discrete(3, start=-1), -1, np.int64(-1)),
    (gs.Discrete(3, start=-1), "-1", np.int64(-1)),
    (gs.Discrete(200, dtype=np.uint8), 199, np.uint8(199)),
    (gs.Discrete(5000), 4999, np.int64(4999)),
    (gs.Discrete(2**63 - 1), 2**63 - 2, np.int64(2**63 - 2)),
    (gs.Discrete(2**63 - 1), str(2**63 - 2), np.int64(2**63 - 2)),
    (gs.Box(-1, 1, (2,)), [0.5, -1], array([0.5, -1])),
    (gs.Box(-1, 1, (2,)), [1.5, -99], array([1.5, -99])),
    (gs.Box(-1, 1, (2,)), [0.1, 3.4028235e38], array([0.1, np.finfo("f4").max])),
    (gs.Box(-1, 1, (2, 2)), [[1, 2], [3, 4]], array([[1, 2], [3, 4]])),
    (gs.Box(-1, 1, (2, 2)), [1, 2, 3, 4.5], array([[1, 2], [3, 4.5]])),
    (gs.Box(-1, 1, (1,)), 0.5, array([0.5])),
    (gs.Box(-1, 1, (1,)), [0.5], array([0.5])),
    (gs.Box(-1, 1, ()), 0.5, array(0.5)),
    (gs.Box(-1, 1, ()), [0.5], array(0.5)),
    (gs.Box(-1, 1, (2, 1)), [[1], [2]], array([[1], [2]])),
    (gs.Box(-1, 1, (2, 1)), [1, 2], array([[1], [2]])),
    (gs.Box(-1, 1, (0, 2)), [], np.zeros((0, 2), np.float32)),
    (gs.Box(-1, 1, (2, 0)), [[], []], np.zeros((2, 0), np.float32)),
    (gs.Box(-1, 1, (40,)), [0.5] * 40, array([0.5] * 40)),
    (gs.Box(0, 1, (1,), np.float16), [65504], array([65504], np.float16)),
    (gs.Box(0, 1, (1,), np.float64), [1.7e308], array([1.7e308], np.float64)),
    (gs.Box(0, 1, (2,), ">f4"), [0.5, 1], array([0.5, 1], ">f4")),
    (gs.Box(0, 1, (1, 1), ">i4"), [[258]], array([[258]], ">i4")),
    (gs.Discrete(9, dtype=">i2"), 7, np.int16(7)),
    (gs.Box(0, 9, (2,), np.uint8), [255, 1.0], array([255, 1], np.uint8)),
    (gs.Box(0, 9, (1,), np.int64), [-(2**63)], array([-(2**63)], np.int64)),
    (gs.Box(0, 9, (1,), np.uint64), [2**64 - 1], array([2**64 - 1], np.uint64)),
    (gs.Box(0, 1, (3,), bool), [True, 0, 1.0], array([1, 0, 1], bool)),
    (gs.MultiBinary(3), [1, False, 1.0], array([1, 0, 1], np.int8)),
    (gs.MultiBinary([2, 1]), [[0], [1]], array([[0], [1]], np.int8)),
    (gs.MultiDiscrete([2, 9], start=[5, -4]), [6, -4], array([6, -4], np.int64)),
    (gs.Text(3, charset="ab"), "ba", "ba"),
    (gs.Text(3, min_length=0, charset="a"), "", ""),
    (NUMBERED, {"b": 1, "2": 0}, {2: np.int64(0), "b": np.int64(1)}),
    (gs.Tuple([gs.Discrete(2), gs.Text(2)]), [1, "a"], (np.int64(1), "a")),
    (gs.Tuple([]), [], ()),
    (gs.Dict(), {}, {}),
    (gs.OneOf([gs.Text(2), gs.Discrete(3)]), [1, 2], (np.int64(1), np.int64(2))),
    (gs.Sequence(gs.Discrete(3)), [2, 0], (np.int64(2), np.int64(0))),
    (gs.Sequence(gs.Discrete(3), stack=True), [2, 0], array([2, 0], np.int64)),
    (gs.Sequence(gs.Box(0, 1, (2,)), stack=True), [], np.zeros((0, 2), np.float32)),
    (
        gs.Sequence(gs.Dict(a=gs.Discrete(3), b=gs.Text(2)), stack=True),
        {"a": [1, 2], "b": ["x", "y"]},
        {"a": array([1, 2], np.int64), "b": ("x", "y")},
    ),
    (
        LINKED,
        {"nodes": [[0, 1], [1, 0]], "edges": [2], "edge_links": [[0, 1]]},
        gs.GraphInstance(
            array([[0, 1], [1, 0]]), array([2], np.int64), array([[0, 1]], np.int32)
        ),
    ),
    (
        gs.Sequence(gs.Tuple([gs.Dict(), gs.Discrete(3)]), stack=True),
        [{}, [1, 2]],
        ({}, array([1, 2], np.int64)),
    ),
    (
        LINKED,
        {"nodes": [[0, 1]]},
        gs.GraphInstance(array([[0, 1]]), None, None),
    ),
]

ZERO_OR_ONE = "but must be an integer from 0 to 1"
REFUSED: list[tuple[gymnasium.Space[Any], object, str]] = [
    (gs.Discrete(2), 2, f"action is 2, {ZERO_OR_ONE}"),
    (gs.Discrete(2), -1, f"action is -1, {ZERO_OR_ONE}"),
    (gs.Discrete(2), 0.5, f"action is 0.5, {ZERO_OR_ONE}"),
    (gs.Discrete(2), NAN, f"action is NaN, {ZERO_OR_ONE}"),
    (gs.Discrete(2), INF, f"action is Infinity, {ZERO_OR_ONE}"),
    (gs.Discrete(2), None, f"action is null, {ZERO_OR_ONE}"),
    (gs.Discrete(2), True, f"action is true, {ZERO_OR_ONE}"),
    (gs.Discrete(2), "left", f'action is "left", {ZERO_OR_ONE}'),
    (gs.Discrete(2), "1.0", f'action is "1.0", {ZERO_OR_ONE}'),
    (gs.Discrete(2), "", f'action is "", {ZERO_OR_ONE}'),
    (gs.Discrete(2), [], f"action is [], {ZERO_OR_ONE}"),
    (gs.Discrete(2), [[1]], f"action is [[1]], {ZERO_OR_ONE}"),
    (gs.Discrete(2), [0, 1], f"action is [0, 1], {ZERO_OR_ONE}"),
    (gs.Discrete(2), {"a": 1}, f'action is {{"a": 1}}, {ZERO_OR_ONE}'),
    (gs.Discrete(2), "9" * 5000, f'action is "{"9" * 76}..., {ZERO_OR_ONE}'),
    (gs.Discrete(2), [7] * 99, f"action is [{'7, ' * 25}7..., {ZERO_OR_ONE}"),
    (
        gs.Discrete(100, start=100, dtype=np.int8),
        128,
        "action is 128, but must be an integer from 100 to 127",
    ),
    (
        gs.Box(-1, 1, (2,)),
        [1],
        "action is [1], but must be an array of shape [2], nested or flat",
    ),
    (
        gs.Box(-1, 1, (2,)),
        1,
        "action is 1, but must be an array of shape [2], nested or flat",
    ),
    (
        gs.Box(-1, 1, (2,)),
        None,
        "action is null, but must be an array of shape [2], nested or flat",
    ),
    (gs.Box(-1, 1, (2,)), [0, None], "action[1] is null, but must be a finite float32"),
    (gs.Box(-1, 1, (2,)), [NAN, 0], "action[0] is NaN, but must be a finite float32"),
    (
        gs.Box(-1, 1, (2,)),
        [0, -INF],
        "action[1] is -Infinity, but must be a finite float32",
    ),
    (
        gs.Box(-1, 1, (2,)),
        [0, 1e39],
        "action[1] is 1e+39, but must be a finite float32",
    ),
    (gs.Box(-1, 1, (2,)), ["1", 0], 'action[0] is "1", but must be a finite float32'),
    (gs.Box(-1, 1, (2,)), [0, True], "action[1] is true, but must be a finite float32"),
    (gs.Box(-1, 1, (2,)), [0, {}], "action[1] is {}, but must be a finite float32"),
    (gs.Box(-1, 1, (2,)), [0, [1]], "action[1] is [1], but must be a finite float32"),
    (gs.Box(-1, 1, (1,)), "1", 'action is "1", but must be a finite float32'),
    (gs.Box(-1, 1, (1,)), None, "action is null, but must be a finite float32"),
    (gs.Box(-1, 1, ()), {}, "action is {}, but must be a finite float32"),
    (
        gs.Box(-1, 1, (2, 2)),
        [[1, 2], [3]],
        "action[1] is [3], but must be a list of 2",
    ),
    (
        gs.Box(-1, 1, (2, 2)),
        [[1, 2], [3, "4"]],
        'action[1][1] is "4", but must be a finite float32',
    ),
    (
        gs.Box(-1, 1, (2, 2)),
        [[[1], 2], [3, 4]],
        "action[0][0] is [1], but must be a finite float32",
    ),
    (
        gs.Box(-1, 1, (40,)),
        [0] * 39 + [NAN],
        "action[39] is NaN, but must be a finite float32",
    ),
    (
        gs.Box(-1, 1, (40,)),
        [10**400] * 40,
        f"action[0] is 1{'0' * 76}..., but must be a finite float32",
    ),
    (
        gs.Box(0, 1, (2,), np.uint8),
        [0, 256],
        "action[1] is 256, but must be an integer from 0 to 255",
    ),
    (
        gs.Box(0, 1, (2,), np.uint8),
        [-1, 0],
        "action[0] is -1, but must be an integer from 0 to 255",
    ),
    (
        gs.Box(0, 1, (2,), np.uint8),
        [0.5, 0],
        "action[0] is 0.5, but must be an integer from 0 to 255",
    ),
    (
        gs.Box(0, 1, (6, 6), np.int8),
        [0] * 35 + [128],
        "action[35] is 128, but must be an integer from -128 to 127",
    ),
    (
        gs.Box(0, 1, (1,), np.int64),
        [1e300],
        "action[0] is 1e+300, but must be an integer from -9223372036854775808 to "
        "9223372036854775807",
    ),
    (
        gs.Box(0, 1, (1,), bool),
        [2],
        "action[0] is 2, but must be true, false or an integer from 0 to 1",
    ),
    (
        gs.MultiBinary(2),
        [0, 2],
        "action[1] is 2, but must be true, false or an integer from 0 to 1",
    ),
    (
        gs.MultiDiscrete([[2, 3]], start=[[1, 1]]),
        [[1, 4]],
        "action[0][1] is 4, but must be an integer from 1 to 3",
    ),
    (
        PAD,
        {"motors": [0, 1, 7], "light": [0, "a"]},
        f'action["motors"][2] is 7, {ZERO_OR_ONE}',
    ),
    (
        PAD,
        {"motors": [0, 1, 0], "light": [0, "z"]},
        'action["light"][1] is "z", but must be a string of 1 to 3 characters of "abc"',
    ),
    (
        PAD,
        {"motors": [0, 1, 0], "light": [0, "aaaa"]},
        'action["light"][1] is "aaaa", but must be a string of 1 to 3 characters of '
        '"abc"',
    ),
    (
        PAD,
        {"motors": [0, 1, 0], "light": [0]},
        'action["light"] is [0], but must be a list of 2',
    ),
    (
        PAD,
        {"motors": [0, 1, 0]},
        'action is {"motors": [0, 1, 0]}, but must be an object with the keys '
        '["light", "motors"]',
    ),
    (
        gs.Dict(a=gs.Discrete(2)),
        {"a": 1, "b": 1},
        'action is {"a": 1, "b": 1}, but must be an object with the keys ["a"]',
    ),
    (
        NUMBERED,
        {2: 1, "b": 1},
        'action is {"2": 1, "b": 1}, but must be an object with the keys ["2", "b"]',
    ),
    (
        gs.OneOf([gs.Discrete(2)]),
        [1, 0],
        "action[0] is 1, but must be an integer from 0 to 0",
    ),
    (gs.OneOf([gs.Discrete(2)]), [0, 2], f"action[1] is 2, {ZERO_OR_ONE}"),
    (
        gs.OneOf([gs.Discrete(2)]),
        [0],
        "action is [0], but must be a list of two: [index, value]",
    ),
    (gs.Sequence(gs.Discrete(2)), [0, 2], f"action[1] is 2, {ZERO_OR_ONE}"),
    (gs.Sequence(gs.Discrete(2)), "01", 'action is "01", but must be a list'),
    (
        gs.Sequence(gs.Tuple([gs.Discrete(2), gs.Discrete(2)]), stack=True),
        [[0, 1], [0]],
        "action is [[0, 1], [0]], but must be of batches of one length",
    ),
    (
        LINKED,
        {"nodes": [[0]]},
        'action["nodes"][0] is [0], but must be an array of shape [2], nested or flat',
    ),
    (
        LINKED,
        {"nodes": [[0, 1]], "edges": [1], "edge_links": [[0, 1]]},
        'action["edge_links"][0][1] is 1, but must be an integer from 0 to 0',
    ),
    (
        LINKED,
        {"nodes": [[0, 1]], "edges": [1], "edge_links": []},
        'action["edge_links"] is [], but must be an array of shape [1, 2], nested or '
        "flat",
    ),
    (
        LINKED,
        {"nodes": [[0, 1]], "edges": [1]},
        'action["edge_links"] is null, but must be an array of shape [1, 2], nested or '
        "flat",
    ),
    (
        LINKED,
        {"nodes": [], "name": "x"},
        'action is {"nodes": [], "name": "x"}, but must be an object of "nodes", '
        '"edges" and "edge_links"',
    ),
    (
        gs.Tuple([gs.Discrete(2)]),
        [0, 0],
        "action is [0, 0], but must be a list of 1",
    ),
    (
        LINKED,
        {"edges": [1]},
        'action is {"edges": [1]}, but must be an object of "nodes", "edges" and '
        '"edge_links"',
    ),
    (
        gs.Graph(gs.Discrete(2), None),
        {"nodes": [0], "edges": [1], "edge_links": [[0, 0]]},
        'action["edges"] is [1], but must be null in a space without edges',
    ),
]


@pytest.mark.parametrize(("space", "value", "element"), ELEMENTS)
def test_elements_in_plain_json_are_read_like_samples(
    space: gymnasium.Space[Any], value: object, element: object
) -> None:
    read = reader(space)(value)
    assert_same_element(read, element)
    # Boxes accept numbers out of bounds, and Gymnasium cannot unstack empty elements.
    if not isinstance(space, gs.Box | gs.Sequence):
        assert read in space


@pytest.mark.parametrize(("space", "value", "words"), REFUSED)
def test_values_outside_the_space_are_refused_with_a_reason(
    space: gymnasium.Space[Any], value: object, words: str
) -> None:
    with pytest.raises(NotAnElement) as caught:
        reader(space)(value)
    assert str(caught.value) == words


def test_a_number_that_python_does_not_write_is_refused() -> None:
    with pytest.raises(NotAnElement, match="action is too long to show"):
        reader(gs.Discrete(2))(10**5000)


def test_the_whole_value_can_be_called_otherwise() -> None:
    with pytest.raises(NotAnElement) as caught:
        reader(PAD)({"motors": [0, 1, 7], "light": [0, "a"]})
    caught.value.root = "value"
    assert str(caught.value).startswith('value["motors"][2] is 7, ')
    assert caught.value.path == ("motors", 2)


@settings(max_examples=100, deadline=None)
@given(TAME, st.integers(0, 2**31))
def test_a_sample_comes_back_from_plain_json(
    space: gymnasium.Space[Any], seed: int
) -> None:
    assume(str(space).count("Graph") < 2)
    space.seed(seed)
    read = reader(space)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sample = space.sample()
    assert_same_element(read(loads(dumps(sample))), sample)


def test_arrays_are_new_and_may_be_written_to() -> None:
    for space in (gs.Box(0, 1, (2,)), gs.Box(0, 1, (2, 1)), gs.MultiDiscrete([2, 2])):
        value = [0, 1]
        one, two = reader(space)(value), reader(space)(value)
        one += 1
        assert two.ravel().tolist() == value == [0, 1]


JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-2, 9),
        st.floats(),
        st.sampled_from([2**63, 10**30, "1", "a", ""]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from("ab12"), inner, max_size=2),
    ),
)


@settings(max_examples=100, deadline=None)
@given(TAME, st.data())
def test_any_value_is_an_element_or_refused(
    space: gymnasium.Space[Any], data: st.DataObject
) -> None:
    assume(str(space).count("Graph") < 2)
    space.seed(1)
    value = data.draw(st.one_of(JSON, st.just(json.loads(dumps(space.sample())))))
    if data.draw(st.booleans()) and isinstance(value, list | dict) and value:
        key = data.draw(
            st.sampled_from(
                sorted(value) if isinstance(value, dict) else range(len(value))
            )
        )
        value[key] = data.draw(JSON)
    try:
        element = reader(space)(value)
    except NotAnElement as error:
        words = str(error)
    else:
        again = reader(space)(loads(dumps(element)))
        assert_same_element(again, element)
        return
    assert words.startswith("action")
    assert len(words) < 2000


def test_a_space_that_plain_json_cannot_describe_is_refused() -> None:
    space = gs.Dict([("1", gs.Discrete(2)), (1, gs.Discrete(2))])  # type: ignore[list-item]
    with pytest.raises(UndescribableSpace):
        reader(space)


@pytest.mark.parametrize(
    ("space", "value", "element"),
    [
        (Custom(), {"a": [1]}, {"a": [1]}),
        # The nearest class of Gymnasium's would read an integer.
        (Even(4), "2", "2"),
        (gs.Tuple([Custom(), gs.Discrete(2)]), [[1], "1"], ([1], np.int64(1))),
        (gs.Sequence(Custom(), stack=False), [1, "x"], (1, "x")),
        (gs.Sequence(Even(4), stack=True), [1, "x"], (1, "x")),
    ],
)
def test_values_of_opaque_spaces_are_not_cast(
    space: gymnasium.Space[Any], value: object, element: object
) -> None:
    assert_same_element(reader(space)(value), element)


def test_a_node_costs_nothing_before_it_is_read() -> None:
    image = gs.Graph(gs.Box(0, 255, (1000, 1000, 3), np.uint8), None)
    with pytest.raises(NotAnElement, match=r'action\["nodes"\]\[0\] is null'):
        reader(image)({"nodes": [None] * 1_000_000})
