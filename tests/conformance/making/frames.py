"""Frames of streams."""

import struct
from collections.abc import Iterator
from typing import Any

from tests.conformance.making import Case
from tests.conformance.making.forms import binary, compact
from tests.conformance.making.models import model_of

DESCRIPTION = "Messages of the binary dialect of streams, as in docs/streams.md, Binary"

_NONE, _PLAIN, _TYPED, _BINARY = range(4)
_OPERATIONS = 25
_STEP = 2


def cases() -> Iterator[Case]:
    """Yield all cases."""
    yield from _requests()
    yield from _answers()
    for name, data in _refused().items():
        yield {"id": f"refused-{name}", "hex": data.hex(), "refused": True}


def header(size: int, head: int, *, status: int = 200, number: int = 1) -> bytes:
    """Return the header of an answer in plain JSON."""
    return struct.pack("<IIHBBI", size, head, status, 0, _PLAIN, number)


def _case(name: str, **answer: Any) -> Case:
    fields = {
        "status": 0,
        "operation": 0,
        "form": _NONE,
        "answer_form": _NONE,
        "number": 1,
        "head": None,
        "body": b"",
    } | answer
    head = b"" if fields["head"] is None else compact(fields["head"]).encode()
    head += b" " * (-len(head) % 8)
    body = fields["body"]
    forms = fields["form"] | fields["answer_form"] << 4
    start = struct.pack("<II", len(body), len(head))
    start += struct.pack("<HBB", fields["status"], fields["operation"], forms)
    start += struct.pack("<I", fields["number"])
    frame = {**fields, "body": body.hex()}
    return {"id": name, "hex": (start + head + body).hex(), "frame": frame}


def _requests() -> Iterator[Case]:
    for operation in range(1, _OPERATIONS + 1):
        name = f"request-operation-{operation:02}"
        yield _case(name, operation=operation, answer_form=_BINARY, number=operation)
    action = {"operation": _STEP, "form": _PLAIN, "body": b'{"action":1}'}
    yield _case("request-step-plain", **action, answer_form=_PLAIN)
    yield _case("request-step-plain-for-binary", **action, answer_form=_BINARY)
    yield _case("request-acknowledged", **action, answer_form=_BINARY, status=1)
    yield _case("request-last-number", **action, answer_form=3, number=2**32 - 1)
    tree = b'{"action":{"$t":"tuple","v":[1]}}'
    typed = {"operation": _STEP, "form": _TYPED, "body": tree}
    yield _case("request-step-typed", **typed, answer_form=_TYPED)
    body = binary(model_of({"action": 1}))
    yield _case("request-step-binary", operation=2, form=3, answer_form=3, body=body)
    head = {"value": "gravity"}
    yield _case("request-head-name", operation=15, answer_form=_BINARY, head=head)
    head = {"value": "x"}
    yield _case("request-head-to-pad", operation=15, answer_form=_TYPED, head=head)
    head = {"accept": ["image/png", "application/octet-stream"]}
    yield _case("request-head-accept", operation=3, answer_form=_PLAIN, head=head)
    head = {"value": "\u73af\U0001f600"}
    body = b'{"value":1.62}'
    fields = {"operation": 16, "form": 1, "answer_form": 1, "head": head, "body": body}
    yield _case("request-head-and-body", **fields)


def _answers() -> Iterator[Case]:
    body = binary(model_of({"info": {}, "observation": 0}))
    yield _case("answer-binary", status=200, form=_BINARY, body=body)
    yield _case("answer-binary-number", status=200, form=3, body=body, number=70000)
    yield _case("answer-nothing", status=204, number=3)
    body = b'{"info":{},"observation":0}\n'
    yield _case("answer-plain", status=200, form=_PLAIN, body=body)
    body = b'{"info":{},"observation":{"$t":"tuple","v":[]}}'
    yield _case("answer-typed", status=200, form=_TYPED, body=body)
    body = compact({"code": "reset-needed", "message": "reset first"}).encode()
    yield _case("answer-problem", status=409, form=_PLAIN, body=body)
    body = compact({"code": "env-error", "message": "\u00e9", "extras": {"mro": []}})
    yield _case("answer-problem-extras", status=502, form=1, body=body.encode())
    head = {"content_type": "image/png"}
    picture = bytes.fromhex("89504e470d0a1a0a")
    yield _case("answer-other-form", status=200, form=15, head=head, body=picture)
    yield _case("answer-large", status=200, form=_PLAIN, body=b" " * 3000)


def _refused() -> dict[str, bytes]:
    body = b"{}"
    return {
        "empty": b"",
        "short": header(0, 0)[:15],
        "body-cut": header(2, 0) + b"{",
        "body-absent": header(2, 0),
        "body-longer": header(2, 0) + b"{} ",
        "body-size-largest": header(2**32 - 1, 0) + body,
        "head-cut": header(0, 8) + b"{}  ",
        "head-absent": header(2, 8) + body,
        "head-size-largest": header(2, 2**32 - 8) + body,
        "sizes-wrap-around": header(2**32 - 8, 16) + b"{}      ",
        "head-over-64-kib": header(0, 65544) + b"{}" + b" " * 65542,
        "head-no-json": header(0, 8) + b"{value} ",
        "head-no-object": header(0, 8) + b"[]      ",
        "head-no-utf-8": header(0, 24) + b'{"content_type":"\xff"}   ',
    }
