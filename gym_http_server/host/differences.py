"""Finds where two decoded values differ."""

from __future__ import annotations

from typing import Any

import numpy as np

from gym_http_wire.spaces import elided
from gym_http_wire.values import Unsent, binary

__all__ = ["first_difference"]


def first_difference(
    recorded: Any, replayed: Any, path: str
) -> tuple[str, Any, Any] | None:
    """Return where decoded values differ, and the parts there; ``None``: nowhere."""
    if type(recorded) is not type(replayed):
        return path, recorded, replayed
    pairs: Any = ()
    if isinstance(recorded, dict):
        if list(recorded) != list(replayed):
            return path, recorded, replayed
        pairs = ((key, recorded[key], replayed[key]) for key in recorded)
    elif isinstance(recorded, list | tuple):
        if len(recorded) != len(replayed):
            return path, recorded, replayed
        pairs = zip(range(len(recorded)), recorded, replayed, strict=True)
    elif isinstance(recorded, np.ndarray):
        return _array_difference(recorded, replayed, path)
    elif isinstance(recorded, Unsent):
        # Its text may have the address of an object.
        return None if recorded.type == replayed.type else (path, recorded, replayed)
    elif binary.encode(recorded) != binary.encode(replayed):
        return path, recorded, replayed
    for key, one, other in pairs:
        inner = f"{path}[{elided(key)}]" if path else str(key)
        if found := first_difference(one, other, inner):
            return found
    return None


def _array_difference(
    recorded: Any, replayed: Any, path: str
) -> tuple[str, Any, Any] | None:
    if (recorded.dtype, recorded.shape) != (replayed.dtype, replayed.shape):
        return path, recorded, replayed
    if recorded.dtype.char == "O":
        return first_difference(
            recorded.ravel().tolist(), replayed.ravel().tolist(), path
        )
    for index in np.ndindex(recorded.shape):
        one, other = recorded[index], replayed[index]
        if one.tobytes() != other.tobytes():
            where = ", ".join(map(str, index))
            return f"{path}[{where}]", one, other
    return None
