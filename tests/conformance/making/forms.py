"""Writes a model in typed JSON and in the binary form, by docs/api.md."""

import base64
import json
import math
import struct
from typing import Any

from tests.conformance.making.models import Model, raw_of

_MAX_EXACT = 2**53
_QUIET_NAN = "7ff8000000000000"
_PLAIN = {"none", "bool", "str"}


def compact(tree: Any) -> str:
    """Write JSON without blanks, in characters as they are."""
    return json.dumps(tree, ensure_ascii=False, separators=(",", ":"))


def typed(model: Model) -> str:
    """Write a model as typed JSON."""
    return compact(tree_of(model))


def tree_of(model: Model) -> Any:
    """Return the typed JSON of a model, as a tree."""
    ((kind, content),) = model.items()
    if kind in _PLAIN:
        return content
    match kind:
        case "int":
            if abs(int(content)) <= _MAX_EXACT:
                return int(content)
            return {"$t": "int", "v": content}
        case "float":
            return _float(content)
        case "complex":
            return {"$t": kind, "v": [_float(bits) for bits in content]}
        case "unsent":
            return {"$t": kind, "v": [content["repr"], content["type"]]}
        case "list":
            return [tree_of(item) for item in content]
        case "dict":
            return _dict(content)
        case "graph":
            return {"$t": "graph", **{k: tree_of(part) for k, part in content.items()}}
        case "nd":
            shown = {"d": content["dtype"], "s": content["shape"]}
            return {"$t": "nd", **shown, "v": _base64(raw_of(content))}
        case "ns":
            return {"$t": "ns", "d": content["dtype"], "v": _base64(raw_of(content))}
        case "oa":
            items = [tree_of(item) for item in content["items"]]
            return {"$t": "oa", "s": content["shape"], "v": items}
        case "tuple":
            return {"$t": "tuple", "v": [tree_of(item) for item in content]}
        case "wtf8":
            return {"$t": "str", "v": _base64(bytes.fromhex(content))}
        case "bytes":
            return {"$t": "bytes", "v": _base64(bytes.fromhex(content))}
        case "space" | "autoreset":
            return {"$t": kind, "v": content}
    raise ValueError(f"there is no model {kind!r}")


def _float(bits: str) -> Any:
    number = struct.unpack(">d", bytes.fromhex(bits))[0]
    if math.isfinite(number):
        return number
    if math.isinf(number):
        return {"$t": "float", "v": "inf" if number > 0 else "-inf"}
    return {"$t": "float", "v": "nan" if bits == _QUIET_NAN else bits}


def _dict(pairs: list[list[Model]]) -> Any:
    names = [key.get("str") for key, _ in pairs]
    if None in names or "$t" in names:
        return {"$t": "dict", "v": [[tree_of(k), tree_of(v)] for k, v in pairs]}
    return dict(zip(names, (tree_of(item) for _, item in pairs), strict=True))


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def binary(model: Model) -> bytes:
    """Write a model in the binary form, as it stands in a body of HTTP."""
    signature, leaves = signed(model)
    return whole(signature, leaves)


def whole(signature: bytes, leaves: bytes = b"", number: int = 0) -> bytes:
    """Put a signature, padded or not, before leaves; with its number on a stream."""
    signature += b" " * (-len(signature) % 8)
    return struct.pack("<II", len(signature), number) + signature + leaves


def signed(model: Model) -> tuple[bytes, bytes]:
    """Return a model's signature, without trailing blanks, and its leaves."""
    leaves: list[bytes] = []
    signature = compact(_sign(model, leaves))
    return signature.encode(), b"".join(leaves)


def _sign(model: Model, leaves: list[bytes]) -> Any:
    ((kind, content),) = model.items()
    match kind:
        case "none":
            return kind
        case "bool":
            return _leaf(kind, bytes([content]), leaves)
        case "int":
            if -(2**63) <= int(content) < 2**63:
                return _leaf(kind, struct.pack("<q", int(content)), leaves)
            return _sized("bigint", content.encode(), leaves)
        case "float":
            return _leaf(kind, bytes.fromhex(content)[::-1], leaves)
        case "complex":
            parts = [bytes.fromhex(bits)[::-1] for bits in content]
            return _leaf(kind, b"".join(parts), leaves)
        case "unsent":
            _sized("str", content["repr"].encode(), leaves)
            return _sized(kind, content["type"].encode(), leaves)
        case "str":
            return _sized(kind, content.encode(), leaves)
        case "wtf8":
            return _sized("str", bytes.fromhex(content), leaves)
        case "bytes":
            return _sized(kind, bytes.fromhex(content), leaves)
        case "list" | "tuple":
            return {kind: [_sign(item, leaves) for item in content]}
        case "dict":
            return {kind: [[tree_of(k), _sign(item, leaves)] for k, item in content]}
        case "nd":
            word = {kind: [content["dtype"], content["shape"]]}
            return _leaf(word, raw_of(content), leaves)
        case "ns":
            return _leaf({kind: content["dtype"]}, raw_of(content), leaves)
        case "oa":
            items = [_sign(item, leaves) for item in content["items"]]
            return {kind: [content["shape"], items]}
        case "graph":
            return {kind: [_sign(part, leaves) for part in content.values()]}
        case "space" | "autoreset":
            return {kind: content}
    raise ValueError(f"there is no model {kind!r}")


def _leaf(word: Any, data: bytes, leaves: list[bytes]) -> Any:
    leaves.append(data + bytes(-len(data) % 8))
    return word


def _sized(word: str, data: bytes, leaves: list[bytes]) -> str:
    leaves.append(struct.pack("<Q", len(data)) + data + bytes(-len(data) % 8))
    return word
