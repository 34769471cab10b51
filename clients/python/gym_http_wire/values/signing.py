"""Splits a value into the signature of its tree and its leaves."""

import json
import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.spaces import GraphInstance
from gymnasium.vector import AutoresetMode

from gym_http_wire.spaces import Array
from gym_http_wire.values.arrays import (
    SMALL_BYTES,
    array_bytes,
    check_shape,
    name_dtype,
    scalar_bytes,
)
from gym_http_wire.values.described import description_of
from gym_http_wire.values.model import MAX_DEPTH, SCALARS, Unsent, standing_for
from gym_http_wire.values.refusal import UnsupportedValue
from gym_http_wire.values.texts import is_unicode, write_decimal
from gym_http_wire.values.treewriting import (
    check_depth,
    write_keys,
)

Leaf = bytes | memoryview
Sign = Callable[[Any, list[Leaf], int], str]

MAX_SIGNATURE_BYTES = 2**20

PADDING = tuple(bytes(-size % 8) for size in range(8))
"""The padding after a leaf, by the size of the leaf modulo 8."""

_MAX_REMEMBERED = 1024
_WRITE_SIZE = struct.Struct("<Q").pack
_WRITE_INT = struct.Struct("<q").pack
_WRITE_FLOAT = struct.Struct("<d").pack
_WRITE_COMPLEX = struct.Struct("<2d").pack
_BOOLS = (bytes(8), b"\1" + bytes(7))
_LOWEST, _HIGHEST = -(2**63), 2**63 - 1

_json = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
_array_signatures: dict[tuple[Any, ...], tuple[str, bytes, bool]] = {}
_key_signatures: dict[str, str] = {}


def signed(value: Any) -> tuple[str, list[Leaf]]:
    """Return the signature of a value, and buffers that make up its leaves."""
    leaves: list[Leaf] = []
    return sign(value, leaves, 1), leaves


def sign(value: Any, leaves: list[Leaf], depth: int) -> str:
    """Return the signature of a value so many levels deep, and add its leaves."""
    kind = type(value)
    signer = _SIGNERS.get(kind)
    if signer is None:
        kind, value = standing_for(value)
        signer = _SIGNERS[kind]
    return signer(value, leaves, depth)


def _none(value: None, leaves: list[Leaf], depth: int) -> str:
    return '"none"'


def _bool(value: bool, leaves: list[Leaf], depth: int) -> str:
    leaves.append(_BOOLS[value])
    return '"bool"'


def _int(value: int, leaves: list[Leaf], depth: int) -> str:
    if _LOWEST <= value <= _HIGHEST:
        leaves.append(_WRITE_INT(value))
        return '"int"'
    _varying(write_decimal(value).encode("ascii"), leaves)
    return '"bigint"'


def _float(value: float, leaves: list[Leaf], depth: int) -> str:
    leaves.append(_WRITE_FLOAT(value))
    return '"float"'


def _complex(value: complex, leaves: list[Leaf], depth: int) -> str:
    leaves.append(_WRITE_COMPLEX(value.real, value.imag))
    return '"complex"'


def _unsent(value: Unsent, leaves: list[Leaf], depth: int) -> str:
    _str(value.repr, leaves, depth)
    _str(value.type, leaves, depth)
    return '"unsent"'


def _str(value: str, leaves: list[Leaf], depth: int) -> str:
    _varying(value.encode("utf-8", "surrogatepass"), leaves)
    return '"str"'


def _bytes(value: bytes, leaves: list[Leaf], depth: int) -> str:
    _varying(value, leaves)
    return '"bytes"'


def _varying(data: bytes, leaves: list[Leaf]) -> None:
    size = len(data)
    leaves += (_WRITE_SIZE(size), data, PADDING[size & 7])


def _array(value: Array, leaves: list[Leaf], depth: int) -> str:
    dtype = value.dtype
    if dtype.char == "O":
        check_shape(value)
        items = _items(value.ravel().tolist(), leaves, depth)
        return f'{{"oa":[{_known_sizes(value.shape)},{items}]}}'
    known = (dtype, value.shape)
    signature, padding, is_plain = _array_signatures.get(known) or _know(value)
    if is_plain and value.nbytes <= SMALL_BYTES:
        leaves.append(value.tobytes())
    else:
        leaves.append(array_bytes(value))
    if padding:
        leaves.append(padding)
    return signature


