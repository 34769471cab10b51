"""Making what a create request asks for; this happens in a host only."""

from __future__ import annotations

import contextlib
import functools
import re
from typing import Any

import gymnasium
from gymnasium.envs import registration

from gym_http_core.env_errors import env_error
from gym_http_server.envhost import env_warnings
from gym_http_server.envhost.create_request import CreateRequest
from gym_http_server.envhost.env_versions import newest
from gym_http_server.envhost.vector import make_vector
from gym_http_server.errors import UnknownEnv, did_you_mean
from gym_http_wire.problems import BadParameter, DependencyMissing, Problem

__all__ = ["make", "resolve"]

Made = gymnasium.Env[Any, Any] | gymnasium.vector.VectorEnv[Any, Any, Any]


def make(request: CreateRequest) -> Made:
    """Make the environment, with its wrappers around it, or a vector of them.

    Raises:
        UnknownEnv: There is none of this ID.
        BadParameter: The environment does not take these arguments.
        DependencyMissing: It needs a package that is not there.
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
            f"kwargs has {clash}: expected beside kwargs, in the request itself"
        )
    try:
        env: Made = _make(request, {**options, **request.kwargs})
    except Problem:
        # Another process made it, and has found the words.
        raise
    except (Exception, SystemExit) as error:
        raise _translate(request, error) from error
    try:
        _check_render_mode(request, env)
    except BadParameter:
        with contextlib.suppress(Exception):
            env.close()
        raise
    return env


def _check_render_mode(request: CreateRequest, env: Made) -> None:
    """Check that the environment has the render mode, which Gymnasium only warns of.

    Raises:
        BadParameter: It has others.
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
            f"{request.env_id} is retired, and {env_id} was made instead: ask for that",
        )
    wraps = [
        functools.partial(getattr(gymnasium.wrappers, each.name), **each.kwargs)
        for each in request.wrappers
    ]
    if request.vector is not None:
        return make_vector(env_id, request.vector, wraps, options)
    env = gymnasium.make(newest(env_id), **options)
    for wrap in wraps:
        env = wrap(env)
    return env


def resolve(env_id: str) -> str:
    """Give the ID to make: the newest version where the one asked for is retired."""
    module, colon, name = env_id.rpartition(":")
    if name in registration.registry:
        return env_id
    try:
        namespace, base, version = registration.parse_env_id(name)
    except gymnasium.error.Error:
        return env_id
    versions = [
        spec.version
        for spec in registration.registry.values()
        if (spec.namespace, spec.name) == (namespace, base) and spec.version is not None
    ]
    if version is None or not versions or version > max(versions):
        return env_id
    return module + colon + registration.get_env_id(namespace, base, max(versions))


def _translate(request: CreateRequest, error: BaseException) -> Problem:
    problem = _problem(request, error)
    # So that a client can raise what `gymnasium.make` raised here.
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
