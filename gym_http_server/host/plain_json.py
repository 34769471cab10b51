"""Plain JSON: the form of requests and answers of simple clients, and of old ones.

A value is written by its type, not by its space. A value that JSON cannot represent
becomes a similar one: NaN becomes null, and an infinity the +-1e100 of gym-http-api.
Arrays and tuples become lists, sets sorted lists, bytes base64. An unknown object
becomes the beginning of its ``repr``, so that an info does not end an episode.
"""

import base64
import dataclasses
import math
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Set
from datetime import date, time
from enum import Enum
from functools import lru_cache, singledispatch
from typing import Any
from uuid import UUID

import msgspec
import numpy as np
import orjson

from gym_http_wire.values import Unsent
from gym_http_wire.values.model import MAX_REPR

__all__ = [
    "MAX_DEPTH",
    "MAX_INTEGER",
    "BadJSON",
    "TooDeep",
    "dumps",
    "is_given",
    "loads",
]

MAX_DEPTH = 64
MAX_INTEGER = 2**200
MAX_WRITTEN_DEPTH = 128
INFINITY = 1e100

_OPTIONS = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
_LONG_RUN = b"0" * len(str(MAX_INTEGER))
_LONG_INTEGER = re.compile(rb"(?<![0-9.])[0-9]{%d,}(?![0-9.eE])" % len(_LONG_RUN))
_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_BRACES = bytes.maketrans(b"{}", b"[]")
_NOT_BRACES = bytes(set(range(256)) - set(b"[]{}"))
_FLOATS = (np.float16, np.float32, np.float64)

_decode: Callable[[bytes], object] = msgspec.json.Decoder().decode


class BadJSON(ValueError):
    """The bytes are not valid JSON, or beyond the limits of this server."""


class TooDeep(ValueError):
    """A value that is nested too deeply to be written as JSON."""

    def __init__(self) -> None:
        super().__init__(
            f"The value is nested deeper than {MAX_WRITTEN_DEPTH} levels, or contains "
            "itself, and cannot be written as JSON"
        )


def loads(data: bytes) -> object:
    """Parse JSON that a client sent.

    Args:
        data: UTF-8 without a byte order mark, as JSON has to be.

    Returns:
        Plain Python objects.

    Raises:
        BadJSON: The data is not JSON, is nested deeper than `MAX_DEPTH`, or has a
            number that is beyond a float's range or an integer beyond `MAX_INTEGER`.
    """
    try:
        value = _decode(data)
    except RecursionError as error:
        raise _deep() from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadJSON(str(error)) from error
    if data.count(b"[") + data.count(b"{") > MAX_DEPTH and _depth(data) > MAX_DEPTH:
        raise _deep()
    if len(data) >= len(_LONG_RUN) and _LONG_RUN in data.translate(_ZEROS):
        for digits in _LONG_INTEGER.findall(_STRING.sub(b"", data)):
            if int(digits) > MAX_INTEGER:
                raise BadJSON(f"An integer of {len(digits)} digits is too large")
    return value


def is_given(value: object) -> bool:
    """Whether a parameter is provided: null, "" and [] are not, as in gym-http-api."""
    return value is not None and not (type(value) in (str, list) and not value)


def dumps(value: object) -> bytes:
    """Write a value as one line of compact JSON, its keys sorted.

    Args:
        value: Anything that an environment may return.

    Returns:
        JSON and a newline.

    Raises:
        TooDeep: The value is nested too deeply, or contains itself.
    """
    try:
        data = orjson.dumps(value, option=_OPTIONS)
    except orjson.JSONEncodeError:
        data = b"null"
    # orjson writes NaN and the infinities as null, like None.
    if b"null" in data:
        data = orjson.dumps(_jsonable(value), option=_OPTIONS)
    return data


def _deep() -> BadJSON:
    return BadJSON(f"The JSON is nested deeper than {MAX_DEPTH} levels")


def _depth(data: bytes) -> int:
    """Return how deep valid JSON is nested, at most one more than `MAX_DEPTH`."""
    brackets = _STRING.sub(b"", data).translate(_BRACES, _NOT_BRACES)
    depth = 0
    while brackets and depth <= MAX_DEPTH:
        brackets = brackets.replace(b"[]", b"")
        depth += 1
    return depth


def _jsonable(value: object) -> object:
    """Convert a value to one that orjson writes in the form of this module.

    Args:
        value: Any value that an environment may return.

    Returns:
        Plain objects, NumPy numbers and arrays, and fragments of JSON.

    Raises:
        TooDeep: The value is nested deeper than `MAX_WRITTEN_DEPTH`.
    """
    return _walk(value, MAX_WRITTEN_DEPTH)


def _walk(value: object, depth: int) -> object:
    if not depth:
        raise TooDeep
    return _converter(type(value))(value, depth - 1)


@singledispatch
def _plain(value: Any, depth: int) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return {name: _walk(getattr(value, name, None), depth) for name in names}
    array = _as_array(value)
    return _text(value) if array is None else _walk(array, depth)


