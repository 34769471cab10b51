"""Types of plain JSON that only elements of a space have.

A decoder checks lengths, kinds and bounds by a type while it parses, which is faster
than to look at the parsed values. Only what is written just as the space samples it
fits such a type: the readers take more, and tell what is wrong.
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

__all__ = ["LARGEST", "Shaped", "shaped"]

#: By kind and bytes, how `struct` calls a number.
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
#: Beyond it a number may have been an integer that is too large.
LARGEST = 2.0**200


class Shaped(NamedTuple):
    """What elements of a space are in JSON.

    Attributes:
        type: A type for `msgspec`.
        make: Makes the element of what was decoded by it; raises `ValueError` if that
            is none after all.
        format: How `struct` writes an element as a stream has it.
        like: Something of the elements' type, shape and dtype.
        leaves: What there is to be written, of what was decoded, which fits the
            format; raises `ValueError` as well.
    """

    type: Any
    make: Callable[[Any], Any]
    format: str
    like: Any
    leaves: Callable[[Any], Iterable[Any]]


@singledispatch
def shaped(space: Space[Any]) -> Shaped | None:
    """Give what elements of a space are in JSON.

    Returns:
        That; ``None`` for spaces whose elements no such type describes.
    """
    return None


@shaped.register
def _discrete(space: Discrete) -> Shaped | None:
    first = int(space.start)
    # There are spaces that say they have more than their dtype holds.
    last = min(first + int(space.n) - 1, int(np.iinfo(space.dtype).max))
    kind = _integer(first, last)
    if kind is None:
        return None
    make = reader(space)
    like = make(first)
    return Shaped(kind, make, _format_of(like), like, lambda value: (value,))


@shaped.register
def _box(space: Box) -> Shaped | None:
    if space.dtype.kind == "f":
        least, most = map(float, limits_of(space.dtype))
        least, most = max(least, -LARGEST), min(most, LARGEST)
        # Bounds are those of the element, which is rounded.
        number = Annotated[float, msgspec.Meta(ge=least, le=most)]
        return _array(space, number, exact=False)
    if space.dtype.kind not in "iu":
        return None
    return _integers(space, space.low, space.high)


@shaped.register
def _multi_binary(space: MultiBinary) -> Shaped | None:
    return _array(space, _integer(0, 1), exact=True)


@shaped.register
def _multi_discrete(space: MultiDiscrete) -> Shaped | None:
    return _integers(space, space.start, space.start + (space.nvec - 1))


def _integers(space: Space[Any], low: Array, high: Array) -> Shaped | None:
    if not low.size:
        return None
    least, most = int(low.min()), int(high.max())
    same = bool((low == least).all() and (high == most).all())
    return _array(space, _integer(least, most), exact=same)


def _integer(least: int, most: int) -> Any:
    if least < _INT64.min or most > _INT64.max:
        return None
    return Annotated[int, msgspec.Meta(ge=least, le=most)]


def _array(space: Space[Any], number: Any, *, exact: bool) -> Shaped | None:
    """Describe an array of numbers; `exact` if there are no other elements."""
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
        return Shaped(kind, make, _format_of(like), like, _flattening(len(shape)))
    form = f"{like.nbytes}s{-like.nbytes % 8}x"
    return Shaped(kind, make, form, like, lambda value: (make(value).tobytes(),))


def _format_of(like: Any) -> str:
    """Give how `struct` writes numbers like these, padded as in a stream."""
    return f"{like.size}{_CODES[like.dtype.kind, like.itemsize]}{-like.nbytes % 8}x"


def _flattening(depth: int) -> Callable[[Any], Iterable[Any]]:
    """Give what gives the numbers in lists that are nested so deep."""
    if depth == 0:
        return lambda value: (value,)
    if depth == 1:
        return lambda value: value
    if depth == 2:
        return chain.from_iterable
    inner = _flattening(depth - 1)
    return lambda value: inner(chain.from_iterable(value))
