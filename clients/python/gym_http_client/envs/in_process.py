"""Remote environments without a server, to test which values arrive unchanged.

The adapter, the encodings and the calls are those of a remote environment. Only the
network is missing.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable
from typing import Any, overload

import gymnasium
from gymnasium.vector import VectorEnv

from gym_http_client.envs.remote_env import RemoteEnv
from gym_http_client.envs.remote_vector_env import RemoteVectorEnv
from gym_http_client.http.error_mapping import error_from_problem
from gym_http_core.lossless_calls import LosslessCalls, sent_spec
from gym_http_core.vectors import operations_of
from gym_http_wire import spaces
from gym_http_wire.problems import NoAttribute, Problem, UnrepresentableValue
from gym_http_wire.space_parsing import parse_space
from gym_http_wire.values import UnsupportedValue, binary, losses
from gym_http_wire.values.infos import with_unsent

__all__ = ["check_wire", "through_wire"]

STEPS = 200


@overload
def through_wire(env: gymnasium.Env[Any, Any]) -> RemoteEnv: ...
@overload
def through_wire(env: VectorEnv[Any, Any, Any]) -> RemoteVectorEnv: ...
def through_wire(
    env: gymnasium.Env[Any, Any] | VectorEnv[Any, Any, Any],
) -> RemoteEnv | RemoteVectorEnv:
    """Wrap an environment or a vector as if it were remote, within this process.

    Args:
        env: The environment. From now on, use it only through the result.

    Returns:
        A `RemoteEnv` or `RemoteVectorEnv` around the environment. It cannot be
        pickled, since unpickling could not create the environment again.

    Raises:
        TypeError: ``env`` is not an environment.
    """
    if isinstance(env, VectorEnv):
        return RemoteVectorEnv.over(_LocalHandle(env))
    return RemoteEnv.over(_LocalHandle(_checked(env)))


def check_wire(env: gymnasium.Env[Any, Any], steps: int = STEPS) -> list[str]:
    """List the values of an environment that would not arrive unchanged.

    It plays with random actions and checks all results.

    Args:
        env: The environment; it is reset and stepped, and stays open.
        steps: Number of steps.

    Returns:
        A line for each value that would arrive changed; empty if there is none.

    Raises:
        TypeError: ``env`` is not an environment, or it is a vector.
    """
    env = _checked(env)
    found: dict[str, None] = {}
    for which in ("action_space", "observation_space"):
        try:
            same = parse_space(spaces.describe(getattr(env, which)))
            if same != getattr(env, which):
                found[f"{which}: arrives as {same}"] = None
        except (spaces.UndescribableSpace, ValueError) as error:
            found[f"{which}: {error}"] = None
    _look(found, "metadata", env.metadata)
    spec, missing = sent_spec(env)
    if spec is not None and missing:
        found[f"spec: {missing}"] = None
    observation, info = env.reset(seed=0)
    _look(found, "reset", {"observation": observation, "info": info})
    for _ in range(steps):
        action = env.action_space.sample()
        _look(found, "action", action)
        observation, reward, terminated, truncated, info = env.step(action)
        seen = {"observation": observation, "reward": reward, "info": info}
        seen |= {"terminated": terminated, "truncated": truncated}
        _look(found, "step", seen)
        if terminated or truncated:
            observation, info = env.reset()
            _look(found, "reset", {"observation": observation, "info": info})
    return list(found)


def _checked(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    if not isinstance(env, gymnasium.Env):
        raise TypeError(
            f"{env!r} is no environment: expected what gymnasium.make returns"
        )
    return env


def _look(found: dict[str, None], where: str, value: Any) -> None:
    for loss in losses(value):
        found[f"{where}: {loss}"] = None


class _LocalHandle:
    """A handle, as `gym_http_client.envs.handles.Handle`, around an env object."""

    transport = "in process"

    def __init__(self, env: gymnasium.Env[Any, Any] | VectorEnv[Any, Any, Any]) -> None:
        self._operations = operations_of(env)
        self._answers: deque[Any] = deque()
        self._warned = False
        exact = LosslessCalls(self._operations)
        self._calls: dict[str, Callable[[Any], Any]] = {
            "GET ": lambda given: self._describe(exact),
            "GET generator/": lambda given: exact.generator(),
            "POST generator/": exact.set_generator,
            "POST render/": lambda given: exact.render(),
            "POST reset/": exact.reset,
            "POST step/": exact.step,
        }
        self._attribute_calls: dict[str, Callable[[str, Any], Any]] = {
            "GET": lambda name, given: exact.attribute(name),
            "POST": exact.set_attribute,
            "POST call": exact.call_attribute,
        }

    def capabilities(self) -> frozenset[str]:
        """Return nothing: there is no server."""
        return frozenset()

    def call(self, method: str, path: str, given: Any = None) -> Any:
        """Call the environment, with arguments and results in the binary form."""
        sent = binary.decode(binary.encode(given))
        try:
            answer = self._call(method, path, sent)
            try:
                return binary.decode(self._encoded(answer))
            except UnsupportedValue as error:
                raise UnrepresentableValue(
                    f"the answer cannot be encoded: {error}"
                ) from None
        except Problem as problem:
            body = {**problem.extras, "code": problem.code, "message": problem.message}
            raise error_from_problem(
                body, problem.status, f"in-process:{path}"
            ) from None

    def _encoded(self, answer: Any) -> bytes:
        try:
            return binary.encode(answer)
        except UnsupportedValue as error:
            answer, replaced = with_unsent(answer)
            if not replaced:
                raise error from None
            encoded = binary.encode(answer)
        if not self._warned:
            self._warned = True
            warnings.warn(f"{replaced}: it becomes Unsent, with its repr", stacklevel=2)
        return encoded

    def send(self, path: str, given: Any) -> None:
        """Call the environment at once, and keep the answer."""
        try:
            self._answers.append((self.call("POST", path, given), None))
        except Exception as error:
            self._answers.append((None, error))

    def receive(self) -> Any:
        """Return the oldest answer that was kept."""
        answer, error = self._answers.popleft()
        if error is not None:
            raise error
        return answer

    def release(self) -> None:
        """Do nothing: there are no connections."""

    def end(self) -> None:
        """Close the environment."""
        self._operations.close()

    def _call(self, method: str, path: str, given: Any) -> Any:
        call = self._calls.get(f"{method} {path}")
        if call is not None:
            return call(given)
        kind, name, *rest = path.removesuffix("/").split("/")
        if kind != "attributes":
            raise NoAttribute(f"there is nothing at {path!r}")
        return self._attribute_calls[" ".join((method, *rest))](name, given)

    def _describe(self, exact: LosslessCalls) -> dict[str, Any]:
        env = self._operations.env
        env_id = "" if env.spec is None else env.spec.id
        return {**exact.describe(), "instance_id": "in-process", "env_id": env_id}
