"""Making many environments that step as one."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
from gymnasium.envs import registration
from gymnasium.vector import VectorEnv

from gym_http_server.envhost.sharded_vector import ShardedVectorEnv
from gym_http_server.envhost.vector_request import VectorRequest
from gym_http_wire.problems import BadParameter

__all__ = ["make_vector"]

Wrap = Callable[[gymnasium.Env[Any, Any]], Any]


def make_vector(
    env_id: str,
    request: VectorRequest,
    wrappers: Sequence[Wrap],
    options: dict[str, Any],
) -> VectorEnv[Any, Any, Any]:
    """Make a vector as ``gymnasium.make_vec`` does, over one process or several.

    Args:
        env_id: What to make, and as it is registered.
        request: How many, and how.
        wrappers: What to put around each environment, the innermost first.
        options: Further arguments of ``make_vec``, those of the environment included.

    Raises:
        BadParameter: This cannot be spread over processes.
        Exception: What ``make_vec`` raises.
        Problem: What it raises in another process.
    """

    def make(num_envs: int) -> VectorEnv[Any, Any, Any]:
        # It keeps what it is given, and changes some of it.
        vector_kwargs = dict(request.kwargs)
        made: VectorEnv[Any, Any, Any] = gymnasium.make_vec(
            env_id,
            num_envs=num_envs,
            vectorization_mode=request.mode,
            vector_kwargs=vector_kwargs,
            wrappers=list(wrappers),
            **copy.deepcopy(options),
        )
        return made

    if request.hosts == 1:
        return make(request.num_envs)
    _check_spreadable(env_id, request)
    vector = ShardedVectorEnv(make, request.num_envs, request.hosts)
    vector.spec = _whole_spec(vector.spec, request.num_envs)
    return vector


def _whole_spec(spec: Any, num_envs: int) -> Any:
    """Give the spec of a part as that of the whole, its arguments in their order."""
    if spec is None:
        return None
    whole = copy.deepcopy(spec)
    rest = {
        name: whole.kwargs.pop(name)
        for name in ("vectorization_mode", "vector_kwargs", "wrappers")
        if name in whole.kwargs
    }
    whole.kwargs.pop("num_envs", None)
    whole.kwargs |= {"num_envs": num_envs, **rest}
    return whole


def _check_spreadable(env_id: str, request: VectorRequest) -> None:
    spec = registration.registry.get(env_id.rpartition(":")[2])
    if request.mode is None and spec is not None and spec.vector_entry_point:
        raise BadParameter(
            f"hosts is {request.hosts}, and {env_id} makes its vectors itself, in one "
            "process: expected 1, or vectorization_mode 'sync', which can be spread"
        )
    if len(os.listdir("/proc/self/task")) > 1:
        # A fork would copy the locks that other threads hold.
        raise BadParameter(
            f"hosts is {request.hosts}, and a module that {env_id} comes from starts "
            "threads: expected 1"
        )
