"""What is no value is refused, whatever it claims to be, and harms nobody."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from gym_http_server.validation.binary import BINARY, body_with
from gym_http_server.validation.checks import Check, CheckGroup, equal
from gym_http_server.validation.groups.values import ECHO, needs_attributes
from gym_http_server.validation.target import Target, code_of
from gym_http_server.validation.typed import TYPED
from gym_http_server.validation.vectors import cases

__all__ = ["GROUP"]


def _checks() -> Iterator[Check]:
    for case in cases("malformed"):
        yield Check(case["id"], partial(_refused, case))


GROUP = CheckGroup("malformed", _checks, needs_attributes)


def _refused(case: dict[str, Any], target: Target) -> None:
    instance = target.shared()
    raw = bytes.fromhex(case["hex"]) if "hex" in case else case["text"].encode()
    if case["form"] == "typed":
        media, body = TYPED, b'{"value":%s}' % raw
    else:
        media, body = BINARY, body_with("value", raw)
    answer = instance.post(ECHO, body=body, headers={"Content-Type": media})
    equal((answer.status, code_of(answer)), (400, "bad-json"), "status and code")
    equal(instance.get("action_space/").status, 200, "status of the next request")