def _as_array(value: Any) -> np.ndarray[Any, Any] | None:
    """Read the array of another library, such as JAX or PyTorch."""
    if isinstance(value, type) or not hasattr(value, "__array__"):
        return None
    try:
        if hasattr(value, "detach"):
            value = value.detach().cpu()
        return np.asarray(value)
    except Exception:
        return None


def _text(value: object) -> str:
    try:
        text = repr(value)
    except (Exception, SystemExit):
        text = f"<{type(value).__qualname__}>"
    return _string(text[:MAX_REPR], 0)


# The dispatcher itself takes several times as long to look a class up.
_converter: Callable[[type], Callable[[Any, int], object]]
_converter = lru_cache(maxsize=256)(_plain.dispatch)


@_plain.register(type(None))
@_plain.register(bool)
@_plain.register(orjson.Fragment)
def _native(value: object, depth: int) -> object:
    return value


@_plain.register(date)
@_plain.register(time)
def _moment(value: date | time, depth: int) -> str:
    return value.isoformat()


@_plain.register
def _uuid(value: UUID, depth: int) -> str:
    return str(value)


@_plain.register
def _string(value: str, depth: int) -> str:
    return str.__str__(value).encode(errors="replace").decode()


@_plain.register
def _integer(value: int, depth: int) -> object:
    number = int(value)
    if -(2**63) <= number < 2**64:
        return number
    try:
        return orjson.Fragment(str(number).encode())
    except ValueError:  # Python refuses to write thousands of digits.
        return _float(INFINITY if number > 0 else -INFINITY, 0)


@_plain.register
def _float(value: float, depth: int) -> float | None:
    if value - value == 0:
        return float(value)
    return None if value != value else INFINITY if value > 0 else -INFINITY


@_plain.register
def _complex(value: complex, depth: int) -> list[float | None]:
    return [_float(value.real, 0), _float(value.imag, 0)]


@_plain.register(bytes)
@_plain.register(bytearray)
@_plain.register(memoryview)
def _bytes(value: bytes | bytearray | memoryview, depth: int) -> str:
    return base64.b64encode(bytes(value)).decode()


@_plain.register
def _unsent(value: Unsent, depth: int) -> str:
    return _string(value.repr, 0)


@_plain.register
def _enum(value: Enum, depth: int) -> object:
    return _walk(value.value, depth)


@_plain.register(Mapping)
def _mapping(value: Mapping[Any, Any], depth: int) -> dict[str, object]:
    return {_key(key): _walk(inner, depth) for key, inner in value.items()}


@_plain.register(list)
@_plain.register(range)
@_plain.register(deque)
def _list(value: Iterable[Any], depth: int) -> list[object]:
    return [_walk(inner, depth) for inner in value]


@_plain.register
def _tuple(value: tuple, depth: int) -> object:  # type: ignore[type-arg]
    fields = getattr(value, "_fields", None)
    if type(value).__name__ == "GraphInstance" and fields:
        return {name: _walk(getattr(value, name), depth) for name in fields}
    return [_walk(inner, depth) for inner in value]


@_plain.register
def _set(value: Set, depth: int) -> list[object]:  # type: ignore[type-arg]
    try:
        members = sorted(value)
    except TypeError:
        members = sorted(value, key=repr)
    return [_walk(inner, depth) for inner in members]


@_plain.register
def _scalar(value: np.generic, depth: int) -> object:
    if isinstance(value, _FLOATS) and np.isfinite(value):
        return value
    if isinstance(value, np.floating):
        return _float(float(value), 0)
    if isinstance(value, np.datetime64 | np.timedelta64):
        return None if np.isnat(value) else str(value)
    item = value.item()
    return _text(value) if isinstance(item, np.generic) else _walk(item, depth)


@_plain.register
def _array(value: np.ndarray, depth: int) -> object:
    if isinstance(value, np.ma.MaskedArray):
        return _walk(value.tolist(), depth)
    # The rows of a matrix are matrices; those of an array end at its scalars.
    array = np.asarray(value)
    if not array.ndim:
        return _walk(array[()], depth)
    if array.dtype.kind not in "iubf" or array.dtype.itemsize > 8:
        return [_walk(inner, depth) for inner in array]
    infinite = np.isinf(array)
    if not infinite.any():
        return np.ascontiguousarray(array, array.dtype.newbyteorder("="))
    if array.ndim > 1:
        return [_walk(inner, depth) for inner in array]
    items: list[Any] = list(array)
    for index in np.flatnonzero(infinite):
        items[index] = math.copysign(INFINITY, items[index])
    return items


def _key(key: object) -> str:
    if isinstance(key, Enum):
        key = key.value
    if key is None or isinstance(key, bool | np.bool_):
        return "null" if key is None else "true" if key else "false"
    return _string(key if isinstance(key, str) else str(key), 0)
