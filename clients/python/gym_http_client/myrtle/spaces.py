"""Arrays of sensors and actions, as agents of Myrtle have, for Gymnasium's spaces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete, MultiBinary
from gymnasium.spaces.utils import flatdim, flatten
from numpy.typing import NDArray

__all__ = ["actions_of", "sensors_of"]

Array = NDArray[np.float64]


def sensors_of(space: gymnasium.Space[Any]) -> tuple[int, Callable[[Any], Array]]:
    """Return the number of sensors, and the function that makes them.

    Args:
        space: The observation space. A Discrete becomes one sensor for each value.

    Raises:
        ValueError: The size of its elements varies.
    """
    try:
        count = flatdim(space)
    except (NotImplementedError, ValueError):
        raise ValueError(
            f"the observation space is {space}: expected a space whose elements have "
            "a fixed size, such as a Box"
        ) from None
    return count, lambda observation: np.asarray(
        flatten(space, observation), np.float64
    )


def actions_of(space: gymnasium.Space[Any]) -> tuple[int, Callable[[Array], Any]]:
    """Return the number of actions, and the function that makes an action of them.

    Args:
        space: The action space. For a Discrete, the greatest item wins; for a Box,
            items are clipped to its bounds.

    Raises:
        ValueError: The space is of another kind.
    """
    if isinstance(space, Discrete):
        start = int(space.start)
        return int(space.n), lambda actions: start + int(np.argmax(actions))
    if isinstance(space, Box):
        box = space
        return flatdim(box), lambda actions: np.clip(
            np.asarray(actions, np.float64).reshape(box.shape), box.low, box.high
        ).astype(box.dtype)
    if isinstance(space, MultiBinary):
        bits = space
        return flatdim(
            bits
        ), lambda actions: (np.asarray(actions) > 0).reshape(bits.shape).astype(np.int8)
    raise ValueError(
        f"the action space is {space}: expected a Discrete, a Box or a MultiBinary"
    )
