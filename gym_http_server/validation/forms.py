"""Values in a form that can be compared, read from the model form of the vectors.

The form consists of tuples whose first item is the kind of the value. It has arrays as
their bytes, floats as their bits. A module for each form of values reads it into this
one. These modules follow the description of the wire (docs/api.md) and do not use the
server's codec.
"""

from __future__ import annotations

import json
from typing import Any

from gym_http_server.validation.expectations import Mismatch

__all__ = ["Form", "canonical", "from_model", "named", "nested"]

#: A value, in the form that can be compared.
Form = tuple[Any, ...]
Json = Any


def from_model(model: dict[str, Json]) -> Form:
    """Read the model form."""
    ((kind, content),) = model.items()
    match kind:
        case "none":
            return ("none",)
        case "int":
            return ("int", int(content))
        case "wtf8":
            return ("str", bytes.fromhex(content).decode("utf-8", "surrogatepass"))
        case "bytes":
            return ("bytes", bytes.fromhex(content))
        case "complex":
            return (kind, *content)
        case "unsent":
            return (kind, content["repr"], content["type"])
        case "list" | "tuple":
            return (kind, tuple(map(from_model, content)))
        case "dict":
            return ("dict", tuple((from_model(k), from_model(v)) for k, v in content))
        case "nd":
            return ("nd", content["dtype"], tuple(content["shape"]), _raw(content))
        case "ns":
            return ("ns", content["dtype"], _raw(content))
        case "oa":
            items = tuple(map(from_model, content["items"]))
            return ("oa", tuple(content["shape"]), items)
        case "graph":
            parts = (content[name] for name in ("nodes", "edges", "edge_links"))
            return ("graph", *map(from_model, parts))
        case "space" | "autoreset":
            return (kind, canonical(content))
    # bool, float (by its bits) and str.
    return (kind, content)


def _raw(content: dict[str, Json]) -> bytes:
    if "bytes" in content:
        return bytes.fromhex(content["bytes"])
    kind, items = content["dtype"][1:], content["items"]
    if kind == "b1":
        return bytes(map(int, items))
    if kind[0] == "f":
        return b"".join(bytes.fromhex(each)[::-1] for each in items)
    size, signed = int(kind[1:]), kind[0] == "i"
    return b"".join(int(each).to_bytes(size, "little", signed=signed) for each in items)


def canonical(data: Json) -> str:
    """Return the data of a space as canonical text: equal for equal data."""
    return json.dumps(data, sort_keys=True)


def nested(form: Form, *names: str) -> Form:
    """Return a member of a dict, by its path.

    Raises:
        Mismatch: It is not there.
    """
    for name in names:
        members = named(form)
        if name not in members:
            raise Mismatch(f"a member {name}", ", ".join(members))
        form = members[name]
    return form


def named(form: Form) -> dict[str, Form]:
    """Return the members of a dict whose keys are strings.

    Raises:
        Mismatch: It is not a dict.
    """
    if form[0] != "dict":
        raise Mismatch("a dict", form[0])
    return {key[1]: value for key, value in form[1]}
