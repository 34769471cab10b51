"""Values without loss: what is set as an attribute comes back as it was."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

from gym_http_server.validation.binary import BINARY, body_with, from_binary
from gym_http_server.validation.calls import Response
from gym_http_server.validation.checks import Check, CheckGroup, Mismatch, equal, shown
from gym_http_server.validation.forms import Form, from_model, nested
from gym_http_server.validation.target import Target
from gym_http_server.validation.typed import TYPED, from_typed
from gym_http_server.validation.vectors import cases

__all__ = ["ECHO", "GROUP", "back", "needs_attributes", "same"]

#: An attribute that no environment has by itself.
ECHO = "attributes/validate_echo/"


def needs_attributes(target: Target) -> None:
    """Leave out what needs attributes, or values without loss.

    Raises:
        Absent: There are none.
    """
    target.needs("attributes", target.shared().get("attributes/gravity/"))
    target.needs("lossless")


def _checks() -> Iterator[Check]:
    for case in cases("values"):
        if case["typed"] is not None:
            yield Check(f"{case['id']}.typed", partial(_typed, case))
        if case["binary"] is not None:
            yield Check(f"{case['id']}.binary", partial(_binary, case))


GROUP = CheckGroup("values", _checks, needs_attributes)


def _typed(case: dict[str, Any], target: Target) -> None:
    instance = target.shared()
    body = b'{"value":%s}' % case["typed"].encode()
    headers = {"Content-Type": TYPED, "Accept": TYPED}
    equal(instance.post(ECHO, body=body, headers=headers).status, 200, "status")
    same(back(instance.get(ECHO, headers={"Accept": BINARY})), case["value"])


def _binary(case: dict[str, Any], target: Target) -> None:
    instance = target.shared()
    body = body_with("value", bytes.fromhex(case["binary"]))
    equal(instance.binary(ECHO, body).status, 200, "status")
    answer = instance.get(ECHO, headers={"Accept": TYPED})
    same(back(answer), case["value"])
    if "decode_only" not in case and case["typed"] is not None:
        # As text, for 1 and 1.0 are one number to many parsers.
        written = json.dumps(answer.json()["value"])
        equal(written, json.dumps(json.loads(case["typed"])), "typed JSON")


def back(answer: Response) -> Form:
    """Give the member ``value`` of an answer, whatever its form.

    Raises:
        Mismatch: There is none.
    """
    equal(answer.status, 200, "status")
    if answer.media == BINARY:
        return nested(from_binary(answer.body), "value")
    equal(answer.media, TYPED, "Content-Type")
    return nested(from_typed(answer.json()), "value")


def same(actual: Form, model: dict[str, Any]) -> None:
    """Demand that a value is the one that a model tells of.

    Raises:
        Mismatch: It is not.
    """
    expected = from_model(model)
    if actual != expected:
        raise Mismatch(shown(repr(expected)), shown(repr(actual)))
