"""Environments of Jumanji, by its own wrapper for Gymnasium."""

from typing import Any

import gymnasium
import jumanji
from jumanji.wrappers import JumanjiToGymWrapper


class Game(gymnasium.Env[Any, Any]):
    """Passes calls on to Jumanji's wrapper, which `gymnasium.make` refuses.

    Args:
        name: The game.
    """

    def __init__(self, name: str) -> None:
        self._game = JumanjiToGymWrapper(jumanji.make(name))
        self.observation_space = self._game.observation_space
        self.action_space = self._game.action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin a game."""
        return self._game.reset(seed=seed)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Play on."""
        return self._game.step(action)


for _name in ("Snake-v1", "Game2048-v1"):
    gymnasium.register(
        f"made/Jumanji{_name}",
        Game,
        max_episode_steps=150,
        kwargs={"name": _name},
        disable_env_checker=True,
    )
