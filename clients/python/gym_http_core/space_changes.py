"""Notices that an environment has assigned other spaces since it was made."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

__all__ = ["SpaceChanges"]

_SPACES = ("action_space", "observation_space")


class SpaceChanges:
    """Compares the spaces of an environment with those that it had before.

    An equal space in place of another one is no change.

    Args:
        env: The environment or vector.

    Attributes:
        version: The number of changes so far.
        glance: Returns whether `look` may find a change, or has found one before. For
            every step, it costs less, and misses only what a wrapper assigns to itself.
    """

    def __init__(self, env: Any) -> None:
        self.version = 0
        self._env = env
        self._names: tuple[str, ...] = _SPACES
        if hasattr(env, "num_envs"):
            self._names += ("single_action_space", "single_observation_space")
        self._known = self._read()
        self.glance = self._new_glance(getattr(env, "unwrapped", env))

    def look(self) -> bool:
        """Return whether a space has changed since the last look, and count it."""
        known, self._known = self._known, self._read()
        changed = not all(map(_is_same, known, self._known))
        if changed:
            self.version += 1
        return changed

    def _read(self) -> list[Any]:
        spaces = []
        for name in self._names:
            try:
                spaces.append(getattr(self._env, name))
            except Exception:
                # The call that needs it reports that.
                spaces.append(None)
        return spaces

    def _new_glance(self, env: Any) -> Callable[[], bool]:
        members = getattr(env, "__dict__", {})
        if any(_is_computed(env, members, name) for name in _SPACES):
            return lambda: True
        get, (action, observation) = members.get, _SPACES
        known = [get(action), get(observation)]

        def glance() -> bool:
            if get(action) is known[0] and get(observation) is known[1]:
                return self.version > 0
            known[:] = get(action), get(observation)
            return True

        return glance


def _is_same(old: Any, new: Any) -> bool:
    if old is new:
        return True
    try:
        return type(old) is type(new) and bool(old == new)
    except Exception:
        # Spaces of other packages may compare in any way.
        return False


def _is_computed(env: Any, members: dict[str, Any], name: str) -> bool:
    """Whether a property, and no assignment, has the environment's space."""
    return name not in members and hasattr(
        inspect.getattr_static(type(env), name, None), "__get__"
    )
