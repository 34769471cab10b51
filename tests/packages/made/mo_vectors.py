"""MO-Gymnasium with its own vector, which has a reward of several numbers for each.

Gymnasium's vectors have one number for each environment, and refuse others.
"""

from typing import Any

import gymnasium
import mo_gymnasium
from mo_gymnasium.wrappers.vector import MOSyncVectorEnv

_ENV_ID = "mo-mountaincar-v0"


def _make(render_mode: str | None = None) -> Any:
    return mo_gymnasium.make(_ENV_ID, render_mode=render_mode)


def _make_vector(num_envs: int, render_mode: str | None = None) -> Any:
    return MOSyncVectorEnv([_make] * num_envs)


gymnasium.register("made/MOMountainCar-v0", _make, vector_entry_point=_make_vector)
