"""The loss report names every value that would arrive changed, before it is sent."""

import enum
from collections import Counter, OrderedDict, defaultdict, namedtuple
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces as gs
from gymnasium.spaces import GraphInstance
from hypothesis import given, settings
from hypothesis import strategies as st

from gym_http_wire.values import UnsupportedValue, binary, losses, typed
from tests.support.values import VALUES_AND_SPACES, assert_same


class Colour(enum.IntEnum):
    RED = 1


class Name(enum.StrEnum):
    ANT = "ant"


class Verbose(int):
    def __str__(self) -> str:
        return "many"


class Shade(enum.Enum):
    DARK = 1


class Grid(gs.Box):
    pass


class Edges(GraphInstance):
    pass


class Bytes(bytes):
    pass


class Number(float):
    pass


class Single(np.float64):
    pass


class Picture(np.ndarray):
    pass


class Foreign:
    """An object like an array of another library."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        if self._array is None:
            raise RuntimeError("on another device")
        return self._array


class Lookalike(str):
    """A string that is equal only to itself."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


Point = namedtuple("Point", "x y")
HERE = "tests.unit.wire.test_loss_report."
TWO = Decimal(2)
ONES = np.ones(2, np.float32)
TWO = Decimal(2)


def objects(*items: Any) -> Any:
    array = np.empty(len(items), object)
    for index, item in enumerate(items):
        array[index] = item
    return array


ENDLESS: dict[str, Any] = {"a": [1]}
ENDLESS["a"] += [ENDLESS, ENDLESS]
DEEP: Any = 1
for _ in range(65):
    DEEP = (DEEP,)


@settings(max_examples=150, deadline=None)
@given(VALUES_AND_SPACES)
def test_values_that_survive_have_no_losses(value: Any) -> None:
    assert losses(value) == []


LOST: list[tuple[Any, Any, str]] = [
    (OrderedDict(b=1, a=2), {"b": 1, "a": 2}, "collections.OrderedDict"),
    (defaultdict(list, a=[1]), {"a": [1]}, "collections.defaultdict"),
    (Counter("aab"), {"a": 2, "b": 1}, "collections.Counter"),
    (Point(1, (2,)), (1, (2,)), "{}Point"),
    (Colour.RED, 1, "{}Colour"),
    (Verbose(2**70), 2**70, "{}Verbose"),
    (Name.ANT, "ant", "{}Name"),
    (Bytes(b"x"), b"x", "{}Bytes"),
    (Number(-0.0), -0.0, "{}Number"),
    (Single(1.5), np.float64(1.5), "{}Single"),
    (np.longlong(1), np.int64(1), "numpy.longlong"),
    (np.ulonglong(1), np.uint64(1), "numpy.ulonglong"),
    (Foreign(ONES), ONES, "{}Foreign"),
    (ONES.view(Picture), ONES, "{}Picture"),
    (Edges(1, 2, 3), GraphInstance(1, 2, 3), "{}Edges"),
    (Grid(0, 1, (2,)), gs.Box(0, 1, (2,)), "{}Grid"),
]


@pytest.mark.parametrize("form", [typed, binary])
@pytest.mark.parametrize(("value", "arrives", "name"), LOST, ids=lambda each: "")
def test_values_that_arrive_changed(
    value: Any, arrives: Any, name: str, form: Any
) -> None:
    assert_same(form.decode(form.encode([value])), [arrives])
    (line,) = losses({"a": [0, value]})
    kind = type(arrives)
    base = kind.__name__ if kind.__module__ == "builtins" else None
    expected = base or f"{kind.__module__}.{kind.__qualname__}"
    answer = name.replace("{}", type(value).__module__ + ".")
    assert line == f'value["a"][1] is a {answer} and arrives as a {expected}'


REFUSED: list[tuple[Any, list[str]]] = [
    (TWO, ["value is of a type that cannot be sent: decimal.Decimal"]),
    (Shade.DARK, ["value is of a type that cannot be sent"]),
    (range(3), ["value is of a type that cannot be sent: range"]),
    ([{1}, bytearray()], ["value[0] is of a type", "value[1] is of a type"]),
    (Foreign(None), ["does not become a NumPy array: on another device"]),
    (Foreign(np.zeros(1, "V2")), ["value is of a dtype that cannot be sent: |V2"]),
    (np.ma.masked_array([1]), ["value is a masked array, whose mask would be lost"]),
    (np.array(["x"], np.dtypes.StringDType()), ["is of a dtype that cannot be sent"]),
    ({(1, frozenset()): 1}, ["value has a key of a type that no key may have"]),
    (objects(1, TWO), ["value[1] is of a type that cannot be sent: decimal.Decimal"]),
    (GraphInstance(1, TWO, None), ["value.edges is of a type"]),
    (ENDLESS, ['value["a"][1] holds itself', 'value["a"][2] holds itself']),
    (DEEP, ["is nested deeper than 64 levels"]),
    (np.zeros((1,) * 33, object), ["value has more than 32 axes"]),
    ({frozenset(): 1, 2: TWO}, ["value has a key of a type", "value[2] is of a type"]),
    (10**4300, ["value is an integer of more than 4300 digits"]),
    ({Lookalike("a"): 1, "a": 2}, ["value has keys that become the same"]),
]


@pytest.mark.parametrize(("value", "expected"), REFUSED, ids=lambda each: "")
def test_values_that_cannot_be_sent(value: Any, expected: list[str]) -> None:
    lines = losses(value)
    assert len(lines) == len(expected)
    for line, part in zip(lines, expected, strict=True):
        assert part in line
    for form in (typed, binary):
        with pytest.raises(UnsupportedValue):
            form.encode(value)


def test_every_place_is_reported() -> None:
    value = {
        "a": OrderedDict(x=[{1}, np.longlong(1)]),
        Name.ANT: (Point(0, Colour.RED), objects(TWO)),
        (Colour.RED, 2): gs.Dict({"g": Grid(0, 1, (2,))}),
    }
    found = [line.partition(" ")[0] for line in losses(value)]
    assert found == [
        'value["ant"]',
        "value[[1,",
        'value["a"]',
        'value["a"]["x"][0]',
        'value["a"]["x"][1]',
        'value["ant"][0]',
        'value["ant"][0][1]',
        'value["ant"][1][0]',
        "value[[1,",
    ]


def test_the_layout_of_an_array_is_no_loss() -> None:
    array = np.arange(6).reshape(2, 3)
    for same in (array.T, array[::-1], np.asfortranarray(array)):
        assert losses({"a": same}) == []


@pytest.mark.parametrize("form", [typed, binary])
def test_subclasses_survive_or_are_reported(form: Any) -> None:
    plain = st.sampled_from([1, "a", Colour.RED, Name.ANT, TWO, ONES, np.longlong(2)])
    values = st.recursive(
        plain,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(st.sampled_from(["a", Name.ANT, Colour.RED, 1]), inner),
            st.dictionaries(st.text(), inner, max_size=3).map(OrderedDict),
            st.builds(Point, inner, inner),
        ),
        max_leaves=6,
    )

    @settings(max_examples=100, deadline=None)
    @given(values)
    def check(value: Any) -> None:
        try:
            received = form.decode(form.encode(value))
            assert_same(received, value)
        except (AssertionError, UnsupportedValue):
            assert losses(value)
        else:
            assert losses(value) == []

    check()
