"""Airstriker, the game that comes with stable-retro."""

from typing import Any

import gymnasium
import stable_retro


def _make(render_mode: str | None = None) -> Any:
    return stable_retro.make("Airstriker-Genesis-v0", render_mode=render_mode)


gymnasium.register("made/Airstriker-v0", _make)
