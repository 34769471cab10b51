"""Plain JSON is written from Python's values and read into them."""

import dataclasses
import datetime
import enum
import json
import math
import sys
import uuid
from collections import OrderedDict, deque
from decimal import Decimal
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import GraphInstance
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from gym_http_server.host.plain_json import BadJSON, TooDeep, dumps, loads
from tests.support.strict_json import assert_canonical, parse_strictly

INF = float("inf")
NAN = float("nan")


class Color(enum.Enum):
    RED = "red"
    LOST = NAN


class Level(enum.IntEnum):
    HIGH = 3


class Pair(NamedTuple):
    left: object
    right: object


class Exact(float):
    pass


@dataclasses.dataclass
class State:
    speed: object
    steps: int = 1


class Foreign:
    """An array of another library."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array([1.5, NAN])


class Attached(Foreign):
    """An array that must be detached first, as PyTorch's."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise RuntimeError("call detach() first")

    def detach(self) -> "Attached":
        return self

    def cpu(self) -> Foreign:
        return Foreign()


class Broken(Foreign):
    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise RuntimeError

    def __repr__(self) -> str:
        raise RuntimeError


class Named:
    def __repr__(self) -> str:
        return "x" * 300


STEP = {
    "done": False,
    "info": {},
    "observation": np.array([0.1, 3.4028235e38], np.float32),
    "reward": 1.0,
}

