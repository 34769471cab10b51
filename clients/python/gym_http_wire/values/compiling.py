"""Compiles signatures into functions that read their leaves."""

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from gymnasium.spaces import GraphInstance

from gym_http_wire.spaces import elided
from gym_http_wire.values.arrays import (
    Buffer,
    array_at,
    read_dtype,
    read_shape,
    scalar_at,
)
from gym_http_wire.values.described import MAX_SPACE_BYTES, space_of, weigh
from gym_http_wire.values.model import Unsent
from gym_http_wire.values.refusal import BadValue
from gym_http_wire.values.signing import PADDING
from gym_http_wire.values.texts import read_decimal, read_text
from gym_http_wire.values.treereading import (
    Reading,
    check_depth,
    check_keys,
    read_mode,
)

Node = Callable[[Buffer, int], tuple[Any, int]]
"""Reads a part of a value at a position; returns it and the next position."""

_read_word = struct.Struct("<Q").unpack_from
_read_int = struct.Struct("<q").unpack_from
_read_float = struct.Struct("<d").unpack_from
_read_complex = struct.Struct("<2d").unpack_from
_BOOLS = {0: False, 1: True}


class Compiling:
    """Compiles one signature, with a limit for the memory of its spaces."""

    def __init__(self) -> None:
        self._left = MAX_SPACE_BYTES

    def node(self, tree: object, depth: int) -> Node:
        """Compile a part of a signature at a depth."""
        if isinstance(tree, str) and tree in _LEAVES:
            return _LEAVES[tree]
        if isinstance(tree, dict) and len(tree) == 1:
            ((tag, content),) = tree.items()
            if tag in _TAGS:
                return _TAGS[tag](self, content, depth)
        raise BadValue(f"has an unknown signature: {elided(tree)}")

    def _nodes(self, trees: object, depth: int) -> list[Node]:
        check_depth(depth)
        nodes: list[Node] = []
        last: object = None
        try:
            for tree in _list_of(trees):
                # Long lists are mostly of one kind.
                if last is not None and tree == last:
                    nodes.append(nodes[-1])
                else:
                    nodes.append(self.node(tree, depth + 1))
                    last = tree if _is_text(tree) else None
        except BadValue as error:
            raise error.under(len(nodes)) from None
        return nodes

    def _items(self, trees: object, depth: int) -> Node:
        nodes = self._nodes(trees, depth)

        def read(data: Buffer, start: int) -> tuple[list[Any], int]:
            items: list[Any] = []
            try:
                for node in nodes:
                    item, start = node(data, start)
                    items.append(item)
            except BadValue as error:
                raise error.under(len(items)) from None
            return items, start

        return read

    def _tuple(self, trees: object, depth: int) -> Node:
        read_items = self._items(trees, depth)

        def read(data: Buffer, start: int) -> tuple[tuple[Any, ...], int]:
            items, start = read_items(data, start)
            return tuple(items), start

        return read

    def _dict(self, trees: object, depth: int) -> Node:
        check_depth(depth)
        keys: list[Any] = []
        nodes: list[Node] = []
        for pair in _list_of(trees):
            key, tree = _list_of(pair, 2)
            keys.append(key if type(key) is str else Reading().key(key, depth + 1))
            try:
                nodes.append(self.node(tree, depth + 1))
            except BadValue as error:
                raise error.under(keys[-1]) from None
        check_keys(keys)
        members = list(zip(keys, nodes, strict=True))

        def read(data: Buffer, start: int) -> tuple[dict[Any, Any], int]:
            items: dict[Any, Any] = {}
            key = None
            try:
                for key, node in members:
                    items[key], start = node(data, start)
            except BadValue as error:
                raise error.under(key) from None
            return items, start

        return read

    def _objects(self, content: object, depth: int) -> Node:
        sizes, trees = _list_of(content, 2)
        shape, count = read_shape(sizes, 8)
        if len(_list_of(trees)) != count:
            raise BadValue(f"needs {count} items for its shape")
        nodes = enumerate(self._nodes(trees, depth))
        # An array of objects is full of None when it is made.
        present = [(index, node) for index, node in nodes if node is not _none]

        def read(data: Buffer, start: int) -> tuple[Any, int]:
            array = np.empty(shape, object)
            flat = array.reshape(-1)
            index = 0
            try:
                for index, node in present:
                    flat[index], start = node(data, start)
            except BadValue as error:
                raise error.under(index) from None
            return array, start

        return read

    def _graph(self, trees: object, depth: int) -> Node:
        read_parts = self._items(_list_of(trees, 3), depth)

        def read(data: Buffer, start: int) -> tuple[GraphInstance, int]:
            parts, start = read_parts(data, start)
            return GraphInstance(*parts), start

        return read

    def _space(self, description: object, depth: int) -> Node:
        self._left -= weigh(description)
        if self._left < 0:
            raise BadValue(f"takes, with other spaces, over {MAX_SPACE_BYTES} bytes")
        return lambda data, start: (space_of(description), start)


