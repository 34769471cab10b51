"""A vector whose environments are spread over processes, and that looks like one.

The process that leads forks the others before it makes an environment, so while it
has one thread and nothing else of its own. Each steps its part at the same time.
Observations, rewards and flags are in memory that all of them see.
"""

from __future__ import annotations

import copy
import itertools
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import (
    batch_space,
    concatenate,
    create_empty_array,
    iterate,
)

from gym_http_server import prctl
from gym_http_server.envhost.isolation import close_descriptors, reseed
from gym_http_server.envhost.part import Line, Make, Part, PartOp, mapped, serve
from gym_http_server.envhost.sharing import batch_bytes
from gym_http_wire.frames import Frame
from gym_http_wire.problems import Problem
from gym_http_wire.values import binary
from gym_http_wire.vectors import asked

__all__ = ["PartedVectorEnv"]

_ARRAYS = (spaces.Box, spaces.MultiDiscrete, spaces.MultiBinary)


class PartedVectorEnv(VectorEnv[Any, Any, Any]):
    """A ``SyncVectorEnv`` over several processes.

    If one of them dies, this process dies the same way: to the outside they are one.

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
        self._others = [
            _Other(make, start, stop, num_envs) for start, stop in self._bounds[1:]
        ]
        self._own = Part(make(self._bounds[0][1]))
        vector = self._own.vector
        self.metadata = vector.metadata
        self.render_mode = vector.render_mode
        self.single_action_space = vector.single_action_space
        self.single_observation_space = vector.single_observation_space
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.spec = _spec(vector.spec, num_envs)
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
        os.ftruncate(descriptor, max(batch_bytes(space, num_envs), 4096))
        for other in self._others:
            other.send(Frame(PartOp.SHARE), descriptor)
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
        seeds = self._seeds(seed)
        mask = None
        if options is not None and "reset_mask" in options:
            mask = self._check_mask(options.pop("reset_mask"))
        given: list[Any] = []
        for start, stop in self._bounds:
            part: dict[str, Any] = {"seed": seeds[start:stop], "options": options}
            if mask is not None:
                chosen = mask[start:stop]
                part["options"] = {**(options or {}), "reset_mask": chosen}
            given.append(part if mask is None or chosen.any() else None)
        told = self._ask(PartOp.RESET, "reset", given, self._own.reset)
        return self._observed(told), self._infos(told)

    def _seeds(self, seed: Any) -> list[Any]:
        if seed is None:
            return [None] * self.num_envs
        if isinstance(seed, int):
            return [seed + number for number in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise ValueError(
                "If seeds are passed as a list the length must match num_envs="
                f"{self.num_envs} but got length={len(seed)}."
            )
        return list(seed)

    def _check_mask(self, mask: Any) -> Any:
        name = "`options['reset_mask']`"
        if not isinstance(mask, np.ndarray):
            raise TypeError(f"{name} must be a numpy array, got {type(mask)}")
        if mask.shape != (self.num_envs,):
            raise ValueError(
                f"{name} must have shape `({self.num_envs},)`, got {mask.shape}"
            )
        if mask.dtype != np.bool_:
            raise TypeError(f"{name} must have `dtype=np.bool_`, got {mask.dtype}")
        if not mask.any():
            raise ValueError(
                f"{name} must contain a boolean array with at least one True value, "
                f"got reset_mask={mask}"
            )
        return mask

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step all environments, each part at the same time."""
        told = self._ask(PartOp.STEP, "step", self._cut(actions), self._own.step)
        batch = self._batch
        return (
            self._observed(told),
            batch.rewards.copy(),
            batch.terminations.copy(),
            batch.truncations.copy(),
            self._infos(told),
        )

    def _cut(self, actions: Any) -> list[Any]:
        """Cut a batch of actions into the parts'."""
        whole = actions
        if not isinstance(actions, np.ndarray) or not isinstance(
            self.action_space, _ARRAYS
        ):
            whole = list(iterate(self.action_space, actions))
        for _ in zip(whole, range(self.num_envs), strict=True):
            pass
        return [whole[start:stop] for start, stop in self._bounds]

    def _observed(self, told: list[Any]) -> Any:
        if self._batch.observations is None:
            each = [one for part in told for one in part["observations"]]
            self._observations = concatenate(
                self.single_observation_space, each, self._observations
            )
        return copy.deepcopy(self._observations)

    def _infos(self, told: list[Any]) -> dict[str, Any]:
        infos: dict[str, Any] = {}
        for (start, _), part in zip(self._bounds, told, strict=True):
            for number, info in () if part is None else part["infos"]:
                infos = self._add_info(infos, info, start + number)
        return infos

    def render(self) -> tuple[Any, ...]:
        """Give what each environment renders."""
        given = [None] * len(self._bounds)
        own = self._own.vector.render
        told = self._ask(PartOp.RENDER, "render", given, lambda _: own(), all_=True)
        return tuple(one for part in told for one in part)

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of each environment, or get an attribute."""
        given = [[[name, *args], kwargs]] * len(self._bounds)
        own = self._own.vector.call
        told = self._ask(
            PartOp.CALL, "call", given, lambda _: own(name, *args, **kwargs)
        )
        return tuple(one for part in told for one in part)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Get an attribute of each environment."""
        return self.call(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of each environment, to its own value if there are many."""
        if not isinstance(values, list | tuple):
            values = [values] * self.num_envs
        if len(values) != self.num_envs:
            raise ValueError(
                "Values must be a list or tuple with length equal to the number of "
                f"environments. Got `{len(values)}` values for {self.num_envs} "
                "environments."
            )
        given = [[name, list(values[start:stop])] for start, stop in self._bounds]
        own = self._own.vector.set_attr
        self._ask(PartOp.SET_ATTR, "set_attr", given, lambda given: own(*given))

    @property  # type: ignore[misc]
    def np_random(self) -> Any:
        """Copies of the environments' random generators, a tuple."""
        return tuple(map(_generator, self._generators("states")))

    @property
    def np_random_seed(self) -> Any:
        """The seeds of the environments' random generators, a tuple."""
        return tuple(self._generators("seeds"))

    def _generators(self, what: str) -> list[Any]:
        given = [None] * len(self._bounds)
        own = self._own.generators
        told = self._ask(
            PartOp.GENERATORS, "np_random", given, lambda _: own(), all_=True
        )
        return [one for part in told for one in part[what]]

    def set_generators(self, states: list[Any]) -> None:
        """Set the state of each environment's random generator, but for ``None``."""
        if len(states) != self.num_envs:
            raise ValueError(f"expected {self.num_envs} states, not {len(states)}")
        given = [states[start:stop] for start, stop in self._bounds]
        self._ask(PartOp.SET_GENERATORS, "np_random", given, self._own.set_generators)

    def close_extras(self, **kwargs: Any) -> None:
        """Close all environments, and end the other processes."""
        own = self._own.vector.close
        given = [None] * len(self._bounds)
        try:
            self._ask(PartOp.CLOSE, "close", given, lambda _: own(), all_=True)
        finally:
            for other in self._others:
                other.end()

    def _ask(
        self,
        op: PartOp,
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
                told[0] = asked(name, own, given[0])
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


class _Other:
    """A part in another process."""

    def __init__(self, make: Make, start: int, stop: int, num_envs: int) -> None:
        ours, theirs = socket.socketpair()
        leader = os.getpid()
        self._pid = os.fork()
        if self._pid:
            theirs.close()
            self._line = Line(ours)
            return
        status = 1
        try:
            prctl.die_with_parent(leader, signal.SIGKILL)
            close_descriptors([theirs.fileno()])
            reseed()
            serve(Line(theirs), make, start, stop, num_envs)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    def send(self, frame: Frame, descriptor: int | None = None) -> None:
        try:
            self._line.send(frame, descriptor)
        except OSError:
            self._follow()

    def answer(self) -> Any:
        try:
            return self._line.answer()
        except EOFError:
            self._follow()

    def end(self) -> None:
        """Take leave of the process, which is about to end."""
        self._line.close()
        os.waitpid(self._pid, 0)

    def _follow(self) -> None:
        """Die as the other process died."""
        _, status = os.waitpid(self._pid, 0)
        sys.stdout.flush()
        sys.stderr.flush()
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            if number != signal.SIGKILL:
                signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        os._exit(os.waitstatus_to_exitcode(status) or 1)


def _generator(state: Any) -> np.random.Generator:
    bits = getattr(np.random, state["bit_generator"])()
    bits.state = state
    return np.random.Generator(bits)


def _spec(spec: Any, num_envs: int) -> Any:
    """Give the spec of a part as that of the whole, its arguments in their order."""
    if spec is None:
        return None
    whole = copy.deepcopy(spec)
    mode = whole.kwargs.pop("vectorization_mode")
    rest = {
        name: whole.kwargs.pop(name)
        for name in ("vector_kwargs", "wrappers")
        if name in whole.kwargs
    }
    whole.kwargs.pop("num_envs", None)
    whole.kwargs |= {"num_envs": num_envs, "vectorization_mode": mode, **rest}
    return whole
