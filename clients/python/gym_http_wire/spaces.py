"""Describe Gymnasium spaces as JSON-able data, without loss.

A description is a dict with a ``type``. It holds only data that every JSON encoder
writes alike. Infinities and NaN are the strings ``"inf"``, ``"-inf"`` and ``"nan"``;
integers beyond 2**53, which many readers round, are decimal strings. An array is a
single number when all its elements are bit-equal, else a flat list in C order.

`gym_http_wire.space_parsing` turns a description back into an equal space.
"""

from __future__ import annotations

import json
from functools import singledispatch
from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.spaces import (
    Box,
    Dict,
    Discrete,
    Graph,
    MultiBinary,
    MultiDiscrete,
    OneOf,
    Sequence,
    Text,
    Tuple,
)

from gym_http_wire.opaque import (
    OPAQUE,
    RemoteSpace,
    class_name,
    constructor_arguments,
    is_opaque,
    nearest,
    repr_of,
)

__all__ = [
    "DTYPES",
    "MAX_DEPTH",
    "MAX_EXACT",
    "Array",
    "UndescribableSpace",
    "describe",
    "elided",
    "is_uniform",
    "numbers",
]

Array = np.ndarray[Any, np.dtype[Any]]
Description = dict[str, object]

MAX_DEPTH = 32
"""How many spaces may be nested in one another."""

MAX_EXACT = 2**53
"""Integers up to here are JSON numbers; beyond, decimal strings."""

DTYPES: dict[str, np.dtype[Any]] = {
    name: np.dtype(name)
    for name in (
        "bool",
        *(f"{kind}int{bits}" for kind in ("", "u") for bits in (8, 16, 32, 64)),
        *(f"float{bits}" for bits in (16, 32, 64)),
    )
}
"""The dtypes that can be described, by name; other byte orders are written ``>f4``."""
DTYPES |= {
    swapped.str: swapped
    for swapped in (dtype.newbyteorder() for dtype in DTYPES.values())
    if not swapped.isnative
}

_SHOWN = 80
_ENCODER = json.JSONEncoder(ensure_ascii=False, check_circular=False, default=repr)


class UndescribableSpace(TypeError):
    """A space of Gymnasium's that holds something that JSON cannot represent."""


def describe(space: Space[Any]) -> Description:
    """Describe a space; `parse_space` returns an exactly equal one.

    Args:
        space: The space. A subclass of Gymnasium's is described as its base when it
            samples, seeds and compares as that does, else as an opaque space.

    Returns:
        A dict of plain ``int``, ``float``, ``str``, ``bool``, ``None``, ``list`` and
        ``dict`` objects.

    Raises:
        UndescribableSpace: The space, or one inside it, holds something that JSON
            cannot represent.
    """
    return _nested(space, MAX_DEPTH)


def _nested(space: Space[Any], depth: int) -> Description:
    if not depth:
        raise UndescribableSpace(f"The space is nested deeper than {MAX_DEPTH} levels")
    if is_opaque(space):
        return _opaque(space, depth - 1)
    return _describe(space, depth - 1)


def _opaque(space: Space[Any], depth: int) -> Description:
    if isinstance(space, RemoteSpace):
        return space.description
    description: Description = {
        "type": OPAQUE,
        "class": class_name(space),
        "repr": repr_of(space),
        "base": _base(space, depth),
    }
    arguments = constructor_arguments(space)
    return description if arguments is None else {**description, "arguments": arguments}


def _base(space: Space[Any], depth: int) -> Description | None:
    base = nearest(type(space))
    if base is None:
        return None
    try:
        return _describe.dispatch(base)(space, depth)
    except Exception:
        # The class need not have what its base has.
        return None


@singledispatch
def _describe(space: object, depth: int) -> Description:
    raise NotImplementedError


@_describe.register
def _box(space: Box, depth: int) -> Description:
    return {
        "type": "Box",
        "dtype": _dtype(space.dtype),
        "shape": [int(size) for size in space.shape],
        "low": array_data(space.low),
        "high": array_data(space.high),
        "bounded_below": array_data(space.bounded_below),
        "bounded_above": array_data(space.bounded_above),
    }


@_describe.register
def _discrete(space: Discrete, depth: int) -> Description:
    return {
        "type": "Discrete",
        "n": number_data(int(space.n)),
        "start": number_data(int(space.start)),
        "dtype": _dtype(space.dtype),
    }


@_describe.register
def _multi_binary(space: MultiBinary, depth: int) -> Description:
    n = space.n
    return {
        "type": "MultiBinary",
        "n": int(n) if isinstance(n, int) else [int(size) for size in n],
    }


