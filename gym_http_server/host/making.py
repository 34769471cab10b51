"""Makes the environment, or the vector of environments, of a create request."""

from __future__ import annotations

import contextlib
import copy
import functools
import json
import os
import re
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
from gymnasium.envs import registration
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import (
    AsyncVectorEnv,
    AutoresetMode,
    SyncVectorEnv,
    VectorEnv,
)

from gym_http_core.agents import AgentEnv
from gym_http_core.env_errors import env_error, env_exceptions
from gym_http_server.errors import UnknownEnv, did_you_mean
from gym_http_server.host import env_warnings
from gym_http_server.host.agents import has_agents, make_agents
from gym_http_server.host.create_request import POOLS, CreateRequest
from gym_http_server.host.env_versions import newest, resolve
from gym_http_server.host.pools import pool_spec
from gym_http_server.host.sharded_vector import ShardedVectorEnv
from gym_http_server.host.vector_request import OWN_MODES, VectorRequest
from gym_http_server.operations.instances import AUTO
from gym_http_wire.problems import BadParameter, DependencyMissing, Problem

__all__ = ["describe_vector", "make", "translate"]

Wrap = Callable[[gymnasium.Env[Any, Any]], Any]
Made = gymnasium.Env[Any, Any] | gymnasium.vector.VectorEnv[Any, Any, Any] | AgentEnv


def make(request: CreateRequest) -> Made:
    """Make the environment with its wrappers, a vector, or one of several agents.

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
    if has_agents(request):
        return make_agents(request, options)
    if request.api is not None:
        raise BadParameter(
            f"api is {request.api!r}, and {request.env_id} is no environment of "
            "several agents: expected none"
        )
    spec = _find_spec(request, options)
    wraps = [
        functools.partial(getattr(gymnasium.wrappers, each.name), **each.kwargs)
        for each in request.wrappers
    ]
    if request.vector is not None:
        return _make_vector(request, request.vector, spec, wraps, options)
    env = gymnasium.make(spec, **options)
    made = env.unwrapped.spec
    if made is not None and isinstance(spec, EnvSpec) and _is_pool(request):
        # Gymnasium has it from its own wrapper.
        made.max_episode_steps = spec.max_episode_steps
    for wrap in wraps:
        env = wrap(env)
    return env


def _find_spec(request: CreateRequest, options: dict[str, Any]) -> EnvSpec | str:
    """Return a spec or ID for ``gymnasium.make`` and ``make_vec``.

    Args:
        request: The request.
        options: Their further arguments, which may be changed.
    """
    if _is_pool(request):
        steps = options.pop("max_episode_steps", None)
        if request.vector is None or request.vector.mode not in OWN_MODES:
            # EnvPool counts the steps itself.
            options["max_episode_steps"] = -1
        return pool_spec(request.env_id, request.seed, steps)
    env_id = request.env_id if request.exact_id else resolve(request.env_id)
    if env_id != request.env_id:
        env_warnings.add(
            "UserWarning",
            f"{request.env_id} is retired, and {env_id} was made instead: request that",
        )
    return newest(env_id)


def _is_pool(request: CreateRequest) -> bool:
    return request.env_id.startswith(POOLS)


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
        vector = request.vector
        if vector is not None and _refuses_itself(request, vector):
            works = _sync_request(request, vector, hosts=AUTO)
            return BadParameter(
                f"{request.env_id} makes its vectors itself, in one process ({text}): "
                "expected no autoreset_mode, vector_kwargs or wrappers; for one that "
                f"takes them, add: {works}"
            )
    if isinstance(error, TypeError | ValueError | KeyError | AssertionError):
        return BadParameter(
            f"{request.env_id} cannot be made with these parameters: {text}"
        )
    return env_error("making it", error)


def _make_vector(
    request: CreateRequest,
    wanted: VectorRequest,
    spec: EnvSpec | str,
    wrappers: Sequence[Wrap],
    options: dict[str, Any],
) -> VectorEnv[Any, Any, Any]:
    """Make a vector as ``gymnasium.make_vec`` does, in one process or several.

    Args:
        request: The request.
        wanted: The number of environments, and how they are stepped.
        spec: Their spec, or the ID under which it is registered.
        wrappers: Wrap each environment, the innermost first.
        options: Further arguments of ``make_vec`` and of the environment.

    Raises:
        BadParameter: The vector cannot be spread over processes.
        Exception: ``make_vec`` failed.
        Problem: It failed in another process.
    """
    kwargs = wanted.kwargs
    if _is_pool(request) and wanted.mode in OWN_MODES:
        kwargs = _pool_kwargs(request, wanted)

    def make(num_envs: int) -> VectorEnv[Any, Any, Any]:
        # It keeps its arguments, and changes some of them.
        vector_kwargs = dict(kwargs)
        made: VectorEnv[Any, Any, Any] = gymnasium.make_vec(
            spec,
            num_envs=num_envs,
            vectorization_mode=wanted.mode,
            vector_kwargs=vector_kwargs,
            wrappers=list(wrappers),
            **copy.deepcopy(options),
        )
        return made

    hosts = wanted.hosts
    refusal = None if hosts == 1 else _refusal(request, wanted, spec)
    if refusal is not None:
        if not wanted.auto:
            raise refusal
        hosts = 1
    if hosts == 1:
        vector = make(wanted.num_envs)
        if isinstance(vector, SyncVectorEnv | AsyncVectorEnv):
            # Answers are encoded before the next step overwrites the observations.
            vector.copy = False
        return vector
    sharded = ShardedVectorEnv(make, wanted.num_envs, hosts)
    sharded.spec = _whole_spec(sharded.spec, wanted.num_envs)
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


def _refusal(
    request: CreateRequest, wanted: VectorRequest, spec: EnvSpec | str
) -> BadParameter | None:
    """Return why a vector cannot be spread over processes; ``None`` if it can."""
    words = f"hosts is {wanted.hosts}, and"
    if wanted.mode is None and _makes_vectors(spec):
        works = _sync_request(request, wanted, hosts=wanted.hosts)
        return BadParameter(
            f"{words} {request.env_id} makes its vectors itself, in one process: "
            f"expected 1, or a vector that can be spread: {works}"
        )
    if len(os.listdir("/proc/self/task")) > 1:
        # A fork would copy the locks that other threads hold.
        return BadParameter(
            f"{words} a module that {request.env_id} comes from starts threads: "
            "expected 1"
        )
    return None


def _makes_vectors(spec: EnvSpec | str) -> bool:
    """Return whether an environment's package makes its vectors."""
    found = (
        registration.registry.get(spec.rpartition(":")[2])
        if isinstance(spec, str)
        else spec
    )
    return found is not None and bool(found.vector_entry_point)


