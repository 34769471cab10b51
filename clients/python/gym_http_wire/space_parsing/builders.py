"""Builders of spaces from the fields of their descriptions, by class."""

from __future__ import annotations

import math
from collections.abc import Callable
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
from gymnasium.spaces.text import alphanumeric

from gym_http_wire.opaque import OPAQUE, RemoteSpace, imported_space
from gym_http_wire.space_parsing.fields import (
    MAX_AXES,
    BadDescription,
    Fields,
    as_integer,
)
from gym_http_wire.spaces import DTYPES, MAX_DEPTH, MAX_EXACT

_LENGTH = DTYPES["int64"]
_FLAG = DTYPES["bool"]
_DEFAULTS = {"Box": "float32", "MultiBinary": "int8"}


def parse_space(
    description: object, max_element: int | None = None, *, imported: bool = False
) -> Space[Any]:
    """Build the space of a description.

    Args:
        description: The result of `gym_http_wire.spaces.describe`, or parsed JSON.
        max_element: Bytes that an element of the space may take. This is checked
            before any array is made. The server sets it by ``--max-observation``.
        imported: Whether an opaque space is made of its class, if its module is
            imported here and its arguments are described. Nothing is imported.

    Returns:
        A new space, equal to the described one except for the state of its random
        generator: with the same seed, both draw the same samples. An opaque space is
        a `RemoteSpace`.

    Raises:
        BadDescription: A field of the description is wrong, or the space that it
            describes is too deep or too large.
    """
    if max_element is not None:
        size = element_bytes(description)
        if size > max_element:
            raise BadDescription(
                "the size of one element",
                size,
                f"at most {max_element} bytes (--max-observation)",
            )
    return _build(Fields(description, imported=imported))


def _build(fields: Fields) -> Space[Any]:
    kind = fields.get("type")
    builder = _BUILDERS.get(kind) if isinstance(kind, str) else None
    if builder is None:
        fields.refuse("type", f"one of {', '.join(_BUILDERS)}")
    fields.take_space()
    try:
        return builder(fields)
    except BadDescription:
        raise
    except (ValueError, TypeError, OverflowError) as error:
        expected = f"a description that Gymnasium accepts for a {kind}: {error}"
        raise BadDescription(fields.path, fields.value, expected) from error


def _box(fields: Fields) -> Box[Any]:
    dtype = fields.dtype("biuf", "float32")
    shape = fields.shape("shape", 2 * dtype.itemsize + 2)
    low = fields.array("low", shape, dtype)
    high = fields.array("high", shape, dtype)
    if (low > high).any():
        fields.refuse("low", "nowhere above high")
    # The constructor warns of precision and takes integer bounds through float64.
    space = Box(0, 1, shape, dtype)
    space.low, space.high = low, high
    space.bounded_below = -np.inf < low
    space.bounded_above = high < np.inf
    if fields.get("bounded_below", None) is not None:
        space.bounded_below = fields.array("bounded_below", shape, _FLAG)
    if fields.get("bounded_above", None) is not None:
        space.bounded_above = fields.array("bounded_above", shape, _FLAG)
    return space


def _discrete(fields: Fields) -> Discrete[Any]:
    dtype = fields.dtype("iu", "int64")
    n = fields.integer("n", dtype)
    if n < 1:
        fields.refuse("n", "an integer from 1 on")
    return Discrete(n, start=fields.integer("start", dtype, 0), dtype=dtype)


def _multi_binary(fields: Fields) -> MultiBinary:
    if isinstance(fields.get("n"), list):
        return MultiBinary(fields.shape("n", 1))
    n = fields.integer("n", _LENGTH)
    fields.take("n", max(n, 0))
    return MultiBinary(n)


def _multi_discrete(fields: Fields) -> MultiDiscrete[Any]:
    dtype = fields.dtype("iu", "int64")
    nvec = fields.get("nvec")
    default = [len(nvec)] if isinstance(nvec, list) else None
    shape = fields.shape("shape", 2 * dtype.itemsize, default)
    counts = fields.array("nvec", shape, dtype)
    if (counts < 1).any():
        fields.refuse("nvec", "integers from 1 on")
    return MultiDiscrete(counts, dtype, start=fields.array("start", shape, dtype, 0))


def _text(fields: Fields) -> Text:
    return Text(
        fields.integer("max_length", _LENGTH),
        min_length=fields.integer("min_length", _LENGTH, 1),
        charset=fields.text("charset", "".join(sorted(alphanumeric))),
    )


def _dict(fields: Fields) -> Dict[Any]:
    spaces: dict[Any, Space[Any]] = {}
    for index, pair in enumerate(fields.items("spaces")):
        field = f"spaces[{index}]"
        if not isinstance(pair, list) or len(pair) != 2:
            raise BadDescription(fields.at(field), pair, "a pair: [key, space]")
        key = pair[0]
        if not isinstance(key, str) and (
            type(key) is not int or not -MAX_EXACT <= key <= MAX_EXACT
        ):
            expected = "a string, or an integer up to 2**53"
            raise BadDescription(fields.at(f"{field}[0]"), key, expected)
        if key in spaces:
            raise BadDescription(fields.at(f"{field}[0]"), key, "a key not used before")
        spaces[key] = _build(fields.inner(f"{field}[1]", pair[1]))
    # Only a sequence of pairs keeps its order independently of sort_keys.
    return Dict(list(spaces.items()), sort_keys=fields.flag("sort_keys", True))