@lru_cache(maxsize=256)
def _known_sizes(shape: tuple[int, ...]) -> str:
    return _json(list(shape))


def _know(array: Array) -> tuple[str, bytes, bool]:
    dtype = array.dtype
    name, sizes = name_dtype(dtype), _json(check_shape(array))
    known = (
        f'{{"nd":["{name}",{sizes}]}}',
        PADDING[array.nbytes & 7],
        dtype.kind not in ("b", "U"),
    )
    # Of dates, dtypes that differ in name may be equal.
    if dtype.kind not in "mM":
        _remember(_array_signatures, (dtype, array.shape), known)
    return known


def _scalar(value: np.generic, leaves: list[Leaf], depth: int) -> str:
    name = name_dtype(value.dtype)
    data = scalar_bytes(value)
    leaves += (data, PADDING[len(data) & 7])
    return f'{{"ns":"{name}"}}'


def _list(value: list[Any], leaves: list[Leaf], depth: int) -> str:
    return f'{{"list":{_items(value, leaves, depth)}}}'


def _tuple(value: tuple[Any, ...], leaves: list[Leaf], depth: int) -> str:
    return f'{{"tuple":{_items(value, leaves, depth)}}}'


def _items(value: Sequence[Any], leaves: list[Leaf], depth: int) -> str:
    check_depth(depth)
    signatures: list[str] = []
    try:
        for item in value:
            # Infos of vectors have a place for each environment, mostly empty.
            signatures.append(
                '"none"' if item is None else sign(item, leaves, depth + 1)
            )
    except UnsupportedValue as error:
        raise error.under(len(signatures)) from None
    return _within_limits(f"[{','.join(signatures)}]")


def _dict(value: dict[Any, Any], leaves: list[Leaf], depth: int) -> str:
    if depth > MAX_DEPTH:
        check_depth(depth)
    if not value:
        return '{"dict":[]}'
    members: list[str] = []
    plain = True
    key: Any = None
    try:
        for key, item in value.items():
            signer = _SIGNERS.get(type(item), sign)
            signature = signer(item, leaves, depth + 1)
            if type(key) is str:
                name = _key_signatures.get(key) or _key_signature(key)
            else:
                plain, name = False, ""
            members.append(f"[{name},{signature}]")
    except UnsupportedValue as error:
        raise error.under(key) from None
    if not plain:
        keys = write_keys(value, depth)
        for index, key in enumerate(value):
            if type(key) is not str:
                members[index] = f"[{_json(keys[index])}{members[index][1:]}"
    return _within_limits(f'{{"dict":[{",".join(members)}]}}')


def _key_signature(key: str) -> str:
    if not is_unicode(key):
        return _json(write_keys({key: None}, 1)[0])
    signature = _json(key)
    if len(key) <= 64:
        _remember(_key_signatures, key, signature)
    return signature


def _remember(known: dict[Any, Any], key: Any, value: object) -> None:
    if len(known) >= _MAX_REMEMBERED:
        known.clear()
    known[key] = value


def _graph(value: GraphInstance, leaves: list[Leaf], depth: int) -> str:
    check_depth(depth)
    parts = []
    for field, part in zip(value._fields, value, strict=True):
        try:
            parts.append(sign(part, leaves, depth + 1))
        except UnsupportedValue as error:
            raise error.within(field) from None
    return _within_limits(f'{{"graph":[{",".join(parts)}]}}')


def _autoreset(value: AutoresetMode, leaves: list[Leaf], depth: int) -> str:
    return f'{{"autoreset":"{value.value}"}}'


def _space(value: Space[Any], leaves: list[Leaf], depth: int) -> str:
    return f'{{"space":{_json(description_of(value))}}}'


def _within_limits(signature: str) -> str:
    # A value that holds itself in many places must not be walked to its end.
    if len(signature) > MAX_SIGNATURE_BYTES:
        raise UnsupportedValue("has more parts than a signature may have")
    return signature


_SIGNERS: dict[type, Sign] = {
    type(None): _none,
    bool: _bool,
    int: _int,
    float: _float,
    complex: _complex,
    str: _str,
    bytes: _bytes,
    list: _list,
    tuple: _tuple,
    dict: _dict,
    np.ndarray: _array,
    **dict.fromkeys((np.generic, *SCALARS), _scalar),
    GraphInstance: _graph,
    AutoresetMode: _autoreset,
    Unsent: _unsent,
    Space: _space,
}
