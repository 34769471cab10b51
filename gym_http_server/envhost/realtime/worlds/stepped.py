"""`SteppedWorld` hosts a class with ``reset`` and ``step``, which the clock calls."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from gym_http_server.envhost.realtime.world import Capture
from gym_http_server.envhost.realtime.worlds.shape import Shape

__all__ = ["SteppedWorld"]


class SteppedWorld:
    """A world that advances by one step with each capture.

    Its class has ``n_sensors`` and ``n_actions``, and maybe ``n_rewards`` (1) and
    ``hz``. ``reset()`` returns sensors, or sensors and an info; it gets the seed if it
    has a parameter of this name. ``step(actions)`` returns sensors and rewards, or
    Gymnasium's five values with a list of rewards.

    Args:
        made: The object of the class.
    """

    def __init__(self, made: Any) -> None:
        self.shape = Shape.of(made)
        self._made = made
        self._takes = _parameters(made.reset)
        self._actions = np.zeros(self.shape.n_actions)

    def reset(self, seed: int | None, options: Any) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; return sensors and info."""
        given = {"seed": seed, "options": options}
        told = self._made.reset(
            **{name: value for name, value in given.items() if name in self._takes}
        )
        self._actions = np.zeros(self.shape.n_actions)
        sensors, info = told if isinstance(told, tuple) else (told, {})
        return self.shape.sensors(sensors), info

    def send(self, action: Any) -> None:
        """Set the action of the next steps; ``None`` changes nothing."""
        if action is not None:
            self._actions = np.asarray(action)

    def capture(self) -> Capture:
        """Take a step with the last action."""
        told = self._made.step(self._actions)
        if not isinstance(told, tuple) or len(told) not in (2, 5):
            raise TypeError(
                f"step returned {told!r:.80}: expected (sensors, rewards), or "
                "(sensors, rewards, terminated, truncated, info)"
            )
        sensors, rewards, *rest = told
        terminated, truncated, info = rest or (False, False, {})
        return Capture(
            self.shape.sensors(sensors),
            self.shape.rewards(rewards),
            bool(terminated),
            bool(truncated),
            info,
        )

    def wait(self) -> None:
        """Do nothing: the world advances with captures only."""

    def end(self, action: Any) -> None:
        """Do nothing: no action has an effect after the last capture."""

    def render(self) -> Any:
        """Render the world, if it can."""
        render = getattr(self._made, "render", None)
        return None if render is None else render()

    def close(self) -> None:
        """Close the world, if it can be closed."""
        close = getattr(self._made, "close", None)
        if close is not None:
            close()


def _parameters(function: Any) -> frozenset[str]:
    """Return the names of a function's parameters."""
    return frozenset(inspect.signature(function).parameters)
