"""A shard: some environments of a vector that is spread over processes.

Each process steps its shard. Observations, rewards and flags of all shards are arrays
in memory that the processes share.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from gymnasium.vector import SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import create_empty_array
from numpy.typing import NDArray

from gym_http_core.attributes import GeneratorSerials
from gym_http_server.host.info_merge import Folding, kept
from gym_http_wire.generators import describe_generator, restore_generator

__all__ = ["MakeVector", "Shard", "SharedBatch", "batch_bytes"]

#: Makes a vector of so many environments.
MakeVector = Callable[[int], VectorEnv[Any, Any, Any]]

_ALIGNMENT = 64
_ARRAYS = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


@dataclass
class SharedBatch:
    """Results of a vector's environments, or of some of them, in shared memory.

    Attributes:
        observations: Arrays, (n, …) each, in dicts and tuples; ``None`` if the space
            has elements that are not arrays.
        rewards: float64 (n,).
        terminations: bool (n,).
        truncations: bool (n,).
    """

    observations: Any
    rewards: NDArray[np.float64]
    terminations: NDArray[np.bool_]
    truncations: NDArray[np.bool_]

    @classmethod
    def mapped(cls, descriptor: int, space: Space[Any], num_envs: int) -> SharedBatch:
        """Map the arrays of a vector from a file in memory, and close its descriptor.

        Args:
            descriptor: A file of at least `batch_bytes`, zero at first.
            space: The observation space of a single environment.
            num_envs: Number of environments in the vector.
        """
        size = max(batch_bytes(space, num_envs), mmap.PAGESIZE)
        memory = mmap.mmap(descriptor, size)
        os.close(descriptor)
        return _lay_out(_Layout(memory), space, num_envs)

    def part(self, start: int, stop: int) -> SharedBatch:
        """Return views of the results of some environments."""
        chosen = slice(start, stop)
        return SharedBatch(
            _sliced(self.observations, chosen),
            self.rewards[chosen],
            self.terminations[chosen],
            self.truncations[chosen],
        )


def batch_bytes(space: Space[Any], num_envs: int) -> int:
    """Return the number of bytes that the arrays of a vector take."""
    layout = _Layout(None)
    _lay_out(layout, space, num_envs)
    return layout.end


class _Layout:
    """Allocates arrays in memory, one after the other, or only counts their bytes."""

    def __init__(self, memory: mmap.mmap | None) -> None:
        self.end = 0
        self._memory = memory

    def allocate(self, shape: tuple[int, ...], dtype: Any) -> Any:
        kind = np.dtype(dtype)
        count = int(np.prod(shape, dtype=np.int64))
        start = self.end
        self.end += -(-count * kind.itemsize // _ALIGNMENT) * _ALIGNMENT
        if self._memory is None or not count:
            return np.zeros(shape if self._memory is not None else 0, kind)
        return np.frombuffer(self._memory, kind, count, start).reshape(shape)


def _lay_out(layout: _Layout, space: Space[Any], num_envs: int) -> SharedBatch:
    observations = None
    if _only_arrays(space):
        observations = create_empty_array(space, num_envs, layout.allocate)
    return SharedBatch(
        observations,
        layout.allocate((num_envs,), np.float64),
        layout.allocate((num_envs,), np.bool_),
        layout.allocate((num_envs,), np.bool_),
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


class Shard:
    """Some environments of a vector, in the process that steps them.

    Args:
        vector: The environments.

    Attributes:
        infos: The infos of the last reset or step, by the environment's number.
        vector: The environments.
    """

    def __init__(self, vector: VectorEnv[Any, Any, Any]) -> None:
        if not isinstance(vector, SyncVectorEnv):
            raise TypeError(f"{vector} is not a SyncVectorEnv, and cannot be a shard")
        vector.copy = False
        # The actions were split into a list, or an array, with one item for each.
        vector.action_space = spaces.Box(0, 1, (vector.num_envs,))
        self._folding = Folding(vector.num_envs)
        setattr(vector, "_add_info", self._note_info)  # noqa: B010
        self.vector: Any = vector
        self.infos: list[tuple[int, Any]] = []
        self._batch: SharedBatch | None = None
        self._serials = GeneratorSerials()

    def share(self, batch: SharedBatch) -> None:
        """Write results into shared memory from now on."""
        self._batch = batch
        if batch.observations is not None:
            self.vector._observations = batch.observations

    def reset(self, given: dict[str, Any]) -> dict[str, Any]:
        """Reset environments, and return results that are not in shared memory."""
        self.infos.clear()
        self.vector.reset(seed=given["seed"], options=given["options"])
        return self._results()

    def step(self, actions: Any) -> dict[str, Any]:
        """Step environments, and return results that are not in shared memory."""
        self.infos.clear()
        results = self.vector.step(actions)
        if (batch := self._batch) is not None:
            batch.rewards[:], batch.terminations[:], batch.truncations[:] = results[1:4]
        return self._results()

    def _results(self) -> dict[str, Any]:
        results: dict[str, Any] = {"columns": None, "infos": [], "observations": None}
        if self.infos:
            results["columns"] = self._folding.folded(self.infos)
            if results["columns"] is None:
                results["infos"] = list(self.infos)
        if self._batch is not None and self._batch.observations is None:
            results["observations"] = list(self.vector._env_obs)
        return results

    def generators(self) -> list[dict[str, Any]]:
        """Describe the environments' random generators."""
        found = self.vector.np_random
        seeds, serials = self.vector.np_random_seed, self._serials.of(found)
        return [
            {"seed": seed, "serial": serial, **describe_generator(each)}
            for seed, serial, each in zip(seeds, serials, found, strict=True)
        ]

    def set_generators(self, given: list[dict[str, Any] | None]) -> None:
        """Set the environments' random generators as described, except for ``None``."""
        for generator, new in zip(self.vector.np_random, given, strict=True):
            if new is not None:
                restore_generator(generator, **new)

    def _note_info(self, infos: Any, info: Any, number: int) -> Any:
        if noted := kept(info):
            self.infos.append((number, noted))
        return infos
