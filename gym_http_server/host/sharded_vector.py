"""A vector with environments in several processes, used like any other vector.

The host has the first shard, and forks a process for each of the others. All step their
shards at the same time. Actions and results of steps are in memory that they share, and
messages have what does not fit there.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import (
    batch_space,
    concatenate,
    create_empty_array,
    iterate,
)

from gym_http_core.vectors import call_some, vector_call
from gym_http_server.host.info_merge import Columns, Folding, merged, sendable
from gym_http_server.host.remote_shard import RemoteShard, ShardOp, numbers_for
from gym_http_server.host.shard import MakeVector, Shard, SharedBatch, batch_bytes
from gym_http_server.host.shared_columns import (
    MAX_CHANGES,
    SharedColumns,
    leaves_of,
    together,
)
from gym_http_wire.generators import rebuild_generator
from gym_http_wire.problems import BadParameter, InvalidAction, Problem

__all__ = ["ShardedVectorEnv"]

_ARRAYS = (spaces.Box, spaces.MultiDiscrete, spaces.MultiBinary)


class ShardedVectorEnv(VectorEnv[Any, Any, Any]):
    """A ``SyncVectorEnv`` over several processes.

    The next reset or step overwrites the arrays that were returned.

    If one of them dies, this process dies the same way. ``spec`` is that of the first
    shard.

    Args:
        make: Makes a ``SyncVectorEnv`` with a given number of environments.
        num_envs: Number of environments in all shards.
        hosts: Number of processes, this one included.

    Raises:
        RuntimeError: The environments have different spaces.
        Problem: An environment could not be made in another process.
        Exception: An environment could not be made in this one.
    """

    def __init__(self, make: MakeVector, num_envs: int, hosts: int) -> None:
        super().__init__()
        self.num_envs = num_envs
        ends = [num_envs * number // hosts for number in range(hosts + 1)]
        self._bounds = list(itertools.pairwise(ends))
        self._folding = Folding(num_envs)
        # Steps with the actions in shared memory.
        self._shared_steps = 0
        self._columns: SharedColumns | None = None
        self._changes = 0
        numbers = numbers_for(hosts)
        self._others = [
            RemoteShard(make, number, self._bounds, numbers)
            for number in range(1, hosts)
        ]
        self._own = Shard(make(self._bounds[0][1]), 0)
        vector = self._own.vector
        self.metadata = vector.metadata
        self.render_mode = vector.render_mode
        self.single_action_space = vector.single_action_space
        self.single_observation_space = vector.single_observation_space
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.spec = vector.spec
        self._gather_spaces()
        self._share()

    def _gather_spaces(self) -> None:
        ours = [self.single_observation_space, self.single_action_space]
        for other in self._others:
            theirs = other.answer()
            if theirs != ours:
                raise RuntimeError(
                    "the environments of the vector have different spaces: "
                    f"{ours} and {theirs}"
                )

    def _share(self) -> None:
        num_envs = self.num_envs
        spaces = self.single_observation_space, self.single_action_space
        size = batch_bytes(spaces, num_envs)
        try:
            descriptor = _allocated(size)
        except OSError as error:
            raise BadParameter(
                f"num_envs is {num_envs}: their observations need {size} bytes of "
                f"shared memory, which this server does not allow ({error.strerror}); "
                "request fewer, or raise --host-file-size"
            ) from None
        for other in self._others:
            other.share(descriptor)
        self._batch = SharedBatch.mapped(descriptor, spaces, num_envs)
        self._observations = self._batch.observations
        if self._observations is None:
            self._observations = create_empty_array(spaces[0], num_envs)
        self._own.share(self._batch.part(*self._bounds[0]))
        for other in self._others:
            other.answer()

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset all environments, or those that ``reset_mask`` in the options names."""
        seeds = _each_seed(seed, self.num_envs)
        mask = None
        if options is not None and "reset_mask" in options:
            mask = _checked_mask(options.pop("reset_mask"), self.num_envs)
        given: list[Any] = []
        for start, stop in self._bounds:
            shard: dict[str, Any] = {"seed": seeds[start:stop], "options": options}
            if mask is not None:
                chosen = mask[start:stop]
                shard["options"] = {**(options or {}), "reset_mask": chosen}
            given.append(shard if mask is None or chosen.any() else None)
        replies = self._request(ShardOp.RESET, "reset", given, self._own.reset)
        return self._observed(replies), self._infos(replies)

    def check_actions(self, actions: Any) -> None:
        """Refuse actions of which some would reach no environment, or as another kind.

        Raises:
            InvalidAction: Their number, shape or type is wrong.
        """
        space = self.action_space
        if isinstance(actions, np.ndarray) and isinstance(space, _ARRAYS):
            found, shape, dtype = actions.dtype, space.shape, space.dtype
            fits = found.hasobject or np.can_cast(found, dtype, "same_kind")
            if actions.shape != shape or not fits:
                raise InvalidAction(
                    f"the actions are an array of {found} and shape {actions.shape}: "
                    f"expected {dtype} and {shape}, an action for each environment"
                )
            return
        count = sum(1 for _ in iterate(space, actions))
        if count != self.num_envs:
            raise InvalidAction(
                f"there are {count} actions: expected {self.num_envs}, one for each "
                "environment"
            )

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step all environments, the shards at the same time."""
        batch = self._batch
        if batch.accept(actions):
            replies = self._step_shared()
            infos = self._shared_infos(replies)
        else:
            each = _each_action(self.action_space, actions)
            given = [each[start:stop] for start, stop in self._bounds]
            replies = self._request(ShardOp.STEP, "step", given, self._own.step)
            infos = self._infos(replies)
        return (
            self._observed(replies),
            batch.rewards,
            batch.terminations,
            batch.truncations,
            infos,
        )

    def _step_shared(self) -> list[Any]:
        """Step all shards with the actions in shared memory.

        Returns:
            By shard, the results that are not in shared memory; ``None`` if all are.

        Raises:
            Problem: The first problem of a shard, after all have answered.
        """
        self._shared_steps = number = self._shared_steps + 1
        for other in self._others:
            other.step(number)
        replies: list[Any] = [None] * len(self._bounds)
        problems: list[tuple[int, Problem]] = []
        try:
            replies[0] = vector_call("step", self._own.step_shared)
        except Problem as problem:
            problems.append((0, problem))
        # Where there are few cores, the last one ends last: then no other wait sleeps.
        for shard in range(len(self._others), 0, -1):
            try:
                replies[shard] = self._others[shard - 1].stepped(number)
            except Problem as problem:
                problems.append((shard, problem))
        if problems:
            raise min(problems)[1]
        return replies

    def _shared_infos(self, replies: list[Any]) -> dict[str, Any]:
        """Return the infos of a step whose actions were in shared memory."""
        columns = self._columns
        if not any(replies):
            return columns.read() if columns is not None else {}
        for shard, reply in enumerate(replies):
            if reply is None:
                part = None if columns is None else columns.part(shard)
                replies[shard] = {"columns": part, "infos": [], "observations": None}
        infos = self._infos(replies)
        self._share_columns(reply["columns"] for reply in replies)
        return infos

    def _share_columns(self, found: Iterable[Any]) -> None:
        """Make shared memory for columns that have none yet."""
        known = [] if self._columns is None else self._columns.columns
        columns = known
        for each in found:
            leaves = leaves_of(each and Columns(*each))
            columns = together(columns, [column for column, _ in leaves or []])
        if len(columns) == len(known) or self._changes == MAX_CHANGES:
            return
        self._changes += 1
        try:
            descriptor = _allocated(SharedColumns.size(columns, self._bounds))
        except OSError:
            # Messages have them, as before.
            return
        for other in self._others:
            other.share_columns(columns, descriptor)
        for other in self._others:
            # Only then may the next step be in shared memory.
            other.answer()
        self._columns = SharedColumns(columns, self._bounds, descriptor)
        self._own.columns = self._columns

    def _observed(self, replies: list[Any]) -> Any:
        if self._batch.observations is None:
            each = [one for shard in replies for one in shard["observations"]]
            self._observations = concatenate(
                self.single_observation_space, each, self._observations
            )
        return self._observations

    def _infos(self, replies: list[Any]) -> dict[str, Any]:
        columns = [shard and shard["columns"] for shard in replies]
        apart = any(shard and shard["infos"] for shard in replies)
        if not apart:
            found = [each and Columns(*each) for each in columns]
            whole = merged(found, self._bounds, self.num_envs)
            if whole is not None:
                return whole
        # Their types differ, so the infos of each environment are needed one by one.
        each: list[Any] = [None if one is None else [] for one in columns]
        again = self._request(ShardOp.INFOS, "step", each, lambda _: self._own.infos)
        if replies[0]:
            # Those of the other shards have come over the wire.
            again[0] = sendable(self._own.infos)[0]
        infos: list[Any] = []
        for (start, _), shard, more in zip(self._bounds, replies, again, strict=True):
            for number, info in more or (shard["infos"] if shard else []):
                infos.append((start + number, info))
        return self._folding.added(infos)

    def render(self) -> tuple[Any, ...]:
        """Return the frames of all environments."""
        given = [None] * len(self._bounds)
        own = self._own.vector.render
        replies = self._request(
            ShardOp.RENDER, "render", given, lambda _: own(), all_=True
        )
        return tuple(one for shard in replies for one in shard)

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of each environment, or get an attribute."""
        given = [[[name, *args], kwargs]] * len(self._bounds)
        own = self._own.vector.call
        replies = self._request(
            ShardOp.CALL, "call", given, lambda _: own(name, *args, **kwargs)
        )
        return tuple(one for shard in replies for one in shard)

    def call_some(
        self, indices: list[int], name: str, args: list[Any], kwargs: Any
    ) -> list[Any]:
        """Call a method of some environments, or get an attribute, in their order."""
        given: list[Any] = []
        for start, stop in self._bounds:
            own = [index - start for index in indices if start <= index < stop]
            given.append([own, name, args, kwargs] if own else None)
        vector = self._own.vector
        replies = self._request(
            ShardOp.CALL_SOME, name, given, lambda given: call_some(vector, *given)
        )
        results: dict[int, Any] = {}
        for (start, _), each, values in zip(self._bounds, given, replies, strict=True):
            if each:
                results |= {
                    start + index: v for index, v in zip(each[0], values, strict=True)
                }
        return [results[index] for index in indices]

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Get an attribute of each environment."""
        return self.call(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of each environment; a list has one value for each."""
        values = _each_value(values, self.num_envs)
        given = [[name, values[start:stop]] for start, stop in self._bounds]
        own = self._own.vector.set_attr
        self._request(ShardOp.SET_ATTR, "set_attr", given, lambda given: own(*given))

    @property  # type: ignore[misc]
    def np_random(self) -> Any:
        """Copies of the environments' random generators, a tuple."""
        return tuple(
            rebuild_generator(each["state"], each["seed_sequence"])
            for each in self.generators()
        )

    @property
    def np_random_seed(self) -> Any:
        """The seeds of the environments' random generators, a tuple."""
        return tuple(each["seed"] for each in self.generators())

    def generators(self) -> list[dict[str, Any]]:
        """Describe each environment's random generator."""
        given = [None] * len(self._bounds)
        own = self._own.generators
        replies = self._request(
            ShardOp.GENERATORS, "np_random", given, lambda _: own(), all_=True
        )
        return [one for shard in replies for one in shard]

    def set_generators(self, given: list[dict[str, Any] | None]) -> None:
        """Set each environment's random generator as described, except for ``None``."""
        if len(given) != self.num_envs:
            raise ValueError(f"expected {self.num_envs} states, not {len(given)}")
        each = [given[start:stop] for start, stop in self._bounds]
        self._request(
            ShardOp.SET_GENERATORS, "np_random", each, self._own.set_generators
        )

    def close_extras(self, **kwargs: Any) -> None:
        """Close all environments, and end the other processes."""
        own = self._own.vector.close
        given = [None] * len(self._bounds)
        try:
            self._request(ShardOp.CLOSE, "close", given, lambda _: own(), all_=True)
        finally:
            for other in self._others:
                other.end()

    def _request(
        self,
        op: ShardOp,
        name: str,
        given: list[Any],
        own: Callable[[Any], Any],
        *,
        all_: bool = False,
    ) -> list[Any]:
        """Send a request to each shard at once; skip shards with ``None``.

        Raises:
            Problem: The first problem of a shard, after all have answered.
        """
        wanted = [all_ or each is not None for each in given]
        for other, want, each in zip(self._others, wanted[1:], given[1:], strict=True):
            if want:
                other.send(op, each)
        replies: list[Any] = [None] * len(given)
        problems: list[Problem] = []
        if wanted[0]:
            try:
                replies[0] = vector_call(name, own, given[0])
            except Problem as problem:
                problems.append(problem)
        for number, other in enumerate(self._others, 1):
            if wanted[number]:
                try:
                    replies[number] = other.answer()
                except Problem as problem:
                    problems.append(problem)
        if problems:
            raise problems[0]
        return replies


