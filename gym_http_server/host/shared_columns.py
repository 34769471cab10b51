"""Columns of infos in memory that the shards of a vector share.

Infos mostly have the same numbers in every step. Once the leading process has received
such a column in a message, it makes memory for it, where each shard writes its part.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gym_http_server.host.info_merge import Columns

__all__ = [
    "MAX_CHANGES",
    "Bounds",
    "InfoColumn",
    "SharedColumns",
    "leaves_of",
    "together",
]

#: Limit of columns in shared memory.
MAX_COLUMNS = 256
#: Limit of changes to the columns in shared memory.
MAX_CHANGES = 16
_NUMERIC = "biufc"
_ALIGNMENT = 64

Bounds = Sequence[tuple[int, int]]


class InfoColumn(NamedTuple):
    """A column of numbers.

    Attributes:
        path: Keys of infos, the outermost first.
        kind: The type of all values, as `Columns` has it; "" for masks.
        dtype: The type of its array.
        shape: The shape of a value.
    """

    path: tuple[str, ...]
    kind: str
    dtype: str
    shape: tuple[int, ...]


def leaves_of(columns: Columns | None) -> list[tuple[InfoColumn, Any]] | None:
    """Return all columns with their arrays; ``None`` if some are not numbers."""
    leaves: list[tuple[InfoColumn, Any]] = []
    if not columns or _collect(leaves, (), columns.values, columns.kinds):
        return leaves
    return None


def _collect(
    leaves: list[tuple[InfoColumn, Any]],
    path: tuple[str, ...],
    values: dict[str, Any],
    kinds: dict[str, Any],
) -> bool:
    for name, value in values.items():
        # Masks have no kind.
        kind = kinds.get(name, "")
        if isinstance(value, dict):
            if not value or not _collect(leaves, (*path, name), value, kind):
                return False
        elif value.dtype.kind in _NUMERIC:
            dtype, shape = value.dtype.str, value.shape[1:]
            leaves.append((InfoColumn((*path, name), kind, dtype, shape), value))
        else:
            return False
    return True


def together(
    known: Sequence[InfoColumn], found: Sequence[InfoColumn]
) -> list[InfoColumn]:
    """Return the columns that can have shared memory: the known ones, then others.

    A column of another type than a known one with its keys is not among them.
    """
    whole = list(known)
    for column in found:
        if len(whole) == MAX_COLUMNS:
            break
        if not any(_overlap(column.path, other.path) for other in whole):
            whole.append(column)
    return whole


def _overlap(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]


class SharedColumns:
    """Columns of infos of all environments of a vector.

    Args:
        columns: The columns, in the order of infos that have all of them.
        bounds: By shard, its first environment, and the first one of the next shard.
        descriptor: A file of `size` bytes, zero at first, which is closed.
    """

    def __init__(
        self, columns: Sequence[InfoColumn], bounds: Bounds, descriptor: int
    ) -> None:
        self.columns = list(columns)
        self._bounds = bounds
        self._index = {column: number for number, column in enumerate(columns)}
        memory = mmap.mmap(descriptor, self.size(columns, bounds))
        os.close(descriptor)
        count, num_envs = len(columns), bounds[-1][1]
        # By shard and column, whether the shard has the column.
        self._present = np.frombuffer(memory, np.bool_, len(bounds) * count)
        self._present = self._present.reshape(len(bounds), count)
        start, self._arrays = _aligned(len(bounds) * count), []
        for column in columns:
            kind, shape = np.dtype(column.dtype), (num_envs, *column.shape)
            values = int(np.prod(shape, dtype=np.int64))
            array: Any = np.zeros(shape, kind)
            if values:
                array = np.frombuffer(memory, kind, values, start).reshape(shape)
            self._arrays.append(array)
            start += _aligned(values * kind.itemsize)

    @staticmethod
    def size(columns: Sequence[InfoColumn], bounds: Bounds) -> int:
        """Return the number of bytes that the columns need."""
        size, num_envs = _aligned(len(bounds) * len(columns)), bounds[-1][1]
        for column in columns:
            values = int(np.prod((num_envs, *column.shape), dtype=np.int64))
            size += _aligned(values * np.dtype(column.dtype).itemsize)
        return max(size, mmap.PAGESIZE)

    def write(self, shard: int, leaves: Sequence[tuple[InfoColumn, Any]]) -> bool:
        """Write the part of a shard; return whether there is memory for all of it."""
        start, stop = self._bounds[shard]
        index, present = self._index, self._present[shard]
        numbers = [index.get(column, -1) for column, _ in leaves]
        # The order counts, since the keys of the whole vector are in this order.
        if numbers != sorted(numbers) or -1 in numbers[:1]:
            return False
        for number, (_, value) in zip(numbers, leaves, strict=True):
            self._arrays[number][start:stop] = value
        if len(numbers) == len(index):
            present[:] = True
            return True
        for number, array in enumerate(self._arrays):
            if number not in numbers and present[number]:
                # Environments without a value have zeros.
                array[start:stop] = 0
            present[number] = number in numbers
        return True

    def read(self) -> dict[str, Any]:
        """Return the infos of the whole vector, from parts that all shards wrote.

        The next step overwrites their arrays.
        """
        present = self._present
        order: Any = range(len(self.columns))
        if not present.all():
            order = dict.fromkeys(int(number) for number in np.nonzero(present)[1])
        infos: dict[str, Any] = {}
        for number in order:
            _put(infos, self.columns[number].path, self._arrays[number])
        return infos

    def part(self, shard: int) -> Columns | None:
        """Return the infos of a shard, from the part that it wrote, if it has any."""
        start, stop = self._bounds[shard]
        values: dict[str, Any] = {}
        kinds: dict[str, Any] = {}
        for number in np.flatnonzero(self._present[shard]):
            column = self.columns[number]
            _put(values, column.path, self._arrays[number][start:stop])
            if column.kind:
                _put(kinds, column.path, column.kind)
        return Columns(values, kinds) if values else None


def _put(tree: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = value


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
