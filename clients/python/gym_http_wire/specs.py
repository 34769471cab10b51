"""Gymnasium's `EnvSpec` as data; its keyword arguments stay objects."""

from __future__ import annotations

import dataclasses
import functools
import json
from typing import Any

from gymnasium.envs.registration import EnvSpec, WrapperSpec

__all__ = ["NOT_HERE", "describe_spec", "rebuild_spec"]

#: Stands for the module of an entry point that is a class or function, not text. To
#: import it raises an error that says so.
NOT_HERE = "(only on the server, and cannot be imported here)"


def describe_spec(spec: EnvSpec) -> dict[str, Any]:
    """Describe a spec as `EnvSpec.to_json` does, with keyword arguments as objects.

    JSON would turn their tuples into lists, and has no arrays and enums. An entry point
    that is no text is described as its name in the module `NOT_HERE`.
    """
    described = {
        each.name: getattr(spec, each.name)
        for each in dataclasses.fields(EnvSpec)
        if each.init
    }
    for name, value in described.items():
        if hasattr(value, "item"):
            # A scalar of NumPy, which JSON does not have.
            described[name] = value.item()
    for name in ("entry_point", "vector_entry_point"):
        described[name] = _entry_point(described[name])
    described["additional_wrappers"] = [
        {"name": each.name, "entry_point": each.entry_point, "kwargs": each.kwargs}
        for each in spec.additional_wrappers
    ]
    return described


def _entry_point(given: Any) -> str | None:
    if given is None or isinstance(given, str):
        return str(given or "") or None
    while isinstance(given, functools.partial):
        given = given.func
    named = given if hasattr(given, "__qualname__") else type(given)
    return f"{NOT_HERE}:{named.__module__}.{named.__qualname__}"


def rebuild_spec(described: dict[str, Any]) -> EnvSpec:
    """Make a spec from its description.

    Raises:
        ValueError: The description is malformed.
    """
    try:
        wrappers = [WrapperSpec(**each) for each in described["additional_wrappers"]]
        bare = {**described, "kwargs": {}, "additional_wrappers": []}
        spec = EnvSpec.from_json(json.dumps(bare))
        spec.kwargs = dict(described["kwargs"])
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"the description of the spec is malformed: {error!r}"
        ) from None
    spec.additional_wrappers = tuple(wrappers)
    return spec
