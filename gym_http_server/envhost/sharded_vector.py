"""A vector whose environments are spread over processes, and that looks like one.

The process that leads forks the others before it makes an environment, so while it
has one thread and nothing else of its own. Each steps its part at the same time.
Observations, rewards and flags are in memory that all of them see.
"""

from __future__ import annotations

import copy
import itertools
import os
from collections.abc import Callable
from typing import Any

from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import (
    batch_space,
    concatenate,
    create_empty_array,
)

from gym_http_core.vectors import call_some, vector_call
from gym_http_server.envhost.info_merge import Columns, Each, Folding, merged
from gym_http_server.envhost.remote_shard import RemoteShard
from gym_http_server.envhost.shard import Make, Shard, mapped
from gym_http_server.envhost.shard_channel import ShardOp
from gym_http_server.envhost.shared_batch import batch_bytes
from gym_http_server.envhost.vector_args import (
    checked_mask,
    each_action,
    each_seed,
    each_value,
)
from gym_http_wire.frames import Frame
from gym_http_wire.generators import rebuild_generator
from gym_http_wire.problems import BadParameter, Problem
from gym_http_wire.values import binary

__all__ = ["ShardedVectorEnv"]


class ShardedVectorEnv(VectorEnv[Any, Any, Any]):
    """A ``SyncVectorEnv`` over several processes.

    If one of them dies, this process dies the same way: to the outside they are one.
    ``spec`` is that of the first part.

    Args:
        make: Makes a ``SyncVectorEnv`` of so many environments.
        num_envs: How many environments there are in all.
        hosts: How many processes, this one included.

    Raises:
        RuntimeError: The environments have different spaces.
        Problem: What making them raised in another process.
        Exception: What it raised in this one.
    """

    def __init__(self, make: Make, num_envs: int, hosts: int) -> None:
        super().__init__()
        self.num_envs = num_envs
        ends = [num_envs * number // hosts for number in range(hosts + 1)]
        self._bounds = list(itertools.pairwise(ends))
        self._folding = Folding(num_envs)
        self._others = [
            RemoteShard(make, start, stop, num_envs) for start, stop in self._bounds[1:]
        ]
        self._own = Shard(make(self._bounds[0][1]))
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
        space, num_envs = self.single_observation_space, self.num_envs
        descriptor = os.memfd_create("vector")
        size = max(batch_bytes(space, num_envs), 4096)
        try:
            os.ftruncate(descriptor, size)
        except OSError as error:
            raise BadParameter(
                f"num_envs is {num_envs}: their observations need {size} bytes of "
                f"shared memory, which this server does not allow ({error.strerror}); "
                "ask for fewer, or raise --host-file-size"
            ) from None
        for other in self._others:
            other.send(Frame(ShardOp.SHARE), descriptor)
        self._batch = mapped(descriptor, space, num_envs)
        self._observations = self._batch.observations
        if self._observations is None:
            self._observations = create_empty_array(space, num_envs)
        self._own.share(self._batch.part(*self._bounds[0]))
        for other in self._others:
            other.answer()

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset all environments, or those that ``reset_mask`` in the options names."""
        seeds = each_seed(seed, self.num_envs)
        mask = None
        if options is not None and "reset_mask" in options:
            mask = checked_mask(options.pop("reset_mask"), self.num_envs)
        given: list[Any] = []
        for start, stop in self._bounds:
            part: dict[str, Any] = {"seed": seeds[start:stop], "options": options}
            if mask is not None:
                chosen = mask[start:stop]
                part["options"] = {**(options or {}), "reset_mask": chosen}
            given.append(part if mask is None or chosen.any() else None)
        told = self._ask(ShardOp.RESET, "reset", given, self._own.reset)
        return self._observed(told), self._infos(told)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step all environments, each part at the same time."""
        each = each_action(self.action_space, actions, self.num_envs)
        given = [each[start:stop] for start, stop in self._bounds]
        told = self._ask(ShardOp.STEP, "step", given, self._own.step)
        batch = self._batch
        return (
            self._observed(told),
            batch.rewards.copy(),
            batch.terminations.copy(),
            batch.truncations.copy(),
            self._infos(told),
        )

    def _observed(self, told: list[Any]) -> Any:
        if self._batch.observations is None:
            each = [one for part in told for one in part["observations"]]
            self._observations = concatenate(
                self.single_observation_space, each, self._observations
            )
        return copy.deepcopy(self._observations)

    def _infos(self, told: list[Any]) -> dict[str, Any]:
        columns = [part and part["columns"] for part in told]
        apart = any(part and part["infos"] for part in told)
        if not apart:
            found = [each and Columns(*each) for each in columns]
            whole = merged(found, self._bounds, self.num_envs)
            if whole is not None:
                return whole
        # They differ in types, and each has to be asked for what was put together.
        each: list[Any] = [None if one is None else [] for one in columns]
        asked_for = self._ask(ShardOp.INFOS, "step", each, lambda _: self._own.infos)
        infos: Each = []
        for (start, _), part, more in zip(self._bounds, told, asked_for, strict=True):
            for number, info in more or (part["infos"] if part else []):
                infos.append((start + number, info))
        return self._folding.added(infos)

    def render(self) -> tuple[Any, ...]:
        """Give what each environment renders."""
        given = [None] * len(self._bounds)
        own = self._own.vector.render
        told = self._ask(ShardOp.RENDER, "render", given, lambda _: own(), all_=True)
        return tuple(one for part in told for one in part)

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of each environment, or get an attribute."""
        given = [[[name, *args], kwargs]] * len(self._bounds)
        own = self._own.vector.call
        told = self._ask(
            ShardOp.CALL, "call", given, lambda _: own(name, *args, **kwargs)
        )
        return tuple(one for part in told for one in part)

    def call_some(
        self, indices: list[int], name: str, args: list[Any], kwargs: Any
    ) -> list[Any]:
        """Call a method of some environments, or get an attribute, in their order."""
        given: list[Any] = []
        for start, stop in self._bounds:
            own = [index - start for index in indices if start <= index < stop]
            given.append([own, name, args, kwargs] if own else None)
        vector = self._own.vector
        told = self._ask(
            ShardOp.CALL_SOME, name, given, lambda given: call_some(vector, *given)
        )
        results: dict[int, Any] = {}
        for (start, _), each, values in zip(self._bounds, given, told, strict=True):
            if each:
                results |= {
                    start + index: v for index, v in zip(each[0], values, strict=True)
                }
        return [results[index] for index in indices]

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Get an attribute of each environment."""
        return self.call(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of each environment, to its own value if there are many."""
        values = each_value(values, self.num_envs)
        given = [[name, values[start:stop]] for start, stop in self._bounds]
        own = self._own.vector.set_attr
        self._ask(ShardOp.SET_ATTR, "set_attr", given, lambda given: own(*given))

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
        told = self._ask(
            ShardOp.GENERATORS, "np_random", given, lambda _: own(), all_=True
        )
        return [one for part in told for one in part]

    def set_generators(self, given: list[dict[str, Any] | None]) -> None:
        """Set each environment's random generator as described, but for ``None``."""
        if len(given) != self.num_envs:
            raise ValueError(f"expected {self.num_envs} states, not {len(given)}")
        each = [given[start:stop] for start, stop in self._bounds]
        self._ask(ShardOp.SET_GENERATORS, "np_random", each, self._own.set_generators)

    def close_extras(self, **kwargs: Any) -> None:
        """Close all environments, and end the other processes."""
        own = self._own.vector.close
        given = [None] * len(self._bounds)
        try:
            self._ask(ShardOp.CLOSE, "close", given, lambda _: own(), all_=True)
        finally:
            for other in self._others:
                other.end()

    def _ask(
        self,
        op: ShardOp,
        name: str,
        given: list[Any],
        own: Callable[[Any], Any],
        *,
        all_: bool = False,
    ) -> list[Any]:
        """Ask all parts at once, but those for which ``None`` is given.

        Raises:
            Problem: The first one that there was, after all have answered.
        """
        wanted = [all_ or each is not None for each in given]
        for other, want, each in zip(self._others, wanted[1:], given[1:], strict=True):
            if want:
                other.send(Frame(op, body=binary.encode(each)))
        told: list[Any] = [None] * len(given)
        problems: list[Problem] = []
        if wanted[0]:
            try:
                told[0] = vector_call(name, own, given[0])
            except Problem as problem:
                problems.append(problem)
        for number, other in enumerate(self._others, 1):
            if wanted[number]:
                try:
                    told[number] = other.answer()
                except Problem as problem:
                    problems.append(problem)
        if problems:
            raise problems[0]
        return told
