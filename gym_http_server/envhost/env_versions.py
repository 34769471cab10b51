"""Environments that are known to be the newest of their name, before a host is forked.

`gymnasium.make` looks at all that is registered, a thousand specs and more, to warn if
there is a newer version. Looking counts users, and that writes: a host would have 200
KiB more of its own, which it shares otherwise.
"""

from __future__ import annotations

from gymnasium.envs import registration
from gymnasium.envs.registration import EnvSpec

__all__ = ["look_through", "newest"]

_newest: dict[str, EnvSpec] = {}
_registered = 0


def look_through() -> None:
    """Look through all that is registered, for `newest` to know."""
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
    """Give the spec of an ID of which there is no newer version; else the ID.

    `gymnasium.make` makes the same of either, but says no word about versions when it
    gets a spec.
    """
    registry = registration.registry
    spec = _newest.get(env_id)
    # What has been registered since may be newer.
    if spec is None or spec is not registry.get(env_id) or len(registry) != _registered:
        return env_id
    return spec


def _version(spec: EnvSpec) -> int:
    return -1 if spec.version is None else spec.version
