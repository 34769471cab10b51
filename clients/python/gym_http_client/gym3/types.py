"""Converts Gymnasium's spaces to gym3's types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import Space, spaces
from gymnasium.vector import VectorEnv

if TYPE_CHECKING:
    from gym_http_client.gym3.fallback import (
        DictType,
        Discrete,
        Env,
        Real,
        TensorType,
        ValType,
        discrete_scalar,
    )
else:
    try:
        from gym3 import Env
        from gym3.types import (
            DictType,
            Discrete,
            Real,
            TensorType,
            ValType,
            discrete_scalar,
        )
    except ImportError:
        from gym_http_client.gym3.fallback import (
            DictType,
            Discrete,
            Env,
            Real,
            TensorType,
            ValType,
            discrete_scalar,
        )

__all__ = [
    "DictType",
    "Discrete",
    "Env",
    "Real",
    "TensorType",
    "ValType",
    "discrete_scalar",
    "type_of",
    "types_of",
]

_FLOATS = ("float32", "float64")


def types_of(env: VectorEnv[Any, Any, Any]) -> tuple[ValType, ValType]:
    """Return gym3's types of the observations and actions of a vector's environments.

    Raises:
        TypeError: ``env`` is not a vector, or gym3 has no type for a space.
    """
    if not isinstance(env, VectorEnv):
        raise TypeError(
            f"{env!r} is no vector of environments: expected a RemoteVectorEnv, or "
            "what gymnasium.make_vec makes"
        )
    return type_of(env.single_observation_space), type_of(env.single_action_space)


def type_of(space: Space[Any]) -> ValType:
    """Return gym3's type for the elements of a space.

    Bounds of floats are lost: gym3 has none.

    Raises:
        TypeError: gym3 has no type for this space: integers that do not begin at 0 or
            have different bounds, floats of another size, and spaces other than arrays
            and dicts of arrays.
    """
    match space:
        case spaces.Dict():
            return DictType(**{name: type_of(each) for name, each in space.items()})
        case spaces.Discrete():
            return TensorType(_integers(space, space.start, space.n), ())
        case spaces.MultiDiscrete():
            counts = set(np.unique(space.nvec).tolist())
            return TensorType(_integers(space, space.start, *counts), space.shape)
        case spaces.MultiBinary():
            return TensorType(_integers(space, 0, 2), space.shape)
        case spaces.Box() if space.dtype.kind in "iu":
            highs = set(np.unique(space.high).tolist())
            counts = {high + 1 for high in highs}
            return TensorType(_integers(space, space.low, *counts), space.shape)
        case spaces.Box() if space.dtype.name in _FLOATS:
            return TensorType(Real(space.dtype.name), space.shape)
    raise _none(space, "arrays of integers or floats, and dicts of them")


def _integers(space: Space[Any], start: Any, *counts: int) -> Discrete:
    if np.any(start) or len(counts) != 1:
        raise _none(space, "integers from 0 to one and the same bound")
    (count,) = counts
    return Discrete(int(count), str(space.dtype))


def _none(space: Space[Any], wanted: str) -> TypeError:
    return TypeError(f"gym3 has no type for {space}: expected {wanted}")
