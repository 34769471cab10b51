"""The last actions, which an agent needs to see because they act with delay."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import gymnasium

from gym_http_server.host.realtime.settings import History

__all__ = ["ActionHistory", "with_history", "with_history_space"]


class ActionHistory:
    """The last actions, oldest first.

    Args:
        settings: Their number, and what a reset does to them.
        default: The default action, of which the history is full at first.
    """

    def __init__(self, settings: History, default: Any) -> None:
        self._refills = settings.reset
        self._actions: deque[Any] = deque(
            [default] * settings.length, maxlen=settings.length
        )
        #: Adds the newest action.
        self.add: Callable[[Any], None] = self._actions.append

    def reset(self, default: Any, first: Any) -> None:
        """Begin an episode.

        Args:
            default: The default action.
            first: The action that the reset sends. It replaces the newest, which never
                acted.
        """
        if self._refills:
            self._actions.extend([default] * len(self._actions))
        if self._actions:
            self._actions[-1] = first

    def newest(self, default: Any) -> Any:
        """Return the last action; the default action if none is kept."""
        return self._actions[-1] if self._actions else default

    def actions(self) -> tuple[Any, ...]:
        """Return the actions, oldest first."""
        return tuple(self._actions)


def with_history(observation: Any, actions: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return an observation with actions appended, as rtgym does."""
    if isinstance(observation, tuple | list):
        return (*observation, *actions)
    return (observation, *actions)


def with_history_space(
    observation_space: gymnasium.Space[Any],
    action_space: gymnasium.Space[Any],
    length: int,
) -> gymnasium.spaces.Tuple[Any]:
    """Return the space of observations with the last actions appended."""
    parts: tuple[gymnasium.Space[Any], ...] = (observation_space,)
    if isinstance(observation_space, gymnasium.spaces.Tuple):
        parts = observation_space.spaces
    return gymnasium.spaces.Tuple((*parts, *[action_space] * length))
