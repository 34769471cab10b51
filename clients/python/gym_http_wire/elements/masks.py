"""Readers of masks, which restrict the samples of a space, in plain JSON."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.spaces import (
    Dict,
    Discrete,
    Graph,
    MultiBinary,
    MultiDiscrete,
    OneOf,
    Sequence,
    Text,
    Tuple,
)
from gymnasium.vector.utils import batch_space

from gym_http_wire.elements.arrays import array_reader, integer_reader
from gym_http_wire.elements.readers import keyed, positional, uncast
from gym_http_wire.elements.refusal import NotAnElement, Read
from gym_http_wire.opaque import is_opaque

MAX_LENGTH = 65_536
"""The longest sequence that a mask may request."""

_INT8 = np.dtype(np.int8)
_INT64 = np.dtype(np.int64)
_NODES = 10


def mask_reader(space: Space[Any]) -> Read:
    """Make a function that reads masks for sampling a space from plain JSON.

    Args:
        space: The space.

    Returns:
        A function of a parsed JSON value. It returns what ``space.sample(mask=...)``
        accepts, ``None`` for null, and raises `NotAnElement` for anything else. The
        mask of an opaque space is returned as it is.
    """
    read_mask = _optional_mask(space)

    def read(value: object) -> Any:
        try:
            return read_mask(value)
        except NotAnElement as error:
            error.root = "mask"
            raise

    return read


def _optional_mask(space: Space[Any]) -> Read:
    return uncast if is_opaque(space) else _optional(_mask_reader(space))


@singledispatch
def _mask_reader(space: Space[Any]) -> Read:
    return _no_mask(f"a {type(space).__name__} space takes no mask")


def _no_mask(why: str) -> Read:
    def read(value: object) -> Any:
        raise NotAnElement(value, f"null: {why}")

    return read


@_mask_reader.register
def _discrete(space: Discrete) -> Read:
    return _bits(int(space.n))


@_mask_reader.register
def _multi_binary(space: MultiBinary) -> Read:
    return array_reader(space.shape, _INT8, 0, 2)


@_mask_reader.register
def _multi_discrete(space: MultiDiscrete) -> Read:
    return _nested(space.nvec.tolist())


def _nested(counts: Any) -> Read:
    if isinstance(counts, int):
        return _bits(counts)
    return positional([_nested(count) for count in counts])


@_mask_reader.register
def _dict(space: Dict) -> Read:
    return keyed({key: _optional_mask(inner) for key, inner in space.spaces.items()})


@_mask_reader.register(Tuple)
@_mask_reader.register(OneOf)
def _members(space: Tuple[Any] | OneOf[Any]) -> Read:
    return positional([_optional_mask(inner) for inner in space.spaces])


@_mask_reader.register
def _text(space: Text) -> Read:
    size = len(space.character_list)
    length = integer_reader(space.min_length, space.max_length, int)
    read_pair = positional([_optional(length), _optional(_bits(size))])

    def read(value: object) -> Any:
        mask = read_pair(value)
        if mask[1] is not None and space.min_length and not mask[1].any():
            raise NotAnElement(value, "a mask with at least one 1")
        return mask

    return read


@_mask_reader.register
def _sequence(space: Sequence) -> Read:
    length = integer_reader(0, MAX_LENGTH, int)

    def read_length(value: object) -> Any:
        if type(value) is not list:
            return length(value)
        if not value:
            raise NotAnElement(value, "a length, or a list of lengths")
        return array_reader((len(value),), _INT64, 0, MAX_LENGTH)(value)

    return positional([_optional(read_length), _optional_mask(space.feature_space)])


@_mask_reader.register
def _graph(space: Graph) -> Read:
    # Gymnasium masks its ten nodes as a batch, but each edge by the same one mask,
    # which only these kinds of spaces take.
    edges = _no_mask("there are no edges to mask")
    if isinstance(space.edge_space, Discrete | Text | Sequence | Graph | OneOf):
        edges = _mask_reader(space.edge_space)
    elif space.edge_space is not None:
        edges = _no_mask(f"edges of a {type(space.edge_space).__name__} take no mask")

    def read_nodes(value: object) -> Any:
        return _mask_reader(batch_space(space.node_space, _NODES))(value)

    return positional([_optional(read_nodes), _optional(edges)])


def _bits(count: int) -> Read:
    return array_reader((count,), _INT8, 0, 1)


def _optional(read: Read) -> Read:
    return lambda value: None if value is None else read(value)
