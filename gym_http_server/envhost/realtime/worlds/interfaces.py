"""`InterfaceWorld` hosts a ``RealTimeGymInterface`` of rtgym as it is.

rtgym itself need not be installed: a class with the same methods is enough.
"""

from __future__ import annotations

from typing import Any

from gym_http_server.envhost.realtime.world import Capture

__all__ = ["INTERFACE_METHODS", "InterfaceWorld"]

#: The methods that an interface must have.
INTERFACE_METHODS = (
    "get_observation_space",
    "get_action_space",
    "get_default_action",
    "reset",
    "get_obs_rew_terminated_info",
    "send_control",
)


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
        told = self._interface.get_obs_rew_terminated_info()
        observation, reward, terminated, info = told
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
