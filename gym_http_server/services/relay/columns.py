"""Columns that a run declares: names, dtypes and shapes of the bodies of its batches.

Of the binary form only the signature is read, so that the check takes the same time for
large arrays. Of plain JSON, which has no dtypes, each number must fit the dtype.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from string import ascii_lowercase
from typing import Any, NamedTuple

import msgspec

from gym_http_server.errors import BadColumns
from gym_http_server.operations.runs import DTYPES
from gym_http_server.services.relay.calls import DeclaredColumn
from gym_http_wire.messages import MEDIA_TYPES, Form, media_type_of

__all__ = ["MAX_JSON_BYTES", "check_columns", "is_json"]

MAX_SIGNATURE_BYTES = 2**20
#: JSON is decoded and checked value by value, while all other requests wait.
MAX_JSON_BYTES = 2**20
#: Dimensions of a column, with that of its transitions, as NumPy allows them.
MAX_DIMENSIONS = 64
MAX_SIZE = 2**53 - 1
_HEADER = struct.Struct("<II")
_BINARY, _TYPED, _PLAIN = (
    MEDIA_TYPES[form] for form in (Form.BINARY, Form.TYPED, Form.PLAIN)
)
_ITEM_BYTES = {name: int(name.strip(ascii_lowercase) or 8) // 8 for name in DTYPES}
#: Names of dtypes, by their codes on the wire.
_CODES = {
    f"{'|' if size == 1 else '<'}{name[0]}{size}": name
    for name, size in _ITEM_BYTES.items()
}
#: What lists of Python's scalars are.
_SCALARS = {"bool": "bool", "int": "int64", "float": "float64"}


class _Found(NamedTuple):
    """A column of a body.

    Attributes:
        dtype: Name of its dtype; "" for plain JSON.
        shape: Its shape.
        size: Bytes of its leaf; 0 if that is unknown.
    """

    dtype: str
    shape: tuple[int, ...]
    size: int = 0


def is_json(content_type: str) -> bool:
    """Return whether batches of this media type are decoded to check them."""
    return media_type_of(content_type) in (_TYPED, _PLAIN)


def check_columns(
    declared: Mapping[str, DeclaredColumn],
    count: int,
    content_type: str,
    body: memoryview,
) -> None:
    """Check that a body has the declared columns; others may be anything.

    Args:
        declared: The columns.
        count: Number of transitions, which is the first size of each column. The
            observations of an episode may have one more, as a rollout answers them.
        content_type: Media type of the body.
        body: Its bytes, which are not packed.

    Raises:
        BadColumns: It does not have them.
    """
    kind = media_type_of(content_type)
    if kind in (_TYPED, _PLAIN) and len(body) > MAX_JSON_BYTES:
        raise BadColumns(
            f"the batch has {len(body)} bytes of JSON: where a run declares columns, "
            f"{MAX_JSON_BYTES} at most; send {_BINARY}, or smaller batches"
        )
    try:
        if kind == _BINARY:
            found = _of_binary(body)
        elif kind == _TYPED:
            found = _of_typed(_json(body))
        elif kind == _PLAIN:
            _check_plain(declared, count, _json(body))
            return
        else:
            raise BadColumns(
                f"the batch has the media type {content_type!r:.80}, and the run "
                f"declares columns: expected {_BINARY}, {_TYPED} or {_PLAIN}"
            )
    except (ValueError, TypeError, KeyError, RecursionError, struct.error) as error:
        raise BadColumns(f"the batch is not {kind}: {error}") from None
    _check_names(declared, found)
    for name, column in declared.items():
        given = found[name]
        if given is None:
            raise BadColumns(
                f"the column {name!r} is neither array nor list of numbers"
            )
        rows = _rows(name, count, given.shape[0] if given.shape else -1)
        shape = (rows, *column.shape)
        if given.dtype != column.dtype or given.shape != shape:
            raise BadColumns(
                f"the column {name!r} has dtype {given.dtype} and shape "
                f"{list(given.shape)}: expected {column.dtype} and {list(shape)}, with "
                f"count {count}"
            )


def _rows(name: str, count: int, given: int) -> int:
    """Return the rows that a column must have."""
    # They begin with that of the reset.
    return count + 1 if name == "observations" and given == count + 1 else count


def _check_names(
    declared: Mapping[str, DeclaredColumn], found: Mapping[str, Any]
) -> None:
    missing = sorted(declared.keys() - found.keys())
    if missing:
        raise BadColumns(
            f"the batch lacks {', '.join(repr(name)[:80] for name in missing[:10])}: "
            f"expected the columns {', '.join(map(repr, sorted(declared)))}"
        )


def _json(body: memoryview) -> dict[str, Any]:
    found = msgspec.json.decode(body)
    if not isinstance(found, dict):
        raise ValueError("it is no object of columns")
    return found


def _of_binary(body: memoryview) -> dict[str, _Found | None]:
    size, reserved = _HEADER.unpack_from(body)
    start = _HEADER.size + size
    if reserved or size % 8 or size > MAX_SIGNATURE_BYTES or start > len(body):
        raise ValueError("its signature has an impossible size")
    signature = msgspec.json.decode(body[_HEADER.size : start])
    found: dict[str, _Found | None] = {}
    for name, tree in _tagged(signature, "dict"):
        if not isinstance(name, str) or name in found:
            raise ValueError(f"{name!r:.80} is not the name of a column")
        found[name] = _of_signature(tree)
    needed = start + sum(column.size for column in found.values() if column)
    # Other values have leaves of varying size.
    exact = None not in found.values()
    if needed > len(body) or (exact and needed != len(body)):
        raise ValueError(f"it has {len(body)} bytes, and its columns take {needed}")
    return found


def _tagged(tree: object, tag: str) -> Any:
    if not isinstance(tree, dict) or list(tree) != [tag]:
        raise ValueError(f"{tree!r:.80} is no {tag}")
    return tree[tag]


def _of_signature(tree: object) -> _Found | None:
    if not isinstance(tree, dict):
        return None
    if list(tree) == ["list"]:
        items = tree["list"]
        if isinstance(items, list) and items and items == items[:1] * len(items):
            kind = _SCALARS.get(str(items[0]))
            if kind is not None:
                return _Found(kind, (len(items),), 8 * len(items))
    if list(tree) != ["nd"]:
        return None
    code, shape = tree["nd"]
    column = _array(code, shape)
    return column if column.dtype in _ITEM_BYTES else None


def _array(code: object, shape: object) -> _Found:
    # The product of many dimensions would take minutes.
    if (
        not isinstance(shape, list)
        or len(shape) > MAX_DIMENSIONS
        or any(type(size) is not int or not 0 <= size <= MAX_SIZE for size in shape)
    ):
        raise ValueError(f"{shape!r:.80} is no shape")
    # Other dtypes, such as texts, fit no declared column.
    dtype = _CODES.get(str(code), str(code))
    size = math.prod(shape) * _ITEM_BYTES.get(dtype, 0)
    return _Found(dtype, tuple(shape), size + -size % 8)


def _of_typed(columns: dict[str, Any]) -> dict[str, _Found | None]:
    return {name: _of_typed_value(name, value) for name, value in columns.items()}


def _of_typed_value(name: str, value: object) -> _Found | None:
    if isinstance(value, list):
        kinds = {type(item).__name__ for item in value}
        kind = _SCALARS.get(kinds.pop()) if len(kinds) == 1 else None
        return None if kind is None else _Found(kind, (len(value),))
    if not isinstance(value, dict) or value.get("$t") != "nd":
        return None
    column = _array(value["d"], value["s"])
    if column.dtype not in _ITEM_BYTES:
        return None
    size = math.prod(column.shape) * _ITEM_BYTES[column.dtype]
    if len(value["v"]) != -(-size // 3) * 4:
        raise ValueError(f"{name!r:.80} has not the bytes of its shape")
    return column


def _check_plain(
    declared: Mapping[str, DeclaredColumn], count: int, columns: dict[str, Any]
) -> None:
    _check_names(declared, columns)
    for name, column in declared.items():
        value = columns[name]
        rows = _rows(name, count, len(value) if isinstance(value, list) else -1)
        _check_nested(name, column.dtype, (rows, *column.shape), value)


def _check_nested(
    name: str, dtype: str, shape: tuple[int, ...], value: object, depth: int = 0
) -> None:
    """Check nested lists of numbers against a dtype and a shape."""
    if depth < len(shape):
        if not isinstance(value, list) or len(value) != shape[depth]:
            has = len(value) if isinstance(value, list) else repr(value)[:40]
            raise BadColumns(
                f"the column {name!r} has {has} at level {depth} of its lists: "
                f"expected a list of {shape[depth]}, for the shape {list(shape)}"
            )
        for item in value:
            _check_nested(name, dtype, shape, item, depth + 1)
    elif not _fits(value, dtype):
        raise BadColumns(
            f"the column {name!r} has {value!r:.80}: expected values of {dtype}"
        )


def _fits(value: object, dtype: str) -> bool:
    if dtype == "bool":
        return isinstance(value, bool)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if dtype.startswith("float"):
        return True
    bits = 8 * _ITEM_BYTES[dtype]
    if not isinstance(value, int) or dtype.startswith("complex"):
        return False
    if dtype.startswith("u"):
        return 0 <= value < 1 << bits
    return -(1 << bits - 1) <= value < 1 << bits - 1
