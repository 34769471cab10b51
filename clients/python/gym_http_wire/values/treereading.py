"""Converts parsed JSON of the typed form to values."""

import math
import re
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.spaces import GraphInstance
from gymnasium.vector import AutoresetMode

from gym_http_wire.spaces import elided
from gym_http_wire.values.arrays import array_at, read_dtype, read_shape, scalar_at
from gym_http_wire.values.described import MAX_SPACE_BYTES, space_of, weigh
from gym_http_wire.values.model import MAX_DEPTH, Unsent, key_problem
from gym_http_wire.values.refusal import BadValue
from gym_http_wire.values.texts import read_base64, read_decimal, read_text
from gym_http_wire.values.treewriting import TAG

_BITS = re.compile(r"[0-9a-f]{16}")
_SPECIAL = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_MODES = {mode.value: mode for mode in AutoresetMode}
_KEY_TAGS = ["int", "float", "str", "bytes", "ns"]
_GRAPH = ("nodes", "edges", "edge_links")


class Reading:
    """Converts one message, with a limit for the memory of its spaces."""

    def __init__(self) -> None:
        self._left = MAX_SPACE_BYTES

    def value(self, tree: Any, depth: int) -> Any:
        """Convert a tree at a depth to a value."""
        kind = type(tree)
        if kind is float:
            if not math.isfinite(tree):
                raise BadValue("is a number beyond all floats")
            return tree
        if kind is list:
            return self._items(tree, depth)
        if kind is not dict:
            return tree
        if TAG not in tree:
            return self._members(tree, depth)
        tag = tree[TAG]
        known = _TAGS.get(tag) if isinstance(tag, str) else None
        if known is None:
            raise BadValue(f"has an unknown {TAG}: {elided(tag)}")
        fields, read = known
        if tree.keys() != fields:
            raise BadValue(
                f'is a "{tag}" with the fields {elided(list(tree))}, '
                f"but must have {elided(sorted(fields))}"
            )
        return read(self, tree, depth)

    def key(self, tree: Any, depth: int) -> Any:
        """Convert a tree to the key of a dict."""
        if not _may_be_key(tree):
            raise BadValue(f"has a key that no dict may have: {elided(tree)}")
        return self.value(tree, depth)

    def _items(self, trees: object, depth: int) -> list[Any]:
        if not isinstance(trees, list):
            raise BadValue(f"needs a list: {elided(trees)}")
        check_depth(depth)
        items: list[Any] = []
        try:
            for tree in trees:
                items.append(self.value(tree, depth + 1))
        except BadValue as error:
            raise error.under(len(items)) from None
        return items

    def _members(self, trees: dict[str, Any], depth: int) -> dict[str, Any]:
        check_depth(depth)
        members: dict[str, Any] = {}
        key = None
        try:
            for key, tree in trees.items():
                members[key] = self.value(tree, depth + 1)
        except BadValue as error:
            raise error.under(key) from None
        return members

    def _dict(self, tree: dict[str, Any], depth: int) -> dict[Any, Any]:
        check_depth(depth)
        keys, items = [], []
        for pair in _list_of(tree["v"]):
            if not isinstance(pair, list) or len(pair) != 2:
                raise BadValue(f"needs pairs of a key and a value: {elided(pair)}")
            keys.append(self.key(pair[0], depth + 1))
            try:
                items.append(self.value(pair[1], depth + 1))
            except BadValue as error:
                raise error.under(keys[-1]) from None
        check_keys(keys)
        return dict(zip(keys, items, strict=True))

    def _tuple(self, tree: dict[str, Any], depth: int) -> tuple[Any, ...]:
        return tuple(self._items(tree["v"], depth))

    def _objects(self, tree: dict[str, Any], depth: int) -> Any:
        shape, count = read_shape(tree["s"], 8)
        if len(_list_of(tree["v"])) != count:
            raise BadValue(f"needs {count} items for its shape")
        array = np.empty(shape, object)
        flat = array.reshape(-1)
        for index, item in enumerate(self._items(tree["v"], depth)):
            flat[index] = item
        return array

    def _graph(self, tree: dict[str, Any], depth: int) -> GraphInstance:
        check_depth(depth)
        parts = []
        for field in _GRAPH:
            try:
                parts.append(self.value(tree[field], depth + 1))
            except BadValue as error:
                raise error.within(field) from None
        return GraphInstance(*parts)

    def _complex(self, tree: dict[str, Any], depth: int) -> complex:
        return complex(*self._pair(tree, float))

    def _unsent(self, tree: dict[str, Any], depth: int) -> Unsent:
        return Unsent(*self._pair(tree, str))

    def _pair(self, tree: dict[str, Any], kind: type) -> list[Any]:
        pair = _list_of(tree["v"])
        items = [self.value(each, 1) for each in pair] if len(pair) == 2 else []
        if [*map(type, items)] != [kind, kind]:
            raise BadValue(
                f'is a "{tree[TAG]}" of {elided(pair)}, but needs two of the type '
                f"{kind.__name__}"
            )
        return items

    def _space(self, tree: dict[str, Any], depth: int) -> Any:
        self._left -= weigh(tree["v"])
        if self._left < 0:
            raise BadValue(f"takes, with other spaces, over {MAX_SPACE_BYTES} bytes")
        return space_of(tree["v"])


