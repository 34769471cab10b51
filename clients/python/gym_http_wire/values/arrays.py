"""Bytes of NumPy's arrays and scalars, and their dtypes and shapes."""

import math
import re
from functools import lru_cache
from typing import Any

import numpy as np

from gym_http_wire.spaces import Array, elided
from gym_http_wire.values.refusal import BadValue, UnsupportedValue

Buffer = bytes | memoryview

MAX_AXES = 32
MAX_AXIS = 2**31 - 1
MAX_TEXT_BYTES = 2**20
"""How many bytes one string in an array of strings may take."""

SMALL_BYTES = 1024
"""Up to here, copying an array is quicker than getting at its own bytes."""

LARGE_BYTES = 256 * 1024
"""From here on, an array keeps the writeable memory that it was received in."""

_MAX_NUMBER_BYTES = 16
_BITS = b"\0\1"
_LAST_CHARACTER = 0x10FFFF
_UTF_32 = {"<": "utf-32-le", ">": "utf-32-be"}
_NAME = re.compile(
    r"[<>|]([biufc][0-9]{1,2}|[SU][0-9]{1,7}"
    r"|[mM]8(\[[0-9]{0,10}(Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as)\])?)"
)
# On other machines 16 bytes are another format, with another number for the same bits.
_HAS_EXTENDED = bool(np.finfo(np.longdouble).nmant == 63)


@lru_cache(maxsize=256)
def _dtype(name: str) -> np.dtype[Any] | None:
    if not _NAME.fullmatch(name):
        return None
    try:
        dtype = np.dtype(name)
    except (TypeError, ValueError, OverflowError):
        return None
    # One dtype has one name.
    if dtype.str != name:
        return None
    if dtype.kind in "SU":
        return dtype if dtype.itemsize <= MAX_TEXT_BYTES else None
    if dtype.char == "g" and not _HAS_EXTENDED:
        return None
    return dtype if dtype.itemsize <= _MAX_NUMBER_BYTES else None


def read_dtype(name: object) -> np.dtype[Any]:
    """Parse the name of a dtype."""
    dtype = _dtype(name) if isinstance(name, str) and len(name) < 32 else None
    if dtype is None:
        raise BadValue(f"is of an unknown dtype: {elided(name)}")
    return dtype


def name_dtype(dtype: np.dtype[Any]) -> str:
    """Return the name of a dtype in messages."""
    name = dtype.str
    if _dtype(name) != dtype:
        raise UnsupportedValue(f"is of a dtype that cannot be sent: {dtype}")
    return name


def check_shape(array: Array) -> list[int]:
    """Return the sizes of an array's axes; raise if they cannot be sent."""
    shape = array.shape
    if len(shape) > MAX_AXES or any(size > MAX_AXIS for size in shape):
        raise UnsupportedValue(
            f"has more than {MAX_AXES} axes, or more than {MAX_AXIS} along one"
        )
    if not array.dtype.itemsize:
        raise UnsupportedValue(f"is an array of nothing: {array.dtype}")
    return list(shape)


def read_shape(sizes: object, itemsize: int) -> tuple[tuple[int, ...], int]:
    """Parse a shape; returns it and its number of elements."""
    if not isinstance(sizes, list) or len(sizes) > MAX_AXES:
        raise BadValue(f"has no shape of at most {MAX_AXES} sizes: {elided(sizes)}")
    if not all(type(size) is int and 0 <= size <= MAX_AXIS for size in sizes):
        raise BadValue(f"has an invalid size in its shape: {elided(sizes)}")
    # NumPy limits the other axes even if one is empty.
    if not itemsize or math.prod(max(size, 1) for size in sizes) * itemsize >= 2**63:
        raise BadValue(f"has an impossible shape: {elided(sizes)}")
    return tuple(sizes), math.prod(sizes)


def array_bytes(array: Array) -> Buffer:
    """Return the bytes of an array in C order, without a copy where possible."""
    kind = array.dtype.kind
    if kind == "b":
        return _bits_of(array)
    if kind == "U" and not _is_text(array):
        raise UnsupportedValue("has characters that do not exist")
    if array.nbytes > SMALL_BYTES:
        return array.reshape(-1).view(np.uint8).data
    return array.tobytes()


def array_at(
    dtype: np.dtype[Any], shape: tuple[int, ...], buffer: Buffer, offset: int = 0
) -> Array:
    """Make a new array from bytes, whose number was checked before.

    Large arrays in writeable memory stay there, since the message has no other use.
    """
    array: Array = np.ndarray(shape, dtype, buffer, offset)
    if array.nbytes < LARGE_BYTES or not array.flags.writeable:
        array = array.copy()
    kind = dtype.kind
    if kind == "b" and not _is_bits(array):
        raise BadValue("has bytes that are neither true (1) nor false (0)")
    if kind == "U" and not _is_text(array):
        raise BadValue("has characters that do not exist")
    return array


def _bits_of(array: Array) -> Buffer:
    """Return the bytes 0 and 1 of booleans, which may be a view of other bytes."""
    if array.nbytes <= SMALL_BYTES:
        data = array.tobytes()
        return bytes(map(bool, data)) if data.strip(_BITS) else data
    return np.not_equal(array.view(np.uint8), 0).tobytes()


def _is_bits(array: Array) -> bool:
    # Up to some size, a method of bytes takes less time than a call of NumPy's.
    if array.nbytes <= SMALL_BYTES:
        return not array.tobytes().strip(_BITS)
    return bool(array.view(np.uint8).max(initial=0) <= 1)


def _is_text(array: Array) -> bool:
    codes = np.frombuffer(array.tobytes(), f"{array.dtype.str[0]}u4")
    return bool(codes.max(initial=0) <= _LAST_CHARACTER)


def scalar_bytes(scalar: np.generic) -> bytes:
    """Return the bytes of a scalar."""
    # Unlike in an array, characters at the end may be null.
    if isinstance(scalar, np.str_):
        return str.__str__(scalar).encode(_UTF_32[scalar.dtype.str[0]], "surrogatepass")
    if isinstance(scalar, np.bytes_):
        return bytes.__bytes__(scalar)
    return scalar.tobytes()


def scalar_at(dtype: np.dtype[Any], buffer: Buffer, offset: int = 0) -> Any:
    """Make a scalar from bytes, whose number was checked before."""
    kind = dtype.kind
    if kind in "SU":
        content = bytes(buffer[offset : offset + dtype.itemsize])
        if kind == "S":
            return np.bytes_(content)
        try:
            text = content.decode(_UTF_32[dtype.str[0]], "surrogatepass")
        except UnicodeDecodeError:
            raise BadValue("has characters that do not exist") from None
        return np.str_(text)
    if kind == "b":
        return np.bool_(array_at(dtype, (), buffer, offset))
    return np.ndarray((), dtype, buffer, offset)[()]
