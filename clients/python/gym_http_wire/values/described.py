"""Spaces inside values, as their descriptions."""

import math
from typing import Any

from gymnasium import Space

from gym_http_wire.space_parsing import BadDescription, parse_space
from gym_http_wire.spaces import DTYPES, MAX_DEPTH, UndescribableSpace, describe
from gym_http_wire.values.refusal import BadValue, UnsupportedValue

MAX_SPACE_BYTES = 2**27
"""How much memory the spaces of one message may take."""

# More than its objects take, but making them takes so much time, too.
_SPACE_BYTES = 2**15
_CHARACTER_BYTES = 256


def description_of(space: Space[Any]) -> dict[str, object]:
    """Describe a space."""
    try:
        description = describe(space)
    except UndescribableSpace as error:
        raise UnsupportedValue(f"cannot be sent: {error}") from error
    if weigh(description) > MAX_SPACE_BYTES:
        raise UnsupportedValue(f"is a space that takes over {MAX_SPACE_BYTES} bytes")
    return description


def space_of(description: object) -> Space[Any]:
    """Rebuild a space that was weighed before."""
    try:
        return parse_space(description)
    except BadDescription as error:
        raise BadValue(f"is a space that cannot be rebuilt: {error}") from error


def weigh(description: object, copies: int = 1, depth: int = 0) -> int:
    """Estimate from above how many bytes a space takes when it is rebuilt.

    A message may hold many spaces, each described by few bytes, so the limit that
    `parse_space` has for a single one does not hold for the message.
    """
    if not isinstance(description, dict) or depth > MAX_DEPTH:
        return 0  # `parse_space` refuses it.
    weight = _SPACE_BYTES * copies * copies
    weight += _elements(description) * copies * (2 * _itemsize(description) + 2)
    charset = description.get("charset")
    if isinstance(charset, str):
        weight += len(charset) * _CHARACTER_BYTES * copies * copies
    members = description.get("spaces")
    inner = [
        (member[-1] if isinstance(member, list) and member else member, copies)
        for member in (members if isinstance(members, list) else ())
    ]
    # Gymnasium batches what is in Graphs and stacked Sequences, by copying it.
    inner.append(
        (description.get("space"), copies * (1 + bool(description.get("stack"))))
    )
    inner.append((description.get("base"), copies))
    inner += [
        (description.get(f"{part}_space"), copies * 2) for part in ("node", "edge")
    ]
    for space, number in inner:
        if weight <= MAX_SPACE_BYTES:
            weight += weigh(space, number, depth + 1)
    return weight


def _itemsize(description: dict[str, object]) -> int:
    name = description.get("dtype")
    dtype = DTYPES.get(name) if isinstance(name, str) else None
    return 8 if dtype is None else dtype.itemsize


def _elements(description: dict[str, object]) -> int:
    sizes = description.get("shape", [])
    if description.get("type") == "MultiBinary":
        sizes = description.get("n")
        sizes = sizes if isinstance(sizes, list) else [sizes]
    if not isinstance(sizes, list) or not all(type(size) is int for size in sizes):
        raise BadValue("is a space whose shape is not written in integers")
    listed = description.get("nvec")
    count = len(listed) if isinstance(listed, list) else 1
    product: int = math.prod(max(size, 1) for size in sizes)
    return max(count, product)
