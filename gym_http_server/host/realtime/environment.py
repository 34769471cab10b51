"""Environments as worlds, and worlds as environments."""

from __future__ import annotations

from typing import Any

import gymnasium

from gym_http_server.host.realtime.history import with_history_space
from gym_http_server.host.realtime.settings import ClockSettings
from gym_http_server.host.realtime.world import Capture
from gym_http_server.host.realtime.worlds import NewWorld

__all__ = ["EnvWorld", "WorldEnv", "clocked_env"]

Env = gymnasium.Env[Any, Any]


class EnvWorld:
    """A Gymnasium environment as a world: it advances when it is observed.

    Args:
        env: The environment.
        external: Whether it is an external environment, which has its rewards by
            channel, and gets the default action before it is closed.
    """

    def __init__(self, env: Env, *, external: bool = False) -> None:
        self._env = env
        self._action: Any = None
        self._external = external

    def reset(
        self, seed: int | None, options: dict[str, Any] | None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        observation, info = self._env.reset(seed=seed, options=options)
        return observation, info

    def send(self, action: Any) -> None:
        """Keep the action for the next step."""
        self._action = action

    def capture(self) -> Capture:
        """Take a step with the last action."""
        observation, reward, terminated, truncated, info = self._env.step(self._action)
        rewards: Any = reward
        if self._external and "reward_channels" in info:
            rewards = list(info["reward_channels"].values())
        return Capture(observation, rewards, bool(terminated), bool(truncated), info)

    def end(self, action: Any) -> None:
        """Take the default action, the last one."""
        if self._external:
            self._env.step(action)


class WorldEnv(gymnasium.Env[Any, Any]):
    """A world as an environment: its spaces, `render` and `close`.

    Its clock alone resets and steps it.
    """

    def __init__(self, made: NewWorld) -> None:
        self._world = made.world
        self.action_space = made.action_space
        self.observation_space = made.observation_space
        self.metadata = {"render_modes": []}

    def render(self) -> Any:
        """Render the world, if it can."""
        render = getattr(self._world, "render", None)
        return None if render is None else render()

    def close(self) -> None:
        """Close the world, if it can be."""
        close = getattr(self._world, "close", None)
        if close is not None:
            close()


class _WithHistory(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment whose observations have the last actions appended."""

    def __init__(self, env: Env, length: int) -> None:
        super().__init__(env)
        self.observation_space = with_history_space(
            env.observation_space, env.action_space, length
        )

    @property
    def spec(self) -> Any:  # type: ignore[override]
        """That of the environment: no client can make this wrapper."""
        return self.env.spec


def clocked_env(env: Env, settings: ClockSettings) -> Env:
    """Return an environment with the spaces that a clock gives it."""
    history = settings.history
    return _WithHistory(env, history.length) if history.in_observation else env
