"""Makes the world of an env ID: ``world/NAME`` or ``interface/MODULE:CLASS``."""

from __future__ import annotations

import functools
import importlib
from typing import Any, NamedTuple

import gymnasium

from gym_http_server.errors import UnknownEnv, did_you_mean
from gym_http_server.host.realtime.world import World
from gym_http_server.host.realtime.worlds.adapters import (
    INTERFACE_METHODS,
    InterfaceWorld,
    Shape,
    SteppedWorld,
)
from gym_http_server.host.realtime.worlds.running import RunningWorld
from gym_http_server.host.realtime.worlds.shipped import SHIPPED

__all__ = ["NewWorld", "make"]

INTERFACE = "interface/"
WORLD = "world/"


class NewWorld(NamedTuple):
    """A world, and what a clock needs to know of it.

    Attributes:
        default_action: The action while no agent acts; ``None``: the space's zero.
        settings: Members of ``realtime`` that the world gives itself, such as its rate.
    """

    world: World
    action_space: gymnasium.Space[Any]
    observation_space: gymnasium.Space[Any]
    default_action: Any
    settings: dict[str, Any]


def make(env_id: str, kwargs: dict[str, Any]) -> NewWorld:
    """Make the world of an env ID.

    Args:
        env_id: ``world/NAME``, ``world/MODULE:CLASS`` or ``interface/MODULE:CLASS``,
            whose module is allowed.
        kwargs: Keyword arguments of the class.

    Raises:
        UnknownEnv: There is no such world, module or class.
        Exception: The module or the class raised it.
    """
    if env_id.startswith(INTERFACE):
        kind = _class_of(env_id, INTERFACE)
        _check_methods(env_id, kind, INTERFACE_METHODS)
        interface = InterfaceWorld(kind(**kwargs))
        return NewWorld(
            interface,
            interface.action_space,
            interface.observation_space,
            interface.default_action,
            {},
        )
    kind = _class_of(env_id, WORLD)
    if callable(getattr(kind, "run", None)):
        running = RunningWorld(functools.partial(kind, **kwargs))
        return _with_shape(running, running.shape)
    _check_methods(env_id, kind, ("reset", "step"))
    stepped = SteppedWorld(kind(**kwargs))
    return _with_shape(stepped, stepped.shape)


def _with_shape(world: World, shape: Shape) -> NewWorld:
    settings: dict[str, Any] = {}
    if shape.hz is not None:
        settings = {"mode": "free_running", "hz": shape.hz}
    return NewWorld(world, shape.action_space, shape.observation_space, None, settings)


def _class_of(env_id: str, prefix: str) -> Any:
    """Return the class that an env ID names."""
    named = env_id.removeprefix(prefix)
    module_name, colon, class_name = named.rpartition(":")
    if not colon and prefix == WORLD:
        if named in SHIPPED:
            return SHIPPED[named]
        words = did_you_mean(named, SHIPPED)
        raise UnknownEnv(
            env_id,
            f"expected world/ and one of {sorted(SHIPPED)}, or world/MODULE:CLASS"
            + words,
        )
    if not module_name or not class_name.isidentifier():
        raise UnknownEnv(env_id, f"expected {prefix}MODULE:CLASS")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise UnknownEnv(env_id, f"there is no module {error.name!r}") from None
    found = getattr(module, class_name, None)
    if not isinstance(found, type):
        classes = [name for name, each in vars(module).items() if type(each) is type]
        raise UnknownEnv(
            env_id,
            f"the module {module_name!r} has no class {class_name!r}"
            + did_you_mean(class_name, classes),
        )
    # A module that is allowed also has the names of those that it imports.
    if not f"{found.__module__}.".startswith(f"{module_name}."):
        raise UnknownEnv(
            env_id, f"the class {class_name} is from the module {found.__module__!r}"
        )
    return found


def _check_methods(env_id: str, kind: Any, names: tuple[str, ...]) -> None:
    """Check that a class has methods, before an object is made.

    Raises:
        UnknownEnv: It lacks one.
    """
    missing = [name for name in names if not callable(getattr(kind, name, None))]
    if missing:
        raise UnknownEnv(
            env_id,
            f"the class {kind.__name__} has no {', '.join(missing)}: expected the "
            + (
                "methods of rtgym's RealTimeGymInterface"
                if names is INTERFACE_METHODS
                else "methods reset and step, or run"
            ),
        )
