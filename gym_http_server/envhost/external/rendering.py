"""What environments elsewhere render, checked before it is used."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Box

from gym_http_wire import elements
from gym_http_wire.external.messages import BadMessage
from gym_http_wire.spaces import elided

__all__ = ["read_rendered"]

_EXPECTED = "a picture: rows of pixels of three colours, 0 to 255, as uint8"


def read_rendered(value: object, mode: str | None, *, plain: bool) -> Any:
    """Read what came of a request to render.

    Args:
        value: What came.
        mode: The render mode. In ``rgb_array`` a picture is wanted, in
            ``rgb_array_list`` a list of them; of others nothing is known.
        plain: Whether it was said in plain JSON, which has no arrays.

    Returns:
        A picture as an array of shape (height, width, 3) and dtype uint8.

    Raises:
        BadMessage: It is no picture.
    """
    if mode == "rgb_array":
        return _picture(value, "rendered", plain=plain)
    if mode == "rgb_array_list":
        if not isinstance(value, list):
            raise _bad("rendered", value, f"a list, each of which is {_EXPECTED}")
        return [
            _picture(each, f"rendered[{index}]", plain=plain)
            for index, each in enumerate(value)
        ]
    return value


def _picture(value: object, field: str, *, plain: bool) -> Any:
    if plain:
        value = _from_lists(value, field)
    good = isinstance(value, np.ndarray) and value.dtype == np.uint8
    if not good or value.ndim != 3 or value.shape[2] != 3:  # type: ignore[attr-defined]
        raise _bad(field, value, _EXPECTED)
    return value


def _from_lists(value: object, field: str) -> Any:
    """Make an array of rows of pixels."""
    shape: list[int] = []
    first: Any = value
    while isinstance(first, list) and len(shape) < 3:
        shape.append(len(first))
        first = first[0] if first else None
    if len(shape) < 3:
        raise _bad(field, value, _EXPECTED)
    try:
        return elements.reader(Box(0, 255, tuple(shape), np.uint8))(value)
    except elements.NotAnElement as error:
        error.root = field
        raise BadMessage(str(error), field=field) from None


def _bad(field: str, value: object, expected: str) -> BadMessage:
    return BadMessage(
        f"{field} is {elided(value)}, but must be {expected}", field=field
    )
