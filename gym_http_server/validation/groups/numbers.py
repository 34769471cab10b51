"""Numbers in plain JSON: all of them are read to the last bit, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from gym_http_server.validation.binary import BINARY
from gym_http_server.validation.checks import Absent, Check, CheckGroup, equal
from gym_http_server.validation.groups.values import ECHO, back, needs_attributes, same
from gym_http_server.validation.target import Target, code_of
from gym_http_server.validation.vectors import cases

__all__ = ["GROUP"]

#: Integers up to this one have to be taken.
LARGEST = 2**200


def _checks() -> Iterator[Check]:
    for case in cases("numbers"):
        run = _refused if case.get("refused") else _read
        yield Check(case["id"], partial(run, case))


GROUP = CheckGroup("numbers", _checks, needs_attributes)


def _read(case: dict[str, Any], target: Target) -> None:
    instance = target.shared()
    body = b'{"value":%s}' % case["text"].encode()
    answer = instance.post(ECHO, body=body)
    large = abs(int(case["value"].get("int", 0))) > LARGEST
    if large and (answer.status, code_of(answer)) == (400, "bad-json"):
        raise Absent("integers as large as this are refused, and not rounded")
    equal(answer.status, 200, "status")
    same(back(instance.get(ECHO, headers={"Accept": BINARY})), case["value"])


def _refused(case: dict[str, Any], target: Target) -> None:
    body = b'{"value":%s}' % case["text"].encode()
    answer = target.shared().post(ECHO, body=body)
    equal((answer.status, code_of(answer)), (400, "bad-json"), "status and code")
