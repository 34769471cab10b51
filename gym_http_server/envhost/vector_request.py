"""Parses the part of a create request that is about a vector of environments."""

from __future__ import annotations

from typing import Any

import msgspec

from gym_http_server.settings import Settings
from gym_http_wire.problems import BadParameter

__all__ = ["VectorRequest", "read_vector"]

_MODES = ("sync", "async", "vector_entry_point")
_AUTORESET = {
    "next_step": "NextStep",
    "same_step": "SameStep",
    "disabled": "Disabled",
}
# The others start interpreters, or need objects that JSON cannot represent.
_VECTOR_KWARGS = {
    "autoreset_mode",
    "copy",
    "daemon",
    "max_concurrency",
    "observation_mode",
    "shared_memory",
}


class VectorRequest(msgspec.Struct, frozen=True):
    """The number of a vector's environments, and how they are stepped.

    Attributes:
        mode: As ``vectorization_mode`` of ``gymnasium.make_vec``; ``None`` is its
            default.
        kwargs: As its ``vector_kwargs``.
        hosts: Number of processes over which the environments are spread.
    """

    num_envs: int
    mode: str | None = None
    kwargs: dict[str, Any] = {}
    hosts: int = 1


def read_vector(given: dict[str, Any], settings: Settings) -> VectorRequest | None:
    """Parse the parameters of a vector; ``None`` without ``num_envs``.

    Raises:
        BadParameter: A parameter has an invalid value.
    """
    count = given.get("num_envs")
    if count is None:
        _check_alone(given)
        return None
    _check_count("num_envs", count, settings.max_num_envs, "--max-num-envs")
    mode = given.get("vectorization_mode")
    if mode is not None and mode not in _MODES:
        raise BadParameter(
            f"vectorization_mode is {mode!r:.80}: expected one of {list(_MODES)}, "
            "or null"
        )
    hosts = 1 if given.get("hosts") is None else given["hosts"]
    most = min(count, settings.max_vector_processes)
    _check_count("hosts", hosts, most, "num_envs and --max-vector-processes")
    if mode == "async":
        why = "--max-vector-processes, since async has a process for each"
        _check_count("num_envs", count, settings.max_vector_processes, why)
    kwargs = _read_kwargs(given)
    if hosts > 1 and mode in ("async", "vector_entry_point"):
        raise BadParameter(
            f"hosts is {hosts} and vectorization_mode {mode!r}: only 'sync' is spread"
        )
    if hosts > 1 and kwargs.get("observation_mode", "same") != "same":
        raise BadParameter(f"hosts is {hosts}: expected 1 with an observation_mode")
    return VectorRequest(count, mode, kwargs, hosts)


def _check_alone(given: dict[str, Any]) -> None:
    for name in ("vectorization_mode", "vector_kwargs", "autoreset_mode", "hosts"):
        if given.get(name) is not None:
            raise BadParameter(
                f"{name} is {given[name]!r:.80} without num_envs: "
                "expected with num_envs, which makes a vector of environments"
            )


def _check_count(name: str, given: object, most: int, limit: str) -> None:
    if type(given) is not int or not 1 <= given <= most:
        raise BadParameter(
            f"{name} is {given!r:.80}: expected an integer from 1 to {most} ({limit})"
        )


def _read_kwargs(given: dict[str, Any]) -> dict[str, Any]:
    found = given.get("vector_kwargs")
    if found is None:
        found = {}
    if not isinstance(found, dict) or not found.keys() <= _VECTOR_KWARGS:
        raise BadParameter(
            f"vector_kwargs is {found!r:.120}: expected an object with some of "
            f"{sorted(_VECTOR_KWARGS)}, or null"
        )
    kwargs = dict(found)
    observation_mode = kwargs.get("observation_mode", "same")
    if observation_mode not in ("same", "different"):
        raise BadParameter(
            f"observation_mode is {observation_mode!r:.80}: "
            "expected 'same' or 'different'"
        )
    for where in (kwargs, given):
        if where.get("autoreset_mode") is not None:
            kwargs["autoreset_mode"] = _read_autoreset(where["autoreset_mode"])
    return kwargs


def _read_autoreset(mode: object) -> Any:
    if isinstance(mode, dict) and mode.get("$t") == "autoreset":
        # Gymnasium's enum, in typed arguments, which the host decodes.
        return mode
    if isinstance(mode, str) and mode in _AUTORESET:
        return _AUTORESET[mode]
    if isinstance(mode, str) and mode in _AUTORESET.values():
        return mode
    raise BadParameter(
        f"autoreset_mode is {mode!r:.80}: expected one of {list(_AUTORESET)}, or null"
    )
