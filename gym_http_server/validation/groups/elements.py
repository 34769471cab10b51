"""Elements of spaces: what is one, in plain and in typed JSON, and what is none."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from gym_http_server.validation.checks import Check, CheckGroup, equal
from gym_http_server.validation.forms import from_model
from gym_http_server.validation.groups.spaces import given_space
from gym_http_server.validation.groups.values import needs_attributes
from gym_http_server.validation.target import Target
from gym_http_server.validation.typed import to_typed
from gym_http_server.validation.vectors import cases

__all__ = ["GROUP"]

_CONTAINS = "observation_space/contains"


def _checks() -> Iterator[Check]:
    for case in cases("elements"):
        yield Check(f"{case['id']}.typed", partial(_typed, case))
        if case.get("plain") is not None:
            yield Check(f"{case['id']}.plain", partial(_plain, case))


GROUP = CheckGroup("elements", _checks, needs_attributes)


def _typed(case: dict[str, Any], target: Target) -> None:
    instance = given_space(target, case["space"])
    value = {"value": to_typed(from_model(case["value"]))}
    answer = instance.typed(_CONTAINS, value)
    equal(answer.status, 200, "status")
    told = answer.json()
    if isinstance(told, dict):
        # Spaces of Gymnasium warn of some values.
        told.pop("warnings", None)
    equal(told, {"member": case["member"]}, "whether it is an element")


def _plain(case: dict[str, Any], target: Target) -> None:
    instance = given_space(target, case["space"])
    body = b'{"value":%s}' % case["plain"].encode()
    answer = instance.post(_CONTAINS, body=body)
    equal(answer.status, 200, "status")
    equal(answer.json(), {"member": True}, "whether it is an element")
