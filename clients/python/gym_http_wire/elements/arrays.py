"""Readers of integers and of arrays of numbers in plain JSON."""

import math
import re
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, TypeGuard, cast

import numpy as np

from gym_http_wire.elements.refusal import NotAnElement, Read
from gym_http_wire.spaces import Array

_DECIMAL = re.compile(r"[+-]?[0-9]{1,20}")
_FEW = 1024
_SMALL = 32


def integer_reader(low: int, high: int, make: Callable[[int], object]) -> Read:
    """Make a reader of an integer, which may also come as 1.0, "1" or [1].

    Args:
        low: The smallest integer.
        high: The largest integer.
        make: Converts the integer to the element.
    """
    # Elements are immutable, so those of a small space are made once.
    known = {number: make(number) for number in range(low, min(high + 1, low + _FEW))}
    find = known.get

    def read(value: object) -> object:
        if type(value) is int:
            found = find(value)
            if found is not None:
                return found
        number = _integer(value)
        if number is None or not low <= number <= high:
            raise NotAnElement(value, f"an integer from {low} to {high}")
        return make(number)

    return read


def _integer(value: object) -> int | None:
    if type(value) is list and len(value) == 1:
        value = value[0]
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer():
        return int(value)
    if type(value) is str and _DECIMAL.fullmatch(value):
        return int(value)
    return None


def array_reader(
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    low: object = None,
    high: object = None,
    flags: bool = False,
) -> Read:
    """Make a reader of an array, which may come nested or as a flat list.

    Args:
        shape: The shape of the array.
        dtype: The dtype of the array.
        low: The smallest number for each element; by default that of the dtype.
        high: The largest number, likewise.
        flags: Whether true and false are accepted for 1 and 0.
    """
    reading = _ArrayReader(shape, dtype, low, high, flags)
    read_any = reading.read
    size = math.prod(shape)
    if len(shape) != 1 or size > _SMALL:
        return read_any

    # For few numbers Python's checks are faster than NumPy's.
    types, limits, make = reading.types, reading.limits(), np.array

    def read(value: object) -> Array:
        if type(value) is list and len(value) == size:
            for number, (least, most) in zip(value, limits, strict=True):
                if type(number) not in types or not least <= number <= most:
                    break
            else:
                return make(value, dtype)
        return read_any(value)

    return read


class _ArrayReader:
    """Reads an array of any shape and dtype."""

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        low: object,
        high: object,
        flags: bool,
    ) -> None:
        self.shape = shape
        self.size = math.prod(shape)
        self.dtype = dtype
        self.flags = flags or dtype.kind == "b"
        self.types = frozenset({int, float} if dtype.kind == "f" else {int})
        least, most = limits_of(dtype)
        # Limits are compared in a dtype that holds more than the elements' own.
        self.wide = np.dtype({"f": "float64", "b": "int8"}.get(dtype.kind, dtype))
        self.low = np.asarray(least if low is None else low, self.wide)
        self.high = np.asarray(most if high is None else high, self.wide)
        self.span = self._span()

    def _span(self) -> tuple[int, int] | None:
        """Return the limits of integers, if they are the same for all of them."""
        if self.dtype.kind not in "iu" or not self.size:
            return None
        low, high = self.low.flat[0], self.high.flat[0]
        same = (self.low == low).all() and (self.high == high).all()
        return (int(low), int(high)) if same else None

    def limits(self) -> list[tuple[int | float, int | float]]:
        """List the smallest and the largest number for each element."""
        low = np.broadcast_to(self.low, self.shape).ravel().tolist()
        high = np.broadcast_to(self.high, self.shape).ravel().tolist()
        return list(zip(low, high, strict=True))

    def read(self, value: object) -> Array:
        """Read an array."""
        numbers = self._flat(value)
        if numbers is not None and self.types.issuperset(map(type, numbers)):
            if self.span is not None:
                least, most = self.span
                if least <= min(numbers) and max(numbers) <= most:
                    return np.array(numbers, self.dtype).reshape(self.shape)
                return self._one_by_one(value)
            try:
                array = np.array(numbers, self.wide).reshape(self.shape)
            except OverflowError:
                return self._one_by_one(value)
            if ((self.low <= array) & (array <= self.high)).all():
                return array.astype(self.dtype, copy=False)
        return self._one_by_one(value)

    def _flat(self, value: object) -> list[Any] | None:
        """List the numbers in C order, or nothing when the shape is wrong."""
        if self._is_flat(value):
            return value
        level: list[Any] = [value]
        for size in self.shape:
            for item in level:
                if type(item) is not list or len(item) != size:
                    return None
            level = list(chain.from_iterable(level))
        return level

    def _is_flat(self, value: object) -> TypeGuard[list[Any]]:
        return (
            type(value) is list
            and len(value) == self.size
            and not (value and type(value[0]) is list)
        )

    def _one_by_one(self, value: object) -> Array:
        """Convert numbers one by one, and refuse wrong ones."""
        leaves = list(self._leaves(value))
        numbers = []
        for (path, leaf), (low, high) in zip(leaves, self.limits(), strict=True):
            number = self._number(leaf)
            if number is None or not low <= number <= high:
                raise NotAnElement(leaf, self._expected(low, high), path)
            numbers.append(number)
        return np.array(numbers, self.dtype).reshape(self.shape)

    def _leaves(self, value: object) -> Iterator[tuple[tuple[int, ...], object]]:
        if self._is_flat(value):
            yield from (((index,), number) for index, number in enumerate(value))
        elif self.shape == (1,) and type(value) not in (list, dict):
            yield (), value
        else:
            yield from self._nested(value, self.shape, ())

    def _nested(
        self, value: object, shape: tuple[int, ...], path: tuple[int, ...]
    ) -> Iterator[tuple[tuple[int, ...], object]]:
        if not shape:
            yield path, value
            return
        if type(value) is not list or len(value) != shape[0]:
            expected = f"a list of {shape[0]}"
            if not path:
                expected = f"an array of shape {list(shape)}, nested or flat"
            raise NotAnElement(value, expected, path)
        for index, item in enumerate(value):
            yield from self._nested(item, shape[1:], (*path, index))

    def _number(self, value: object) -> int | float | None:
        if type(value) in self.types or (self.flags and type(value) is bool):
            return cast("int | float", value)
        if type(value) is float and value.is_integer():
            return int(value)
        return None

    def _expected(self, low: float, high: float) -> str:
        if self.dtype.kind == "f":
            return f"a finite {self.dtype.name}"
        expected = f"an integer from {low} to {high}"
        return f"true, false or {expected}" if self.flags else expected


def limits_of(dtype: np.dtype[Any]) -> tuple[int | float, int | float]:
    """Find the smallest and the largest number that a dtype holds, once rounded."""
    if dtype.kind == "b":
        return 0, 1
    if dtype.kind != "f":
        return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    largest = np.finfo(dtype if dtype.itemsize < 8 else np.float64).max
    if dtype.itemsize >= 8:
        return -float(largest), float(largest)
    # The shortest decimal of the largest float32, 3.4028235e+38, is above it.
    step = float(largest) - float(np.nextafter(largest, largest.dtype.type(0)))
    limit = math.nextafter(float(largest) + step / 2, 0)
    return -limit, limit
