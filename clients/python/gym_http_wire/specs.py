"""Gymnasium's `EnvSpec` as data; its keyword arguments stay objects."""

from __future__ import annotations

import copy
import json
from typing import Any

from gymnasium.envs.registration import EnvSpec, WrapperSpec

__all__ = ["describe_spec", "rebuild_spec"]


def describe_spec(spec: EnvSpec) -> dict[str, Any]:
    """Describe a spec as `EnvSpec.to_json` does, with keyword arguments as objects.

    JSON would turn their tuples into lists, and has no arrays and enums.

    Raises:
        TypeError, ValueError: The spec has other members that JSON cannot represent.
    """
    bare = copy.copy(spec)
    bare.kwargs, bare.additional_wrappers = {}, ()
    described: dict[str, Any] = json.loads(bare.to_json())
    described["kwargs"] = spec.kwargs
    described["additional_wrappers"] = [
        {"name": each.name, "entry_point": each.entry_point, "kwargs": each.kwargs}
        for each in spec.additional_wrappers
    ]
    return described


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