def _members(fields: Fields) -> list[Space[Any]]:
    return [
        _build(fields.inner(f"spaces[{index}]", member))
        for index, member in enumerate(fields.items("spaces"))
    ]


def _tuple(fields: Fields) -> Tuple[Any]:
    return Tuple(_members(fields))


def _one_of(fields: Fields) -> OneOf[Any]:
    return OneOf(_members(fields))


def _sequence(fields: Fields) -> Sequence:
    stack = fields.flag("stack", False)
    feature = _build(fields.inner("space", copies=2 if stack else 1))
    return Sequence(feature, stack=stack)


def _graph(fields: Fields) -> Graph:
    nodes = _build(fields.inner("node_space", copies=2))
    edges = None
    if fields.get("edge_space", None) is not None:
        edges = _build(fields.inner("edge_space", copies=2))
    return Graph(nodes, edges)


def _opaque(fields: Fields) -> Space[Any]:
    described: dict[str, Any] = {
        "type": OPAQUE,
        "class": fields.text("class"),
        "repr": None if fields.get("repr", None) is None else fields.text("repr"),
        "base": fields.get("base", None),
    }
    arguments = fields.get("arguments", None)
    if arguments is not None:
        if not isinstance(arguments, dict):
            fields.refuse("arguments", "an object")
        described["arguments"] = arguments
    if fields.imported and (space := imported_space(described)) is not None:
        return space
    base = None if described["base"] is None else _build(fields.inner("base"))
    return RemoteSpace(described, base)


_BUILDERS: dict[str, Callable[[Fields], Space[Any]]] = {
    "Box": _box,
    "Discrete": _discrete,
    "MultiBinary": _multi_binary,
    "MultiDiscrete": _multi_discrete,
    "Text": _text,
    "Dict": _dict,
    "Tuple": _tuple,
    "OneOf": _one_of,
    "Sequence": _sequence,
    "Graph": _graph,
    OPAQUE: _opaque,
}


def element_bytes(description: object) -> int:
    """Return the bytes that an element of a described space takes.

    No array is made. Members of Dict and Tuple add up, of OneOf the largest counts. A
    Text counts with its greatest length in UTF-8; a Sequence counts as one element of
    it, a Graph as one node and one edge, since their lengths are not described. An
    opaque space counts as its base.

    Args:
        description: The argument of `parse_space`. Malformed parts count nothing, since
            `parse_space` refuses them.
    """
    return _bytes(description, 1)


def _bytes(description: object, depth: int) -> int:
    if not isinstance(description, dict) or depth > MAX_DEPTH:
        return 0
    kind = description.get("type")
    if kind in ("Dict", "Tuple", "OneOf"):
        members = description.get("spaces")
        sizes = [
            _bytes(each[-1] if kind == "Dict" and _is_pair(each) else each, depth + 1)
            for each in (members if isinstance(members, list) else ())
        ]
        return max(sizes, default=0) if kind == "OneOf" else sum(sizes)
    if kind == OPAQUE:
        return _bytes(description.get("base"), depth + 1)
    if kind in ("Sequence", "Graph"):
        parts = ("space",) if kind == "Sequence" else ("node_space", "edge_space")
        return sum(_bytes(description.get(part), depth + 1) for part in parts)
    if kind == "Text":
        charset = description.get("charset")
        widest = max(charset, default="") if isinstance(charset, str) else ""
        length = _size(description.get("max_length"))
        return length * max(1, len(widest.encode(errors="surrogatepass")))
    return _elements(description) * _itemsize(description)


def _is_pair(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2


def _elements(description: dict[Any, Any]) -> int:
    kind = description.get("type")
    sizes: object = description.get("n" if kind == "MultiBinary" else "shape")
    if kind == "MultiBinary" and not isinstance(sizes, list):
        return _size(sizes)
    if not isinstance(sizes, list):
        listed = description.get("nvec")
        return len(listed) if isinstance(listed, list) else 1
    # More axes are refused; their product would take long.
    return math.prod(map(_size, sizes)) if len(sizes) <= MAX_AXES else 0


def _size(value: object) -> int:
    return max(0, as_integer(value, DTYPES["int64"]) or 0)


def _itemsize(description: dict[Any, Any]) -> int:
    kind = description.get("type")
    name = description.get("dtype", _DEFAULTS.get(str(kind), "int64"))
    if kind == "MultiBinary":
        name = "int8"
    dtype = DTYPES.get(name) if isinstance(name, str) else None
    return 8 if dtype is None else dtype.itemsize
