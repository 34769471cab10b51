"""Parses the part of a create request that is about a vector of environments."""

from __future__ import annotations

from typing import Any

import msgspec

from gym_http_server.config.settings import Settings
from gym_http_server.linux.machine import cores
from gym_http_server.operations.instances import AUTO, AUTORESET, CREATE
from gym_http_server.operations.members import Choice, Integer
from gym_http_wire.problems import BadParameter

__all__ = ["OWN_MODES", "VectorRequest", "auto_hosts", "read_vector"]

_AUTORESET = Choice([*AUTORESET, *AUTORESET.values()])
#: Modes in which a package makes its vectors itself, if it can.
OWN_MODES = (None, "vector_entry_point")
_NEED_COUNT = ("vectorization_mode", "vector_kwargs", "autoreset_mode", "hosts")


class VectorRequest(msgspec.Struct, frozen=True):
    """The number of a vector's environments, and how they are stepped.

    Attributes:
        mode: As ``vectorization_mode`` of ``gymnasium.make_vec``; ``None`` is its
            default.
        kwargs: As its ``vector_kwargs``.
        hosts: Number of processes over which the environments are spread.
        auto: Whether the server has chosen it, and takes 1 if they cannot be spread.
    """

    num_envs: int
    mode: str | None = None
    kwargs: dict[str, Any] = {}
    hosts: int = 1
    auto: bool = False


def read_vector(found: dict[str, Any], settings: Settings) -> VectorRequest | None:
    """Parse the parameters of a vector; ``None`` without ``num_envs``.

    Args:
        found: The members of the create request, checked one by one.
        settings: The settings with the limits.

    Raises:
        BadParameter: A parameter is beyond a limit, or does not go with another.
    """
    count = found.get("num_envs")
    if count is None:
        _check_alone(found)
        return None
    mode = found.get("vectorization_mode")
    most = settings.max_vector_processes
    if mode == "async":
        note = "(--max-vector-processes, since async has a process for each)"
        Integer(1, most, note).read(count, "num_envs")
    kwargs = _read_kwargs(found)
    obstacle = _obstacle(mode, kwargs)
    given = found.get("hosts", CREATE["hosts"].default)
    if given == AUTO:
        hosts = 1 if obstacle else auto_hosts(count, most)
        return VectorRequest(count, mode, kwargs, hosts, auto=True)
    note = "(num_envs and --max-vector-processes), or 'auto'"
    hosts = Integer(1, min(count, most), note).read(given, "hosts")
    if hosts > 1 and obstacle:
        raise BadParameter(f"hosts is {hosts}{obstacle}")
    return VectorRequest(count, mode, kwargs, hosts)


def auto_hosts(num_envs: int, most: int) -> int:
    """Return a number of processes for a vector: a core for each, and one left over."""
    return max(1, min(cores() - 1, num_envs // 4, most))


def _obstacle(mode: str | None, kwargs: dict[str, Any]) -> str:
    """Return why a vector is not spread over processes, or ""."""
    if mode in ("async", "vector_entry_point"):
        return f" and vectorization_mode {mode!r}: only 'sync' is spread"
    if kwargs.get("observation_mode", "same") != "same":
        return ": expected 1 with an observation_mode"
    return ""


def _check_alone(found: dict[str, Any]) -> None:
    for name in _NEED_COUNT:
        if name in found:
            raise BadParameter(
                f"{name} is {found[name]!r:.80} without num_envs: "
                "expected with num_envs, which makes a vector of environments"
            )


def _read_kwargs(found: dict[str, Any]) -> dict[str, Any]:
    kwargs = dict(found.get("vector_kwargs", {}))
    for given in (kwargs, found):
        if "autoreset_mode" in given:
            kwargs["autoreset_mode"] = _read_autoreset(given["autoreset_mode"])
    return kwargs


def _read_autoreset(mode: object) -> Any:
    if isinstance(mode, dict) and mode.get("$t") == "autoreset":
        # Gymnasium's enum, in typed arguments, which the host decodes.
        return mode
    word = _AUTORESET.read(mode, "autoreset_mode")
    return AUTORESET.get(word, word)
