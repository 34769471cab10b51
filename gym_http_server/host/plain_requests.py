"""Reads resets in plain JSON."""

from __future__ import annotations

from typing import Any

import numpy as np

from gym_http_core.operations import Operations
from gym_http_core.vectors import VectorOperations
from gym_http_server.operations.instances import RESET, SEED
from gym_http_server.operations.members import read, refusal
from gym_http_wire.problems import BadParameter

__all__ = ["read_reset"]

Json = dict[str, Any]


def read_reset(given: Json, operations: Operations) -> Json:
    """Read the members of a reset.

    Raises:
        BadParameter: ``seed`` is not an integer, or ``options`` is not an object.
    """
    found = read(RESET, given, ignores=True)
    is_vector = isinstance(operations, VectorOperations)
    if "seed" in found:
        found["seed"] = _read_seed(found["seed"], operations.env, is_vector)
    mask = found.get("options", {}).get("reset_mask") if is_vector else None
    if mask is None:
        return found
    count = operations.env.num_envs
    if not isinstance(mask, list) or len(mask) != count or not _are_flags(mask):
        raise refusal(
            "reset_mask", mask, f"a list of {count} of true and false, or null"
        )
    if not any(mask):
        raise BadParameter("reset_mask is all false: expected one true at least")
    options = {**found["options"], "reset_mask": np.array(mask, np.bool_)}
    return {**found, "options": options}


def _are_flags(mask: list[Any]) -> bool:
    return all(isinstance(each, bool) for each in mask)


def _read_seed(seed: Any, env: Any, is_vector: bool) -> int | list[int | None]:
    if not is_vector or not isinstance(seed, list):
        return SEED.read(seed, "seed")
    if len(seed) != env.num_envs:
        raise BadParameter(
            f"seed is a list of {len(seed)}: expected {env.num_envs}, one for each "
            "environment"
        )
    return [
        None if each is None else SEED.read(each, f"seed[{i}]")
        for i, each in enumerate(seed)
    ]
