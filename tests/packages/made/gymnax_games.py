"""Environments of Gymnax, by its own wrapper for Gymnasium."""

from typing import Any

import gymnasium
import gymnax
from gymnax.wrappers import GymnaxToGymWrapper


def _make(name: str) -> Any:
    env, parameters = gymnax.make(name)
    return GymnaxToGymWrapper(env, parameters)


gymnasium.register("made/GymnaxCatch-v0", _make, kwargs={"name": "Catch-bsuite"})
