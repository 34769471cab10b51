"""The ``info`` of a space, as gym-http-api told it to the clients that exist."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import singledispatch
from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from gym_http_wire.spaces import Array, is_uniform, numbers

Info = dict[str, Any]

INFINITY = 1e100
"""What gym-http-api wrote for infinity, which JSON does not have."""


class UnknownInfoKey(KeyError):
    """A key that the ``info`` of a space does not have."""

    def __init__(self, key: str, known: list[str]) -> None:
        super().__init__(key)
        self.key = key
        self.known = known

    def __str__(self) -> str:
        """Name the key, and those that there are."""
        known = ", ".join(self.known)
        return f"The space has no {self.key!r}; what it has is {known}"


@singledispatch
def info(space: Space[Any]) -> Info:
    """Tell what gym-http-api told of a space, and of composed spaces a little more.

    Args:
        space: Any space. Of one that old clients do not know there is only the name.

    Returns:
        JSON-able data. Discrete and Box spaces have the very keys that they always
        had, since there are clients that fail on others. Bounds are always floats.
    """
    return {"name": type(space).__name__}


@info.register
def _discrete(space: Discrete) -> Info:
    start = {"start": int(space.start)} if space.start else {}
    return {"name": "Discrete", "n": int(space.n), **start}


@info.register
def _box(space: Box) -> Info:
    return {
        "name": "Box",
        "shape": [int(size) for size in space.shape],
        "low": _bounds(space.low),
        "high": _bounds(space.high),
    }


@info.register
def _multi_discrete(space: MultiDiscrete) -> Info:
    return {"name": "MultiDiscrete", "nvec": space.nvec.tolist()}


@info.register
def _multi_binary(space: MultiBinary) -> Info:
    n = space.n
    size = {"n": n} if isinstance(n, int) else {"shape": [int(size) for size in n]}
    return {"name": "MultiBinary", **size}


@info.register(Tuple)
def _tuple(space: Tuple[Any]) -> Info:
    return {"name": "Tuple", "spaces": [info(inner) for inner in space.spaces]}


@info.register
def _dict(space: Dict) -> Info:
    return {
        "name": "Dict",
        "spaces": {str(key): info(inner) for key, inner in space.spaces.items()},
    }


def same_as_info(space: Space[Any], candidate: Mapping[str, object]) -> bool:
    """Compare what a client believes of a space with its ``info``, key by key.

    Args:
        space: The space.
        candidate: Some or all of the keys of an ``info``.

    Returns:
        Whether all values are the same. Floats are when they are the same float32.

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
        # Of an image all bounds are alike, and there are many.
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