def _allocated(size: int) -> int:
    """Return the descriptor of a file in memory.

    Raises:
        OSError: The server does not allow files of this size.
    """
    descriptor = os.memfd_create("vector")
    try:
        os.ftruncate(descriptor, size)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _each_seed(seed: Any, num_envs: int) -> list[Any]:
    """Return the seed of each environment.

    Raises:
        ValueError: The number of seeds is wrong.
        TypeError: The seed is neither an integer nor a list.
    """
    if seed is None:
        return [None] * num_envs
    if isinstance(seed, int):
        return [seed + number for number in range(num_envs)]
    if len(seed) != num_envs:
        raise ValueError(
            "If seeds are passed as a list the length must match num_envs="
            f"{num_envs} but got length={len(seed)}."
        )
    return list(seed)


def _checked_mask(mask: Any, num_envs: int) -> Any:
    """Return a mask of the environments to reset, bool (num_envs,).

    Raises:
        TypeError: It is not an array of bool.
        ValueError: It has another shape, or no environment is to be reset.
    """
    name = "`options['reset_mask']`"
    if not isinstance(mask, np.ndarray):
        raise TypeError(f"{name} must be a numpy array, got {type(mask)}")
    if mask.shape != (num_envs,):
        raise ValueError(f"{name} must have shape `({num_envs},)`, got {mask.shape}")
    if mask.dtype != np.bool_:
        raise TypeError(f"{name} must have `dtype=np.bool_`, got {mask.dtype}")
    if not mask.any():
        raise ValueError(
            f"{name} must contain a boolean array with at least one True value, "
            f"got reset_mask={mask}"
        )
    return mask


def _each_action(space: Space[Any], actions: Any) -> Any:
    """Return the action of each environment: a list, or rows of an array."""
    if isinstance(actions, np.ndarray) and isinstance(space, _ARRAYS):
        return actions
    return list(iterate(space, actions))


def _each_value(values: Any, num_envs: int) -> list[Any]:
    """Return one value for each environment, from a list or from one for all.

    Raises:
        ValueError: The number of values is wrong.
    """
    if not isinstance(values, list | tuple):
        return [values] * num_envs
    if len(values) != num_envs:
        raise ValueError(
            "Values must be a list or tuple with length equal to the number of "
            f"environments. Got `{len(values)}` values for {num_envs} environments."
        )
    return list(values)
