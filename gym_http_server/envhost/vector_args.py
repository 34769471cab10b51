"""What a vector is given, cut up for its environments; refused as Gymnasium does."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import Space, spaces
from gymnasium.vector.utils import iterate

__all__ = ["checked_mask", "each_action", "each_seed", "each_value"]

_ARRAYS = (spaces.Box, spaces.MultiDiscrete, spaces.MultiBinary)


def each_seed(seed: Any, num_envs: int) -> list[Any]:
    """Give the seed of each environment.

    Raises:
        ValueError: There are too few, or too many.
        TypeError: This is no seed.
    """
    if seed is None:
        return [None] * num_envs
    if isinstance(seed, int):
        return [seed + number for number in range(num_envs)]
    if len(seed) != num_envs:
        raise ValueError(
            "If seeds are passed as a list the length must match num_envs="
            f"{num_envs} but got length={len(seed)}."
        )
    return list(seed)


def checked_mask(mask: Any, num_envs: int) -> Any:
    """Give a mask of the environments to reset, bool (num_envs,).

    Raises:
        TypeError: It is no array of bool.
        ValueError: It has another shape, or chooses none.
    """
    name = "`options['reset_mask']`"
    if not isinstance(mask, np.ndarray):
        raise TypeError(f"{name} must be a numpy array, got {type(mask)}")
    if mask.shape != (num_envs,):
        raise ValueError(f"{name} must have shape `({num_envs},)`, got {mask.shape}")
    if mask.dtype != np.bool_:
        raise TypeError(f"{name} must have `dtype=np.bool_`, got {mask.dtype}")
    if not mask.any():
        raise ValueError(
            f"{name} must contain a boolean array with at least one True value, "
            f"got reset_mask={mask}"
        )
    return mask


def each_action(space: Space[Any], actions: Any, num_envs: int) -> Any:
    """Give the action of each environment: a list, or rows of an array.

    Args:
        space: The batched action space.
        actions: A batch of actions.
        num_envs: How many environments there are.

    Raises:
        ValueError: There are too few, or too many.
    """
    each = actions
    if not isinstance(actions, np.ndarray) or not isinstance(space, _ARRAYS):
        each = list(iterate(space, actions))
    for _ in zip(each, range(num_envs), strict=True):
        pass
    return each


def each_value(values: Any, num_envs: int) -> list[Any]:
    """Give the value of each environment: its own, or one for all.

    Raises:
        ValueError: There are too few, or too many.
    """
    if not isinstance(values, list | tuple):
        return [values] * num_envs
    if len(values) != num_envs:
        raise ValueError(
            "Values must be a list or tuple with length equal to the number of "
            f"environments. Got `{len(values)}` values for {num_envs} environments."
        )
    return list(values)