def _refuses_itself(request: CreateRequest, wanted: VectorRequest) -> bool:
    """Return whether Gymnasium refuses the arguments of a package's own vector."""
    return (
        wanted.mode in OWN_MODES
        and bool(wanted.kwargs or request.wrappers)
        and _makes_vectors(_find_spec(request, {}))
    )


def _pool_kwargs(request: CreateRequest, wanted: VectorRequest) -> dict[str, Any]:
    """Return the arguments of a vector that EnvPool makes.

    Raises:
        BadParameter: It would need others.
    """
    kwargs = dict(wanted.kwargs)
    mode = AutoresetMode(kwargs.pop("autoreset_mode", AutoresetMode.NEXT_STEP))
    if kwargs or request.wrappers or mode is not AutoresetMode.NEXT_STEP:
        works = _sync_request(request, wanted, hosts=AUTO)
        raise BadParameter(
            f"{request.env_id} makes its vectors itself: expected autoreset_mode "
            "'next_step', no wrappers and no other vector_kwargs, or a vector of its "
            f"single environments, which takes them: {works}"
        )
    return kwargs


def _sync_request(
    request: CreateRequest, wanted: VectorRequest, hosts: int | str
) -> str:
    """Return members of a create request for a vector that Gymnasium makes."""
    first = {"env_id": request.env_id, "num_envs": wanted.num_envs}
    return json.dumps({**first, "vectorization_mode": "sync", "hosts": hosts})


def describe_vector(request: CreateRequest, vector: Any) -> dict[str, Any]:
    """Return members of a description: how a vector steps its environments.

    Args:
        request: The request that it was made for.
        vector: The vector; other environments have no such members.
    """
    if request.vector is None:
        return {}
    spec = getattr(vector, "spec", None)
    own = getattr(spec, "vector_entry_point", None) is not None
    single = getattr(spec, "entry_point", None) is not None
    mode, other = "sync", None
    if isinstance(vector, AsyncVectorEnv):
        mode = "async"
    elif not request.external and not isinstance(
        vector, SyncVectorEnv | ShardedVectorEnv
    ):
        mode = "vector_entry_point"
    if mode == "vector_entry_point" and single:
        other = (
            f"{request.env_id} makes its vectors itself, in one process. For one over "
            'several processes, create it with "vectorization_mode": "sync" and '
            '"hosts": "auto".'
        )
    elif mode != "vector_entry_point" and own:
        other = (
            f"{request.env_id} can make its vectors itself, in one process: create it "
            'with "vectorization_mode": "vector_entry_point", without hosts.'
        )
    spread = isinstance(vector, ShardedVectorEnv)
    return {
        "hosts": request.vector.hosts if spread else 1,
        "other_mode": other,
        "vectorization_mode": mode,
    }
