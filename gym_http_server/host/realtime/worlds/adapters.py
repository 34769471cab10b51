"""Adapters: objects of users' classes as worlds that a clock can drive.

`InterfaceWorld` hosts a ``RealTimeGymInterface`` of rtgym as it is; rtgym itself need
not be installed. `SteppedWorld` hosts a class with ``reset`` and ``step``.
`LimitedWorld` truncates the episodes of either.
"""

from __future__ import annotations

import inspect
import math
from typing import Any, NamedTuple, Self

import gymnasium
import numpy as np
from numpy.typing import NDArray

from gym_http_server.host.realtime.world import Capture, World

__all__ = [
    "INTERFACE_METHODS",
    "InterfaceWorld",
    "LimitedWorld",
    "Shape",
    "SteppedWorld",
]

_MOST = 10_000_000
# Names of a world's rate: ours, and those of Myrtle. Some worlds of Myrtle 0.6 have
# both, and keep the first one of them.
_RATES = ("hz", "loop_steps_per_second", "steps_per_second")
#: The methods that an interface must have.
INTERFACE_METHODS = (
    "get_observation_space",
    "get_action_space",
    "get_default_action",
    "reset",
    "get_obs_rew_terminated_info",
    "send_control",
)


class Shape(NamedTuple):
    """The sizes that a world announces.

    Attributes:
        n_sensors: Length of its array of sensors.
        n_actions: Length of the array of actions that it takes.
        n_rewards: Number of its reward channels.
        hz: Its own rate, or ``None``.
    """

    n_sensors: int
    n_actions: int
    n_rewards: int
    hz: float | None

    @classmethod
    def of(cls, made: Any) -> Self:
        """Read the sizes of a world.

        Raises:
            TypeError: One is missing or is not a count.
            ValueError: One is out of range.
        """
        n_rewards = _count(made, "n_rewards", 1) if hasattr(made, "n_rewards") else 1
        return cls(
            _count(made, "n_sensors", 0),
            _count(made, "n_actions", 1),
            n_rewards,
            _rate(made),
        )

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        """The space of the sensors."""
        return gymnasium.spaces.Box(-np.inf, np.inf, (self.n_sensors,), np.float64)

    @property
    def action_space(self) -> gymnasium.spaces.Box:
        """The space of the actions."""
        return gymnasium.spaces.Box(-np.inf, np.inf, (self.n_actions,), np.float64)

    def sensors(self, given: Any) -> NDArray[np.float64]:
        """Return sensors as an array.

        Raises:
            ValueError: Their number is wrong.
        """
        # A copy, since a world may change its array later.
        sensors = np.array(given, np.float64)
        if sensors.shape != (self.n_sensors,):
            raise ValueError(
                f"the world returned sensors of shape {sensors.shape}: expected "
                f"{(self.n_sensors,)}, as n_sensors says"
            )
        return sensors

    def rewards(self, given: Any) -> list[float | None]:
        """Return rewards as a list, with ``None`` where a channel said nothing.

        Raises:
            ValueError: Their number is wrong, or one is not a number.
        """
        single = isinstance(given, int | float | np.number) or given is None
        items = [given] if single else list(given)
        if len(items) != self.n_rewards:
            raise ValueError(
                f"the world returned {len(items)} rewards: expected {self.n_rewards}, "
                "as n_rewards says"
            )
        rewards = [None if each is None else float(each) for each in items]
        if any(each is not None and math.isnan(each) for each in rewards):
            raise ValueError(
                f"the world returned the rewards {rewards!r:.80}: expected numbers, "
                "and None for a channel that says nothing"
            )
        return rewards


def _count(made: Any, name: str, least: int) -> int:
    value = getattr(made, name, None)
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(
            f"{name} of the world is {value!r:.80}: expected an integer from {least}"
        )
    if not least <= value <= _MOST:
        raise ValueError(
            f"{name} of the world is {value}: expected from {least} to {_MOST}"
        )
    return int(value)


def _rate(made: Any) -> float | None:
    for name in _RATES:
        hz = getattr(made, name, None)
        if hz is None:
            continue
        numeric = isinstance(hz, int | float | np.number) and not isinstance(hz, bool)
        if not numeric or not 0 < hz < math.inf:
            raise ValueError(
                f"{name} of the world is {hz!r:.80}: expected a positive number"
            )
        return float(hz)
    return None


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
        result = self._made.reset(
            **{name: value for name, value in given.items() if name in self._takes}
        )
        self._actions = np.zeros(self.shape.n_actions)
        sensors, info = result if isinstance(result, tuple) else (result, {})
        return self.shape.sensors(sensors), info

    def send(self, action: Any) -> None:
        """Set the action of the next steps; ``None`` changes nothing."""
        if action is not None:
            self._actions = np.asarray(action)

    def capture(self) -> Capture:
        """Take a step with the last action."""
        result = self._made.step(self._actions)
        if not isinstance(result, tuple) or len(result) not in (2, 5):
            raise TypeError(
                f"step returned {result!r:.80}: expected (sensors, rewards), or "
                "(sensors, rewards, terminated, truncated, info)"
            )
        sensors, rewards, *rest = result
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


class LimitedWorld:
    """A world whose episodes are truncated after a number of captures.

    As in rtgym, a capture that terminates the episode does not truncate it.

    Args:
        world: The world.
        most: Number of captures.
    """

    def __init__(self, world: World, most: int) -> None:
        self._world = world
        self._most = most
        self._captured = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world, name)

    def reset(
        self, seed: int | None, options: dict[str, Any] | None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; return observation and info."""
        self._captured = 0
        return self._world.reset(seed, options)

    def send(self, action: Any) -> None:
        """Send an action."""
        self._world.send(action)

    def capture(self) -> Capture:
        """Capture the observation; truncate the episode if it is the last one."""
        captured = self._world.capture()
        self._captured += 1
        if self._captured >= self._most and not captured.terminated:
            return captured._replace(truncated=True)
        return captured


def _parameters(function: Any) -> frozenset[str]:
    """Return the names of a function's parameters."""
    return frozenset(inspect.signature(function).parameters)


class InterfaceWorld:
    """A world that goes on by itself, behind an interface of rtgym.

    Args:
        interface: The object of the interface's class.
    """

    def __init__(self, interface: Any) -> None:
        self._interface = interface
        self.observation_space = interface.get_observation_space()
        self.action_space = interface.get_action_space()
        self.default_action = interface.get_default_action()

    def reset(self, seed: int | None, options: Any) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; return observation and info."""
        observation, info = self._interface.reset(seed=seed, options=options)
        return tuple(observation), info

    def send(self, action: Any) -> None:
        """Send an action to the interface; ``None`` sends nothing."""
        if action is not None:
            self._interface.send_control(action)

    def capture(self) -> Capture:
        """Capture the observation."""
        result = self._interface.get_obs_rew_terminated_info()
        observation, reward, terminated, info = result
        return Capture(tuple(observation), float(reward), bool(terminated), False, info)

    def wait(self) -> None:
        """Tell the interface that the agent pauses."""
        wait = getattr(self._interface, "wait", None)
        if wait is not None:
            wait()

    def end(self, action: Any) -> None:
        """Send the last action."""
        self.send(action)

    def render(self) -> Any:
        """Render the world, if it can."""
        render = getattr(self._interface, "render", None)
        return None if render is None else render()

    def close(self) -> None:
        """Close the interface, if it can be closed."""
        close = getattr(self._interface, "close", None)
        if close is not None:
            close()
