"""The JSON of gym-http-api: descriptions of spaces, and the actions it accepted.

Its clients still exist. `info` describes a space in the keys that they know.
gym-http-api passed whatever NumPy made of the JSON to the environment: true as 1, an
array with one axis too many, and 1e100, which it writes itself for an infinite bound.
`lenient_reader` reads such actions, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import singledispatch
from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from gym_http_wire.elements.arrays import array_reader, limits_of
from gym_http_wire.elements.readers import keyed, positional, reader
from gym_http_wire.elements.refusal import NotAnElement, Read
from gym_http_wire.opaque import RemoteSpace, is_opaque
from gym_http_wire.spaces import Array, is_uniform, numbers

__all__ = [
    "INFINITY",
    "UnknownInfoKey",
    "info",
    "lenient_reader",
    "same_as_info",
]

Info = dict[str, Any]

INFINITY = 1e100
"""What gym-http-api writes for infinity, which JSON does not have."""


class UnknownInfoKey(KeyError):
    """A key that the ``info`` of a space does not have."""

    def __init__(self, key: str, known: list[str]) -> None:
        super().__init__(key)
        self.key = key
        self.known = known

    def __str__(self) -> str:
        """Name the key and the known ones."""
        known = ", ".join(self.known)
        return f"The space has no {self.key!r}; what it has is {known}"


def info(space: Space[Any]) -> Info:
    """Describe a space as gym-http-api does, with more detail for composed spaces.

    Args:
        space: Any space. One that old clients do not know has only its name; an opaque
            one is described as the nearest of Gymnasium's, if that has a description.

    Returns:
        JSON-able data. Discrete and Box spaces have exactly the keys of gym-http-api,
        since some clients fail on others. Bounds are always floats.
    """
    if isinstance(space, RemoteSpace):
        name = space.description["class"].rpartition(":")[2].rpartition(".")[2]
        return {"name": name} if space.base is None else info(space.base)
    try:
        return _info(space)
    except Exception:
        if is_opaque(space):
            # The class need not have what its base has.
            return {"name": type(space).__name__}
        raise


@singledispatch
def _info(space: Space[Any]) -> Info:
    return {"name": type(space).__name__}


@_info.register
def _discrete(space: Discrete) -> Info:
    start = {"start": int(space.start)} if space.start else {}
    return {"name": "Discrete", "n": int(space.n), **start}


@_info.register
def _box(space: Box) -> Info:
    return {
        "name": "Box",
        "shape": [int(size) for size in space.shape],
        "low": _bounds(space.low),
        "high": _bounds(space.high),
    }


@_info.register
def _multi_discrete(space: MultiDiscrete) -> Info:
    return {"name": "MultiDiscrete", "nvec": space.nvec.tolist()}


@_info.register
def _multi_binary(space: MultiBinary) -> Info:
    n = space.n
    size = {"n": n} if isinstance(n, int) else {"shape": [int(size) for size in n]}
    return {"name": "MultiBinary", **size}


@_info.register(Tuple)
def _tuple(space: Tuple[Any]) -> Info:
    return {"name": "Tuple", "spaces": [info(inner) for inner in space.spaces]}


@_info.register
def _dict(space: Dict) -> Info:
    return {
        "name": "Dict",
        "spaces": {str(key): info(inner) for key, inner in space.spaces.items()},
    }


def same_as_info(space: Space[Any], candidate: Mapping[str, object]) -> bool:
    """Compare a client's ``info`` of a space with the actual one, key by key.

    Args:
        space: The space.
        candidate: Some or all of the keys of an ``info``.

    Returns:
        Whether all values are the same. Floats are compared as float32.

    Raises:
        UnknownInfoKey: The ``info`` of the space does not have a key.
    """
    known = info(space)
    for key in candidate:
        if key not in known:
            raise UnknownInfoKey(key, sorted(known))
    return all(_same(known[key], value) for key, value in candidate.items())


def _bounds(array: Array) -> list[float | None]:
    flat = array.ravel()
    if is_uniform(flat):
        # The bounds of an image are many, and all the same.
        return [_bound(numbers(flat[:1])[0])] * flat.size
    return [_bound(number) for number in numbers(flat)]


def _bound(number: int | float) -> float | None:
    if math.isinf(number):
        return math.copysign(INFINITY, number)
    return None if math.isnan(number) else float(number)


def _same(known: object, given: object) -> bool:
    if isinstance(known, list):
        return (
            isinstance(given, list)
            and len(known) == len(given)
            and all(map(_same, known, given))
        )
    if isinstance(known, dict):
        return (
            isinstance(given, dict)
            and known.keys() == given.keys()
            and all(_same(value, given[key]) for key, value in known.items())
        )
    if isinstance(given, bool):
        return False
    if isinstance(known, float) and isinstance(given, int | float):
        return known == given or _single(known) == _single(given)
    return known == given


def _single(number: int | float) -> float:
    with np.errstate(over="ignore"):
        try:
            return float(np.float32(number))
        except OverflowError:
            return math.inf if number > 0 else -math.inf


def lenient_reader(space: Space[Any]) -> Read:
    """Make a function that reads actions from plain JSON as gym-http-api did.

    Use it for values that `reader` refuses. It accepts true and false for 1 and 0,
    ``[[x]]`` for an array of one number, and ±1e100 for an infinite bound.

    Args:
        space: The space.

    Returns:
        A function of a parsed JSON value. It returns an element as the space samples
        them and raises `NotAnElement`, whose message may name other limits than those
        of the space.
    """
    return reader(space) if is_opaque(space) else _lenient_reader(space)


@singledispatch
def _lenient_reader(space: Space[Any]) -> Read:
    return reader(space)


@_lenient_reader.register
def _lenient_discrete(space: Discrete) -> Read:
    read = reader(space)
    return lambda value: read(int(value) if type(value) is bool else value)


@_lenient_reader.register
def _lenient_box(space: Box) -> Read:
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


@_lenient_reader.register
def _lenient_multi_discrete(space: MultiDiscrete) -> Read:
    high = space.start + (space.nvec - 1)
    read = array_reader(space.shape, space.dtype, space.start, high, flags=True)
    return _one_number(space, read)


@_lenient_reader.register
def _lenient_multi_binary(space: MultiBinary) -> Read:
    return _one_number(space, reader(space))


@_lenient_reader.register
def _lenient_dict(space: Dict) -> Read:
    return keyed({key: lenient_reader(inner) for key, inner in space.spaces.items()})


@_lenient_reader.register(Tuple)
def _lenient_tuple(space: Tuple[Any]) -> Read:
    return positional([lenient_reader(inner) for inner in space.spaces])


def _one_number(space: Space[Any], read: Read) -> Read:
    """Make a reader that accepts a number at any depth for an array of one number."""
    if space.shape is None or np.prod(space.shape, dtype=int) != 1:
        return read

    def read_one(value: object) -> Any:
        while type(value) is list and len(value) == 1:
            value = value[0]
        return read([value])

    return read_one
