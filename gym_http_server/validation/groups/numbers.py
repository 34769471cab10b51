"""Numbers in plain JSON: all of them are read to the last bit, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from gym_http_server.validation.checks import Check, Group, equal
from gym_http_server.validation.forms import BINARY
from gym_http_server.validation.groups.values import ECHO, back, needs_attributes, same
from gym_http_server.validation.served import Served, code_of
from gym_http_server.validation.vectors import cases

__all__ = ["GROUP"]


def _checks() -> Iterator[Check]:
    for case in cases("numbers"):
        run = _refused if case.get("refused") else _read
        yield Check(case["id"], partial(run, case))


GROUP = Group("numbers", _checks, needs_attributes)


def _read(case: dict[str, Any], served: Served) -> None:
    instance = served.shared()
    body = b'{"value":%s}' % case["text"].encode()
    equal(instance.post(ECHO, body=body).status, 200, "status")
    same(back(instance.get(ECHO, headers={"Accept": BINARY})), case["value"])


def _refused(case: dict[str, Any], served: Served) -> None:
    body = b'{"value":%s}' % case["text"].encode()
    answer = served.shared().post(ECHO, body=body)
    equal((answer.status, code_of(answer)), (400, "bad-json"), "status and code")
