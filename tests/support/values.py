"""Hypothesis strategies for values of every kind, and their comparison."""

import math
import struct
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import GraphInstance
from gymnasium.vector import AutoresetMode
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from gym_http_wire.values import Unsent
from tests.support.spaces import HOSTILE, assert_same_space

SHAPES = arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3)
NUMBERS = ["b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]
NUMBERS += ["c8", "c16"] + ["f16"] * (np.finfo(np.longdouble).nmant == 63)
UNITS = ["", *(f"[{unit}]" for unit in ("Y", "7D", "h", "25s", "ms", "us", "ns", "as"))]
TEXTS = st.text(st.characters(exclude_categories=()), max_size=6)
INTS = st.one_of(
    st.integers(),
    st.sampled_from([2**53, 2**63, 2**64, 10**4299]).flatmap(
        lambda near: st.integers(near - 1, near + 1).flatmap(
            lambda number: st.sampled_from([number, -number])
        )
    ),
)


def _float(bits: int) -> float:
    number: float = struct.unpack("<d", bits.to_bytes(8, "little"))[0]
    return number


FLOATS = st.one_of(
    st.floats(),
    st.integers(0, 2**64 - 1).map(_float),
    # NaNs other than the ordinary one, the signalling ones included.
    st.integers(1, 2**52 - 1).map(lambda payload: _float(0x7FF << 52 | payload)),
    st.sampled_from([-0.0, math.inf, -math.inf, 5e-324, 1e16, 1e22, -1e308]),
)


@st.composite
def dtypes(draw: st.DrawFn) -> np.dtype[Any]:
    """Dtypes of all kinds that can be sent, in both byte orders."""
    name = draw(
        st.one_of(
            st.sampled_from(NUMBERS),
            st.builds("{}{}".format, st.sampled_from("SU"), st.integers(1, 5)),
            st.builds("{}8{}".format, st.sampled_from("mM"), st.sampled_from(UNITS)),
        )
    )
    return np.dtype(draw(st.sampled_from("<>")) + name)


def _content(dtype: np.dtype[Any], count: int) -> st.SearchStrategy[Any]:
    """Any bits that an array of this dtype may contain."""
    if dtype.kind == "b":
        return st.lists(st.booleans(), min_size=count, max_size=count).map(bytes)
    if dtype.kind == "U":
        codec = "utf-32-be" if dtype.str[0] == ">" else "utf-32-le"
        size = count * dtype.itemsize // 4
        characters = st.characters(exclude_categories=())
        return st.text(characters, min_size=size, max_size=size).map(
            lambda text: text.encode(codec, "surrogatepass")
        )
    size = count * dtype.itemsize
    return st.binary(min_size=size, max_size=size)


@st.composite
def plain_arrays(draw: st.DrawFn) -> Any:
    """Arrays of any bits, with any memory layout."""
    dtype, shape = draw(dtypes()), draw(SHAPES)
    content = draw(_content(dtype, math.prod(shape)))
    array = np.ndarray(shape, dtype, content).copy()
    layout = draw(st.sampled_from(["C", "F", "reversed", "gaps", "read-only"]))
    if layout == "F":
        return array.copy(order="F")
    if layout == "reversed":
        return array[tuple(slice(None, None, -1) for _ in shape)] if shape else array
    if layout == "gaps" and shape:
        return np.repeat(array, 2, axis=-1)[..., ::2]
    array.flags.writeable = layout != "read-only"
    return array


@st.composite
def numpy_scalars(draw: st.DrawFn) -> Any:
    """NumPy's scalars, of every type and any bits."""
    if draw(st.integers(0, 5)) == 0:
        return draw(st.one_of(TEXTS.map(np.str_), st.binary(max_size=5).map(np.bytes_)))
    dtype = draw(dtypes()).newbyteorder("=")
    return np.ndarray((), dtype, draw(_content(dtype, 1)))[()]


SCALARS = st.one_of(
    st.none(), st.booleans(), INTS, FLOATS, TEXTS, st.binary(max_size=9)
)
COMPLEX = st.builds(complex, FLOATS, FLOATS)


def _has_hash(value: object) -> bool:
    try:
        hash(value)
    except (TypeError, ValueError):
        return False
    return True


KEYS = st.recursive(
    st.one_of(TEXTS, st.just("$t"), SCALARS, numpy_scalars().filter(_has_hash)),
    lambda inner: st.lists(inner, max_size=2).map(tuple),
    max_leaves=3,
)


@st.composite
def object_arrays(draw: st.DrawFn, inner: st.SearchStrategy[Any]) -> Any:
    """Arrays of any objects."""
    shape = draw(arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=2))
    array = np.empty(shape, object)
    flat = array.reshape(-1)
    for index in range(array.size):
        flat[index] = draw(inner)
    return array if draw(st.booleans()) else array.copy(order="F")


LEAVES = st.one_of(
    SCALARS,
    plain_arrays(),
    numpy_scalars(),
    COMPLEX,
    st.builds(Unsent, TEXTS, TEXTS),
    st.sampled_from(AutoresetMode),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(TEXTS, inner, max_size=3),
        st.dictionaries(KEYS, inner, max_size=3),
        object_arrays(inner),
        st.builds(GraphInstance, inner, inner, inner),
    ),
    max_leaves=8,
)
VALUES_AND_SPACES = st.one_of(
    VALUES, HOSTILE, st.tuples(VALUES, HOSTILE), st.lists(HOSTILE, max_size=2)
)


def assert_same(received: Any, sent: Any) -> None:
    """Check that a value arrived unchanged, to the last bit, and is a new object."""
    assert type(received) is type(sent), (received, sent)
    if isinstance(sent, np.ndarray):
        assert received.dtype.str == sent.dtype.str
        assert received.shape == sent.shape
        assert received.flags.writeable
        assert received.flags.owndata
        assert received.flags.c_contiguous
        assert received is not sent
        if sent.dtype.char == "O":
            assert_same(received.ravel().tolist(), sent.ravel().tolist())
        else:
            assert received.tobytes() == sent.tobytes()
    elif isinstance(sent, np.generic):
        assert received.dtype.str == sent.dtype.str
        assert _bits(received) == _bits(sent)
    elif isinstance(sent, float):
        assert struct.pack("<d", received) == struct.pack("<d", sent)
    elif isinstance(sent, complex):
        assert struct.pack("<2d", received.real, received.imag) == struct.pack(
            "<2d", sent.real, sent.imag
        )
    elif isinstance(sent, list | tuple):
        assert len(received) == len(sent)
        for one, two in zip(received, sent, strict=True):
            assert_same(one, two)
    elif isinstance(sent, dict):
        assert_same(list(received), list(sent))
        assert_same(list(received.values()), list(sent.values()))
    elif isinstance(sent, gymnasium.Space):
        assert_same_space(received, sent)
    else:
        assert received == sent


def _bits(scalar: np.generic) -> object:
    if isinstance(scalar, np.str_):
        return [ord(character) for character in scalar]
    if isinstance(scalar, np.bytes_):
        return bytes(scalar)
    # The last 6 of the 16 bytes of an extended float have no meaning.
    return scalar.tobytes()[: 10 if isinstance(scalar, np.longdouble) else None]