def _is_text(tree: object) -> bool:
    """Whether there are only strings in it: of others, 1 and true are equal."""
    if isinstance(tree, dict):
        return "space" not in tree and all(map(_is_text, tree.values()))
    return all(map(_is_text, tree)) if isinstance(tree, list) else type(tree) is str


def _list_of(tree: object, size: int = 0) -> list[Any]:
    if not isinstance(tree, list) or (size and len(tree) != size):
        raise BadValue(f"needs a list{f' of {size}' * bool(size)}: {elided(tree)}")
    return tree


def _array(compiling: Compiling, content: object, depth: int) -> Node:
    name, sizes = _list_of(content, 2)
    if (
        type(name) is str
        and type(sizes) is list
        and len(name) < 32
        and len(sizes) <= 4
        and all(type(size) is int for size in sizes)
    ):
        return _known_array(name, *sizes)
    return _array_node(name, sizes)


def _array_node(name: object, sizes: object) -> Node:
    dtype = read_dtype(name)
    shape, count = read_shape(sizes, dtype.itemsize)
    size = count * dtype.itemsize

    def read(data: Buffer, start: int) -> tuple[Any, int]:
        after = _next_leaf(data, start, size)
        return array_at(dtype, shape, data, start), after

    return read


@lru_cache(maxsize=256)
def _known_array(name: str, *sizes: int) -> Node:
    return _array_node(name, list(sizes))


def _scalar(compiling: Compiling, name: object, depth: int) -> Node:
    dtype = read_dtype(name)

    def read(data: Buffer, start: int) -> tuple[Any, int]:
        after = _next_leaf(data, start, dtype.itemsize)
        return scalar_at(dtype, data, start), after

    return read


def _autoreset(compiling: Compiling, name: object, depth: int) -> Node:
    mode = read_mode(name)
    return lambda data, start: (mode, start)


_TAGS: dict[str, Callable[[Compiling, Any, int], Node]] = {
    "nd": _array,
    "ns": _scalar,
    "list": Compiling._items,
    "tuple": Compiling._tuple,
    "dict": Compiling._dict,
    "oa": Compiling._objects,
    "graph": Compiling._graph,
    "autoreset": _autoreset,
    "space": Compiling._space,
}


def _none(data: Buffer, start: int) -> tuple[Any, int]:
    return None, start


def _bool(data: Buffer, start: int) -> tuple[Any, int]:
    # Flag and padding are one word, so one lookup checks both.
    flag = _BOOLS.get(_read_word(data, start)[0])
    if flag is None:
        raise BadValue("is neither true (1) nor false (0)")
    return flag, start + 8


def _int(data: Buffer, start: int) -> tuple[Any, int]:
    return _read_int(data, start)[0], start + 8


def _float(data: Buffer, start: int) -> tuple[Any, int]:
    return _read_float(data, start)[0], start + 8


def _complex(data: Buffer, start: int) -> tuple[Any, int]:
    return complex(*_read_complex(data, start)), start + 16


def _varying(data: Buffer, start: int) -> tuple[Buffer, int]:
    first = start + 8
    size = _read_word(data, start)[0]
    after = _next_leaf(data, first, size)
    return data[first : first + size], after


def _next_leaf(data: Buffer, start: int, size: int) -> int:
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


def _unsent(data: Buffer, start: int) -> tuple[Any, int]:
    text, start = _str(data, start)
    kind, start = _str(data, start)
    return Unsent(text, kind), start


def _bytes(data: Buffer, start: int) -> tuple[Any, int]:
    content, after = _varying(data, start)
    return bytes(content), after


def _bigint(data: Buffer, start: int) -> tuple[Any, int]:
    content, after = _varying(data, start)
    return read_decimal(str(content, "latin-1")), after


_LEAVES: dict[str, Node] = {
    "none": _none,
    "bool": _bool,
    "int": _int,
    "float": _float,
    "complex": _complex,
    "bigint": _bigint,
    "str": _str,
    "bytes": _bytes,
    "unsent": _unsent,
}
"""Readers of leaves whose name is the whole signature."""
