"""Makes external environments for an instance: leases, begins and wraps them."""

from __future__ import annotations

import time
from functools import partial
from typing import Any, NamedTuple

import gymnasium

from gym_http_server.config.env_commands import EXTERNAL
from gym_http_server.host.create_request import CreateRequest
from gym_http_server.host.external.connections import ExternalConnections
from gym_http_server.host.external.environment import ExternalEnv
from gym_http_server.host.external.fast_step import FastStep
from gym_http_server.host.external.leased_connection import LeasedConnection
from gym_http_server.host.external.vector import ExternalVectorEnv
from gym_http_wire.external.steps import PackedStep
from gym_http_wire.problems import BadParameter, ExternalAway

__all__ = ["Made", "make_external"]

#: How often connections that are lost while their environments begin are replaced.
MAX_LOST = 8


class Made(NamedTuple):
    """An environment that was made.

    Attributes:
        env: The environment.
        stream_step: The fast path for steps of a stream, or ``None``.
    """

    env: gymnasium.Env[Any, Any] | gymnasium.vector.VectorEnv[Any, Any, Any]
    stream_step: FastStep[PackedStep] | None = None


def make_external(request: CreateRequest, connections: ExternalConnections) -> Made:
    """Lease connections, begin their environments, and wrap them.

    Raises:
        ExternalAway: There are not enough connections.
        Problem: An environment could not begin.
    """
    vector = request.vector
    count = 1
    if vector is not None:
        count = vector.num_envs
        if vector.mode not in (None, "sync") or (vector.hosts > 1 and not vector.auto):
            raise BadParameter(
                f"vectorization_mode is {vector.mode!r} and hosts is {vector.hosts}: "
                f"expected null and 1, since all {request.env_id} step at the same time"
            )
    until = time.monotonic() + request.wait_s
    lost = 0
    while True:
        wait_s = max(0.0, until - time.monotonic())
        try:
            connections.lease(request.env_id.removeprefix(EXTERNAL), count, wait_s)
            return _begin(request, connections)
        except ExternalAway:
            began = len(connections.leased) == count
            connections.release()
            # Another environment may replace one that is lost while it begins.
            lost += began
            if not began or lost == MAX_LOST:
                raise
        except BaseException:
            connections.release()
            raise


def _begin(request: CreateRequest, connections: ExternalConnections) -> Made:
    """Begin the environments of the leased connections."""
    makes = [partial(_make, request, connections, each) for each in connections.leased]
    if request.vector is not None:
        return Made(ExternalVectorEnv(connections, makes, request.vector.kwargs))
    env = makes[0]()
    return Made(env, env.stream_step if type(env) is ExternalEnv else None)


def _make(
    request: CreateRequest,
    connections: ExternalConnections,
    connection: LeasedConnection,
) -> gymnasium.Env[Any, Any]:
    env = ExternalEnv(connection, connections, request.kwargs, request.render_mode)
    try:
        return _wrapped(request, env)
    except BaseException:
        env.close()
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