WRITTEN: list[tuple[object, str]] = [
    (STEP, '{"done":false,"info":{},"observation":[0.1,3.4028235e+38],"reward":1.0}'),
    (None, "null"),
    (True, "true"),
    (np.bool_(True), "true"),
    (np.array(True), "true"),
    (np.float32(1), "1.0"),
    (np.float32(4.8), "4.8"),
    (np.float64(4.8), "4.8"),
    (np.float16(0.5), "0.5"),
    (np.longdouble(1), "1.0"),
    (np.array([1, INF], np.longdouble), "[1.0,1e+100]"),
    (Exact(2), "2.0"),
    (-0.0, "-0.0"),
    (NAN, "null"),
    (INF, "1e+100"),
    (-INF, "-1e+100"),
    (np.float32(-INF), "-1e+100"),
    (np.float32(NAN), "null"),
    (Exact(NAN), "null"),
    ({"a": NAN, "b": "null", "c": None}, '{"a":null,"b":"null","c":null}'),
    ("null", '"null"'),
    (np.array([NAN, 4.8, INF], np.float32), "[null,4.8,1e+100]"),
    (np.array([[NAN, 1], [-INF, 2]]), "[[null,1.0],[-1e+100,2.0]]"),
    (np.array([NAN, 0.5], np.float16), "[null,0.5]"),
    (np.array(NAN), "null"),
    (np.array(1.5), "1.5"),
    (np.array(7), "7"),
    (np.zeros((0, 2)), "[]"),
    (np.zeros((2, 0)), "[[],[]]"),
    (np.zeros((2, 0, 3)), "[[],[]]"),
    (np.zeros((2, 0), object), "[[],[]]"),
    (np.array([1.5, 2], ">f4"), "[1.5,2.0]"),
    (np.arange(6).reshape(2, 3).T, "[[0,3],[1,4],[2,5]]"),
    (np.broadcast_to(np.float32(1), (2, 2)), "[[1.0,1.0],[1.0,1.0]]"),
    (np.array([1, None, NAN, "a"], object), '[1,null,null,"a"]'),
    (np.array(None), "null"),
    (np.array(["a", "bc"]), '["a","bc"]'),
    (np.array([(1, 0.5)], [("a", int), ("b", float)]), "[[1,0.5]]"),
    (np.ma.masked_array([1.0, 2.0], [False, True]), "[1.0,null]"),  # type: ignore[no-untyped-call]
    (np.ma.masked, "null"),
    (np.array([2**64 - 1], np.uint64), "[18446744073709551615]"),
    (np.longlong(5), "5"),
    (np.str_("a"), '"a"'),
    (np.complex64(1 + 2j), "[1.0,2.0]"),
    (complex(NAN, 1), "[null,1.0]"),
    (np.clongdouble(1), f'"{np.clongdouble(1)!r}"'),
    (np.datetime64("NaT"), "null"),
    (np.timedelta64(3, "s"), '"3 seconds"'),
    (2**64, "18446744073709551616"),
    (-(2**70), "-1180591620717411303424"),
    ((1, (2,)), "[1,[2]]"),
    (Pair(1, None), "[1,null]"),
    (
        GraphInstance(np.zeros((1, 1)), None, None),
        '{"edge_links":null,"edges":null,"nodes":[[0.0]]}',
    ),
    (
        GraphInstance(np.ones(2, int), np.ones(1, int), np.array([[0, 1]], np.int32)),
        '{"edge_links":[[0,1]],"edges":[1],"nodes":[1,1]}',
    ),
    ({3, 1, 2}, "[1,2,3]"),
    (frozenset({"b", 1}), '["b",1]'),
    (deque([1, 2]), "[1,2]"),
    (range(3), "[0,1,2]"),
    (b"ab", '"YWI="'),
    (bytearray(b"ab"), '"YWI="'),
    (memoryview(b"abcd")[::2], '"YWM="'),
    (Color.RED, '"red"'),
    (Color.LOST, "null"),
    (Level.HIGH, "3"),
    ([Level.HIGH, 2**64], "[3,18446744073709551616]"),
    (State(np.float32(0.1)), '{"speed":0.1,"steps":1}'),
    (State(NAN), '{"speed":null,"steps":1}'),
    (State, f'"{State!r}"'),
    (datetime.datetime(2026, 1, 2, 3, 4, 5), '"2026-01-02T03:04:05"'),
    ([datetime.date(2026, 1, 2), None], '["2026-01-02",null]'),
    ([datetime.datetime(2026, 1, 2, 3, 4, 5), None], '["2026-01-02T03:04:05",null]'),
    (datetime.time(3, 4, tzinfo=datetime.UTC), '"03:04:00+00:00"'),
    (uuid.UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
    ([uuid.UUID(int=1), None], '["00000000-0000-0000-0000-000000000001",null]'),
    (Decimal("1.5"), '"Decimal(\'1.5\')"'),
    (OrderedDict(b=1, a=NAN), '{"a":null,"b":1}'),
    (
        {1: "a", None: 1, 2.5: 1, (0, 1): 1, Color.RED: 1, np.int64(3): 1, False: 1},
        '{"(0, 1)":1,"1":"a","2.5":1,"3":1,"false":1,"null":1,"red":1}',
    ),
    ({np.str_("a"): 1}, '{"a":1}'),
    ("\ud800", '"?"'),
    ({"\udcff": "é"}, '{"?":"é"}'),
    (Foreign(), "[1.5,null]"),
    (Attached(), "[1.5,null]"),
    (Broken(), '"<Broken>"'),
    (Named(), f'"{"x" * 200}"'),
]  # fmt: skip


@pytest.mark.parametrize(("value", "text"), WRITTEN)
def test_a_value_is_written_by_the_contract(value: object, text: str) -> None:
    assert dumps(value).decode() == text + "\n"
    assert dumps({"a": [value]}).decode() == f'{{"a":[{text}]}}\n'


@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_a_matrix_ends_at_its_numbers() -> None:
    assert dumps(np.matrix([[1.0, NAN]])) == b"[[1.0,null]]\n"
    assert dumps(np.matrix(["a"])) == b'[["a"]]\n'


def test_an_integer_that_python_does_not_write_counts_as_infinite() -> None:
    assert dumps([10**5000, -(10**5000)]) == b"[1e+100,-1e+100]\n"


def shown(value: Any) -> Any:
    """Write an array's elements in plain JSON by hand."""
    if isinstance(value, list):
        return [shown(inner) for inner in value]
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, float) and math.isinf(value):
        return math.copysign(1e100, value)
    return value


