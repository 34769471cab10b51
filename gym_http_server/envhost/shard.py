"""One part of a vector that is spread over processes: some of its environments.

The leading process has the first part and asks the others for theirs.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from typing import Any

from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv, VectorEnv

from gym_http_core.attributes import GeneratorSerials
from gym_http_core.vectors import call_some, vector_call
from gym_http_server.envhost import fork_guard
from gym_http_server.envhost.failures import note_cause, problem_frame, problem_of_error
from gym_http_server.envhost.info_merge import Each, Folding, kept
from gym_http_server.envhost.shard_channel import ShardChannel, ShardOp, with_warnings
from gym_http_server.envhost.shared_batch import Batch, batch_bytes
from gym_http_wire.frames import Frame
from gym_http_wire.generators import describe_generator, restore_generator
from gym_http_wire.messages import answer
from gym_http_wire.problems import Problem, UnrepresentableValue
from gym_http_wire.values import UnsupportedValue, binary

__all__ = ["Make", "Shard", "mapped", "serve"]

Make = Callable[[int], VectorEnv[Any, Any, Any]]


class Shard:
    """Some environments of a vector, in the process that steps them.

    Args:
        vector: The environments.
    """

    def __init__(self, vector: VectorEnv[Any, Any, Any]) -> None:
        if not isinstance(vector, SyncVectorEnv):
            raise TypeError(f"{vector} is no SyncVectorEnv, and cannot be a part")
        vector.copy = False
        # What comes has been cut to a list of actions, or an array of them.
        vector.action_space = spaces.Box(0, 1, (vector.num_envs,))
        self._folding = Folding(vector.num_envs)
        setattr(vector, "_add_info", self._note_info)  # noqa: B010
        self.vector: Any = vector
        self.infos: Each = []
        self._batch: Batch | None = None
        self._serials = GeneratorSerials()

    def share(self, batch: Batch) -> None:
        """Put from now on what the environments give where others see it."""
        self._batch = batch
        if batch.observations is not None:
            self.vector._observations = batch.observations

    def reset(self, given: dict[str, Any]) -> dict[str, Any]:
        """Reset environments, and give what is not put where others see it."""
        self.infos.clear()
        self.vector.reset(seed=given["seed"], options=given["options"])
        return self._told()

    def step(self, actions: Any) -> dict[str, Any]:
        """Step the environments, and give what is not put where others see it."""
        self.infos.clear()
        told = self.vector.step(actions)
        if (batch := self._batch) is not None:
            batch.rewards[:], batch.terminations[:], batch.truncations[:] = told[1:4]
        return self._told()

    def _told(self) -> dict[str, Any]:
        told: dict[str, Any] = {"columns": None, "infos": [], "observations": None}
        if self.infos:
            told["columns"] = self._folding.folded(self.infos)
            if told["columns"] is None:
                told["infos"] = list(self.infos)
        if self._batch is not None and self._batch.observations is None:
            told["observations"] = list(self.vector._env_obs)
        return told

    def generators(self) -> list[dict[str, Any]]:
        """Describe the environments' random generators."""
        found = self.vector.np_random
        seeds, serials = self.vector.np_random_seed, self._serials.of(found)
        return [
            {"seed": seed, "serial": serial, **describe_generator(each)}
            for seed, serial, each in zip(seeds, serials, found, strict=True)
        ]

    def set_generators(self, given: list[dict[str, Any] | None]) -> None:
        """Set the environments' random generators as described, but for ``None``."""
        for generator, new in zip(self.vector.np_random, given, strict=True):
            if new is not None:
                restore_generator(generator, **new)

    def _note_info(self, infos: Any, info: Any, number: int) -> Any:
        if noted := kept(info):
            self.infos.append((number, noted))
        return infos


def _shared_memory(channel: ShardChannel) -> int:
    """Wait for the descriptor of the memory that all processes share.

    Raises:
        EOFError: The leading process is gone.
    """
    channel.receive_one()
    descriptor = channel.take_descriptor()
    if descriptor is None:
        raise EOFError("the leading process is gone")
    return descriptor


def serve(
    channel: ShardChannel, make: Make, start: int, stop: int, num_envs: int
) -> None:
    """Be a part, until the leading process closes it or is gone.

    Args:
        channel: To the leading process.
        make: Makes a vector of so many environments.
        start: The first environment of this part.
        stop: The first that is none of this part any more.
        num_envs: How many the whole vector has.
    """
    made = _outcome(lambda: vector_call("making it", lambda: Shard(make(stop - start))))
    if isinstance(made, Problem):
        channel.send(with_warnings(problem_frame(made)))
        return
    vector = made.vector
    space = vector.single_observation_space
    channel.send(with_warnings(_frame([space, vector.single_action_space])))
    made.share(mapped(_shared_memory(channel), space, num_envs).part(start, stop))
    channel.send(_frame(None))
    calls: dict[int, tuple[str, Callable[[Any], Any]]] = {
        ShardOp.RESET: ("reset", made.reset),
        ShardOp.STEP: ("step", made.step),
        ShardOp.RENDER: ("render", lambda given: vector.render()),
        ShardOp.CALL: ("call", lambda given: vector.call(*given[0], **given[1])),
        ShardOp.CALL_SOME: ("call", lambda given: call_some(vector, *given)),
        ShardOp.SET_ATTR: ("set_attr", lambda given: vector.set_attr(*given)),
        ShardOp.GENERATORS: ("np_random", lambda given: made.generators()),
        ShardOp.SET_GENERATORS: ("np_random", made.set_generators),
        ShardOp.INFOS: ("step", lambda given: made.infos),
        ShardOp.CLOSE: ("close", lambda given: vector.close()),
    }
    while (frame := channel.receive_one()) is not None:
        name, call = calls[frame.kind]
        given = binary.decode(frame.body)
        told = _outcome(lambda: vector_call(name, call, given))  # noqa: B023
        reply = problem_frame(told) if isinstance(told, Problem) else _frame(told)
        channel.send(with_warnings(reply))
        if frame.kind == ShardOp.CLOSE:
            return


def mapped(descriptor: int, space: Any, num_envs: int) -> Batch:
    """Lay a vector's arrays over the memory behind a descriptor, and close that."""
    memory = mmap.mmap(descriptor, max(batch_bytes(space, num_envs), mmap.PAGESIZE))
    os.close(descriptor)
    return Batch.mapped(memory, space, num_envs)


def _outcome(call: Callable[[], Any]) -> Any:
    """Return the result of a call, or the problem that it raised."""
    try:
        outcome = call()
    except Exception as error:
        fork_guard.check()
        note_cause(error)
        return problem_of_error(error)
    fork_guard.check()
    return outcome


def _frame(value: Any) -> Frame:
    try:
        return answer(200, binary.encode(value))
    except UnsupportedValue as error:
        return problem_frame(
            UnrepresentableValue(f"the answer cannot be encoded: {error}")
        )
