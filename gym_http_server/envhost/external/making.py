"""Making an environment that lives elsewhere: connections are taken, not made."""

from __future__ import annotations

import functools
import time
from typing import Any

import gymnasium

from gym_http_server.envhost.create_request import EXTERNAL, CreateRequest
from gym_http_server.envhost.external.environment import ExternalEnv
from gym_http_server.envhost.external.outside import Outside
from gym_http_server.envhost.external.vector import ExternalVectorEnv
from gym_http_wire.problems import BadParameter, ExternalAway

__all__ = ["make_external"]

#: Between two looks for connections, where one was lost on its way.
_PAUSE_SECONDS = 0.05

Made = gymnasium.Env[Any, Any] | gymnasium.vector.VectorEnv[Any, Any, Any]


def make_external(request: CreateRequest, outside: Outside) -> Made:
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
    while True:
        try:
            return _take(request, outside, count, max(0.0, until - time.monotonic()))
        except ExternalAway:
            # One that is lost on its way is no reason to wait less for another.
            if time.monotonic() + _PAUSE_SECONDS >= until:
                raise
            time.sleep(_PAUSE_SECONDS)


def _take(request: CreateRequest, outside: Outside, count: int, wait_s: float) -> Made:
    try:
        outside.take(request.env_id.removeprefix(EXTERNAL), count, wait_s)
        makes = [
            functools.partial(_make, request, outside, index) for index in range(count)
        ]
        if request.vector is None:
            return makes[0]()
        return ExternalVectorEnv(outside, makes, request.vector.kwargs)
    except BaseException:
        outside.give_back()
        raise


def _make(
    request: CreateRequest, outside: Outside, index: int
) -> gymnasium.Env[Any, Any]:
    env: gymnasium.Env[Any, Any] = ExternalEnv(
        outside.far_sides[index], outside, request.kwargs, request.render_mode
    )
    if request.disable_env_checker is False:
        env = gymnasium.wrappers.PassiveEnvChecker(env)
    if request.max_episode_steps is not None and request.max_episode_steps > 0:
        env = gymnasium.wrappers.TimeLimit(env, request.max_episode_steps)
    for each in request.wrappers:
        env = getattr(gymnasium.wrappers, each.name)(env, **each.kwargs)
    return env
