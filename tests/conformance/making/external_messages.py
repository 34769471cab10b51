"""The messages of a server and an external environment, in each dialect.

Written by docs/external.md from models.
"""

import struct
from collections.abc import Mapping
from typing import Any

from tests.conformance.making import Case
from tests.conformance.making.forms import compact, signed, tree_of
from tests.conformance.making.models import Model, native_of

DIALECTS = ("json", "typed", "binary")
#: Seconds that a request leaves for its answer.
DEADLINE_S = 29.5
OPERATIONS = {
    "reset": 1,
    "step": 2,
    "render": 3,
    "describe": 4,
    "generator": 13,
    "set_generator": 14,
    "attribute": 15,
    "set_attribute": 16,
    "call_attribute": 17,
    "init": 48,
    "close": 49,
    "ping": 50,
    "pong": 51,
    "fault": 52,
}
_NONE, _PLAIN, _BINARY = 0, 1, 3


def plain_of(model: Model) -> Any:
    """Return a value in plain JSON."""
    ((kind, content),) = model.items()
    match kind:
        case "list" | "tuple":
            return [plain_of(item) for item in content]
        case "dict":
            return {key["str"]: plain_of(item) for key, item in content}
        case "nd" | "ns":
            return native_of(model).tolist()
    return native_of(model)


def dict_of(members: Mapping[str, Model]) -> Model:
    """Return a dict of members by name."""
    return {"dict": [[{"str": name}, item] for name, item in members.items()]}


def frame(
    operation: int,
    number: int = 0,
    *,
    status: int = 0,
    form: int = _NONE,
    head: bytes = b"",
    body: bytes = b"",
) -> bytes:
    """Return a frame, its head padded."""
    head += b" " * (-len(head) % 8)
    sizes = struct.pack("<II", len(body), len(head))
    kind = struct.pack("<HBBI", status, operation, form, number)
    return sizes + kind + head + body


class Side:
    """Writes the messages of one side of a connection.

    Args:
        dialect: One of `DIALECTS`.
    """

    def __init__(self, dialect: str) -> None:
        self._dialect = dialect
        self._numbers: dict[bytes, int] = {}

    def request(self, kind: str, number: int, given: Mapping[str, Model]) -> Case:
        """Return a request."""
        if self._dialect == "binary":
            return {"hex": self._request(kind, number, dict(given)).hex()}
        head = {"type": kind, "id": number, "deadline_s": DEADLINE_S}
        members = {name: self._tree(item) for name, item in given.items()}
        return {"text": compact({**head, **members})}

    def answer(self, number: int, result: Mapping[str, Model]) -> Case:
        """Return an answer."""
        if self._dialect == "binary":
            body = self._value(dict_of(result))
            data = frame(0, number, status=200, form=_BINARY, body=body)
            return {"hex": data.hex()}
        members = {name: self._tree(item) for name, item in result.items()}
        return {"text": compact({"id": number, "result": members})}

    def failure(self, number: int, error: dict[str, Any]) -> Case:
        """Answer that it failed."""
        if self._dialect == "binary":
            body = compact(error).encode()
            data = frame(0, number, status=502, form=_PLAIN, body=body)
            return {"hex": data.hex()}
        return {"text": compact({"id": number, "error": error})}

    def control(self, kind: str) -> Case:
        """Return a ping or pong."""
        if self._dialect == "binary":
            return {"hex": frame(OPERATIONS[kind]).hex()}
        return {"text": compact({"type": kind})}

    def fault(self, message: str, number: int, field: str) -> Case:
        """Return a fault."""
        if self._dialect == "binary":
            body = compact({"message": message, "field": field}).encode()
            data = frame(OPERATIONS["fault"], number, form=_PLAIN, body=body)
            return {"hex": data.hex()}
        fields = {"type": "fault", "message": message, "id": number, "field": field}
        return {"text": compact(fields)}

    def _tree(self, model: Model) -> Any:
        return plain_of(model) if self._dialect == "json" else tree_of(model)

    def _request(self, kind: str, number: int, given: dict[str, Model]) -> bytes:
        if kind == "init":
            self._numbers.clear()
            given["deadline_s"] = {"float": struct.pack(">d", DEADLINE_S).hex()}
        name = given.pop("name", None)
        head = b"" if name is None else compact({"value": name["str"]}).encode()
        body = self._value(dict_of(given)) if given else b""
        form = (_BINARY if given else _NONE) | _BINARY << 4
        return frame(OPERATIONS[kind], number, form=form, head=head, body=body)

    def _value(self, model: Model) -> bytes:
        """Return a value; its signature is written out once and then numbered."""
        signature, leaves = signed(model)
        signature += b" " * (-len(signature) % 8)
        if signature in self._numbers:
            return struct.pack("<II", 0, self._numbers[signature]) + leaves
        number = self._numbers[signature] = len(self._numbers) + 1
        return struct.pack("<II", len(signature), number) + signature + leaves
