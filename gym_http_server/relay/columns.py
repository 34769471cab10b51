"""Columns that a run declares: names, dtypes and shapes of the bodies of its batches.

Of the binary form only the signature is read, so that the check takes the same time for
large arrays. Of plain JSON, which has no dtypes, each number must fit the dtype.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from gym_http_server.errors import BadColumns
from gym_http_server.relay.calls import Column
from gym_http_wire.messages import MEDIA_TYPES, Form

__all__ = ["DTYPES", "check_columns"]

MAX_SIGNATURE_BYTES = 2**20
MAX_DEPTH = 64
_HEADER = struct.Struct("<II")
_BINARY, _TYPED, _PLAIN = (
    MEDIA_TYPES[form] for form in (Form.BINARY, Form.TYPED, Form.PLAIN)
)
#: Names of dtypes, by their codes on the wire.
_CODES = {
    "|b1": "bool",
    **{
        f"{'|' if size == 1 else '<'}i{size}": f"int{8 * size}" for size in (1, 2, 4, 8)
    },
    **{
        f"{'|' if size == 1 else '<'}u{size}": f"uint{8 * size}"
        for size in (1, 2, 4, 8)
    },
    **{f"<f{size}": f"float{8 * size}" for size in (2, 4, 8)},
    **{f"<c{size}": f"complex{8 * size}" for size in (8, 16)},
}
#: Dtypes that a column may have.
DTYPES = tuple(_CODES.values())
_ITEM_BYTES = {name: int(code[2:]) for code, name in _CODES.items()}
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


def check_columns(
    declared: Mapping[str, Column], count: int, content_type: str, body: memoryview
) -> None:
    """Check that a body has the declared columns, and no others.

    Args:
        declared: The columns.
        count: Number of transitions, which is the first size of each column.
        content_type: Media type of the body.
        body: Its bytes, which are not packed.

    Raises:
        BadColumns: It does not have them.
    """
    kind = content_type.partition(";")[0].strip().lower()
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
        shape = (count, *column.shape)
        if found[name].dtype != column.dtype or found[name].shape != shape:
            raise BadColumns(
                f"the column {name!r} has dtype {found[name].dtype} and shape "
                f"{list(found[name].shape)}: expected {column.dtype} and "
                f"{list(shape)}, with count {count}"
            )


def _check_names(declared: Mapping[str, Column], found: Mapping[str, Any]) -> None:
    if found.keys() != declared.keys():
        missing = sorted(declared.keys() - found.keys())
        unknown = sorted(map(str, found.keys() - declared.keys()))
        words = [
            f"{word} {', '.join(repr(name)[:80] for name in names[:10])}"
            for word, names in (("lacks", missing), ("has also", unknown))
            if names
        ]
        raise BadColumns(
            f"the batch {' and '.join(words)}: expected the columns "
            f"{', '.join(map(repr, sorted(declared)))}"
        )


def _json(body: memoryview) -> dict[str, Any]:
    found = msgspec.json.decode(body)
    if not isinstance(found, dict):
        raise ValueError("it is no object of columns")
    return found


def _of_binary(body: memoryview) -> dict[str, _Found]:
    size, reserved = _HEADER.unpack_from(body)
    start = _HEADER.size + size
    if reserved or size % 8 or size > MAX_SIGNATURE_BYTES or start > len(body):
        raise ValueError("its signature has an impossible size")
    signature = msgspec.json.decode(body[_HEADER.size : start])
    found = {}
    for name, tree in _tagged(signature, "dict"):
        if not isinstance(name, str) or name in found:
            raise ValueError(f"{name!r:.80} is not the name of a column")
        found[name] = _of_signature(tree)
    needed = start + sum(column.size for column in found.values())
    if needed != len(body):
        raise ValueError(f"it has {len(body)} bytes, and its columns take {needed}")
    return found


def _tagged(tree: object, tag: str) -> Any:
    if not isinstance(tree, dict) or list(tree) != [tag]:
        raise ValueError(f"{tree!r:.80} is no {tag}")
    return tree[tag]


def _of_signature(tree: object) -> _Found:
    if isinstance(tree, dict) and "list" in tree:
        items = _tagged(tree, "list")
        kinds = set(items)
        if len(kinds) == 1 and kinds <= _SCALARS.keys():
            return _Found(_SCALARS[items[0]], (len(items),), 8 * len(items))
        raise ValueError("a list of different values is no column")
    code, shape = _tagged(tree, "nd")
    return _array(code, shape)


def _array(code: object, shape: object) -> _Found:
    if not isinstance(shape, list) or any(
        type(size) is not int or size < 0 for size in shape
    ):
        raise ValueError(f"{shape!r:.80} is no shape")
    # Other dtypes, such as texts, fit no declared column.
    dtype = _CODES.get(str(code), str(code))
    size = math.prod(shape) * _ITEM_BYTES.get(dtype, 0)
    return _Found(dtype, tuple(shape), size + -size % 8)


def _of_typed(columns: dict[str, Any]) -> dict[str, _Found]:
    found = {}
    for name, value in columns.items():
        if isinstance(value, list):
            kinds = {type(item).__name__ for item in value}
            if len(kinds) != 1 or not kinds <= _SCALARS.keys():
                raise ValueError(f"{name!r:.80} is no column of one dtype")
            found[name] = _Found(_SCALARS[kinds.pop()], (len(value),))
            continue
        if not isinstance(value, dict) or value.get("$t") != "nd":
            raise ValueError(f"{name!r:.80} is no array")
        column = _array(value["d"], value["s"])
        size = math.prod(column.shape) * _ITEM_BYTES.get(column.dtype, 0)
        if len(value["v"]) != -(-size // 3) * 4:
            raise ValueError(f"{name!r:.80} has not the bytes of its shape")
        found[name] = column
    return found


def _check_plain(
    declared: Mapping[str, Column], count: int, columns: dict[str, Any]
) -> None:
    _check_names(declared, columns)
    for name, column in declared.items():
        _check_nested(name, column.dtype, (count, *column.shape), columns[name])


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
