"""Makes the clock of an instance, and the world that it drives."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import gymnasium

from gym_http_core.env_errors import env_exceptions
from gym_http_server.host import fork_guard
from gym_http_server.host.create_request import CreateRequest
from gym_http_server.host.making import translate
from gym_http_server.host.realtime import worlds
from gym_http_server.host.realtime.elastic import Elastic
from gym_http_server.host.realtime.environment import (
    EnvWorld,
    WorldEnv,
    clocked_env,
)
from gym_http_server.host.realtime.following import Following
from gym_http_server.host.realtime.free_running import FreeRunning
from gym_http_server.host.realtime.mode import Mode
from gym_http_server.host.realtime.operations import ClockedOperations
from gym_http_server.host.realtime.settings import ELASTIC
from gym_http_server.host.realtime.settings_request import read_settings
from gym_http_server.rundir.status import StatusPage
from gym_http_wire.problems import BadParameter, Problem

__all__ = ["make_clocked"]

Env = gymnasium.Env[Any, Any]


def make_clocked(
    request: CreateRequest,
    make: Callable[[], Env],
    page: StatusPage,
    *,
    max_hz: float,
    max_spin_us: int,
    strict_actions: bool,
) -> ClockedOperations:
    """Make an environment or a world, and its clock.

    Args:
        request: The create request.
        make: Makes the environment, unless the request names a world.
        page: The status page, for the step deadline.
        max_hz: The highest rate.
        max_spin_us: The longest time to spin before a deadline, in microseconds.
        strict_actions: Refuse actions that the action space does not contain.

    Raises:
        Problem: It cannot be made.
    """
    given = dict(request.realtime or {})
    env, world, default_action = _world_of(request, make, given)
    settings = read_settings(
        given,
        action_space=env.action_space,
        max_hz=max_hz,
        max_spin_us=max_spin_us,
        external=request.external or request.env_id.startswith("interface/"),
        default_action=default_action,
        strict_actions=strict_actions,
    )

    def begin(now_ns: int) -> None:
        fork_guard.check()
        page.begin_tick(now_ns)

    kind: Callable[..., Mode] = FreeRunning
    if settings.mode == ELASTIC:
        kind = Elastic
    elif isinstance(world, worlds.RunningWorld):
        kind = Following
    mode = kind(settings, world, time.monotonic_ns, begin)
    return ClockedOperations(
        clocked_env(env, settings),
        mode,
        first_seed=request.seed,
    )


def _world_of(
    request: CreateRequest, make: Callable[[], Env], given: dict[str, Any]
) -> tuple[Env, Any, Any]:
    """Return environment, world and default action; add settings of the world."""
    if not request.names_world:
        env = make()
        return env, EnvWorld(env, external=request.external), None
    _check_members(request)
    try:
        made = worlds.make(request.env_id, request.kwargs)
    except Problem:
        raise
    except env_exceptions() as error:
        raise translate(request, error) from error
    made = _limited(request, made)
    given |= _defaults(made.settings, given)
    if request.realtime is None and "hz" not in given:
        raise BadParameter(
            f"{request.env_id} has no rate of its own: expected "
            '"realtime": {"mode": …, "hz": …} in the request'
        )
    return WorldEnv(made), made.world, made.default_action


def _limited(request: CreateRequest, made: worlds.NewWorld) -> worlds.NewWorld:
    """Return a world whose episodes have as many steps as the request permits.

    Raises:
        BadParameter: The world begins its episodes itself.
    """
    most = request.max_episode_steps
    if most is None or most == -1:
        return made
    if isinstance(made.world, worlds.RunningWorld):
        raise BadParameter(
            f"max_episode_steps is {most}: expected null, since {request.env_id} runs "
            "by itself, and ends its episodes itself"
        )
    return made._replace(world=worlds.LimitedWorld(made.world, most))


def _defaults(own: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a world that a request does not replace."""
    known = {name for name, value in given.items() if value is not None}
    left = own.keys() - known
    if "preset" in known or ("mode" in known and given["mode"] != own.get("mode")):
        # The other settings are of the world's own mode.
        left &= {"hz"}
    if "period_s" in known:
        left.discard("hz")
    return {name: own[name] for name in left}


def _check_members(request: CreateRequest) -> None:
    """Refuse what only Gymnasium environments take.

    Raises:
        BadParameter: The request has such a member.
    """
    members = {
        "disable_env_checker": request.disable_env_checker,
        "render_mode": request.render_mode,
        "wrappers": [each.name for each in request.wrappers] or None,
    }
    for name, value in members.items():
        if value is not None:
            raise BadParameter(
                f"{name} is {value!r:.80}: expected null, since {request.env_id} is "
                "no Gymnasium environment; its arguments go into kwargs"
            )
