"""The binary dialect of streams: malformed frames, and signatures by number."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

from gym_http_server.validation.binary import body_with, from_binary
from gym_http_server.validation.checks import (
    Check,
    CheckGroup,
    equal,
)
from gym_http_server.validation.forms import nested
from gym_http_server.validation.groups.streams import needs_streams
from gym_http_server.validation.groups.values import needs_attributes, same
from gym_http_server.validation.streams import TargetStream
from gym_http_server.validation.target import Target
from gym_http_server.validation.vectors import cases
from gym_http_server.validation.websocket import (
    BINARY,
    BINARY_DIALECT,
    Closed,
    frame,
)

__all__ = ["GROUPS"]

_NAME = "validate_echo"
#: Bytes that a body with a numbered signature and few leaves may have.
_LARGEST = 16 * 1024 + 16


def _frames() -> Iterator[Check]:
    for case in cases("frames"):
        if case.get("refused"):
            yield Check(case["id"], partial(_malformed, case))


def _signatures() -> Iterator[Check]:
    for case in cases("signatures"):
        bodies = [bytes.fromhex(each["body"]) for each in case["messages"]]
        if any(
            len(body) <= _LARGEST < len(body_with("value", body)) for body in bodies
        ):
            # As a member it would be too large to have a number.
            continue
        yield Check(case["id"], partial(_numbered, case))


def _needs_echo(target: Target) -> None:
    needs_streams(target)
    needs_attributes(target)


GROUPS = (
    CheckGroup("frames", _frames, needs_streams),
    CheckGroup("signatures", _signatures, _needs_echo),
)


def _malformed(case: dict[str, Any], target: Target) -> None:
    instance = target.shared()
    with TargetStream.opened(instance, BINARY_DIALECT) as stream:
        stream.send(frame(BINARY, bytes.fromhex(case["hex"])))
        try:
            said = stream.answered_binary()
            equal(said.status, 400, "status, or a close with 1002")
        except Closed as closed:
            equal(closed.code, 1002, "the status of the close, or an answer 400")
    equal(instance.post("reset/", {}).status, 200, "status of the next request")


def _numbered(case: dict[str, Any], target: Target) -> None:
    """Send bodies with numbered signatures, each a value that is to be kept."""
    head = {"value": _NAME}
    with TargetStream.opened(target.shared(), BINARY_DIALECT) as stream:
        numbers = iter(range(1, 1_000_000))
        for message in case["messages"]:
            body = body_with("value", bytes.fromhex(message["body"]))
            said = stream.ask_binary("set_attribute", next(numbers), body, head=head)
            if message.get("refused"):
                told = said.status, json.loads(said.body).get("code")
                equal(told, (400, "bad-json"), "status and code")
                return
            equal(said.status, 200, "status")
            said = stream.ask_binary("attribute", next(numbers), head=head)
            same(nested(from_binary(said.body), "value"), message["value"])
