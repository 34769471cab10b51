"""Makes environments of several agents: PettingZoo's, and those that are registered.

PettingZoo is imported late, since it is an extra.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium

from gym_http_core.agents import AgentEnv, agent_env, factories
from gym_http_server.errors import did_you_mean
from gym_http_server.host.create_request import CreateRequest
from gym_http_server.host.failures import cannot_load
from gym_http_wire.problems import BadParameter

__all__ = ["agent_rows", "has_agents", "make_agents"]

#: Beginning of env IDs of PettingZoo's environments.
PETTINGZOO = "pettingzoo/"
# What PettingZoo's documentation names: modules with a version, in its packages.
_MODULE = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*_v[0-9]+")
#: Packages of PettingZoo that are libraries by now.
_MOVED = {"magent": "magent2", "mpe": "mpe2"}
#: Functions of these modules that make an environment, by its interface.
_MAKERS = {"parallel": "parallel_env", "aec": "env"}


def has_agents(request: CreateRequest) -> bool:
    """Whether a request is for an environment of several agents."""
    return request.env_id.startswith(PETTINGZOO) or request.env_id in factories


def make_agents(request: CreateRequest, options: dict[str, Any]) -> AgentEnv:
    """Make an environment of several agents.

    Args:
        request: The request.
        options: Arguments of the environment.

    Raises:
        BadParameter: The request has what is for environments of one agent, or names
            an interface that this one does not have.
        DependencyNotInstalled: PettingZoo is not installed.
        NameNotFound: It has no such module.
        Exception: The environment raised it.
    """
    _check(request)
    factory = factories.get(request.env_id)
    if factory is not None:
        env = agent_env(factory(**options))
        _check_api(request, [env.api])
        return env
    module = _import(request.env_id)
    makers = [api for api, name in _MAKERS.items() if hasattr(module, name)]
    _check_api(request, makers)
    api = request.api or makers[0]
    return agent_env(getattr(module, _MAKERS[api])(**options))


def _check(request: CreateRequest) -> None:
    given = {
        "wrappers": list(request.wrappers),
        "num_envs": request.vector is not None,
        "realtime": request.realtime,
        "max_episode_steps": request.max_episode_steps,
        "disable_env_checker": request.disable_env_checker,
    }
    for name, value in given.items():
        if value not in (None, False, []):
            raise BadParameter(
                f"{name} is for environments of one agent, and {request.env_id} has "
                "several: expected none (PettingZoo's max_cycles goes into kwargs)"
            )


def _check_api(request: CreateRequest, known: list[str]) -> None:
    if request.api is not None and request.api not in known:
        raise BadParameter(
            f"api is {request.api!r}, and {request.env_id} has only {known}: expected "
            f"{known[0]!r}, or none"
        )


def _import(env_id: str) -> Any:
    name = env_id.removeprefix(PETTINGZOO)
    if not _is_installed():
        raise gymnasium.error.DependencyNotInstalled(
            "PettingZoo is not installed, run "
            "`pip install 'gymnasium-http-server[pettingzoo]'`"
        )
    if not _MODULE.fullmatch(name) or name not in _names():
        raise gymnasium.error.NameNotFound(
            f"PettingZoo has no environment {name!r}{_hint(name)}"
        )
    with warnings.catch_warnings():
        # It would rather have its own `make` called.
        warnings.simplefilter("ignore", DeprecationWarning)
        return importlib.import_module(f"pettingzoo.{name}")


def _hint(name: str) -> str:
    package = name.partition(".")[0]
    if package in _MOVED:
        return f": {package} has moved to the package {_MOVED[package]}"
    known = {_bare(each): PETTINGZOO + each for each in _names()}
    hint = did_you_mean(_bare(name), known, known.__getitem__)
    return hint or "; the registry lists all"


def _bare(name: str) -> str:
    """Return a name without package and version, which many have in common."""
    return re.sub(r"_v[0-9]*$", "", name.rpartition(".")[2])


def _is_installed() -> bool:
    return importlib.util.find_spec("pettingzoo") is not None


def _names() -> list[str]:
    """Return the names of PettingZoo's environments, without importing any."""
    spec = importlib.util.find_spec("pettingzoo")
    if spec is None or not spec.submodule_search_locations:
        return []
    root = Path(spec.submodule_search_locations[0])
    files = (each.relative_to(root).with_suffix("") for each in root.rglob("*_v*.py"))
    names = (".".join(each.parts) for each in files)
    return sorted(name for name in names if _MODULE.fullmatch(name))


def agent_rows(on_load: Callable[[str], None]) -> list[dict[str, Any]]:
    """Return a row of the registry for each environment of several agents.

    Args:
        on_load: Called with each name before its import.
    """
    rows = [_row(env_id, each, on_load) for env_id, each in factories.items()]
    return rows + [_row(PETTINGZOO + name, None, on_load) for name in _names()]


def _row(
    env_id: str, factory: Callable[..., Any] | None, on_load: Callable[[str], None]
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "agents": [],
        "api": None,
        "arguments": [],
        "entry_point": None,
        "env_id": env_id,
        "max_episode_steps": None,
        "possible_agents": None,
        "reason": None,
    }
    on_load(env_id)
    try:
        if factory is None:
            module = _import(env_id)
            names = [name for name in _MAKERS.values() if hasattr(module, name)]
            factory = getattr(module, names[0])
            # Its own name is that of a wrapper, which all have in common.
            row["entry_point"] = f"{module.__name__}:{names[0]}"
        else:
            row["entry_point"] = f"{factory.__module__}:{factory.__qualname__}"
        env = agent_env(factory())
        row |= {"agents": env.agents, "api": env.api}
        row["possible_agents"] = env.possible_agents
        env.close()
    except (Exception, SystemExit) as error:
        row["reason"] = cannot_load(error)
    return row | {"available": row["reason"] is None}
