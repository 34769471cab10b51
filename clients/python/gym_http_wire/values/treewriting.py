"""Converts values to trees of JSON, for the typed form."""

import math
import struct
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
from gymnasium import Space
from gymnasium.spaces import GraphInstance
from gymnasium.vector import AutoresetMode

from gym_http_wire.spaces import MAX_EXACT, Array
from gym_http_wire.values.arrays import (
    array_bytes,
    check_shape,
    name_dtype,
    scalar_bytes,
)
from gym_http_wire.values.described import description_of
from gym_http_wire.values.model import (
    EXACT,
    MAX_DEPTH,
    SCALARS,
    Unsent,
    key_problem,
    standing_for,
)
from gym_http_wire.values.refusal import UnsupportedValue
from gym_http_wire.values.texts import is_unicode, write_base64, write_decimal

Tree = Any
Write = Callable[[Any, int], Tree]

TAG = "$t"

_encode = msgspec.json.Encoder().encode

_BITS_OF_NAN = struct.pack(">d", math.nan)


def check_depth(depth: int) -> None:
    """Refuse a list, tuple, dict or the like that is too deep."""
    if depth > MAX_DEPTH:
        raise UnsupportedValue(f"is nested deeper than {MAX_DEPTH} levels")


def write(value: Any, depth: int = 1) -> Tree:
    """Convert a value at a depth to a tree."""
    kind = type(value)
    writer = _WRITERS.get(kind)
    if writer is None:
        kind, value = standing_for(value)
        writer = _WRITERS[kind]
    return writer(value, depth)


def _native(value: Tree, depth: int) -> Tree:
    return value


def _int(value: int, depth: int) -> Tree:
    if -MAX_EXACT <= value <= MAX_EXACT:
        return value
    return {TAG: "int", "v": write_decimal(value)}


def _float(value: float, depth: int) -> Tree:
    if math.isfinite(value):
        return value
    bits = struct.pack(">d", value)
    if value != value and bits != _BITS_OF_NAN:
        return {TAG: "float", "v": bits.hex()}
    return {TAG: "float", "v": str(value)}


def _complex(value: complex, depth: int) -> Tree:
    return {TAG: "complex", "v": [_float(value.real, 1), _float(value.imag, 1)]}


def _unsent(value: Unsent, depth: int) -> Tree:
    return {TAG: "unsent", "v": [_str(value.repr, 1), _str(value.type, 1)]}


def _str(value: str, depth: int) -> Tree:
    if is_unicode(value):
        return value
    return {TAG: "str", "v": write_base64(value.encode("utf-8", "surrogatepass"))}


def _bytes(value: bytes, depth: int) -> Tree:
    return {TAG: "bytes", "v": write_base64(value)}


def _list(value: list[Any] | tuple[Any, ...], depth: int) -> list[Tree]:
    check_depth(depth)
    items: list[Tree] = []
    try:
        for item in value:
            items.append(write(item, depth + 1))
    except UnsupportedValue as error:
        raise error.under(len(items)) from None
    return items


def _tuple(value: tuple[Any, ...], depth: int) -> Tree:
    return {TAG: "tuple", "v": _list(value, depth)}


def _dict(value: dict[Any, Any], depth: int) -> Tree:
    check_depth(depth)
    items: list[Tree] = []
    plain = True
    key: Any = None
    try:
        for key, item in value.items():
            if type(key) is not str or key == TAG or not is_unicode(key):
                plain = False
            items.append(write(item, depth + 1))
    except UnsupportedValue as error:
        raise error.under(key) from None
    if plain:
        return dict(zip(value, items, strict=True))
    keys = write_keys(value, depth)
    return {TAG: "dict", "v": [list(pair) for pair in zip(keys, items, strict=True)]}


def write_keys(value: dict[Any, Any], depth: int) -> list[Tree]:
    """Make trees of the keys of a dict."""
    problem = key_problem(key for key in value if type(key) is not str)
    if problem:
        raise UnsupportedValue(problem)
    keys = [write(key, depth + 1) for key in value]
    if not all(map(_is_itself, value)) and len({_encode(key) for key in keys}) < len(
        keys
    ):
        raise UnsupportedValue("has keys that become the same")
    return keys


def _is_itself(key: Any) -> bool:
    """Whether a key equals, once it was read, only itself."""
    # A subclass may compare as different from its substitute, and a reader's NaN is
    # always the same object.
    kind = type(key)
    return kind in EXACT and kind is not tuple and (kind is not float or key == key)


def _array(value: Array, depth: int) -> Tree:
    if value.dtype.char == "O":
        sizes = check_shape(value)
        return {TAG: "oa", "s": sizes, "v": _list(value.ravel().tolist(), depth)}
    name = name_dtype(value.dtype)
    return {
        TAG: "nd",
        "d": name,
        "s": check_shape(value),
        "v": write_base64(array_bytes(value)),
    }


def _scalar(value: np.generic, depth: int) -> Tree:
    name = name_dtype(value.dtype)
    return {TAG: "ns", "d": name, "v": write_base64(scalar_bytes(value))}


def _graph(value: GraphInstance, depth: int) -> Tree:
    check_depth(depth)
    tree = {TAG: "graph"}
    for field, part in zip(value._fields, value, strict=True):
        try:
            tree[field] = write(part, depth + 1)
        except UnsupportedValue as error:
            raise error.within(field) from None
    return tree


def _autoreset(value: AutoresetMode, depth: int) -> Tree:
    return {TAG: "autoreset", "v": value.value}


def _space(value: Space[Any], depth: int) -> Tree:
    return {TAG: "space", "v": description_of(value)}


_WRITERS: dict[type, Write] = {
    type(None): _native,
    bool: _native,
    int: _int,
    float: _float,
    complex: _complex,
    str: _str,
    bytes: _bytes,
    list: _list,
    tuple: _tuple,
    dict: _dict,
    np.ndarray: _array,
    **dict.fromkeys((np.generic, *SCALARS), _scalar),
    GraphInstance: _graph,
    AutoresetMode: _autoreset,
    Unsent: _unsent,
    Space: _space,
}