def rounded(value: Any, dtype: np.dtype[Any]) -> Any:
    if isinstance(value, list):
        return [rounded(inner, dtype) for inner in value]
    if isinstance(value, float) and abs(value) != 1e100:
        return dtype.type(value).item()
    return value


NUMBERS = ["bool", "int8", "uint16", "int64", "uint64", "float16", "float32", "float64"]


@settings(deadline=None)
@given(
    arrays.arrays(
        st.sampled_from(NUMBERS).map(np.dtype),
        arrays.array_shapes(min_dims=0, min_side=0, max_dims=3, max_side=4),
    ),
    st.booleans(),
)
def test_an_array_is_what_its_elements_are(array: Any, swapped: bool) -> None:
    expected = shown(array.tolist())
    given_array = array.astype(array.dtype.newbyteorder()) if swapped else array
    text = dumps(given_array).decode()
    assert_canonical(text)
    parsed = parse_strictly(text)
    assert repr(rounded(parsed, array.dtype)) == repr(expected)


VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(),
        st.binary(max_size=5),
        st.complex_numbers(),
        st.datetimes(),
        st.timedeltas(),
        st.decimals(),
        st.uuids(),
        arrays.arrays(arrays.scalar_dtypes(), arrays.array_shapes(min_dims=0)),
        arrays.scalar_dtypes().flatmap(arrays.from_dtype),
        st.functions(),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.frozensets(st.one_of(st.text(max_size=2), st.integers(), st.none())),
        st.dictionaries(
            st.one_of(st.text(max_size=3), st.integers(), st.floats(), st.booleans()),
            inner,
            max_size=4,
        ),
        inner.map(State),
        inner.map(lambda value: Pair(value, value)),
    ),
)


@settings(max_examples=200, deadline=None)
@given(VALUES)
def test_anything_is_written_as_strict_json(value: object) -> None:
    text = dumps({"info": value}).decode()
    assert_canonical(text)
    parse_strictly(text)


def test_every_value_of_a_real_env_is_written() -> None:
    with gymnasium.make(
        "Taxi-v4" if "Taxi-v4" in gymnasium.registry else "Taxi-v3"
    ) as env:
        observation, info = env.reset(seed=1)
    parsed = parse_strictly(dumps({"info": info, "observation": observation}).decode())
    assert parsed["observation"] == int(observation)
    assert parsed["info"]["action_mask"] == info["action_mask"].tolist()


def test_circular_values_are_too_deep() -> None:
    value: list[object] = []
    value.append(value)
    with pytest.raises(TooDeep, match="nested deeper than 128 levels"):
        dumps(value)


def nested(value: object, depth: int) -> object:
    for _ in range(depth):
        value = [value]
    return value


def test_values_of_all_kinds_are_written_down_to_128_levels() -> None:
    assert dumps(nested(NAN, 127)) == b"[" * 127 + b"null" + b"]" * 127 + b"\n"
    with pytest.raises(TooDeep):
        dumps(nested(NAN, 128))


READ: list[tuple[bytes, object]] = [
    (b"null", None),
    (b' {"a": [1, -2.5, "\\u00e9", true, null]} \n', {"a": [1, -2.5, "é", True, None]}),
    (b'"\xf0\x9f\x98\x80 \\ud83d\\ude00"', "\U0001f600 \U0001f600"),
    (b"1", 1),
    (b"1.0", 1.0),
    (b"-0.0", -0.0),
    (b"1e5", 1e5),
    (b"1e-999", 0.0),
    (b"1e308", 1e308),
    (str(2**64).encode(), 2**64),
    (str(2**200).encode(), 2**200),
    (str(-(2**200)).encode(), -(2**200)),
    (b"0." + b"1" * 300, 1 / 9),
    (b"1" * 100 + b".0", float("1" * 100)),
    (b"1" * 100 + b"e-90", float("1" * 100 + "e-90")),
    (b'"' + b"1" * 100 + b'"', "1" * 100),
    (b'"\\"' + b"1" * 100 + b'\\\\"', '"' + "1" * 100 + "\\"),
    (b'"' + b"[" * 100 + b'"', "[" * 100),
    (b'"\\"' + b"{" * 100 + b'"', '"' + "{" * 100),
    (b"[" + b"[]," * 1000 + b"{}]", [*([[]] * 1000), {}]),
    (b"[" * 64 + b"]" * 64, nested([], 63)),
    (b'{"a":' * 64 + b"1" + b"}" * 64, None),
]


