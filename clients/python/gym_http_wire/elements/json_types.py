"""JSON types: types for `msgspec` that only elements of a space fit.

A decoder checks lengths, kinds and bounds by such a type while it parses, which is
faster than examining parsed values. Only JSON in the very form of the space's samples
fits; the readers accept more, and raise with the reason.

Gain: without them a step of an external environment takes 1.53 times as long
(``external_p50``; measure with ``python -m benchmarks --without json-types``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import singledispatch
from itertools import chain
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
from gymnasium import Space
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete

from gym_http_wire.elements.arrays import limits_of
from gym_http_wire.elements.membership import membership
from gym_http_wire.elements.readers import reader
from gym_http_wire.spaces import Array

__all__ = ["LARGEST", "JSONType", "json_type"]

#: Format codes of `struct`, by kind and size of a number.
_CODES = {
    ("i", 1): "b",
    ("u", 1): "B",
    ("i", 2): "h",
    ("u", 2): "H",
    ("i", 4): "i",
    ("u", 4): "I",
    ("i", 8): "q",
    ("u", 8): "Q",
}
_INT64 = np.iinfo(np.int64)
#: A larger number may be an integer that JSON parsers turned into a float.
LARGEST = 2.0**200


class JSONType(NamedTuple):
    """The JSON type of a space.

    Attributes:
        type: A type for `msgspec`.
        make: Converts the decoded JSON to an element; raises `ValueError` if it is not
            an element.
        format: Format of an element on streams, for `struct`.
        like: A value of the elements' type, shape and dtype.
        leaves: Converts the decoded JSON to arguments for the format; raises
            `ValueError` if it is not an element.
    """

    type: Any
    make: Callable[[Any], Any]
    format: str
    like: Any
    leaves: Callable[[Any], Iterable[Any]]


@singledispatch
def json_type(space: Space[Any]) -> JSONType | None:
    """Return the JSON type of a space; ``None`` if there is none for its elements."""
    return None


@json_type.register
def _discrete(space: Discrete) -> JSONType | None:
    first = int(space.start)
    # Some spaces claim more elements than their dtype can hold.
    last = min(first + int(space.n) - 1, int(np.iinfo(space.dtype).max))
    kind = _integer(first, last)
    if kind is None:
        return None
    make = reader(space)
    like = make(first)
    return JSONType(kind, make, _format_of(like), like, lambda value: (value,))


@json_type.register
def _box(space: Box) -> JSONType | None:
    if space.dtype.kind == "f":
        least, most = map(float, limits_of(space.dtype))
        least, most = max(least, -LARGEST), min(most, LARGEST)
        # Bounds are those of the element, which is rounded.
        number = Annotated[float, msgspec.Meta(ge=least, le=most)]
        return _array(space, number, exact=False)
    if space.dtype.kind not in "iu":
        return None
    return _integers(space, space.low, space.high)


@json_type.register
def _multi_binary(space: MultiBinary) -> JSONType | None:
    return _array(space, _integer(0, 1), exact=True)


@json_type.register
def _multi_discrete(space: MultiDiscrete) -> JSONType | None:
    return _integers(space, space.start, space.start + (space.nvec - 1))


def _integers(space: Space[Any], low: Array, high: Array) -> JSONType | None:
    if not low.size:
        return None
    least, most = int(low.min()), int(high.max())
    same = bool((low == least).all() and (high == most).all())
    return _array(space, _integer(least, most), exact=same)


def _integer(least: int, most: int) -> Any:
    if least < _INT64.min or most > _INT64.max:
        return None
    return Annotated[int, msgspec.Meta(ge=least, le=most)]


def _array(space: Space[Any], number: Any, *, exact: bool) -> JSONType | None:
    """Make the type of an array; `exact` if every such array is an element."""
    shape, dtype = space.shape, space.dtype
    if number is None or shape is None or not all(shape):
        return None
    kind: Any = number
    for size in reversed(shape):
        kind = Annotated[list[kind], msgspec.Meta(min_length=size, max_length=size)]
    array, is_element = np.array, membership(space)

    def make(value: Any) -> Array:
        made = array(value, dtype)
        if not exact and not is_element(made):
            raise ValueError(value)
        return made

    like = np.zeros(shape, dtype)
    if exact and like.dtype.newbyteorder("<") == like.dtype:
        return JSONType(kind, make, _format_of(like), like, _flattening(len(shape)))
    form = f"{like.nbytes}s{-like.nbytes % 8}x"
    return JSONType(kind, make, form, like, lambda value: (make(value).tobytes(),))


def _format_of(like: Any) -> str:
    """Return the format of numbers like these, padded as on streams."""
    return f"{like.size}{_CODES[like.dtype.kind, like.itemsize]}{-like.nbytes % 8}x"


def _flattening(depth: int) -> Callable[[Any], Iterable[Any]]:
    """Return a function that flattens lists nested to this depth."""
    if depth == 0:
        return lambda value: (value,)
    if depth == 1:
        return lambda value: value
    if depth == 2:
        return chain.from_iterable
    inner = _flattening(depth - 1)
    return lambda value: inner(chain.from_iterable(value))
