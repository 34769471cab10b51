"""The calls of a vector: many environments that step as one.

A `gymnasium.vector.VectorEnv` takes the calls of a single environment and returns
batches. `VectorOperations` has what differs.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, runtime_checkable

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded as GymnasiumResetNeeded
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import concatenate, create_empty_array

from gym_http_core.agent_operations import AgentOperations
from gym_http_core.agents import AgentEnv
from gym_http_core.attributes import get_attribute
from gym_http_core.env_errors import env_call, env_error, env_exceptions, text_of
from gym_http_core.episode_log import VectorEpisodeLog
from gym_http_core.operations import MakeReader, Operations, episode_call
from gym_http_wire import elements
from gym_http_wire.generators import describe_generator, restore_generator
from gym_http_wire.problems import (
    BadParameter,
    ExternalAway,
    InvalidAction,
    NoAttribute,
    Problem,
    ResetNeeded,
)

__all__ = [
    "CallsSome",
    "ChecksActions",
    "SharesGenerators",
    "VectorOperations",
    "call_some",
    "operations_of",
    "vector_call",
]

_GENERATOR = ("seed", "serial", "state", "seed_sequence")

Read = Callable[[object], Any]


@runtime_checkable
class SharesGenerators(Protocol):
    """A vector whose ``np_random`` returns copies of its generators."""

    def generators(self) -> list[dict[str, Any]]:
        """Describe the random generator of each environment."""

    def set_generators(self, given: list[dict[str, Any] | None]) -> None:
        """Set the random generators; ``None`` in the list leaves one unchanged."""


@runtime_checkable
class ChecksActions(Protocol):
    """A vector that refuses actions before it steps any environment."""

    def check_actions(self, actions: Any) -> None:
        """Raise `InvalidAction` if actions are refused."""


@runtime_checkable
class CallsSome(Protocol):
    """A vector that can call a method of some of its environments."""

    def call_some(
        self, indices: list[int], name: str, args: list[Any], kwargs: Any
    ) -> list[Any]:
        """Call a method of some environments, or get an attribute."""


def call_some(
    vector: SyncVectorEnv, indices: list[int], name: str, args: list[Any], kwargs: Any
) -> list[Any]:
    """Call a method of some environments in this process, or get an attribute."""
    results = []
    for index in indices:
        found = vector.envs[index].get_wrapper_attr(name)
        results.append(found(*args, **kwargs) if callable(found) else found)
    return results


def operations_of(env: Any, **options: Any) -> Operations:
    """Return the operations of an environment, a vector, or one of several agents."""
    if isinstance(env, AgentEnv):
        return AgentOperations(env, **options)
    kind = VectorOperations if isinstance(env, VectorEnv) else Operations
    return kind(env, **options)


def vector_call(
    call: str, function: Callable[..., Any], *args: Any, **kwargs: Any
) -> Any:
    """Call a function of a vector.

    Raises:
        ResetNeeded: The vector needs a reset first.
        Problem: A shard of the vector raised this in its process.
        EnvError: The function raised another exception.
    """
    return env_call(call, episode_call, function, *args, **kwargs)


def _seeds(seed: Any, count: int) -> list[Any]:
    """Return the seed of each environment of a vector."""
    if isinstance(seed, list | tuple):
        return list(seed)
    return [None if seed is None else seed + index for index in range(count)]


def _columns(each: list[dict[str, Any]]) -> dict[str, Any]:
    """Merge descriptions of generators into one with tuples."""
    return {name: tuple(one.get(name) for one in each) for name in _GENERATOR}


class VectorOperations(Operations):
    """Many environments that step as one, and the calls that they take.

    ``steps`` and ``episodes`` are those of all environments together.

    Args:
        env: The vector; used from one thread only.
        first_seed: Seed of the first reset without a seed.
        strict_actions: Refuse actions that the action space does not contain.
    """

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        *,
        first_seed: int | None = None,
        strict_actions: bool = False,
    ) -> None:
        super().__init__(env, first_seed=first_seed, strict_actions=strict_actions)
        self._num_envs = env.num_envs

    def _read_action_space(self) -> None:
        super()._read_action_space()
        env = self.env
        self._check_batch = (
            env.check_actions if isinstance(env, ChecksActions) else None
        )
        self.checks_actions = self.checks_actions or self._check_batch is not None

    def check_action(self, action: Any) -> None:
        """Refuse actions, as a single environment does, and those of a wrong number.

        Raises:
            InvalidAction: They are refused.
            EnvError: An opaque space, or iterating over the actions, raised an error.
        """
        super().check_action(action)
        if self._check_batch is not None:
            vector_call("step", self._check_batch, action)

    def _new_log(self) -> VectorEpisodeLog:
        mode = self.env.metadata.get("autoreset_mode")
        if not isinstance(mode, AutoresetMode):
            mode = AutoresetMode.NEXT_STEP
        return VectorEpisodeLog(self.env.num_envs, mode)

    def about(self) -> dict[str, Any]:
        """Return the number of environments, and the spaces of each."""
        return {
            "num_envs": self.env.num_envs,
            "single_action_space": self.describe_space("single_action")["space"],
            "single_observation_space": self.describe_space("single_observation")[
                "space"
            ],
        }

    def reset(self, seed: Any, options: dict[str, Any] | None) -> tuple[Any, Any]:
        """Begin an episode in each environment, or in those of ``reset_mask``.

        Args:
            seed: The integer for the first environment; the next ones get the
                following integers. Or a list of integers and ``None``; or ``None``.
            options: For every environment; but ``reset_mask``, bool (num_envs,), is
                for the vector.

        Returns:
            Observations and infos, as the vector returned them.

        Raises:
            BadParameter: The vector has refused it, and reset no environment.
            EnvError: An environment raised an exception.
        """
        if seed is None:
            seed = self.first_seed
        failed, self._failed = self._failed, True
        # The vector takes the mask out of the options.
        self.failed_call = {"seed": seed, "options": copy.copy(options)}
        mask = options.get("reset_mask") if isinstance(options, dict) else None
        try:
            observation, info = vector_call(
                "reset", self.env.reset, seed=seed, options=options
            )
        except BadParameter:
            self._failed = failed
            raise
        self._failed = False
        self.failed_call = {}
        self.reset_seed, self.first_seed = seed, None
        self.episode_log.begin(_seeds(seed, self.env.num_envs), mask)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Take an action in each environment.

        Returns:
            Observations, rewards, terminations, truncations and infos, as the vector
            returned them.

        Raises:
            ResetNeeded: There is no episode to act in.
            InvalidAction: The vector has refused it, and stepped no environment.
            EnvError: An environment raised an exception.
        """
        # As `vector_call`, without its calls.
        try:
            result = self.env.step(action)
        except GymnasiumResetNeeded as error:
            raise ResetNeeded(str(error)) from None
        except (ResetNeeded, ExternalAway, InvalidAction):
            raise
        except env_exceptions() as error:
            self._failed = self.episode_log.failed = True
            self.failed_call = {"action": action}
            if isinstance(error, Problem):
                raise
            raise env_error("step", error) from error
        self.steps += self._num_envs
        self.episodes += self.episode_log.step(*result[1:4])
        return result  # type: ignore[no-any-return]

    def episode_end(self, terminated: Any, truncated: Any) -> tuple[Any, Any]:
        """Return that the steps go on: the environments reset themselves."""
        return False, False

    def make_plain(self, step: dict[str, Any]) -> None:
        """Add ``done`` to a step."""
        step["done"] = np.logical_or(step["terminated"], step["truncated"])

    def render(self) -> Any:
        """Render each environment; returns a tuple.

        Raises:
            ResetNeeded: The environments render only after a reset.
            EnvError: An environment raised an exception.
        """
        return vector_call("render", self.env.render)

    def generator(self) -> dict[str, Any]:
        """Describe the random generators.

        The description has tuples where each environment has a generator; else it is
        that of the vector's only generator.

        Raises:
            EnvError: The vector has no generator that can be described.
        """
        return vector_call("np_random", self._generator)  # type: ignore[no-any-return]

    def _generator(self) -> dict[str, Any]:
        env = self.env
        if isinstance(env, SharesGenerators):
            return _columns(env.generators())
        found = env.np_random
        if not isinstance(found, tuple):
            return super()._generator()
        return _columns(
            [
                {"seed": seed, "serial": serial, **describe_generator(each)}
                for seed, serial, each in zip(
                    env.np_random_seed, self._serials.of(found), found, strict=True
                )
            ]
        )

    def set_generator(
        self, state: Any, seed_sequence: Any = None, *, replace: bool = False
    ) -> None:
        """Set states and seed sequences of the random generators.

        Args:
            state: The state; a tuple or list where each environment has a generator,
                in which ``None`` leaves one unchanged.
            seed_sequence: The same; ``None`` leaves all of them unchanged.
            replace: Set a new generator; only where the vector has a single one.

        Raises:
            BadParameter: The state does not fit the generators.
            NoAttribute: Each environment has a generator; they cannot be replaced.
        """
        if replace:
            self._check_single_generator()
            super().set_generator(state, seed_sequence, replace=True)
            return
        try:
            self._set_generator(state, seed_sequence)
        except Problem:
            raise
        except env_exceptions() as error:
            raise BadParameter(
                f"the generators refuse these states: {text_of(error)}"
            ) from None

    def _set_generator(self, state: Any, seed_sequence: Any) -> None:
        if not isinstance(state, tuple | list):
            super().set_generator(state, seed_sequence)
            return
        env = self.env
        if seed_sequence is None:
            seed_sequence = [None] * len(state)
        each = [
            one and {"state": one, **({"seed_sequence": sequence} if sequence else {})}
            for one, sequence in zip(state, seed_sequence, strict=True)
        ]
        if isinstance(env, SharesGenerators):
            env.set_generators(each)
            return
        for generator, new in zip(env.np_random, each, strict=True):
            if new is not None:
                restore_generator(generator, **new)

    def _check_single_generator(self) -> None:
        found = vector_call("np_random", lambda: self.env.np_random)
        if isinstance(found, tuple):
            raise NoAttribute(
                f"np_random of this vector is a tuple of {len(found)} generators, one "
                "for each environment, and cannot be set: draw from them, or reset "
                "with a list of seeds"
            )

    def attribute(self, name: str) -> Any:
        """Return an attribute of the vector.

        Raises:
            NoAttribute: The vector has no such attribute, or it is private.
            EnvError: Getting it raised another exception.
        """
        self._check_name(name)
        return get_attribute(partial(getattr, self.env), name)

    def set_attribute(self, name: str, value: Any, *, force: bool) -> bool:
        """Set an attribute of the vector; without ``force``, only if it is there.

        Raises:
            NoAttribute: The name is private, or not an identifier.
            EnvError: Setting it raised an exception.
        """
        self._check_name(name)
        if not force and not hasattr(self.env, name):
            return False
        vector_call(f"setting the attribute {name}", setattr, self.env, name, value)
        return True

    def call_attribute(self, name: str, args: list[Any], kwargs: Any) -> Any:
        """Call a method of the vector.

        Raises:
            NoAttribute: There is no such method, or an argument names a private
                attribute of the environments.
            EnvError: It raised an exception.
        """
        self._check_arguments(name, args, kwargs)
        return vector_call(name, self.attribute(name), *args, **kwargs)

    def call_some(self, indices: Any, name: str, args: list[Any], kwargs: Any) -> Any:
        """Call a method of some of the environments, or get an attribute.

        Args:
            indices: Numbers of the environments, from 0 on, each at most once.
            name: Name of the method or the attribute.
            args: Arguments of the method; empty for an attribute.
            kwargs: The same.

        Returns:
            A list with one item for each index.

        Raises:
            BadParameter: The indices are wrong, or the vector has no access to its
                environments, as an asynchronous one.
            EnvError: There is no such method or attribute, or it raised an exception.
        """
        env = self.env
        checked = _checked_indices(indices, env.num_envs)
        self._check_name(name)
        self._check_arguments(name, args, kwargs)
        if isinstance(env, CallsSome):
            return vector_call(name, env.call_some, checked, name, args, kwargs)
        if not isinstance(env, SyncVectorEnv):
            raise BadParameter(
                f"indices are for vectors of vectorization_mode sync: this is a "
                f"{type(env).__name__}"
            )
        return vector_call(name, call_some, env, checked, name, args, kwargs)

    def _reader_of(self, which: str, make: MakeReader = elements.reader) -> Read:
        """Make a reader of a batch, or of a list with an element per environment."""
        read_batch = make(self.space(which))
        single = self.space(f"single_{which}")
        if not isinstance(single, gymnasium.spaces.Dict | gymnasium.spaces.Tuple):
            return read_batch
        read, count = make(single), self.env.num_envs

        def read_each(plain: object) -> Any:
            if not isinstance(plain, list):
                return read_batch(plain)
            if len(plain) != count:
                raise elements.NotAnElement(plain, f"a list of {count}")
            each = [elements.under(i, read, item) for i, item in enumerate(plain)]
            out: Any = create_empty_array(single, count)
            return concatenate(single, each, out)

        return read_each


def _checked_indices(given: Any, num_envs: int) -> list[int]:
    if (
        not isinstance(given, list | tuple)
        or not all(type(each) is int and 0 <= each < num_envs for each in given)
        or len(set(given)) < len(given)
    ):
        raise BadParameter(
            f"indices is {given!r:.80}: expected a list of different integers "
            f"from 0 to {num_envs - 1}"
        )
    return list(given)
