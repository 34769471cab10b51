"""A shard: some environments of a vector that is spread over processes.

Each process steps its shard. Actions, observations, rewards and flags of all shards are
arrays in memory that the processes share, and so are numbers in infos.
"""

from __future__ import annotations

import copy
import mmap
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from gymnasium.vector import SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import batch_space, create_empty_array, iterate
from numpy.typing import NDArray

from gym_http_core.attributes import GeneratorSerials
from gym_http_server.host.info_merge import Folding, kept
from gym_http_server.host.shared_columns import SharedColumns, leaves_of
from gym_http_wire.generators import describe_generator, restore_generator

__all__ = ["MakeVector", "Shard", "SharedBatch", "batch_bytes"]

#: Makes a vector of so many environments.
MakeVector = Callable[[int], VectorEnv[Any, Any, Any]]
#: The spaces of observations and actions of a single environment.
Spaces = tuple[Space[Any], Space[Any]]

_ALIGNMENT = 64
_ARRAYS = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


@dataclass
class SharedBatch:
    """Actions and results of environments of a vector, in shared memory.

    Attributes:
        actions: Arrays, (n, …) each, in dicts and tuples; ``None`` if the space has
            elements that are not arrays.
        observations: The same.
        rewards: float64 (n,).
        terminations: bool (n,).
        truncations: bool (n,).
    """

    actions: Any
    observations: Any
    rewards: NDArray[np.float64]
    terminations: NDArray[np.bool_]
    truncations: NDArray[np.bool_]

    @classmethod
    def mapped(cls, descriptor: int, spaces: Spaces, num_envs: int) -> SharedBatch:
        """Map the arrays of a vector from a file in memory, and close its descriptor.

        Args:
            descriptor: A file of `batch_bytes`, zero at first.
            spaces: The spaces of a single environment.
            num_envs: Number of environments in the vector.
        """
        memory = mmap.mmap(descriptor, batch_bytes(spaces, num_envs))
        os.close(descriptor)
        return _lay_out(_Layout(memory), spaces, num_envs)

    def part(self, start: int, stop: int) -> SharedBatch:
        """Return views of the results of some environments."""
        chosen = slice(start, stop)
        return SharedBatch(
            _sliced(self.actions, chosen),
            _sliced(self.observations, chosen),
            self.rewards[chosen],
            self.terminations[chosen],
            self.truncations[chosen],
        )

    def accept(self, actions: Any) -> bool:
        """Write actions, if they have the types and shapes of the arrays for them."""
        return _written(self.actions, actions)


def batch_bytes(spaces: Spaces, num_envs: int) -> int:
    """Return the number of bytes that the arrays of a vector take."""
    layout = _Layout(None)
    _lay_out(layout, spaces, num_envs)
    return max(layout.end, mmap.PAGESIZE)


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


def _lay_out(layout: _Layout, spaces: Spaces, num_envs: int) -> SharedBatch:
    observations, actions = (
        create_empty_array(space, num_envs, layout.allocate)
        if _only_arrays(space)
        else None
        for space in spaces
    )
    return SharedBatch(
        actions,
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


def _written(tree: Any, given: Any) -> bool:
    if isinstance(tree, np.ndarray):
        if type(given) is not np.ndarray or given.dtype != tree.dtype:
            return False
        if given.shape != tree.shape:
            return False
        tree[...] = given
        return True
    if isinstance(tree, dict):
        return (
            isinstance(given, dict)
            and given.keys() == tree.keys()
            and all(_written(inner, given[key]) for key, inner in tree.items())
        )
    return (
        isinstance(tree, tuple)
        and isinstance(given, tuple)
        and len(given) == len(tree)
        and all(map(_written, tree, given))
    )


class Shard:
    """Some environments of a vector, in the process that steps them.

    Args:
        vector: The environments.
        number: The position of the shard among those of the vector.

    Attributes:
        infos: The infos of the last reset or step, by the environment's number.
        vector: The environments.
        columns: Columns of infos in shared memory, once there are any.
    """

    def __init__(self, vector: VectorEnv[Any, Any, Any], number: int) -> None:
        if not isinstance(vector, SyncVectorEnv):
            raise TypeError(f"{vector} is not a SyncVectorEnv, and cannot be a shard")
        vector.copy = False
        self._number = number
        self._actions_space = batch_space(vector.single_action_space, vector.num_envs)
        # The actions were split into a list, or an array, with one item for each.
        vector.action_space = spaces.Box(0, 1, (vector.num_envs,))
        self._folding = Folding(vector.num_envs)
        setattr(vector, "_add_info", self._note_info)  # noqa: B010
        self.vector: Any = vector
        self.infos: list[tuple[int, Any]] = []
        self.columns: SharedColumns | None = None
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

    def step_shared(self) -> dict[str, Any] | None:
        """Step environments with the actions in shared memory.

        Returns:
            The results; ``None`` if all of them are in shared memory.
        """
        # Environments may keep their actions.
        actions = copy.deepcopy(self._batch.actions) if self._batch else None
        if not isinstance(actions, np.ndarray):
            actions = list(iterate(self._actions_space, actions))
        results = self.step(actions)
        if results["observations"] is not None or results["infos"]:
            return results
        leaves = leaves_of(results["columns"])
        if leaves is None:
            return results
        if self.columns is None:
            return results if leaves else None
        return None if self.columns.write(self._number, leaves) else results

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
