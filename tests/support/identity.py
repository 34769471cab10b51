"""Compares two values by type, order and every bit."""

import struct
from typing import Any

import numpy as np


def difference(one: Any, other: Any, where: str = "value") -> str:
    """Return where two values differ, or "" if they are the same."""
    if type(one) is not type(other):
        return f"{where}: {type(one)} {one!r:.80} is not {type(other)} {other!r:.80}"
    if isinstance(one, np.ndarray):
        return _array_difference(one, other, where)
    if isinstance(one, dict):
        if list(one) != list(other):
            return f"{where}: keys {list(one)} are not {list(other)}"
        return _first(difference(one[k], other[k], f"{where}[{k!r}]") for k in one)
    if isinstance(one, list | tuple):
        if len(one) != len(other):
            return f"{where}: {len(one)} members are not {len(other)}"
        pairs = enumerate(zip(one, other, strict=True))
        return _first(difference(a, b, f"{where}[{i}]") for i, (a, b) in pairs)
    if isinstance(one, np.generic):
        same = one.dtype == other.dtype and one.tobytes() == other.tobytes()
    elif isinstance(one, float):
        same = struct.pack("<d", one) == struct.pack("<d", other)
    else:
        same = bool(one == other)
    return "" if same else f"{where}: {one!r:.80} is not {other!r:.80}"


def assert_identical(one: Any, other: Any, where: str = "value") -> None:
    """Check that two values are the same in type, order and every bit."""
    different = difference(one, other, where)
    assert not different, different


def _array_difference(one: Any, other: Any, where: str) -> str:
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return f"{where}: {one.dtype}{one.shape} is not {other.dtype}{other.shape}"
    if one.dtype.hasobject:
        pairs = enumerate(zip(one.flat, other.flat, strict=True))
        return _first(difference(a, b, f"{where}[{i}]") for i, (a, b) in pairs)
    return "" if one.tobytes() == other.tobytes() else f"{where}: other bytes"


def _first(differences: Any) -> str:
    return next((each for each in differences if each), "")


def unpacked(values: Any, scalars: bool) -> list[Any]:
    """Return the items of a column, as the environment returned them.

    Args:
        values: The column of an answer.
        scalars: Whether it holds NumPy's scalars, and not Python's numbers.
    """
    if isinstance(values, list):
        return values
    native = values.ndim == 1 and not scalars
    return list(values.tolist() if native else values)
