"""Types of plain JSON that only elements of a space have.

A decoder checks lengths, kinds and bounds by a type while it parses, which is faster
than to look at the parsed values. Only what is written just as the space samples it
fits such a type: the readers take more, and tell what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
from gymnasium import Space
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete

from gym_http_wire.elements.arrays import limits_of
from gym_http_wire.elements.membership import membership
from gym_http_wire.elements.readers import reader
from gym_http_wire.spaces import Array

__all__ = ["Shaped", "shaped"]

_INT64 = np.iinfo(np.int64)
#: Beyond it a number may have been an integer that is too large.
_LARGEST = 2.0**200


class Shaped(NamedTuple):
    """What elements of a space are in JSON.

    Attributes:
        type: A type for `msgspec`.
        make: Makes the element of what was decoded by it; raises `ValueError` if that
            is none after all.
    """

    type: Any
    make: Callable[[Any], Any]


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
    kind = _integer(first, first + int(space.n) - 1)
    return None if kind is None else Shaped(kind, reader(space))


@shaped.register
def _box(space: Box) -> Shaped | None:
    if space.dtype.kind == "f":
        least, most = map(float, limits_of(space.dtype))
        least, most = max(least, -_LARGEST), min(most, _LARGEST)
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
        return array(value, dtype)

    def make_checked(value: Any) -> Array:
        made = array(value, dtype)
        if not is_element(made):
            raise ValueError(value)
        return made

    return Shaped(kind, make if exact else make_checked)
