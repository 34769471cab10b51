"""Reads some members of a dict in the binary form, and skips the others unread.

This needs no NumPy, which web workers do not load: values become trees of typed JSON.
"""

from __future__ import annotations

import base64
import math
import re
import struct
from collections.abc import Container
from typing import Any

import msgspec

from gym_http_wire.frames import VALUE_HEADER

__all__ = ["OutlineError", "outline"]

_TAG = "$t"
_MAX_SIGNATURE_BYTES = 2**20
_MAX_EXACT = 2**53
_WORD, _INT, _FLOAT = struct.Struct("<Q"), struct.Struct("<q"), struct.Struct("<d")
# Compiled when it is needed: few processes that import this read an outline.
_DTYPE = r"[<>|](?:([biufcS])([0-9]{1,7})|U([0-9]{1,7})|[mM]8(?:\[.*\])?)"
_MALFORMED = (
    AttributeError,
    TypeError,
    ValueError,
    msgspec.MsgspecError,
    struct.error,
)
_WORDS = ("bool", "int", "float")
_VARYING = ("bigint", "str", "bytes")


class OutlineError(ValueError):
    """The bytes are not a dict in the binary form, or a member cannot be typed JSON."""


def outline(data: bytes, skipped: Container[str]) -> dict[str, Any]:
    """Return the members of a dict as trees of typed JSON, except those to skip.

    Args:
        data: A dict in the binary form. What is skipped may be malformed.
        skipped: Names of members that are left out.

    Raises:
        OutlineError: It is malformed, or has a space, a graph or an array of objects.
    """
    try:
        return _Outline(data).members(skipped)
    except _MALFORMED as error:
        raise OutlineError(f"the body is no dict in the binary form: {error}") from None
    except RecursionError:
        raise OutlineError("the body is nested too deep") from None


class _Outline:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = VALUE_HEADER.size

    def members(self, skipped: Container[str]) -> dict[str, Any]:
        size, _ = VALUE_HEADER.unpack_from(self._data)
        if size > _MAX_SIGNATURE_BYTES:
            raise ValueError(f"its signature has {size} bytes")
        signature = msgspec.json.decode(self._take(size))
        if not isinstance(signature, dict) or list(signature) != ["dict"]:
            raise ValueError("it is of another kind")
        found: dict[str, Any] = {}
        for key, tree in signature["dict"]:
            if not isinstance(key, str):
                raise ValueError("a member has no name")
            if key in skipped:
                self._skip(tree)
            else:
                found[key] = self._tree(tree)
        if self._at != len(self._data):
            raise ValueError(f"it ends at byte {self._at} of {len(self._data)}")
        return found

    def _take(self, size: int) -> bytes:
        """Return the next leaf, and pass its padding."""
        start = self._at
        self._at = start + size + (-size & 7)
        if self._at > len(self._data):
            raise ValueError(f"it ends before byte {self._at}")
        return self._data[start : start + size]

    def _pass(self, size: int) -> None:
        self._at += size + (-size & 7)

    def _word(self, kind: struct.Struct) -> Any:
        return kind.unpack(self._take(8))[0]

    def _skip(self, tree: Any) -> None:
        if tree in _WORDS:
            self._pass(8)
        elif tree in _VARYING:
            self._pass(self._word(_WORD))
        elif tree != "none":
            ((tag, content),) = tree.items()
            if tag in ("nd", "ns"):
                self._pass(_size(tag, content))
            elif tag == "dict":
                for _, inner in content:
                    self._skip(inner)
            elif tag not in ("space", "autoreset"):
                for inner in content[1] if tag == "oa" else content:
                    self._skip(inner)

    def _tree(self, tree: Any) -> Any:
        if isinstance(tree, str):
            return self._leaf(tree)
        ((tag, content),) = tree.items()
        if tag in ("nd", "ns"):
            data = _base64(self._take(_size(tag, content)))
            if tag == "ns":
                return {_TAG: tag, "d": content, "v": data}
            return {_TAG: tag, "d": content[0], "s": content[1], "v": data}
        if tag == "dict":
            return self._dict(content)
        if tag == "autoreset":
            return {_TAG: tag, "v": content}
        if tag not in ("list", "tuple"):
            raise ValueError(f"a {tag} stands where none is expected")
        items = [self._tree(inner) for inner in content]
        return items if tag == "list" else {_TAG: tag, "v": items}

    def _dict(self, members: Any) -> Any:
        pairs = [[key, self._tree(inner)] for key, inner in members]
        if all(isinstance(key, str) and key != _TAG for key, _ in pairs):
            return dict(pairs)
        return {_TAG: "dict", "v": pairs}

    def _leaf(self, name: str) -> Any:
        if name == "none":
            return None
        if name == "bool":
            return bool(self._word(_WORD))
        if name == "int":
            number = self._word(_INT)
            exact = -_MAX_EXACT <= number <= _MAX_EXACT
            return number if exact else {_TAG: "int", "v": str(number)}
        if name == "float":
            value = self._word(_FLOAT)
            return value if math.isfinite(value) else {_TAG: name, "v": str(value)}
        data = self._take(self._word(_WORD))
        if name == "bigint":
            return {_TAG: "int", "v": data.decode("ascii")}
        if name == "bytes":
            return {_TAG: name, "v": _base64(data)}
        if name != "str":
            raise ValueError(f"{name!r:.40} is no kind of value")
        try:
            return data.decode()
        except UnicodeDecodeError:
            return {_TAG: name, "v": _base64(data)}


def _size(tag: str, content: Any) -> int:
    """Return the bytes of an array, or of a scalar."""
    name, sizes = content if tag == "nd" else (content, ())
    found = re.fullmatch(_DTYPE, name)
    if found is None or not all(type(each) is int and each >= 0 for each in sizes):
        raise ValueError(f"an array of {name!r:.40} has no size")
    _, count, characters = found.groups()
    item = int(count) if count else 4 * int(characters) if characters else 8
    return item * math.prod(sizes)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