def check_depth(depth: int) -> None:
    """Refuse a list, tuple, dict or the like that is too deep."""
    if depth > MAX_DEPTH:
        raise BadValue(f"is nested deeper than {MAX_DEPTH} levels")


def _may_be_key(tree: Any) -> bool:
    """Whether a tree is a key's, before anything large is made of it."""
    if not isinstance(tree, dict):
        return not isinstance(tree, list)
    tag = tree.get(TAG)
    if tag == "tuple":
        return all(map(_may_be_key, _list_of(tree.get("v"))))
    return tag in _KEY_TAGS


def check_keys(keys: list[Any]) -> None:
    """Refuse invalid or repeated keys of a dict."""
    problem = key_problem(key for key in keys if type(key) is not str)
    if problem:
        raise BadValue(problem)
    try:
        once = len(set(keys)) == len(keys)
    except (TypeError, ValueError, OverflowError):  # NumPy's, of dates of some units.
        once = False
    if not once:
        raise BadValue("has a key twice")


def _list_of(tree: object) -> list[Any]:
    if not isinstance(tree, list):
        raise BadValue(f"needs a list: {elided(tree)}")
    return tree


def _int(reading: Reading, tree: dict[str, Any], depth: int) -> int:
    return read_decimal(tree["v"])


def _float(reading: Reading, tree: dict[str, Any], depth: int) -> float:
    text = tree["v"]
    if not isinstance(text, str):
        raise BadValue(f"is no float: {elided(text)}")
    if text in _SPECIAL:
        return _SPECIAL[text]
    if not _BITS.fullmatch(text):
        raise BadValue(f"is no float: {elided(text)}")
    number: float = struct.unpack(">d", bytes.fromhex(text))[0]
    return number


def _bytes(reading: Reading, tree: dict[str, Any], depth: int) -> bytes:
    return read_base64(tree["v"])


def _str(reading: Reading, tree: dict[str, Any], depth: int) -> str:
    return read_text(read_base64(tree["v"]))


def _array(reading: Reading, tree: dict[str, Any], depth: int) -> Any:
    dtype = read_dtype(tree["d"])
    shape, count = read_shape(tree["s"], dtype.itemsize)
    return array_at(dtype, shape, read_base64(tree["v"], count * dtype.itemsize))


def _scalar(reading: Reading, tree: dict[str, Any], depth: int) -> Any:
    dtype = read_dtype(tree["d"])
    return scalar_at(dtype, read_base64(tree["v"], dtype.itemsize))


def _autoreset(reading: Reading, tree: dict[str, Any], depth: int) -> AutoresetMode:
    return read_mode(tree["v"])


def read_mode(name: object) -> AutoresetMode:
    """Parse the name of a mode of autoreset."""
    mode = _MODES.get(name) if isinstance(name, str) else None
    if mode is None:
        raise BadValue(f"is no mode of autoreset: {elided(name)}")
    return mode


_Read = Callable[[Reading, dict[str, Any], int], Any]

_TAGS: dict[str, tuple[set[str], _Read]] = {
    tag: ({TAG, *fields.split()}, read)
    for tag, fields, read in (
        ("int", "v", _int),
        ("float", "v", _float),
        ("complex", "v", Reading._complex),
        ("str", "v", _str),
        ("bytes", "v", _bytes),
        ("tuple", "v", Reading._tuple),
        ("dict", "v", Reading._dict),
        ("nd", "d s v", _array),
        ("ns", "d v", _scalar),
        ("oa", "s v", Reading._objects),
        ("graph", "nodes edges edge_links", Reading._graph),
        ("autoreset", "v", _autoreset),
        ("space", "v", Reading._space),
        ("unsent", "v", Reading._unsent),
    )
}
