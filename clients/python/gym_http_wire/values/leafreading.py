"""Read single leaves of a message, and check them."""

import struct
from collections.abc import Callable
from typing import Any

from gym_http_wire.values.arrays import Buffer
from gym_http_wire.values.refusal import BadValue
from gym_http_wire.values.signing import PADDING
from gym_http_wire.values.texts import read_decimal, read_text

Node = Callable[[Buffer, int], tuple[Any, int]]
"""Reads a part of a value at a position, and says where the next one begins."""

_read_word = struct.Struct("<Q").unpack_from
_read_int = struct.Struct("<q").unpack_from
_read_float = struct.Struct("<d").unpack_from
_BOOLS = {0: False, 1: True}


def _none(data: Buffer, start: int) -> tuple[Any, int]:
    return None, start


def _bool(data: Buffer, start: int) -> tuple[Any, int]:
    # With the padding in one word, a single look tells whether all is as it must be.
    flag = _BOOLS.get(_read_word(data, start)[0])
    if flag is None:
        raise BadValue("is neither true (1) nor false (0)")
    return flag, start + 8


def _int(data: Buffer, start: int) -> tuple[Any, int]:
    return _read_int(data, start)[0], start + 8


def _float(data: Buffer, start: int) -> tuple[Any, int]:
    return _read_float(data, start)[0], start + 8


def _varying(data: Buffer, start: int) -> tuple[Buffer, int]:
    first = start + 8
    size = _read_word(data, start)[0]
    after = next_leaf(data, first, size)
    return data[first : first + size], after


def next_leaf(data: Buffer, start: int, size: int) -> int:
    """Find where the leaf after one of this size begins; both are checked."""
    end = start + size
    after = end + (-size & 7)
    if after > len(data):
        raise BadValue(f"needs {size} bytes at byte {start}, but they end before")
    if data[end:after] != PADDING[size & 7]:
        raise BadValue(f"has padding at byte {end} that is not zero")
    return after


def _str(data: Buffer, start: int) -> tuple[Any, int]:
    content, after = _varying(data, start)
    return read_text(content), after


def _bytes(data: Buffer, start: int) -> tuple[Any, int]:
    content, after = _varying(data, start)
    return bytes(content), after


def _bigint(data: Buffer, start: int) -> tuple[Any, int]:
    content, after = _varying(data, start)
    return read_decimal(str(content, "latin-1")), after


LEAVES: dict[str, Node] = {
    "none": _none,
    "bool": _bool,
    "int": _int,
    "float": _float,
    "bigint": _bigint,
    "str": _str,
    "bytes": _bytes,
}
"""How to read the leaves of which the name says all."""
