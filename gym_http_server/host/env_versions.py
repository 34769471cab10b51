"""Finds the newest version of an environment's name in the registry.

`gymnasium.make` reads the whole registry, a thousand specs and more, to warn if there
is a newer version. Reading changes reference counts, so a host would copy 200 KiB of
memory that it shares otherwise. So the supervisor does it, before it forks hosts.
"""

from __future__ import annotations

import gymnasium
from gymnasium.envs import registration
from gymnasium.envs.registration import EnvSpec

__all__ = ["newest", "read_versions", "resolve"]

_newest: dict[str, EnvSpec] = {}
_registered = 0


def read_versions() -> None:
    """Read the registry, and remember the newest versions for `newest`."""
    global _registered
    highest: dict[tuple[str | None, str], int] = {}
    specs = registration.registry.values()
    for spec in specs:
        name = (spec.namespace, spec.name)
        highest[name] = max(highest.get(name, -1), _version(spec))
    for spec in specs:
        if _version(spec) == highest[spec.namespace, spec.name]:
            _newest[spec.id] = spec
    _registered = len(registration.registry)


def newest(env_id: str) -> EnvSpec | str:
    """Return the spec of an ID if it is the newest version, else the ID.

    `gymnasium.make` makes the same environment from either, but looks for newer
    versions only when it gets an ID.
    """
    registry = registration.registry
    spec = _newest.get(env_id)
    # An environment registered since then may be newer.
    if spec is None or spec is not registry.get(env_id) or len(registry) != _registered:
        return env_id
    return spec


def resolve(env_id: str) -> str:
    """Return the ID to make: the newest version if the requested one is retired."""
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


def _version(spec: EnvSpec) -> int:
    return -1 if spec.version is None else spec.version
