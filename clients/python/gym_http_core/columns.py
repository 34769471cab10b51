"""Columns: what several steps gave, kept together as arrays where that loses nothing.

Environments may use one array for all of their observations, so that what is kept has
to be a copy. Arrays of one kind are copied into one array, which costs least.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["SIMPLE", "Column", "kept", "packed", "unpacked"]

SIMPLE = frozenset({bool, bytes, complex, float, int, str, type(None)})
"""Types whose objects never change."""

# Rows that an array is made for at first; it is doubled when it is full.
_FIRST_BYTES = 64 * 1024
_MAX_STACKED_AXES = 8
_NATIVE: dict[type, Any] = {bool: np.bool_, float: np.float64, int: np.int64}
# Of dates, each may have a unit of its own.
_SCALARS = frozenset({np.dtype(code).type for code in "?bBhHiIlLqQefdgFD"})
_LOWEST, _HIGHEST = -(2**63), 2**63 - 1


class Column:
    """Values of one kind, one for each step."""

    def __init__(self) -> None:
        self._items: list[Any] = []
        self._rows: npt.NDArray[Any] | None = None
        self._shape: tuple[int, ...] = ()
        self._dtype: Any = None
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def append(self, value: Any) -> None:
        """Keep a value as it is now."""
        count = self._count
        self._count = count + 1
        rows = self._rows
        if type(value) is not np.ndarray:
            kept_ = value if type(value) in SIMPLE else kept(value)
        elif rows is None:
            if not count and _can_stack(value):
                self._begin(value)
                return
            kept_ = kept(value)
        elif value.dtype is self._dtype and value.shape == self._shape:
            if count == len(rows):
                rows = self._rows = _longer(rows)
            rows[count] = value
            return
        else:
            kept_ = kept(value)
        if rows is not None:
            self._items, self._rows = list(rows[:count]), None
        self._items.append(kept_)

    def value(self, count: int | None = None) -> npt.NDArray[Any] | list[Any]:
        """Give the values, or the first of them, as one array or as a list.

        Returns:
            If all are arrays of one dtype and shape, with one axis at least: an array
            with one axis more in front. Else a list.
        """
        count = self._count if count is None else count
        if self._rows is not None and count:
            return self._rows[:count]
        return self._items[:count]

    def _begin(self, value: npt.NDArray[Any]) -> None:
        rows = 1 + _FIRST_BYTES // max(value.nbytes, 1)
        self._rows = np.empty((rows, *value.shape), value.dtype)
        self._rows[0] = value
        self._shape, self._dtype = value.shape, value.dtype


def _can_stack(array: npt.NDArray[Any]) -> bool:
    return 0 < array.ndim <= _MAX_STACKED_AXES and array.dtype.kind in "biufcSU"


def _longer(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    longer = np.empty((2 * len(rows), *rows.shape[1:]), rows.dtype)
    longer[: len(rows)] = rows
    return longer


def kept(value: Any) -> Any:
    """Give a copy that stays as it is whatever becomes of the value."""
    kind = type(value)
    if kind is dict and not value:
        return {}
    if kind in SIMPLE or isinstance(value, np.generic):
        return value
    if kind is np.ndarray and not value.dtype.hasobject:
        return value.copy()
    try:
        return copy.deepcopy(value)
    except Exception:
        # Better what it will have become than nothing.
        return value


def packed(
    values: npt.NDArray[Any] | list[Any],
) -> tuple[npt.NDArray[Any] | list[Any], bool]:
    """Make an array of numbers that are all of one type, or of arrays of one kind.

    Returns:
        The array, or the values themselves; and whether an array of one axis stands for
        NumPy's scalars, and not for Python's numbers.
    """
    if not isinstance(values, list) or not values:
        return values, False
    kinds = set(map(type, values))
    if len(kinds) > 1:
        return values, False
    (kind,) = kinds
    native = _NATIVE.get(kind)
    if native is not None:
        if kind is int and not (min(values) >= _LOWEST and max(values) <= _HIGHEST):
            return values, False
        return np.array(values, native), False
    if kind is np.ndarray:
        return _stacked(values), False
    if issubclass(kind, np.generic) and kind in _SCALARS:
        return np.array(values), True
    return values, False


def _stacked(arrays: list[npt.NDArray[Any]]) -> npt.NDArray[Any] | list[Any]:
    column = Column()
    for array in arrays:
        column.append(array)
    return column.value()


def unpacked(values: npt.NDArray[Any] | list[Any], scalars: bool) -> list[Any]:
    """Make the list again of which `packed` made an array.

    Args:
        values: A column.
        scalars: Whether it stands for NumPy's scalars.
    """
    if isinstance(values, list):
        return values
    native = values.ndim == 1 and not scalars
    items: list[Any] = values.tolist() if native else list(values)
    return items