@pytest.mark.parametrize(("data", "value"), READ, ids=range(len(READ)))
def test_json_is_read(data: bytes, value: object) -> None:
    read = loads(data)
    expected = json.loads(data) if value is None else value
    assert repr(read) == repr(expected)
    assert read == expected


MALFORMED = "malformed|truncated"
BAD: list[tuple[bytes, str]] = [
    (b"", MALFORMED),
    (b"  ", MALFORMED),
    (b"{", MALFORMED),
    (b"{'a': 1}", MALFORMED),
    (b"[1,]", MALFORMED),
    (b"1 2", MALFORMED),
    (b"01", MALFORMED),
    (b"+1", MALFORMED),
    (b".5", MALFORMED),
    (b"NaN", MALFORMED),
    (b"[Infinity]", MALFORMED),
    (b"-Infinity", MALFORMED),
    (b"1e999", "out of range"),
    (b"-1e999", "out of range"),
    (str(2**200 + 1).encode(), "61 digits"),
    (str(-(2**200) - 1).encode(), "61 digits"),
    (b'["' + b"1" * 100 + b'", ' + b"1" * 70 + b"]", "70 digits"),
    (b"9" * 5000, "out of range"),
    (b"9" * 500 + b".5", "out of range"),
    (b'"\n"', MALFORMED),
    (b'"\\ud800"', MALFORMED),
    (b'"\xff"', "utf-8"),
    (b'{"\xff": 1}', "utf-8"),
    (b'"\xed\xa0\x80"', "utf-8"),
    (b'\xef\xbb\xbf{"a": 1}', MALFORMED),
    ('{"a": 1}'.encode("utf-16"), MALFORMED),
    ('{"a": 1}'.encode("utf-16-le"), MALFORMED),
    ('{"a": 1}'.encode("utf-32"), MALFORMED),
    (b"[" * 65 + b"]" * 65, "deeper than 64"),
    (b'{"a":' * 65 + b"1" + b"}" * 65, "deeper than 64"),
    (b'[{"a":' * 33 + b"1" + b"}]" * 33, "deeper than 64"),
    (b'["[",' * 65 + b"1" + b"]" * 65, "deeper than 64"),
    (b"[" * 900 + b"]" * 900, "deeper than 64"),
    (b"[" * 1_000_000, "deeper than 64"),
    (b'{"a":' * 1_000_000, "deeper than 64"),
    (b"[" * 100_000 + b"]" * 100_000, "deeper than 64"),
]


@pytest.mark.parametrize(("data", "words"), BAD, ids=range(len(BAD)))
def test_invalid_json_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(BadJSON, match=words) as caught:
        loads(data)
    assert 0 < len(str(caught.value)) < 200


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.binary(), st.text().map(str.encode), VALUES.map(dumps)))
def test_any_bytes_are_read_as_the_standard_library_reads_them(data: bytes) -> None:
    try:
        read = loads(data)
    except BadJSON:
        return
    assert repr(read) == repr(json.loads(data))


def test_the_stack_is_left_as_it_was() -> None:
    limit = sys.getrecursionlimit()
    with pytest.raises(BadJSON):
        loads(b"[" * 10_000)
    assert sys.getrecursionlimit() == limit
