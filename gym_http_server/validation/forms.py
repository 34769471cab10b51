"""Values as they stand on the wire, and in the model form of the vectors.

All three are read into one form that can be compared: tuples whose first item is the
kind of the value. Arrays are in it by their bytes, floats by their bits. It is written
from the description of the wire (docs/api.md), not with the server's codec.
"""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

from gym_http_server.validation.checks import Mismatch

__all__ = [
    "BINARY",
    "TYPED",
    "Form",
    "binary_parts",
    "body_with",
    "from_binary",
    "from_model",
    "from_typed",
    "named",
    "nested",
    "to_typed",
]

TYPED = "application/vnd.gym-http.typed+json"
BINARY = "application/vnd.gym-http.binary"
MAX_SAFE = 2**53

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
            return (kind, _canonical(content))
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


def _canonical(data: Json) -> str:
    return json.dumps(data, sort_keys=True)


def from_typed(data: Json) -> Form:
    """Read typed JSON, parsed.

    Raises:
        Mismatch: It is none.
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
            return (tag, _canonical(value))
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


def binary_parts(body: bytes) -> tuple[Json, bytes]:
    """Take a body in the binary form apart: its signature, parsed, and its leaves.

    Raises:
        Mismatch: It is none.
    """
    size = int.from_bytes(body[:4], "little")
    signature, leaves = body[8 : 8 + size], body[8 + size :]
    if len(body) < 8 + size or size % 8 or body[4:8] != bytes(4) or len(leaves) % 8:
        raise Mismatch("a value in the binary form", body[:100].hex())
    try:
        return json.loads(signature), leaves
    except (ValueError, RecursionError) as error:
        raise Mismatch("a signature in JSON", f"{error}: {signature[:100]!r}") from None


def from_binary(body: bytes) -> Form:
    """Read the binary form.

    Raises:
        Mismatch: It is none.
    """
    signature, leaves = binary_parts(body)
    reader = _Leaves(leaves)
    try:
        form = reader.read(signature)
    except (KeyError, TypeError, ValueError, struct.error) as error:
        raise Mismatch("leaves as their signature tells", repr(error)) from None
    if reader.at != len(leaves):
        raise Mismatch(f"{reader.at} bytes of leaves", str(len(leaves)))
    return form


class _Leaves:
    """Reads leaf after leaf."""

    def __init__(self, leaves: bytes) -> None:
        self._leaves = leaves
        self.at = 0

    def read(self, signature: Json) -> Form:
        """Read what a signature tells of."""
        match signature:
            case "none":
                return ("none",)
            case "bool":
                return ("bool", bool(self._take(1)[0]))
            case "int":
                return ("int", int.from_bytes(self._take(8), "little", signed=True))
            case "float":
                return ("float", self._take(8)[::-1].hex())
            case "bigint":
                return ("int", int(self._sized()))
            case "str":
                return ("str", self._sized().decode("utf-8", "surrogatepass"))
            case "bytes":
                return ("bytes", self._sized())
        ((kind, told),) = signature.items()
        return self._node(kind, told)

    def _node(self, kind: str, told: Json) -> Form:
        match kind:
            case "nd":
                dtype, shape = told
                count = 1
                for size in shape:
                    count *= size
                return ("nd", dtype, tuple(shape), self._take(count * _size(dtype)))
            case "ns":
                return ("ns", told, self._take(_size(told)))
            case "list" | "tuple":
                return (kind, tuple(self.read(item) for item in told))
            case "oa":
                shape, items = told
                return ("oa", tuple(shape), tuple(self.read(item) for item in items))
            case "dict":
                pairs = ((from_typed(key), self.read(item)) for key, item in told)
                return ("dict", tuple(pairs))
            case "graph":
                return ("graph", *(self.read(item) for item in told))
            case "space" | "autoreset":
                return (kind, _canonical(told))
        raise ValueError(f"there is no kind {kind!r}")

    def _take(self, size: int) -> bytes:
        taken = self._leaves[self.at : self.at + size]
        if len(taken) < size:
            raise ValueError(f"{size - len(taken)} bytes of leaves are missing")
        self.at += size + -size % 8
        return taken

    def _sized(self) -> bytes:
        return self._take(int.from_bytes(self._take(8), "little"))


def _size(dtype: str) -> int:
    digits = dtype[2:].partition("[")[0]
    return int(digits) * (4 if dtype[1] == "U" else 1)


def nested(form: Form, *names: str) -> Form:
    """Give a member of a dict, or one of a member, and so on.

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
    """Give the members of a dict whose keys are strings.

    Raises:
        Mismatch: It is none.
    """
    if form[0] != "dict":
        raise Mismatch("a dict", form[0])
    return {key[1]: value for key, value in form[1]}


def body_with(name: str, body: bytes) -> bytes:
    """Make a body in the binary form of a dict with one member, out of the member's.

    Args:
        name: The member's name.
        body: The member, whose signature may be a number's. If it is none, it stays as
            it is.
    """
    size = int.from_bytes(body[:4], "little")
    signature = body[8 : 8 + size]
    if size % 8 or len(body) < 8 + size or not _is_json(signature, size):
        # There is nothing that could stand in another signature.
        return body
    if size:
        signature = b'{"dict":[["%s",%s]]}' % (name.encode(), signature.rstrip(b" "))
        signature += b" " * (-len(signature) % 8)
    head = struct.pack("<I", len(signature)) + body[4:8]
    return head + signature + body[8 + size :]


def _is_json(signature: bytes, size: int) -> bool:
    try:
        return not size or bool(json.loads(signature))
    except (ValueError, RecursionError):
        return False
