"""Read actions that the readers of spaces refuse and gym-http-api accepted.

It gave the environment whatever NumPy made of the JSON: true as 1, an array with one
axis too many, and 1e100, which it writes itself for an infinite bound.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from gym_http_core.legacy import INFINITY
from gym_http_wire.elements.arrays import array_reader, limits_of
from gym_http_wire.elements.containers import Read, keyed, positional
from gym_http_wire.elements.readers import reader
from gym_http_wire.elements.refusal import NotAnElement
from gym_http_wire.spaces import Array


@singledispatch
def lenient_reader(space: Space[Any]) -> Read:
    """Make a function that reads actions from plain JSON as gym-http-api did.

    It is made for values that `reader` refuses: it takes true and false for 1 and 0,
    ``[[x]]`` for an array of one number, and ±1e100 for a bound that is infinite.

    Args:
        space: One of Gymnasium's spaces.

    Returns:
        A function of a parsed JSON value. It returns an element as the space samples
        them and raises `NotAnElement`, of which the message may name other limits
        than those of the space.
    """
    return reader(space)


@lenient_reader.register
def _discrete(space: Discrete) -> Read:
    read = reader(space)
    return lambda value: read(int(value) if type(value) is bool else value)


@lenient_reader.register
def _box(space: Box) -> Read:
    shape, dtype = space.shape, space.dtype
    if dtype.kind != "f":
        return _one_number(space, array_reader(shape, dtype, flags=True))
    read_wide = array_reader(shape, np.dtype(np.float64), flags=True)
    limit = limits_of(dtype)[1]
    endless_below, endless_above = np.isneginf(space.low), np.isposinf(space.high)

    def read(value: object) -> Array:
        wide: Array = read_wide(value)
        infinite = ((wide == INFINITY) & endless_above) | (
            (wide == -INFINITY) & endless_below
        )
        if not ((np.abs(wide) <= limit) | infinite).all():
            raise NotAnElement(value, f"of finite numbers of {dtype.name}")
        with np.errstate(over="ignore"):
            narrow: Array = wide.astype(dtype)
        return narrow

    return _one_number(space, read)


@lenient_reader.register
def _multi_discrete(space: MultiDiscrete) -> Read:
    high = space.start + (space.nvec - 1)
    read = array_reader(space.shape, space.dtype, space.start, high, flags=True)
    return _one_number(space, read)


@lenient_reader.register
def _multi_binary(space: MultiBinary) -> Read:
    return _one_number(space, reader(space))


@lenient_reader.register
def _dict(space: Dict) -> Read:
    return keyed({key: lenient_reader(inner) for key, inner in space.spaces.items()})


@lenient_reader.register(Tuple)
def _tuple(space: Tuple[Any]) -> Read:
    return positional([lenient_reader(inner) for inner in space.spaces])


def _one_number(space: Space[Any], read: Read) -> Read:
    """Make a reader that takes one number at any depth for an array of one number."""
    if space.shape is None or np.prod(space.shape, dtype=int) != 1:
        return read

    def read_one(value: object) -> Any:
        while type(value) is list and len(value) == 1:
            value = value[0]
        return read([value])

    return read_one
