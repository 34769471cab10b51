"""Makes the environment, or the vector of environments, of a create request."""

from __future__ import annotations

import contextlib
import copy
import functools
import os
import re
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
from gymnasium.envs import registration
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv

from gym_http_core.env_errors import env_error, env_exceptions
from gym_http_server.errors import UnknownEnv, did_you_mean
from gym_http_server.host import env_warnings
from gym_http_server.host.create_request import CreateRequest
from gym_http_server.host.env_versions import newest, resolve
from gym_http_server.host.sharded_vector import ShardedVectorEnv
from gym_http_server.host.vector_request import VectorRequest
from gym_http_wire.problems import BadParameter, DependencyMissing, Problem

__all__ = ["make", "translate"]

Wrap = Callable[[gymnasium.Env[Any, Any]], Any]
Made = gymnasium.Env[Any, Any] | gymnasium.vector.VectorEnv[Any, Any, Any]


def make(request: CreateRequest) -> Made:
    """Make the environment with its wrappers, or a vector of such environments.

    Raises:
        UnknownEnv: No environment is registered with this ID.
        BadParameter: The environment does not take these arguments.
        DependencyMissing: It needs a package that is not installed.
        EnvError: It raised another exception.
    """
    options: dict[str, Any] = {}
    if request.max_episode_steps is not None:
        options["max_episode_steps"] = request.max_episode_steps
    if request.render_mode is not None:
        options["render_mode"] = request.render_mode
    if request.disable_env_checker is not None:
        options["disable_env_checker"] = request.disable_env_checker
    clash = sorted(set(request.kwargs) & _beside(request))
    if clash:
        raise BadParameter(
            f"kwargs has {clash}, which Gymnasium takes itself: expected beside "
            "kwargs, in the request"
        )
    try:
        env: Made = _make(request, {**options, **request.kwargs})
    except Problem:
        # Another process made it, and reports the problem.
        raise
    except env_exceptions() as error:
        raise translate(request, error) from error
    try:
        _check_render_mode(request, env)
    except BadParameter:
        with contextlib.suppress(Exception):
            env.close()
        raise
    return env


def _check_render_mode(request: CreateRequest, env: Made) -> None:
    """Check that the environment has the render mode; Gymnasium only warns.

    Raises:
        BadParameter: The environment has only other modes.
    """
    mode = request.render_mode or request.kwargs.get("render_mode")
    if mode is None:
        return
    # "human" would open a window, and is refused before.
    modes = [each for each in env.metadata.get("render_modes") or [] if each != "human"]
    known = not modes or {mode, str(mode).removesuffix("_list")} & set(modes)
    if known and (request.render_mode is None or env.render_mode == mode):
        return
    raise BadParameter(
        f"render_mode is {mode!r:.80}: {request.env_id} has {modes}"
        + did_you_mean(mode, modes)
    )


def _beside(request: CreateRequest) -> set[str]:
    names = {"id", "vectorization_mode", "max_episode_steps"}
    if request.render_mode is not None:
        names.add("render_mode")
    if request.disable_env_checker is not None:
        names.add("disable_env_checker")
    if request.vector is not None:
        names |= {"num_envs", "vector_kwargs", "wrappers"}
    return names


def _make(request: CreateRequest, options: dict[str, Any]) -> Any:
    env_id = request.env_id if request.exact_id else resolve(request.env_id)
    if env_id != request.env_id:
        env_warnings.add(
            "UserWarning",
            f"{request.env_id} is retired, and {env_id} was made instead: request that",
        )
    wraps = [
        functools.partial(getattr(gymnasium.wrappers, each.name), **each.kwargs)
        for each in request.wrappers
    ]
    if request.vector is not None:
        return _make_vector(env_id, request.vector, wraps, options)
    env = gymnasium.make(newest(env_id), **options)
    for wrap in wraps:
        env = wrap(env)
    return env


def translate(request: CreateRequest, error: BaseException) -> Problem:
    """Return an exception that making the environment raised as a problem."""
    problem = _problem(request, error)
    # So that a client can raise the same error as `gymnasium.make` here.
    problem.extras = {**env_error("making it", error).extras, **problem.extras}
    if isinstance(problem, UnknownEnv):
        # Gymnasium looked it up, and no code of the environment ran.
        del problem.extras["traceback"]
    return problem


def _problem(request: CreateRequest, error: BaseException) -> Problem:
    text = f"{type(error).__name__}: {error}"[:1000]
    if isinstance(error, gymnasium.error.DependencyNotInstalled | ImportError):
        return DependencyMissing(
            f"{request.env_id} cannot be made here: {error}"[:1000]
        )
    if isinstance(error, gymnasium.error.Error):
        unknown = (gymnasium.error.UnregisteredEnv, gymnasium.error.DeprecatedEnv)
        if isinstance(error, unknown) or re.match(
            "Malformed environment ID", str(error)
        ):
            return UnknownEnv(request.env_id, str(error))
    if isinstance(error, TypeError | ValueError | KeyError | AssertionError):
        return BadParameter(
            f"{request.env_id} cannot be made with these parameters: {text}"
        )
    return env_error("making it", error)


def _make_vector(
    env_id: str,
    request: VectorRequest,
    wrappers: Sequence[Wrap],
    options: dict[str, Any],
) -> VectorEnv[Any, Any, Any]:
    """Make a vector as ``gymnasium.make_vec`` does, in one process or several.

    Args:
        env_id: The ID of the environments, as it is registered.
        request: Their number, and how they are stepped.
        wrappers: Wrap each environment, the innermost first.
        options: Further arguments of ``make_vec`` and of the environment.

    Raises:
        BadParameter: The vector cannot be spread over processes.
        Exception: ``make_vec`` failed.
        Problem: It failed in another process.
    """

    def make(num_envs: int) -> VectorEnv[Any, Any, Any]:
        # It keeps its arguments, and changes some of them.
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
        vector = make(request.num_envs)
        if isinstance(vector, SyncVectorEnv | AsyncVectorEnv):
            # Answers are encoded before the next step overwrites the observations.
            vector.copy = False
        return vector
    _check_spreadable(env_id, request)
    sharded = ShardedVectorEnv(make, request.num_envs, request.hosts)
    sharded.spec = _whole_spec(sharded.spec, request.num_envs)
    return sharded


def _whole_spec(spec: Any, num_envs: int) -> Any:
    """Turn the spec of a shard into that of the whole vector."""
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
