"""Reports the parts of a value that do not arrive unchanged."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.spaces import GraphInstance

from gym_http_wire.opaque import RemoteSpace, is_opaque, members, nearest
from gym_http_wire.values.arrays import check_shape
from gym_http_wire.values.model import EXACT, name_of, standing_for
from gym_http_wire.values.refusal import UnsupportedValue
from gym_http_wire.values.treewriting import check_depth, write, write_keys

_CONTAINERS = (list, tuple, dict, GraphInstance)


def losses(value: Any) -> list[str]:
    """List the parts of a value that would change on the way, or cannot be sent.

    Differences that NumPy ignores are not listed, nor the state of a space's random
    generator, nor that one object was in two places.

    Returns:
        A line for each such part; empty when ``decode(encode(value))`` is the same.
    """
    return [str(each) for each in _losses(value, 1, ())]


def _losses(
    value: Any, depth: int, around: tuple[int, ...]
) -> Iterator[UnsupportedValue]:
    if id(value) in around:
        yield UnsupportedValue("holds itself")
        return
    try:
        kind, plain = _plain(value)
        _check(kind, plain, depth)
    except UnsupportedValue as error:
        yield error
        return
    arrives = _arrives(kind, plain)
    if type(value) is not arrives:
        yield UnsupportedValue(
            f"is a {name_of(type(value))} and arrives as a {name_of(arrives)}"
        )
    if kind is dict:
        yield from _losses_of_keys(plain, depth)
    for name, item in _parts(kind, plain):
        for loss in _losses(item, depth + 1, (*around, id(value))):
            if kind is GraphInstance:
                yield loss.within(name)
            else:
                yield loss.under(name)


def _losses_of_keys(value: dict[Any, Any], depth: int) -> Iterator[UnsupportedValue]:
    try:
        write_keys(value, depth)
    except UnsupportedValue as error:
        yield error
        return
    for key in value:
        for loss in _losses(key, depth + 1, ()):
            loss.problem = f"as a key {loss.problem}"
            yield loss.under(key)


def _plain(value: Any) -> tuple[type, Any]:
    return (type(value), value) if type(value) in EXACT else standing_for(value)


def _check(kind: type, plain: Any, depth: int) -> None:
    if _has_objects(plain):
        check_shape(plain)
    if kind in _CONTAINERS or _has_objects(plain):
        check_depth(depth)
    else:
        write(plain, depth)


def _has_objects(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.char == "O"


def _arrives(kind: type, plain: Any) -> type:
    if isinstance(plain, np.generic):
        scalar: type = np.dtype(plain.dtype.str).type
        return scalar
    if kind is Space:
        return RemoteSpace if is_opaque(plain) else nearest(type(plain)) or RemoteSpace
    return kind


def _parts(kind: type, plain: Any) -> Iterator[tuple[Any, Any]]:
    if kind is dict:
        yield from plain.items()
    elif kind is GraphInstance:
        yield from zip(plain._fields, plain, strict=True)
    elif kind in _CONTAINERS:
        yield from enumerate(plain)
    elif kind is Space:
        yield from members(plain)
    elif _has_objects(plain):
        yield from enumerate(plain.ravel().tolist())
