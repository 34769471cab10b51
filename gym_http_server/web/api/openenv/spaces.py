"""JSON Schema of spaces, made of their descriptions."""

from __future__ import annotations

import math
import re
from typing import Any

__all__ = ["keys_of", "schemas"]

Json = dict[str, Any]

_OBJECT: Json = {"type": "object"}
_FLAG: Json = {"type": "boolean"}
#: Sizes up to which each item of a space has a schema of its own.
MAX_ITEMS = 64


def keys_of(space: Json) -> frozenset[str] | None:
    """Return the keys of a Dict space from its description; ``None`` for any other."""
    space = _known(space)
    if space["type"] != "Dict":
        return None
    return frozenset(str(key) for key, _ in space["spaces"])


def schemas(described: Json) -> Json:
    """Return the JSON Schemas of an environment's actions, observations and state.

    Args:
        described: The description of an instance.
    """
    action = schema_of(described["action_space"])
    if keys_of(described["action_space"]) is None:
        action = _object({"action": action}, {"render": _FLAG, "metadata": _OBJECT})
    observation = _object(
        {
            "observation": schema_of(described["observation_space"]),
            "terminated": _FLAG,
            "truncated": _FLAG,
            "info": _OBJECT,
        },
        {"frame": {"type": "string", "contentEncoding": "base64"}},
    )
    text: Json = {"type": ["string", "null"]}
    state = {"env_id": text, "episode_id": text, "instance_id": text}
    return {
        "action": action,
        "observation": observation,
        "reset_observation": observation,
        "state": _object({**state, "step_count": {"type": "integer", "minimum": 0}}),
    }


def schema_of(space: Json) -> Json:
    """Return the elements of a space, as plain JSON, as JSON Schema.

    Args:
        space: The description of the space.
    """
    space = _known(space)
    match space["type"]:
        case "Discrete":
            first, count = int(space["start"]), int(space["n"])
            return _numbers("integer", first, first + count - 1)
        case "Box":
            return _box(space)
        case "MultiBinary":
            n = space["n"]
            shape = n if isinstance(n, list) else [n]
            return _array(shape, [_numbers("integer", 0, 1)])
        case "MultiDiscrete":
            pairs = _pairs(space["start"], space["nvec"])
            kinds = [_numbers("integer", a, a + b - 1) for a, b in pairs]
            return _array(space["shape"], kinds)
        case "Text":
            limits = ("min_length", "minLength"), ("max_length", "maxLength")
            charset = re.sub(r"([\\\]^-])", r"\\\1", space["charset"])
            sizes = {theirs: int(space[ours]) for ours, theirs in limits}
            pattern = f"^[{charset}]*$" if charset else "^$"
            return {"type": "string", **sizes, "pattern": pattern}
        case "Dict":
            return _object({str(k): schema_of(each) for k, each in space["spaces"]})
        case "Tuple":
            return _items([schema_of(each) for each in space["spaces"]])
        case "Sequence" if not space["stack"]:
            return {"type": "array", "items": schema_of(space["space"])}
    # The forms of others have no short description.
    return {}


def _known(space: Json) -> Json:
    """Return an opaque space as the space of Gymnasium's that is nearest to it."""
    if space["type"] == "Opaque":
        return space["base"] or space
    return space


def _box(space: Json) -> Json:
    if space["dtype"] == "bool":
        return _array(space["shape"], [_FLAG])
    kind = "number" if space["dtype"].lstrip("<>=").startswith("f") else "integer"
    pairs = _pairs(space["low"], space["high"])
    return _array(space["shape"], [_numbers(kind, *pair) for pair in pairs])


def _array(shape: list[int], kinds: list[Json]) -> Json:
    """Return nested lists with this shape, whose items are of these kinds."""
    # Without items there is no kind.
    first = kinds[0] if kinds else {}
    same = all(each == first for each in kinds)
    if len(shape) == 1 and not same and len(kinds) <= MAX_ITEMS:
        return _items(kinds)
    made = first if same else {"type": first["type"]}
    for size in reversed(shape):
        limits = {"minItems": size, "maxItems": size}
        made = {"type": "array", "items": made, **limits}
    return made


def _items(kinds: list[Json]) -> Json:
    limits = {"minItems": len(kinds), "maxItems": len(kinds)}
    # JSON Schema refuses an empty list.
    items = {"prefixItems": kinds} if kinds else {}
    return {"type": "array", **items, **limits}


def _numbers(kind: str, low: float, high: float) -> Json:
    made: Json = {"type": kind}
    for name, limit in (("minimum", low), ("maximum", high)):
        if math.isfinite(limit):
            made[name] = limit
    return made


def _object(members: Json, optional: Json | None = None) -> Json:
    properties = {**members, **(optional or {})}
    made = {"type": "object", "properties": properties, "required": list(members)}
    return {**made, "additionalProperties": False}


def _pairs(*arrays: Any) -> list[tuple[float, float]]:
    """Pair the numbers of two arrays, of which one number can stand for all."""
    listed = [each if isinstance(each, list) else [each] for each in arrays]
    size = max(map(len, listed))
    first, second = (each * (size if len(each) == 1 else 1) for each in listed)
    return [(_exact(a), _exact(b)) for a, b in zip(first, second, strict=True)]


def _exact(number: Any) -> float:
    if not isinstance(number, str):
        return float(number) if isinstance(number, bool) else number
    return float(number) if number in ("inf", "-inf", "nan") else int(number)