@_describe.register
def _multi_discrete(space: MultiDiscrete, depth: int) -> Description:
    return {
        "type": "MultiDiscrete",
        "dtype": _dtype(space.dtype),
        "shape": [int(size) for size in space.nvec.shape],
        "nvec": array_data(space.nvec),
        "start": array_data(space.start),
    }


@_describe.register
def _text(space: Text, depth: int) -> Description:
    return {
        "type": "Text",
        "min_length": number_data(space.min_length),
        "max_length": number_data(space.max_length),
        "charset": _string("".join(space.character_list)),
    }


@_describe.register
def _dict(space: Dict, depth: int) -> Description:
    description: Description = {
        "type": "Dict",
        "spaces": [
            [_key(key), _nested(inner, depth)] for key, inner in space.spaces.items()
        ],
    }
    if not space.sort_keys:
        description["sort_keys"] = False
    return description


@_describe.register(Tuple)
@_describe.register(OneOf)
def _members(space: Tuple[Any] | OneOf[Any], depth: int) -> Description:
    return {
        "type": "Tuple" if isinstance(space, Tuple) else "OneOf",
        "spaces": [_nested(member, depth) for member in space.spaces],
    }


@_describe.register
def _sequence(space: Sequence, depth: int) -> Description:
    return {
        "type": "Sequence",
        "space": _nested(space.feature_space, depth),
        "stack": bool(space.stack),
    }


@_describe.register
def _graph(space: Graph, depth: int) -> Description:
    edges = space.edge_space
    return {
        "type": "Graph",
        "node_space": _nested(space.node_space, depth),
        "edge_space": None if edges is None else _nested(edges, depth),
    }


def _dtype(dtype: np.dtype[Any]) -> str:
    name = dtype.name if dtype.isnative else dtype.str
    if name not in DTYPES:
        raise UndescribableSpace(f"A space of dtype {name} cannot be described")
    return name


def _key(key: object) -> int | str:
    if isinstance(key, str):
        return _string(str.__str__(key))
    if isinstance(key, int | np.integer) and not isinstance(key, bool):
        number = int(key)
        if -MAX_EXACT <= number <= MAX_EXACT:
            return number
    raise UndescribableSpace(
        f"A Dict space with the key {key!r} cannot be described: keys must be strings "
        "or integers up to 2**53"
    )


def _string(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UndescribableSpace(
            f"A space with the text {text!r} cannot be described: it is not Unicode"
        ) from error
    return text


def numbers(array: Array) -> list[Any]:
    """List the elements of an array in C order, floats by their shortest decimal.

    A float32 of 4.8 comes out as 4.8 and not as 4.800000190734863; it is still the
    same float32 when it is read back.
    """
    flat = array.ravel()
    exact: list[Any] = flat.tolist()
    if flat.dtype.kind != "f" or flat.dtype.itemsize == 8:
        return exact
    shortest = [float(str(element)) for element in flat]
    # Reading a short decimal rounds twice, to 64 bits and then to fewer.
    same = np.array(shortest).astype(flat.dtype).tobytes() == flat.tobytes()
    return shortest if same else exact


def is_uniform(array: Array) -> bool:
    """Whether an array has elements and all of them have the same bits."""
    if not array.size:
        return False
    flat = np.ascontiguousarray(array).reshape(-1)
    bits = flat.view(np.dtype(f"V{array.itemsize}"))
    return bool((bits == bits[0]).all())


def array_data(array: Array) -> object:
    """Write an array as one number, when its elements are bit-equal, or a list."""
    if is_uniform(array):
        return number_data(numbers(array.ravel()[:1])[0])
    return [number_data(element) for element in numbers(array)]


def number_data(number: int | float) -> int | float | str:
    """Write a number that JSON cannot carry safely as a string."""
    if isinstance(number, int):
        return number if -MAX_EXACT <= number <= MAX_EXACT else str(number)
    if number - number == 0:
        return number
    return "nan" if number != number else "inf" if number > 0 else "-inf"


def elided(value: object) -> str:
    """Write the beginning of a value as JSON, 80 characters at most."""
    text = ""
    try:
        # The encoder goes no further, nor deeper, than this loop.
        for chunk in _ENCODER.iterencode(value):
            text += chunk[: _SHOWN + 1]
            if len(text) > _SHOWN:
                return f"{text[: _SHOWN - 3]}..."
    except ValueError:  # Python refuses to write thousands of digits.
        return "too long to show"
    return text
