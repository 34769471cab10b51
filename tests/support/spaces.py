"""Hypothesis strategies for Gymnasium spaces of every kind, and their comparison."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import Space
from gymnasium import spaces as gs
from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

SHAPES = arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
FLOATS = ["float16", "float32", "float64"]
SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
INTEGERS = [*SIGNED, *UNSIGNED]
# Gymnasium draws texts by way of NumPy's strings, which lose NULs at their end.
CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters=["\0"])


@st.composite
def dtypes(draw: st.DrawFn, names: list[str]) -> np.dtype[Any]:
    """Dtypes in both byte orders."""
    dtype = np.dtype(draw(st.sampled_from(names)))
    return draw(st.sampled_from([dtype, dtype.newbyteorder()]))


@st.composite
def hostile_boxes(draw: st.DrawFn) -> gs.Box:
    """Boxes with any bounds of any dtype, infinite ones included."""
    dtype = draw(dtypes([*FLOATS, *INTEGERS, "bool"]))
    shape = draw(SHAPES)
    if dtype.kind == "i" and draw(st.booleans()):
        # Infinite bounds of integers leave no trace but in the masks. Those of an
        # array Gymnasium takes through floats, which do not hold all of 64 bits.
        if dtype.itemsize == 8:
            return gs.Box(-np.inf, np.inf, shape, dtype)
        bounds = st.sampled_from([-np.inf, -3.0, 0.0])
        low = draw(arrays.arrays(np.float64, shape, elements=bounds))
        return gs.Box(low, np.asarray(-low), shape, dtype)
    options = {"allow_nan": False} if dtype.kind == "f" else {}
    elements = arrays.from_dtype(dtype, **options)
    one = draw(arrays.arrays(dtype, shape, elements=elements))
    two = draw(arrays.arrays(dtype, shape, elements=elements))
    # Gymnasium does not accept NumPy's booleans as numbers outside of arrays.
    low, high = np.asarray(np.minimum(one, two)), np.asarray(np.maximum(one, two))
    return gs.Box(low, high, shape, dtype)


@st.composite
def hostile_discretes(draw: st.DrawFn) -> gs.Discrete:
    """Discrete spaces as large as their dtype."""
    dtype = draw(dtypes(INTEGERS))
    limits = np.iinfo(dtype)
    n = draw(st.integers(1, int(limits.max)))
    start = draw(st.integers(int(limits.min), int(limits.max) - n + 1))
    return gs.Discrete(n, start=start, dtype=dtype)


@st.composite
def tame_boxes(draw: st.DrawFn) -> gs.Box:
    """Boxes that sample finite numbers without an overflow in Gymnasium."""
    dtype = np.dtype(draw(st.sampled_from([*FLOATS, *INTEGERS, "bool"])))
    low, high = (0, 1) if dtype.kind == "b" else (draw(st.integers(0, 5)), 120)
    if dtype.kind == "f" and draw(st.booleans()):
        low, high = draw(st.sampled_from([(-np.inf, 1), (-3, np.inf), (-0.1, 0.7)]))
    # Of integers without axes Gymnasium samples a scalar, which is not in the space.
    least_axes = 0 if dtype.kind == "f" else 1
    shape = draw(SHAPES.filter(lambda shape: len(shape) >= least_axes))
    return gs.Box(low, high, shape, dtype)


@st.composite
def multi_discretes(draw: st.DrawFn, least_axes: int = 0) -> gs.MultiDiscrete:
    """MultiDiscrete spaces with any starts."""
    dtype = np.dtype(draw(st.sampled_from(INTEGERS)))
    shape = draw(SHAPES.filter(lambda shape: len(shape) >= least_axes))
    nvec = draw(arrays.arrays(dtype, shape, elements=st.integers(1, 9)))
    least = -9 if dtype.kind == "i" else 0
    start = draw(arrays.arrays(dtype, shape, elements=st.integers(least, 9)))
    return gs.MultiDiscrete(nvec, dtype, start=start)


@st.composite
def texts(draw: st.DrawFn) -> gs.Text:
    """Text spaces whose characters are in any order."""
    charset = draw(st.text(CHARACTERS, min_size=1, max_size=6))
    shortest = draw(st.integers(0, 3))
    longest = draw(st.integers(max(shortest, 1), 6))
    return gs.Text(longest, min_length=shortest, charset=charset)


MULTI_BINARIES = st.one_of(
    st.integers(1, 5), st.lists(st.integers(1, 3), max_size=3)
).map(gs.MultiBinary)


@st.composite
def _dicts(draw: st.DrawFn, inner: st.SearchStrategy[Space[Any]]) -> gs.Dict:
    keys = st.one_of(st.text(CHARACTERS, max_size=5), st.integers(-3, 3))
    names = draw(st.lists(keys, max_size=3, unique_by=str))
    pairs = [(name, draw(inner)) for name in names]
    return gs.Dict(pairs, sort_keys=draw(st.booleans()))


@st.composite
def _batching(draw: st.DrawFn, inner: st.SearchStrategy[Space[Any]]) -> Space[Any]:
    """Spaces for which Gymnasium batches others, as far as it can."""
    kind = draw(st.sampled_from(["stack", "graph", "edgeless"]))
    one, two = draw(inner), draw(inner)
    try:
        if kind == "stack":
            return gs.Sequence(one, stack=True)
        return gs.Graph(one, two if kind == "graph" else None)
    except (ValueError, TypeError, OverflowError, IndexError):
        assume(False)
        raise


def nested(leaves: st.SearchStrategy[Space[Any]]) -> st.SearchStrategy[Space[Any]]:
    """Nest spaces in one another."""
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            _dicts(inner),
            st.lists(inner, max_size=3).map(gs.Tuple),
            st.lists(inner, min_size=1, max_size=3).map(gs.OneOf),
            inner.map(gs.Sequence),
            _batching(inner),
        ),
        max_leaves=5,
    )


HOSTILE = nested(
    st.one_of(
        hostile_boxes(),
        hostile_discretes(),
        MULTI_BINARIES,
        multi_discretes(),
        texts(),
    )
)
TAME = nested(
    st.one_of(
        tame_boxes(),
        st.builds(gs.Discrete, st.integers(1, 9), start=st.integers(-9, 9)),
        st.just(gs.Discrete(5, dtype="int16")),
        MULTI_BINARIES,
        # Gymnasium's samples of a space without axes are not in that space.
        multi_discretes(least_axes=1),
        texts(),
    )
)


def assert_same_space(one: Space[Any], two: Space[Any]) -> None:
    """Check that two spaces are equal, also in what ``==`` does not compare."""
    assert type(one) is type(two)
    assert _facts(one) == _facts(two)
    for left, right in zip(_inner(one), _inner(two), strict=True):
        assert_same_space(left, right)


def assert_same_element(one: object, two: object) -> None:
    """Check that two elements are equal in type, dtype, shape and bytes."""
    assert type(one) is type(two), (one, two)
    if isinstance(one, np.ndarray | np.generic):
        assert _bits(one) == _bits(two), (one, two)
    elif isinstance(one, dict):
        assert one.keys() == two.keys()  # type: ignore[attr-defined]
        for key in one:
            assert_same_element(one[key], two[key])  # type: ignore[index]
    elif isinstance(one, tuple):
        assert len(one) == len(two)  # type: ignore[arg-type]
        for left, right in zip(one, two, strict=True):  # type: ignore[call-overload]
            assert_same_element(left, right)
    else:
        assert one == two


def _bits(value: Any) -> tuple[object, ...]:
    return value.dtype.str, value.shape, value.tobytes()


def _facts(space: Space[Any]) -> object:
    match space:
        case gs.Box():
            parts = (space.low, space.high, space.bounded_below, space.bounded_above)
            return space.dtype.str, space.shape, [_bits(part) for part in parts]
        case gs.Discrete():
            return space.dtype.str, _bits(space.n), _bits(space.start)
        case gs.MultiBinary():
            return type(space.n), space.n, space.shape
        case gs.MultiDiscrete():
            return space.dtype.str, _bits(space.nvec), _bits(space.start)
        case gs.Text():
            return space.min_length, space.max_length, space.character_list
        case gs.Dict():
            return [(type(key), key) for key in space.spaces], space.sort_keys
        case gs.Sequence():
            return space.stack
        case gs.Graph():
            return space.edge_space is None
    return None


def _inner(space: Space[Any]) -> list[Space[Any]]:
    match space:
        case gs.Dict():
            return list(space.spaces.values())
        case gs.Tuple() | gs.OneOf():
            return list(space.spaces)
        case gs.Sequence():
            stacked = [space.stacked_feature_space] if space.stack else []
            return [space.feature_space, *stacked]
        case gs.Graph():
            edges = [space.edge_space, space.batch_edge_space]
            return [
                space.node_space,
                space.batch_node_space,
                *(each for each in edges if each is not None),
            ]
    return []


def array(values: object, dtype: object = np.float32) -> Any:
    """Make an array, by default of float32."""
    return np.array(values, dtype)  # type: ignore[call-overload]


class Custom(gymnasium.Space[Any]):
    """A space of a class that Gymnasium does not have."""
