"""Making an environment that lives elsewhere: connections are taken, not made."""

from __future__ import annotations

import functools
import time
from typing import Any

import gymnasium

from gym_http_server.envhost.create_request import EXTERNAL, CreateRequest
from gym_http_server.envhost.external.connections import ExternalConnections
from gym_http_server.envhost.external.environment import ExternalEnv
from gym_http_server.envhost.external.vector import ExternalVectorEnv
from gym_http_wire.problems import BadParameter, ExternalAway

__all__ = ["make_external"]

#: How often connections that are lost while they begin are replaced.
_MOST_LOST = 8

Made = gymnasium.Env[Any, Any] | gymnasium.vector.VectorEnv[Any, Any, Any]


def make_external(request: CreateRequest, outside: ExternalConnections) -> Made:
    """Take connections, begin, and put the wrappers around.

    Raises:
        ExternalAway: There are not enough connections.
        Problem: An environment could not begin.
    """
    vector = request.vector
    count = 1
    if vector is not None:
        count = vector.num_envs
        if vector.mode not in (None, "sync") or vector.hosts > 1:
            raise BadParameter(
                f"vectorization_mode is {vector.mode!r} and hosts is {vector.hosts}: "
                f"expected null and 1, since all of {request.env_id} are asked at once"
            )
    until = time.monotonic() + request.wait_s
    lost = 0
    while True:
        wait_s = max(0.0, until - time.monotonic())
        try:
            outside.take(request.env_id.removeprefix(EXTERNAL), count, wait_s)
        except BaseException:
            outside.give_back()
            raise
        try:
            return _begin(request, outside)
        except ExternalAway:
            # One that is lost while it begins is no reason to do without another.
            outside.give_back()
            lost += 1
            if lost == _MOST_LOST:
                raise
        except BaseException:
            outside.give_back()
            raise


def _begin(request: CreateRequest, outside: ExternalConnections) -> Made:
    """Begin with the connections that were taken."""
    makes = [
        functools.partial(_make, request, outside, index)
        for index in range(len(outside.far_sides))
    ]
    if request.vector is None:
        made = makes[0]()
        if type(made) is ExternalEnv:
            outside.crossing = made.crossing
        return made
    return ExternalVectorEnv(outside, makes, request.vector.kwargs)


def _make(
    request: CreateRequest, outside: ExternalConnections, index: int
) -> gymnasium.Env[Any, Any]:
    far = outside.far_sides[index]
    begun = ExternalEnv(far, outside, request.kwargs, request.render_mode)
    try:
        return _wrapped(request, begun)
    except BaseException:
        begun.close()
        raise


def _wrapped(
    request: CreateRequest, env: gymnasium.Env[Any, Any]
) -> gymnasium.Env[Any, Any]:
    if request.disable_env_checker is False:
        env = gymnasium.wrappers.PassiveEnvChecker(env)
    if request.max_episode_steps is not None and request.max_episode_steps > 0:
        env = gymnasium.wrappers.TimeLimit(env, request.max_episode_steps)
    for each in request.wrappers:
        env = getattr(gymnasium.wrappers, each.name)(env, **each.kwargs)
    return env
