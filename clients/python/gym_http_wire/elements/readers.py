"""Readers of elements in plain JSON, for each class of space."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import singledispatch
from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.spaces import (
    Box,
    Dict,
    Discrete,
    Graph,
    GraphInstance,
    MultiBinary,
    MultiDiscrete,
    OneOf,
    Sequence,
    Text,
    Tuple,
)

from gym_http_wire.elements.arrays import array_reader, integer_reader
from gym_http_wire.elements.refusal import NotAnElement, Read
from gym_http_wire.opaque import is_opaque
from gym_http_wire.spaces import UndescribableSpace, elided

ReadMany = Callable[[object], tuple[Any, int | None]]

_INT32 = np.dtype(np.int32)
_GRAPH = {"nodes", "edges", "edge_links"}


def under(key: str | int, read: Callable[[object], Any], value: object) -> Any:
    """Read the part of a value with a key, for the path in errors."""
    try:
        return read(value)
    except NotAnElement as error:
        raise error.under(key) from None


def keyed(readers: Mapping[Any, Read]) -> Read:
    """Make a reader of an object with one value for each key."""
    names = {str(key): key for key in readers}
    if len(names) < len(readers):
        raise UndescribableSpace('Plain JSON cannot tell the key 1 from the key "1"')
    parts = [(name, key, readers[key]) for name, key in names.items()]
    expected = f"an object with the keys {elided(sorted(names))}"

    def read(value: object) -> dict[Any, Any]:
        if type(value) is not dict or value.keys() != names.keys():
            raise NotAnElement(value, expected)
        return {key: under(name, part, value[name]) for name, key, part in parts}

    return read


def positional(readers: list[Read]) -> Read:
    """Make a reader of a list with one value for each position."""
    parts = list(enumerate(readers))

    def read(value: object) -> tuple[Any, ...]:
        if type(value) is not list or len(value) != len(parts):
            raise NotAnElement(value, f"a list of {len(parts)}")
        return tuple(under(index, part, value[index]) for index, part in parts)

    return read


def repeated(part: Read) -> Read:
    """Make a reader of a list of any length."""

    def read(value: object) -> tuple[Any, ...]:
        if type(value) is not list:
            raise NotAnElement(value, "a list")
        return tuple(under(index, part, item) for index, item in enumerate(value))

    return read


def reader(space: Space[Any]) -> Read:
    """Make a function that reads elements of a space from plain JSON.

    Args:
        space: The space.

    Returns:
        A function of a parsed JSON value. It returns an element as the space samples
        them, equal in type, dtype and shape, and raises `NotAnElement` for other
        values. Numbers of a Box may be out of its bounds, as they may be locally. The
        value for an opaque space is returned as it is, whether that contains it or not.

    Raises:
        UndescribableSpace: Plain JSON cannot represent the keys of a Dict in it.
    """
    return uncast if is_opaque(space) else _reader(space)


def uncast(value: object) -> Any:
    """Return a value as it is: only the class of an opaque space knows its elements."""
    return value


@singledispatch
def _reader(space: Space[Any]) -> Read:
    raise NotImplementedError


@_reader.register
def _discrete(space: Discrete) -> Read:
    low = int(space.start)
    high = min(low + int(space.n) - 1, int(np.iinfo(space.dtype).max))
    return integer_reader(low, high, space.dtype.type)


@_reader.register
def _box(space: Box) -> Read:
    return array_reader(space.shape, space.dtype)


def bounded_reader(space: Space[Any]) -> Read | None:
    """Make a reader that also checks bounds.

    Returns:
        The reader; ``None`` if only ``contains`` can check the result.
    """
    if isinstance(space, Discrete | MultiBinary | MultiDiscrete):
        return reader(space)
    if isinstance(space, Box) and space.dtype.kind in "iu":
        return array_reader(space.shape, space.dtype, space.low, space.high)
    return None


@_reader.register
def _multi_binary(space: MultiBinary) -> Read:
    return array_reader(space.shape, np.dtype(np.int8), 0, 1, flags=True)


@_reader.register
def _multi_discrete(space: MultiDiscrete) -> Read:
    high = space.start + (space.nvec - 1)
    return array_reader(space.shape, space.dtype, space.start, high)


@_reader.register
def _text(space: Text) -> Read:
    shortest, longest, charset = space.min_length, space.max_length, space.character_set
    characters = elided(space.characters)
    expected = f"a string of {shortest} to {longest} characters of {characters}"

    def read(value: object) -> str:
        if type(value) is not str or not shortest <= len(value) <= longest:
            raise NotAnElement(value, expected)
        if not charset.issuperset(value):
            raise NotAnElement(value, expected)
        return value

    return read


@_reader.register
def _dict(space: Dict) -> Read:
    return keyed({key: reader(inner) for key, inner in space.spaces.items()})


@_reader.register(Tuple)
def _tuple(space: Tuple[Any]) -> Read:
    return positional([reader(inner) for inner in space.spaces])


@_reader.register(OneOf)
def _one_of(space: OneOf[Any]) -> Read:
    index_reader = integer_reader(0, len(space.spaces) - 1, np.int64)
    readers = [reader(inner) for inner in space.spaces]

    def read(value: object) -> tuple[Any, Any]:
        if type(value) is not list or len(value) != 2:
            raise NotAnElement(value, "a list of two: [index, value]")
        index = under(0, index_reader, value[0])
        return index, under(1, readers[index], value[1])

    return read


@_reader.register
def _sequence(space: Sequence) -> Read:
    if not space.stack:
        return repeated(reader(space.feature_space))
    read_many = batch_reader(space.feature_space)
    return lambda value: read_many(value)[0]


@_reader.register
def _graph(space: Graph) -> Read:
    read_nodes = batch_reader(space.node_space)
    edge_space = space.edge_space
    read_edges = None if edge_space is None else batch_reader(edge_space)

    def read(value: object) -> GraphInstance:
        if type(value) is not dict or not {"nodes"} <= value.keys() <= _GRAPH:
            raise NotAnElement(value, 'an object of "nodes", "edges" and "edge_links"')
        nodes, count = under("nodes", read_nodes, value["nodes"])
        edges, links = value.get("edges"), value.get("edge_links")
        if edges is None and links is None:
            return GraphInstance(nodes, None, None)
        if read_edges is None:
            raise NotAnElement(edges, "null in a space without edges", ("edges",))
        edges, number = under("edges", read_edges, edges)
        if number is None and type(links) is list:
            number = len(links)
        last = None if count is None else count - 1
        read_links = array_reader((number or 0, 2), _INT32, 0, last)
        return GraphInstance(nodes, edges, under("edge_links", read_links, links))

    return read


def batch_reader(space: Space[Any]) -> ReadMany:
    """Make a reader of many elements, batched as Gymnasium does, and of their number.

    Arrays are stacked, elements of Dict and Tuple spaces become one Dict or Tuple of
    batches, and those of other spaces a tuple. The number of empty elements is unknown.
    """
    return _batch_reader.dispatch(object if is_opaque(space) else type(space))(space)


@singledispatch
def _batch_reader(space: Space[Any]) -> ReadMany:
    read = repeated(reader(space))

    def read_many(value: object) -> tuple[Any, int | None]:
        elements = read(value)
        return elements, len(elements)

    return read_many


@_batch_reader.register(Box)
@_batch_reader.register(Discrete)
@_batch_reader.register(MultiBinary)
@_batch_reader.register(MultiDiscrete)
def _arrays(space: Box | Discrete | MultiBinary | MultiDiscrete) -> ReadMany:
    read = repeated(reader(space))
    shape, dtype = space.shape or (), space.dtype

    def read_many(value: object) -> tuple[Any, int | None]:
        elements = read(value)
        batch = np.empty((len(elements), *shape), dtype)
        for index, element in enumerate(elements):
            batch[index] = element
        return batch, len(elements)

    return read_many


@_batch_reader.register
def _dict_of_batches(space: Dict) -> ReadMany:
    read = keyed({key: batch_reader(inner) for key, inner in space.spaces.items()})

    def read_many(value: object) -> tuple[Any, int | None]:
        batches = read(value)
        count = _common_length(value, [length for _, length in batches.values()])
        return {key: batch for key, (batch, _) in batches.items()}, count

    return read_many


@_batch_reader.register(Tuple)
def _tuple_of_batches(space: Tuple[Any]) -> ReadMany:
    read = positional([batch_reader(inner) for inner in space.spaces])

    def read_many(value: object) -> tuple[Any, int | None]:
        batches = read(value)
        count = _common_length(value, [length for _, length in batches])
        return tuple(batch for batch, _ in batches), count

    return read_many


def _common_length(value: object, lengths: list[int | None]) -> int | None:
    known = {length for length in lengths if length is not None}
    if len(known) > 1:
        raise NotAnElement(value, "of batches of one length")
    return known.pop() if known else None
