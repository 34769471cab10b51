"""Arrays that several processes write and one reads, each a part of the batch."""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from gymnasium.vector.utils import create_empty_array
from numpy.typing import NDArray

__all__ = ["Batch", "batch_bytes"]

_ALIGNMENT = 64
_ARRAYS = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


@dataclass
class Batch:
    """What the environments of a vector gave, or some of them.

    Attributes:
        observations: Arrays, (n, …) each, in dicts and tuples; ``None`` if the space
            has others than arrays in it.
        rewards: float64 (n,).
        terminations: bool (n,).
        truncations: bool (n,).
    """

    observations: Any
    rewards: NDArray[np.float64]
    terminations: NDArray[np.bool_]
    truncations: NDArray[np.bool_]

    @classmethod
    def mapped(cls, memory: mmap.mmap, space: Space[Any], num_envs: int) -> Batch:
        """Lay the arrays of a vector over memory.

        Args:
            memory: At least `batch_bytes`, zero at first.
            space: The observation space of a single environment.
            num_envs: How many there are.
        """
        layout = _Layout(memory)
        return _lay_out(layout, space, num_envs)

    def part(self, start: int, stop: int) -> Batch:
        """Give what belongs to some of the environments; writing there writes here."""
        chosen = slice(start, stop)
        return Batch(
            _sliced(self.observations, chosen),
            self.rewards[chosen],
            self.terminations[chosen],
            self.truncations[chosen],
        )


def batch_bytes(space: Space[Any], num_envs: int) -> int:
    """Count the bytes that the arrays of a vector take."""
    layout = _Layout(None)
    _lay_out(layout, space, num_envs)
    return layout.end


class _Layout:
    """Takes one array after the other out of memory, or only counts."""

    def __init__(self, memory: mmap.mmap | None) -> None:
        self.end = 0
        self._memory = memory

    def take(self, shape: tuple[int, ...], dtype: Any) -> Any:
        kind = np.dtype(dtype)
        count = int(np.prod(shape, dtype=np.int64))
        start = self.end
        self.end += -(-count * kind.itemsize // _ALIGNMENT) * _ALIGNMENT
        if self._memory is None or not count:
            return np.zeros(shape if self._memory is not None else 0, kind)
        return np.frombuffer(self._memory, kind, count, start).reshape(shape)


def _lay_out(layout: _Layout, space: Space[Any], num_envs: int) -> Batch:
    observations = None
    if _only_arrays(space):
        observations = create_empty_array(space, num_envs, layout.take)
    return Batch(
        observations,
        layout.take((num_envs,), np.float64),
        layout.take((num_envs,), np.bool_),
        layout.take((num_envs,), np.bool_),
    )


def _only_arrays(space: Space[Any]) -> bool:
    if isinstance(space, spaces.Dict):
        return all(map(_only_arrays, space.spaces.values()))
    if isinstance(space, spaces.Tuple):
        return all(map(_only_arrays, space.spaces))
    return isinstance(space, _ARRAYS)


def _sliced(tree: Any, chosen: slice) -> Any:
    if isinstance(tree, dict):
        return {key: _sliced(inner, chosen) for key, inner in tree.items()}
    if isinstance(tree, tuple):
        return tuple(_sliced(inner, chosen) for inner in tree)
    return None if tree is None else tree[chosen]
