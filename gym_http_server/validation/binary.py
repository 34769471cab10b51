"""Values in the binary form: read into the form that can be compared."""

from __future__ import annotations

import json
import struct
from typing import Any

from gym_http_server.validation.expectations import Mismatch
from gym_http_server.validation.forms import Form, canonical
from gym_http_server.validation.typed import from_typed

__all__ = ["BINARY", "body_with", "from_binary"]

BINARY = "application/vnd.gym-http.binary"

Json = Any


def _parts(body: bytes) -> tuple[Json, bytes]:
    """Split a body in the binary form into its signature, parsed, and its leaves.

    Raises:
        Mismatch: The body is malformed.
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
        Mismatch: The body is malformed.
    """
    signature, leaves = _parts(body)
    reader = _Leaves(leaves)
    try:
        form = reader.read(signature)
    except (KeyError, TypeError, ValueError, struct.error) as error:
        raise Mismatch("leaves as in their signature", repr(error)) from None
    if reader.at != len(leaves):
        raise Mismatch(f"{reader.at} bytes of leaves", str(len(leaves)))
    return form


class _Leaves:
    """Reads leaf after leaf."""

    def __init__(self, leaves: bytes) -> None:
        self._leaves = leaves
        self.at = 0

    def read(self, signature: Json) -> Form:
        """Read the value of a signature."""
        match signature:
            case "none":
                return ("none",)
            case "bool":
                return ("bool", bool(self._take(1)[0]))
            case "int":
                return ("int", int.from_bytes(self._take(8), "little", signed=True))
            case "float":
                return ("float", self._take(8)[::-1].hex())
            case "complex":
                parts = self._take(16)
                return ("complex", parts[7::-1].hex(), parts[:7:-1].hex())
            case "unsent":
                text, kind = (self._sized().decode() for _ in range(2))
                return ("unsent", text, kind)
            case "bigint":
                return ("int", int(self._sized()))
            case "str":
                return ("str", self._sized().decode("utf-8", "surrogatepass"))
            case "bytes":
                return ("bytes", self._sized())
        ((kind, actual),) = signature.items()
        return self._node(kind, actual)

    def _node(self, kind: str, actual: Json) -> Form:
        match kind:
            case "nd":
                dtype, shape = actual
                count = 1
                for size in shape:
                    count *= size
                return ("nd", dtype, tuple(shape), self._take(count * _size(dtype)))
            case "ns":
                return ("ns", actual, self._take(_size(actual)))
            case "list" | "tuple":
                return (kind, tuple(self.read(item) for item in actual))
            case "oa":
                shape, items = actual
                return ("oa", tuple(shape), tuple(self.read(item) for item in items))
            case "dict":
                pairs = ((from_typed(key), self.read(item)) for key, item in actual)
                return ("dict", tuple(pairs))
            case "graph":
                return ("graph", *(self.read(item) for item in actual))
            case "space" | "autoreset":
                return (kind, canonical(actual))
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


def body_with(name: str, body: bytes) -> bytes:
    """Return a binary body of a dict with one member, made from the member's body.

    Args:
        name: The member's name.
        body: The member, whose signature may be a number's. Another body stays as
            it is.
    """
    size = int.from_bytes(body[:4], "little")
    signature = body[8 : 8 + size]
    if size % 8 or len(body) < 8 + size or not _is_json(signature, size):
        # No value of it can be a part of another signature.
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
