"""Reads requests in plain JSON, and adds members for old clients to answers."""

from __future__ import annotations

from typing import Any

import numpy as np

from gym_http_core.operations import Operations
from gym_http_core.vectors import VectorOperations
from gym_http_server.envhost import plain_json
from gym_http_server.envhost.create_request import read_seed
from gym_http_wire.problems import BadParameter

__all__ = ["add_old_members", "read_reset"]

Json = dict[str, Any]


def read_reset(given: Json, operations: Operations) -> Json:
    """Read the seed and the options of a reset.

    Raises:
        BadParameter: ``seed`` is not an integer, or ``options`` is not an object.
    """
    if not plain_json.is_given(given.get("seed")):
        given = {**given, "seed": None}
    options = given.get("options")
    if options is not None and not isinstance(options, dict):
        raise BadParameter(f"options is {options!r:.80}: expected an object, or null")
    if not isinstance(operations, VectorOperations):
        read_seed(given)
        return given
    count = operations.env.num_envs
    _check_seeds(given, count)
    if options is None or options.get("reset_mask") is None:
        return given
    mask = options["reset_mask"]
    if not isinstance(mask, list) or len(mask) != count or not _are_flags(mask):
        raise BadParameter(
            f"reset_mask is {mask!r:.80}: expected a list of {count} of true and "
            "false, or null"
        )
    if not any(mask):
        raise BadParameter("reset_mask is all false: expected one true at least")
    return {**given, "options": {**options, "reset_mask": np.array(mask, np.bool_)}}


def _are_flags(mask: list[Any]) -> bool:
    return all(isinstance(each, bool) for each in mask)


def _check_seeds(given: Json, count: int) -> None:
    seed = given.get("seed")
    if not isinstance(seed, list):
        read_seed(given)
        return
    if len(seed) != count:
        raise BadParameter(
            f"seed is a list of {len(seed)}: expected {count}, one for each environment"
        )
    for each in seed:
        read_seed({"seed": each})


def add_old_members(answer: Json, operations: Operations) -> None:
    """Add ``done`` to a step's answer, and make flags and reward plain numbers."""
    if isinstance(operations, VectorOperations):
        answer["done"] = np.logical_or(answer["terminated"], answer["truncated"])
        return
    answer["terminated"] = bool(answer["terminated"])
    answer["truncated"] = bool(answer["truncated"])
    answer["done"] = answer["terminated"] or answer["truncated"]
    if not isinstance(answer["reward"], (float, np.floating)):
        answer["reward"] = float(answer["reward"])
