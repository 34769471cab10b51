"""Environments of Jumanji, by its own wrapper for Gymnasium."""

from typing import Any

import gymnasium
import jumanji
from jumanji.wrappers import JumanjiToGymWrapper


def _make(name: str) -> Any:
    return JumanjiToGymWrapper(jumanji.make(name))


for _name in ("Snake-v1", "Game2048-v1"):
    gymnasium.register(
        f"made/Jumanji{_name}",
        _make,
        max_episode_steps=150,
        kwargs={"name": _name},
        disable_env_checker=True,
    )
