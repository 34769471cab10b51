"""Writes the values of a local environment in plain JSON, as the contract defines it.

It is written from the contract and not from the server, so that tests compare the
server with Gymnasium and never with itself.
"""

import math
from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """Return a value in plain JSON."""
    if isinstance(value, np.ndarray):
        return [plain(item) for item in value] if value.ndim else plain(value[()])
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return _plain_float(value)
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    return value


def plain_step(step: tuple[Any, ...]) -> dict[str, Any]:
    """Return the answer to a step for the five values of a local step."""
    observation, reward, terminated, truncated, info = step
    return {
        "done": bool(terminated or truncated),
        "info": plain(info),
        "observation": plain(observation),
        "reward": float(plain(float(reward))),
        "terminated": bool(terminated),
        "truncated": bool(truncated),
    }


def _plain_float(value: Any) -> float | None:
    if math.isnan(value):
        return None
    if math.isinf(value):
        return math.copysign(1e100, value)
    # str() of a float32 is its shortest decimal: 4.8, not 4.800000190734863.
    return float(str(value))
