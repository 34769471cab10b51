"""Fields of a space's description; errors name the path of the field."""

import math
import re
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from gym_http_wire.spaces import DTYPES, MAX_DEPTH, MAX_EXACT, Array, elided

MAX_BYTES = 2**29
"""How much memory the arrays of all spaces of a description may take together."""

MAX_AXES = 32
_SPACE_BYTES = 1024

_DECIMAL = re.compile(r"-?[0-9]{1,20}")
_SPECIAL = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
_MISSING = object()


class BadDescription(ValueError):
    """A description of a space that cannot be rebuilt.

    Attributes:
        field: Where in the description, for example ``spaces[2].dtype``.
    """

    def __init__(self, field: str, value: object, expected: str) -> None:
        self.field = field
        shown = "missing" if value is _MISSING else elided(value)
        super().__init__(
            f"The description of the space does not fit: {field or 'the whole'} is "
            f"{shown}, but must be {expected}"
        )


class Budget:
    """Bytes that the spaces of one description may still take."""

    def __init__(self) -> None:
        self.left = MAX_BYTES


class Fields:
    """The fields of one space, and where in the description it is.

    Attributes:
        value: The fields.
        path: Where in the description they are.
        imported: Whether opaque spaces are made of classes that are imported here.
    """

    def __init__(
        self,
        value: object,
        path: str = "",
        depth: int = 1,
        copies: int = 1,
        budget: Budget | None = None,
        imported: bool = False,
    ) -> None:
        if depth > MAX_DEPTH:
            raise BadDescription(path, value, f"nested at most {MAX_DEPTH} levels deep")
        if not isinstance(value, dict):
            raise BadDescription(path, value, 'an object with a "type"')
        self.value: dict[Any, Any] = value
        self.path = path
        self.imported = imported
        self._depth = depth
        self._copies = copies
        self._budget = budget or Budget()

    def inner(self, field: str, value: object = _MISSING, copies: int = 1) -> "Fields":
        """Return the fields of an inner space; Gymnasium makes ``copies`` of it."""
        return Fields(
            self.get(field) if value is _MISSING else value,
            self.at(field),
            self._depth + 1,
            self._copies * copies,
            self._budget,
            self.imported,
        )

    def take(self, field: str, size: int) -> None:
        """Add bytes that the space takes to the budget, and refuse too many."""
        self._budget.left -= size * self._copies
        if self._budget.left < 0:
            self.refuse(field, f"of a space that takes at most {MAX_BYTES} bytes")

    def take_space(self) -> None:
        """Count the memory of the space object without its arrays."""
        # Gymnasium deep-copies what it copied before: of nested Graphs and stacked
        # Sequences the time doubles at every level, and doubles once more.
        self.take("type", _SPACE_BYTES * self._copies)

    def get(self, field: str, default: object = _MISSING) -> Any:
        """Return the unparsed value of a field."""
        return self.value.get(field, default)

    def at(self, field: str) -> str:
        """Name a field of this space by its whole path."""
        return f"{self.path}.{field}" if self.path else field

    def refuse(self, field: str, expected: str) -> NoReturn:
        """Refuse the value of a field."""
        raise BadDescription(self.at(field), self.get(field), expected)

    def items(self, field: str) -> list[Any]:
        """Read a list of anything."""
        value = self.get(field)
        if not isinstance(value, list):
            self.refuse(field, "a list")
        return value

    def text(self, field: str, default: object = _MISSING) -> str:
        """Read a string."""
        value = self.get(field, default)
        if not isinstance(value, str):
            self.refuse(field, "a string")
        return value

    def flag(self, field: str, default: bool) -> bool:
        """Read true or false."""
        value = self.get(field, default)
        if not isinstance(value, bool):
            self.refuse(field, "true or false")
        return value

    def integer(
        self, field: str, dtype: np.dtype[Any], default: object = _MISSING
    ) -> int:
        """Read an integer that an integer dtype holds."""
        number = as_integer(self.get(field, default), dtype)
        if number is None:
            self.refuse(field, _range(dtype))
        return number

    def dtype(self, kinds: str, default: str) -> np.dtype[Any]:
        """Read the dtype, which must be of one of these kinds."""
        name = self.get("dtype", default)
        dtype = DTYPES.get(name) if isinstance(name, str) else None
        if dtype is None or dtype.kind not in kinds:
            fit = [name for name, each in DTYPES.items() if each.kind in kinds]
            self.refuse("dtype", f"one of {', '.join(fit)}")
        return dtype

    def shape(
        self, field: str, itemsize: int, default: object = _MISSING
    ) -> tuple[int, ...]:
        """Read a shape, and count the bytes of its elements."""
        value = self.get(field, default)
        if not isinstance(value, list) or len(value) > MAX_AXES:
            self.refuse(field, f"a list of at most {MAX_AXES} sizes")
        sizes = [as_integer(size, DTYPES["int64"]) for size in value]
        shape = tuple(size for size in sizes if size is not None and size >= 0)
        if len(shape) < len(value):
            self.refuse(field, "a list of sizes, each an integer from 0 on")
        # NumPy limits the other axes even if one is empty.
        self.take(field, math.prod(max(size, 1) for size in shape) * itemsize)
        return shape

    def array(
        self,
        field: str,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        default: object = _MISSING,
    ) -> Array:
        """Read an array: one number for all elements, or a flat list of numbers."""
        value = self.get(field, default)
        read = _READERS[dtype.kind]
        if not isinstance(value, list):
            number = read(value, dtype)
            if number is None:
                self.refuse(field, f"{_range(dtype)}, or a flat list of such")
            return np.full(shape, number, dtype)
        if len(value) != math.prod(shape):
            self.refuse(field, f"one number, or a flat list of {math.prod(shape)}")
        array = np.empty(len(value), dtype)
        for index, element in enumerate(value):
            number = read(element, dtype)
            if number is None:
                where = self.at(f"{field}[{index}]")
                raise BadDescription(where, element, _range(dtype))
            array[index] = number
        return array.reshape(shape)


def _boolean(value: object, dtype: np.dtype[Any]) -> bool | None:
    return bool(value) if isinstance(value, int) and 0 <= value <= 1 else None


def as_integer(value: object, dtype: np.dtype[Any]) -> int | None:
    """Read an integer, a decimal string or 1.0; None if the dtype cannot hold it."""
    if isinstance(value, str):
        value = int(value) if _DECIMAL.fullmatch(value) else None
    elif isinstance(value, float) and value.is_integer() and abs(value) <= MAX_EXACT:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    limits = np.iinfo(dtype)
    return value if limits.min <= value <= limits.max else None


def _float(value: object, dtype: np.dtype[Any]) -> float | None:
    if isinstance(value, str):
        return _SPECIAL.get(value)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        # The shortest decimal of the largest float32, 3.4028235e+38, is above it.
        with np.errstate(over="ignore"):
            return float(value) if np.isfinite(dtype.type(value)) else None
    except OverflowError:
        return None


_READERS: dict[str, Callable[[object, np.dtype[Any]], Any]] = {
    "b": _boolean,
    "i": as_integer,
    "u": as_integer,
    "f": _float,
}


def _range(dtype: np.dtype[Any]) -> str:
    if dtype.kind == "b":
        return "true or false"
    if dtype.kind == "f":
        limit = str(np.finfo(dtype).max)
        return f'a number from -{limit} to {limit}, "inf", "-inf" or "nan"'
    limits = np.iinfo(dtype)
    return f"an integer from {limits.min} to {limits.max}"
