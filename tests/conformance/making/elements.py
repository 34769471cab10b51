"""Values that are or are not elements of spaces, and the elements in plain JSON."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.spaces import GraphInstance

from tests.conformance.making import Case
from tests.conformance.making.describing import described
from tests.conformance.making.forms import compact
from tests.conformance.making.models import model_of

DESCRIPTION = "Elements of spaces, as values and in plain JSON, and what is no element"

_BOX = spaces.Box(-1, 1, (2,))
_WIDE = spaces.Box(-np.inf, np.inf, (4,))
_DISCRETE = spaces.Discrete(3)
_START = spaces.Discrete(3, start=-1)
_BITS = spaces.MultiBinary(3)
_GRID = spaces.MultiBinary([2, 2])
_MANY = spaces.MultiDiscrete([5, 2], start=[0, -1])
_TEXT = spaces.Text(3, charset="ab\u73af\U0001f600")
_DICT = spaces.Dict({"b": _DISCRETE, "a": _BOX})
_TUPLE = spaces.Tuple([_DISCRETE, _BOX, _TEXT])
_ONE_OF = spaces.OneOf([_DISCRETE, _BOX])
_SEQUENCE = spaces.Sequence(_DISCRETE)
_STACKED = spaces.Sequence(_BOX, stack=True)
_GRAPH = spaces.Graph(_BOX, _DISCRETE)
_BARE = spaces.Graph(_DISCRETE, None)
_ONES = np.ones(2, "f4")


def cases() -> Iterator[Case]:
    """Yield all cases."""
    for name, space, value, plain in _members():
        text = None if plain is None else compact(plain)
        yield {**_case(name, space, value), "plain": text, "member": True}
    for name, space, value in _others():
        yield {**_case(f"no-{name}", space, value), "member": False}


def _case(name: str, space: Any, value: Any) -> Case:
    return {"id": name, "space": described(space), "value": model_of(value)}


def _f4(*numbers: float) -> Any:
    return np.array(numbers, "f4")


def _members() -> Iterator[tuple[str, Any, Any, Any]]:
    """Yield elements and their plain JSON, or None if plain JSON has no form."""
    yield from _of_boxes()
    yield from _of_discretes()
    yield from _of_others()


def _of_boxes() -> Iterator[tuple[str, Any, Any, Any]]:
    yield "box", _BOX, _f4(0.5, -0.25), [0.5, -0.25]
    yield "box-shortest-f4", _BOX, _f4(0.1, -0.7), [0.1, -0.7]
    yield "box-bounds", _BOX, _f4(-1, 1), [-1.0, 1.0]
    yield "box-minus-0", _BOX, _f4(-0.0, 0.0), [-0.0, 0.0]
    numbers = [1e-45, 3.4028235e38, -4.8, 16777216.0]
    yield "box-limits-f4", _WIDE, _f4(*numbers), numbers
    yield "box-inf", _WIDE, _f4(np.inf, -np.inf, 0, 0), None
    f8 = spaces.Box(-10, 10, (2,), "f8")
    exact = [0.1, 0.30000000000000004]
    yield "box-f8", f8, np.array(exact), exact
    yield "box-f8-subnormal", f8, np.array([5e-324, -0.0]), [5e-324, -0.0]
    half = spaces.Box(-100, 100, (3,), "f2")
    yield "box-f2", half, np.array([0.1, 6e-8, -100], "f2"), [0.1, 6e-8, -100.0]
    grid = spaces.Box(0, 255, (2, 2, 3), "u1")
    picture = np.arange(12, dtype="u1").reshape(2, 2, 3)
    yield "box-picture", grid, picture, picture.tolist()
    large = spaces.Box(-(2**62), 2**62, (2,), "i8")
    beyond = [2**53 + 1, -(2**62)]
    yield "box-i8-beyond-2-53", large, np.array(beyond), beyond
    for name in ("i1", "i2", "i4", "u2", "u4", "u8"):
        space = spaces.Box(0, 100, (2,), name)
        yield f"box-{name}", space, np.array([0, 100], name), [0, 100]
    flags = spaces.Box(0, 1, (2,), "bool")
    yield "box-bool", flags, np.array([True, False]), [True, False]
    # Bounds are written by their shortest decimal, and are what that is in float32.
    low, high = np.float32(-4.8), np.float32(3.4028235e38)
    shortest = spaces.Box(low, high, (2,))
    yield "box-at-bounds-f4", shortest, np.array([low, high]), [-4.8, 3.4028235e38]
    low, high = np.float16(-0.1), np.float16(0.1)
    half = spaces.Box(low, high, (2,), "f2")
    yield "box-at-bounds-f2", half, np.array([low, high]), [-0.1, 0.1]
    full = spaces.Box(0, 2**64 - 1, (1,), "u8")
    yield "box-u8-largest", full, np.array([2**64 - 1], "u8"), [2**64 - 1]
    full = spaces.Box(-(2**63), 2**63 - 1, (2,), "i8")
    ends = [-(2**63), 2**63 - 1]
    yield "box-i8-ends", full, np.array(ends), ends
    yield "box-no-axes", spaces.Box(-1, 1, ()), np.array(0.5, "f4"), 0.5
    yield "box-1", spaces.Box(-2, 2, (1,)), _f4(1.5), [1.5]
    empty = np.zeros((0, 2), "f4")
    yield "box-size-0", spaces.Box(-1, 1, (0, 2)), empty, []
    inside = np.zeros((2, 0), "f4")
    yield "box-size-0-inside", spaces.Box(-1, 1, (2, 0)), inside, [[], []]
    each = spaces.Box(_f4(-1, 0, -np.inf), _f4(1, np.inf, 3))
    yield "box-bounds-for-each", each, _f4(-1, 1e30, -1e30), [-1.0, 1e30, -1e30]


def _of_discretes() -> Iterator[tuple[str, Any, Any, Any]]:
    yield "discrete-0", _DISCRETE, 0, 0
    yield "discrete-last", _DISCRETE, 2, 2
    yield "discrete-scalar-i1", _DISCRETE, np.int8(2), 2
    yield "discrete-scalar", _DISCRETE, np.int64(1), 1
    yield "discrete-start-first", _START, -1, -1
    yield "discrete-start-last", _START, 1, 1
    yield "discrete-large", spaces.Discrete(2**62), 2**53 + 1, 2**53 + 1
    yield "multi-binary", _BITS, np.array([1, 0, 1], "i1"), [1, 0, 1]
    yield "multi-binary-2x2", _GRID, np.eye(2, dtype="i1"), [[1, 0], [0, 1]]
    yield "multi-discrete", _MANY, np.array([4, -1]), [4, -1]
    square = spaces.MultiDiscrete([[2, 3], [4, 5]])
    yield "multi-discrete-2x2", square, np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]
    narrow = spaces.MultiDiscrete([2, 3], dtype=np.int32)
    yield "multi-discrete-int32", narrow, np.array([1, 2], "i4"), [1, 2]


def _of_others() -> Iterator[tuple[str, Any, Any, Any]]:
    yield "text", _TEXT, "ab", "ab"
    # Characters are counted, not the units or bytes of an encoding.
    yield "text-beyond-bmp", _TEXT, "\U0001f600" * 3, "\U0001f600" * 3
    yield "text-empty", spaces.Text(2, min_length=0, charset="x"), "", ""
    odd = spaces.Text(4, charset='"\\\n\x00')
    yield "text-odd-charset", odd, '"\\\n\x00', '"\\\n\x00'
    yield "dict", _DICT, {"a": _f4(0, 1), "b": 2}, {"a": [0.0, 1.0], "b": 2}
    yield "dict-empty", spaces.Dict({}), {}, {}
    ints = spaces.Dict({0: _DISCRETE, 1: _DISCRETE})
    yield "dict-keys-int", ints, {0: 1, 1: 2}, {"0": 1, "1": 2}
    inner = spaces.Dict({"x": _DICT, "y": _TUPLE})
    value = {"x": {"a": _ONES, "b": 0}, "y": (1, _ONES, "a")}
    plain = {"x": {"a": [1.0, 1.0], "b": 0}, "y": [1, [1.0, 1.0], "a"]}
    yield "dict-nested", inner, value, plain
    yield "tuple", _TUPLE, (1, _ONES, "ba"), [1, [1.0, 1.0], "ba"]
    yield "tuple-empty", spaces.Tuple([]), (), []
    yield "one-of-first", _ONE_OF, (0, 2), [0, 2]
    yield "one-of-second", _ONE_OF, (1, _f4(0.5, 0)), [1, [0.5, 0.0]]
    yield "sequence", _SEQUENCE, (0, 2, 1), [0, 2, 1]
    yield "sequence-empty", _SEQUENCE, (), []
    rows = np.array([[0, 0.5], [1, -1], [0.25, 0]], "f4")
    yield "sequence-stacked-empty", _STACKED, np.zeros((0, 2), "f4"), []
    yield "sequence-stacked", _STACKED, rows, rows.tolist()
    links = np.array([[0, 1], [1, 0]], "i4")
    graph = GraphInstance(rows[:2], np.array([2, 0]), links)
    plain = {"nodes": rows[:2].tolist(), "edges": [2, 0], "edge_links": links.tolist()}
    yield "graph", _GRAPH, graph, plain
    nodes = GraphInstance(np.array([0, 2]), None, None)
    plain = {"nodes": [0, 2], "edges": None, "edge_links": None}
    yield "graph-without-edges", _BARE, nodes, plain


def _others() -> Iterator[tuple[str, Any, Any]]:
    yield "box-above", _BOX, _f4(0, 1.5)
    low, high = np.float32(-4.8), np.float32(4.8)
    above = np.nextafter(high, np.float32(5))
    yield "box-just-above-f4", spaces.Box(low, high, (1,)), np.array([above])
    yield "box-below", _BOX, _f4(-1.0000001, 0)
    yield "box-nan", _BOX, _f4(0, np.nan)
    yield "box-nan-unbounded", _WIDE, _f4(0, 0, np.nan, 0)
    yield "box-inf", _BOX, _f4(0, np.inf)
    yield "box-too-long", _BOX, _f4(0, 0, 0)
    yield "box-too-short", _BOX, _f4(0)
    yield "box-more-axes", _BOX, np.zeros((1, 2), "f4")
    yield "box-flat", spaces.Box(-1, 1, (2, 2)), np.zeros(4, "f4")
    yield "box-f8-for-f4", _BOX, np.zeros(2, "f8")
    yield "box-f4-for-u1", spaces.Box(0, 255, (2,), "u1"), np.zeros(2, "f4")
    yield "box-none", _BOX, None
    yield "box-string", _BOX, "00"
    yield "box-dict", _BOX, {}
    each = spaces.Box(_f4(-1, 0), _f4(1, np.inf))
    yield "box-bounds-for-each", each, _f4(0, -0.5)
    yield "discrete-n", _DISCRETE, 3
    yield "discrete-negative", _DISCRETE, -1
    yield "discrete-below-start", _START, -2
    yield "discrete-above-start", _START, 2
    yield "discrete-fraction", _DISCRETE, 1.5
    yield "discrete-none", _DISCRETE, None
    yield "discrete-string", _DISCRETE, "1"
    yield "discrete-list", _DISCRETE, [1]
    yield "discrete-beyond-2-63", _DISCRETE, 2**64
    yield "multi-binary-2", _BITS, np.array([1, 0, 2], "i1")
    yield "multi-binary-negative", _BITS, np.array([1, 0, -1], "i1")
    yield "multi-binary-shape", _BITS, np.array([1, 0], "i1")
    yield "multi-discrete-n", _MANY, np.array([5, 0])
    yield "multi-discrete-start", _MANY, np.array([0, 1])
    yield "multi-discrete-shape", _MANY, np.array([0, 0, 0])
    yield "text-charset", _TEXT, "abc"
    yield "text-long", _TEXT, "abab"
    yield "text-lone-surrogate", _TEXT, "\ud83d"
    yield "text-beyond-bmp-long", _TEXT, "\U0001f600" * 4
    yield "text-short", spaces.Text(4, min_length=2, charset="ab"), "a"
    yield "text-number", _TEXT, 1
    yield "text-none", _TEXT, None
    yield "dict-missing", _DICT, {"a": _ONES}
    yield "dict-more", _DICT, {"a": _ONES, "b": 0, "c": 0}
    yield "dict-wrong-inside", _DICT, {"a": _ONES, "b": 3}
    yield "dict-none", _DICT, None
    yield "dict-list", _DICT, [_ONES, 0]
    yield "tuple-short", _TUPLE, (1, _ONES)
    yield "tuple-long", _TUPLE, (1, _ONES, "a", 0)
    yield "tuple-wrong-inside", _TUPLE, (1, _ONES, "c")
    yield "tuple-none-inside", _TUPLE, (1, _ONES, None)
    yield "one-of-index-negative", _ONE_OF, (-1, _ONES)
    yield "one-of-index", _ONE_OF, (2, 0)
    yield "one-of-wrong-inside", _ONE_OF, (0, 3)
    yield "one-of-other", _ONE_OF, (0, _ONES)
    yield "one-of-without-index", _ONE_OF, 0
    yield "sequence-wrong-inside", _SEQUENCE, (0, 3)
    yield "sequence-none-inside", _SEQUENCE, (0, None)
    yield "sequence-number", _SEQUENCE, 0
    yield "sequence-stacked-outside", _STACKED, np.full((1, 2), 2, "f4")
    yield "sequence-stacked-shape", _STACKED, np.zeros((2, 3), "f4")
    yield "graph-none", _GRAPH, None
    yield "graph-link-to-nowhere", _GRAPH, _graph([[0, 2]])
    yield "graph-link-negative", _GRAPH, _graph([[-1, 0]])
    yield "graph-links-missing", _GRAPH, _graph([[0, 1], [1, 0]])


def _graph(links: list[list[int]]) -> GraphInstance:
    """Return a graph with two nodes and one edge."""
    nodes, edges = np.zeros((2, 2), "f4"), np.array([0])
    return GraphInstance(nodes, edges, np.array(links, "i4"))


def plain_of(case: Case) -> Any:
    """Read the plain JSON of a case."""
    return json.loads(case["plain"])
