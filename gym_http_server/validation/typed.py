"""Values in typed JSON: read into the form that can be compared, and written."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

from gym_http_server.validation.expectations import Mismatch
from gym_http_server.validation.forms import Form, canonical

__all__ = ["TYPED", "from_typed", "to_typed"]

TYPED = "application/vnd.gym-http.typed+json"
MAX_SAFE = 2**53

Json = Any


def from_typed(data: Json) -> Form:
    """Read typed JSON, parsed.

    Raises:
        Mismatch: The JSON is malformed.
    """
    match data:
        case None:
            return ("none",)
        case bool():
            return ("bool", data)
        case int():
            return ("int", data)
        case float():
            return ("float", _bits(data))
        case str():
            return ("str", data)
        case list():
            return ("list", tuple(map(from_typed, data)))
        case {"$t": tag}:
            try:
                return _tagged(tag, data)
            except (KeyError, TypeError, ValueError) as error:
                raise Mismatch(f"a value of the kind {tag}", repr(error)) from None
    return ("dict", tuple((("str", k), from_typed(v)) for k, v in data.items()))


def _bits(number: float) -> str:
    return struct.pack(">d", number).hex()


_NAMED = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


def _tagged(tag: str, data: dict[str, Json]) -> Form:
    value: Json = data.get("v")
    match tag:
        case "int":
            return ("int", int(value))
        case "float":
            return ("float", _bits(_NAMED[value]) if value in _NAMED else value)
        case "complex":
            real, imaginary = map(from_typed, value)
            return ("complex", real[1], imaginary[1])
        case "unsent":
            text, kind = value
            return ("unsent", text, kind)
        case "str":
            return ("str", base64.b64decode(value).decode("utf-8", "surrogatepass"))
        case "bytes":
            return ("bytes", base64.b64decode(value))
        case "tuple":
            return ("tuple", tuple(map(from_typed, value)))
        case "dict":
            return ("dict", tuple((from_typed(k), from_typed(v)) for k, v in value))
        case "nd":
            return ("nd", data["d"], tuple(data["s"]), base64.b64decode(value))
        case "ns":
            return ("ns", data["d"], base64.b64decode(value))
        case "oa":
            return ("oa", tuple(data["s"]), tuple(map(from_typed, value)))
        case "graph":
            parts = (data[name] for name in ("nodes", "edges", "edge_links"))
            return ("graph", *map(from_typed, parts))
        case "space" | "autoreset":
            return (tag, canonical(value))
    raise ValueError(f"there is no kind {tag!r}")


def to_typed(form: Form) -> Json:
    """Write typed JSON, not yet as text."""
    kind, *rest = form
    match kind:
        case "none":
            return None
        case "int" if abs(rest[0]) > MAX_SAFE:
            return {"$t": "int", "v": str(rest[0])}
        case "float":
            return _typed_float(rest[0])
        case "complex":
            return {"$t": "complex", "v": list(map(_typed_float, rest))}
        case "unsent":
            return {"$t": "unsent", "v": rest}
        case "str":
            return _typed_text(rest[0])
        case "bytes":
            return {"$t": "bytes", "v": _base64(rest[0])}
        case "list":
            return [to_typed(item) for item in rest[0]]
        case "tuple":
            return {"$t": "tuple", "v": [to_typed(item) for item in rest[0]]}
        case "dict":
            return _typed_dict(rest[0])
        case "nd":
            dtype, shape, raw = rest
            return {"$t": "nd", "d": dtype, "s": list(shape), "v": _base64(raw)}
        case "ns":
            return {"$t": "ns", "d": rest[0], "v": _base64(rest[1])}
        case "oa":
            items = [to_typed(item) for item in rest[1]]
            return {"$t": "oa", "s": list(rest[0]), "v": items}
        case "graph":
            nodes, edges, links = map(to_typed, rest)
            return {"$t": "graph", "nodes": nodes, "edges": edges, "edge_links": links}
        case "space" | "autoreset":
            return {"$t": kind, "v": json.loads(rest[0])}
    return rest[0]


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _typed_float(bits: str) -> Json:
    for name, number in _NAMED.items():
        if bits == _bits(number):
            return {"$t": "float", "v": name}
    number = struct.unpack(">d", bytes.fromhex(bits))[0]
    return number if number == number else {"$t": "float", "v": bits}


def _typed_text(text: str) -> Json:
    try:
        text.encode()
    except UnicodeEncodeError:
        return {"$t": "str", "v": _base64(text.encode("utf-8", "surrogatepass"))}
    return text


def _typed_dict(pairs: tuple[tuple[Form, Form], ...]) -> Json:
    typed = [(to_typed(key), to_typed(value)) for key, value in pairs]
    if all(isinstance(key, str) and key != "$t" for key, _ in typed):
        return dict(typed)
    return {"$t": "dict", "v": [list(pair) for pair in typed]}
