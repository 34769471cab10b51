"""Notices that an environment has assigned other spaces since it was made."""

from __future__ import annotations

from typing import Any

from gym_http_core.env_errors import env_exceptions

__all__ = ["SpaceChanges"]

_SPACES = ("action_space", "observation_space")


class SpaceChanges:
    """Compares the spaces of an environment with those that it had before.

    An equal space in place of another one is no change.

    Args:
        env: The environment or vector.

    Attributes:
        version: The number of changes so far.
    """

    def __init__(self, env: Any) -> None:
        self.version = 0
        self._env = env
        self._inner = getattr(env, "unwrapped", env)
        self._names: tuple[str, ...] = _SPACES
        if hasattr(env, "num_envs"):
            self._names += ("single_action_space", "single_observation_space")
        # Not through its __dict__: to make that one slows every use of an attribute of
        # the environment, whose step then takes 5 % longer.
        self._is_computed = _is_computed(type(self._inner))
        self._glance_suffices = self._names is _SPACES and _has_known_wrappers(env)
        self._note()

    def glance(self) -> bool:
        """Return whether `look` may find a change, or has found one before.

        For every step, it costs less, and misses only what a wrapper assigns to itself.
        """
        if self.version or self._is_computed:
            return True
        env = self._inner
        try:
            return (
                env.action_space is not self._action
                or env.observation_space is not self._observation
            )
        except env_exceptions():
            # The call that needs it reports that.
            return True

    def look(self) -> bool:
        """Return whether a space has changed since the last look, and count it."""
        if self._glance_suffices and not self.glance():
            return False
        known = self._known
        self._note()
        changed = not all(map(_is_same, known, self._known))
        if changed:
            self.version += 1
        return changed

    def _note(self) -> None:
        self._action = _read(self._inner, "action_space")
        self._observation = _read(self._inner, "observation_space")
        self._known = [_read(self._env, name) for name in self._names]


def _has_known_wrappers(env: Any) -> bool:
    """Whether only wrappers of Gymnasium, which keep their spaces, are around it."""
    while env is not getattr(env, "unwrapped", env):
        if not type(env).__module__.startswith("gymnasium."):
            return False
        env = env.env
    return True


def _read(env: Any, name: str) -> Any:
    try:
        return getattr(env, name)
    except env_exceptions():
        # The call that needs it reports that.
        return None


def _is_same(old: Any, new: Any) -> bool:
    if old is new:
        return True
    try:
        return type(old) is type(new) and bool(old == new)
    except env_exceptions():
        # Spaces of other packages may compare in any way.
        return False


def _is_computed(kind: type) -> bool:
    """Whether a property or the like, and no assignment, has a space of a class."""
    if hasattr(kind, "__getattr__"):
        return True
    # Not by inspect, which writes to 60 KiB more of the memory that hosts share.
    for name in _SPACES:
        for base in kind.__mro__:
            if name in base.__dict__:
                if hasattr(base.__dict__[name], "__get__"):
                    return True
                break
    return False
