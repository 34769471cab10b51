"""Compares values in JSON, including every bit and their order."""

import json
import struct
from collections.abc import Callable
from typing import Any

from tests.conformance.making.models import Model


def differing(expected: object, actual: object) -> str | None:
    """Return both values if they differ in type or value; members have no order."""
    if _exact(expected) == _exact(actual):
        return None
    return f"expected {expected!r:.300}, actual {actual!r:.300}"


def _exact(value: Any) -> object:
    """Return a value that compares exactly: 1 equals neither 1.0 nor True."""
    if isinstance(value, dict):
        return {key: _exact(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_exact(item) for item in value]
    if isinstance(value, float):
        return "float", struct.pack(">d", value)
    return type(value), value


def tree(text: str | bytes) -> Any:
    """Parse JSON into a tree that keeps the order of members."""
    return json.loads(text, object_pairs_hook=lambda pairs: {"members": pairs})


def loosened(model: Model) -> Model:
    """Forget whether an integer is Python's or NumPy's."""
    ((kind, content),) = model.items()
    if kind == "ns" and content["dtype"][1] in "iu":
        return {"int": content["items"][0]}
    if kind in ("list", "tuple"):
        return {kind: [loosened(item) for item in content]}
    if kind == "dict":
        return {kind: [[key, loosened(item)] for key, item in content]}
    return model


def refused(
    decode: Callable[[], object], errors: type[Exception] | tuple[type[Exception], ...]
) -> str | None:
    """Return the problem of a value that was accepted and should be refused."""
    try:
        value = decode()
    except errors:
        return None
    return f"expected a refusal, actual {value!r:.200}"
