"""Membership of values in a space, with the result of ``contains``, but faster.

``contains`` takes some microseconds, since it examines dtypes, bounds and casts each
time. A test made once for a space decides the usual cases at once, and calls
``contains`` for all others.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any

import numpy as np
from gymnasium import spaces

from gym_http_wire.opaque import is_opaque

__all__ = ["Membership", "membership"]

Membership = Callable[[Any], bool]


def membership(space: spaces.Space[Any]) -> Membership:
    """Make the test of a space, which must not change any more.

    Returns:
        A function with the results and exceptions of ``space.contains``.
    """
    kind = spaces.Space if is_opaque(space) else type(space)
    return _membership.dispatch(kind)(space)


@singledispatch
def _membership(space: spaces.Space[Any]) -> Membership:
    def contains(value: Any) -> bool:
        return bool(space.contains(value))

    return contains


@_membership.register
def _discrete(space: spaces.Discrete) -> Membership:
    first, end = int(space.start), int(space.start) + int(space.n)
    own = space.dtype.type

    def contains(value: Any) -> bool:
        kind = type(value)
        if kind is int or kind is own:
            # All of the space's elements fit its dtype.
            return bool(first <= value < end)
        return bool(space.contains(value))

    return contains


@_membership.register
def _box(space: spaces.Box) -> Membership:
    return _bounded(space, space.low, space.high)


@_membership.register
def _multi_discrete(space: spaces.MultiDiscrete) -> Membership:
    return _bounded(space, space.start, space.start + (space.nvec - 1))


def _bounded(space: spaces.Space[Any], low: Any, high: Any) -> Membership:
    """Make the test of arrays of one dtype and shape, within bounds of that shape."""
    dtype, shape = space.dtype, space.shape
    lowest, highest = _one(low), _one(high)
    least, most = np.minimum.reduce, np.maximum.reduce

    def contains(value: Any) -> bool:
        if type(value) is not np.ndarray or value.dtype != dtype or not value.size:
            return bool(space.contains(value))
        if value.shape != shape:
            return False
        if lowest is None or highest is None:
            return bool((value >= low).all() and (value <= high).all())
        # The minimum of an array with a NaN is NaN, which is within no bounds.
        return bool(
            lowest <= least(value, axis=None) and most(value, axis=None) <= highest
        )

    return contains


def _one(bounds: Any) -> Any:
    """Return the common bound of all elements, or None if they have several."""
    if not bounds.size or not (bounds == bounds.flat[0]).all():
        return None
    return bounds.flat[0]
