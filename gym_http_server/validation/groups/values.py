"""Values and spaces: they are sent and returned without loss.

Values go through an attribute, in each form. Numbers in plain JSON are compared to the
last bit. Malformed values are refused. Spaces go as data, and contain their elements.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

from gym_http_server.validation.binary import BINARY, body_with, from_binary
from gym_http_server.validation.calls import Response
from gym_http_server.validation.checks import Check, CheckGroup
from gym_http_server.validation.expectations import Absent, Mismatch, equal, shown
from gym_http_server.validation.forms import Form, from_model, nested
from gym_http_server.validation.target import Target, TargetInstance, code_of
from gym_http_server.validation.typed import TYPED, from_typed, to_typed
from gym_http_server.validation.vectors import cases

__all__ = [
    "ECHO",
    "ELEMENTS",
    "MALFORMED",
    "NUMBERS",
    "SPACES",
    "VALUES",
    "back",
    "given_space",
    "needs_attributes",
    "same",
]

#: An attribute that no environment has by itself.
ECHO = "attributes/validate_echo/"


def needs_attributes(target: Target) -> None:
    """Skip checks that need attributes, or values without loss.

    Raises:
        Absent: The server has no attributes, or no lossless values.
    """
    target.needs("attributes", target.shared().get("attributes/gravity/"))
    target.needs("lossless")


def _value_checks() -> Iterator[Check]:
    for case in cases("values"):
        if case["typed"] is not None:
            yield Check(f"{case['id']}.typed", partial(_typed, case))
        if case["binary"] is not None:
            yield Check(f"{case['id']}.binary", partial(_binary, case))


VALUES = CheckGroup("values", _value_checks, needs_attributes)


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
        # As text, since 1 and 1.0 are one number to many parsers.
        written = json.dumps(answer.json()["value"])
        equal(written, json.dumps(json.loads(case["typed"])), "typed JSON")


def back(answer: Response) -> Form:
    """Return the member ``value`` of an answer in any form.

    Raises:
        Mismatch: There is no such member.
    """
    equal(answer.status, 200, "status")
    if answer.media == BINARY:
        return nested(from_binary(answer.body), "value")
    equal(answer.media, TYPED, "Content-Type")
    return nested(from_typed(answer.json()), "value")


def same(actual: Form, model: dict[str, Any]) -> None:
    """Expect the value that a model describes.

    Raises:
        Mismatch: The value is different.
    """
    expected = from_model(model)
    if actual != expected:
        raise Mismatch(shown(repr(expected)), shown(repr(actual)))


#: Integers up to this one must be accepted.
LARGEST = 2**200


def _number_checks() -> Iterator[Check]:
    for case in cases("numbers"):
        run = _number_refused if case.get("refused") else _number_read
        yield Check(case["id"], partial(run, case))


NUMBERS = CheckGroup("numbers", _number_checks, needs_attributes)


def _number_read(case: dict[str, Any], target: Target) -> None:
    instance = target.shared()
    body = b'{"value":%s}' % case["text"].encode()
    answer = instance.post(ECHO, body=body)
    large = abs(int(case["value"].get("int", 0))) > LARGEST
    if large and (answer.status, code_of(answer)) == (400, "bad-json"):
        raise Absent("integers as large as this are refused, and not rounded")
    equal(answer.status, 200, "status")
    same(back(instance.get(ECHO, headers={"Accept": BINARY})), case["value"])


def _number_refused(case: dict[str, Any], target: Target) -> None:
    body = b'{"value":%s}' % case["text"].encode()
    answer = target.shared().post(ECHO, body=body)
    equal((answer.status, code_of(answer)), (400, "bad-json"), "status and code")


def _malformed_checks() -> Iterator[Check]:
    for case in cases("malformed"):
        yield Check(case["id"], partial(_value_refused, case))


MALFORMED = CheckGroup("malformed", _malformed_checks, needs_attributes)


def _value_refused(case: dict[str, Any], target: Target) -> None:
    instance = target.shared()
    raw = bytes.fromhex(case["hex"]) if "hex" in case else case["text"].encode()
    if case["form"] == "typed":
        media, body = TYPED, b'{"value":%s}' % raw
    else:
        media, body = BINARY, body_with("value", raw)
    answer = instance.post(ECHO, body=body, headers={"Content-Type": media})
    equal((answer.status, code_of(answer)), (400, "bad-json"), "status and code")
    equal(instance.get("action_space/").status, 200, "status of the next request")


_SPACE = "attributes/observation_space/"
_KNOWN = {
    "CartPole-v1": {"type": "Discrete", "n": 2, "start": 0, "dtype": "int64"},
    "FrozenLake-v1": {"type": "Discrete", "n": 4, "start": 0, "dtype": "int64"},
    "Pendulum-v1": {
        "type": "Box",
        "dtype": "float32",
        "shape": [1],
        "low": -2.0,
        "high": 2.0,
        "bounded_below": True,
        "bounded_above": True,
    },
}


def _space_checks() -> Iterator[Check]:
    for env_id in _KNOWN:
        yield Check(f"actions-of-{env_id}", partial(_known, env_id))
    for case in cases("spaces"):
        run = _space_refused if case.get("refused") else _described
        yield Check(case["id"], partial(run, case))


SPACES = CheckGroup("spaces", _space_checks)


def _known(env_id: str, target: Target) -> None:
    with target.made(env_id) as instance:
        answer = instance.get("action_space/")
        target.needs("spaces")
        equal(answer.json().get("space"), _KNOWN[env_id], "space")


def given_space(target: Target, space: Any) -> TargetInstance:
    """Return an instance whose observation space is a certain one.

    Raises:
        Absent: There are no attributes to set.
        Mismatch: This one cannot be set.
    """
    needs_attributes(target)
    instance = target.shared("FrozenLake-v1")
    answer = instance.typed(_SPACE, {"value": {"$t": "space", "v": space}})
    equal(answer.status, 200, "status, as the space is set")
    return instance


def _described(case: dict[str, Any], target: Target) -> None:
    instance = given_space(target, case["space"])
    answer = instance.get("observation_space/")
    equal(answer.status, 200, "status")
    actual = answer.json().get("space")
    if not _alike(actual, case["space"]):
        raise Mismatch(shown(case["space"]), shown(actual))
    # Opaque spaces of the vectors have classes that no server has.
    if not case["id"].startswith("opaque-"):
        _sampled(instance)


def _alike(one: Any, other: Any) -> bool:
    """Compare as JSON: members of objects in any order, and 1 is no 1.0."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            _alike(item, other[key]) for key, item in one.items()
        )
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_alike, one, other))
    return type(one) is type(other) and bool(one == other)


def _sampled(instance: TargetInstance) -> None:
    """Samples of a space are in it, and the same seed returns the same samples."""
    drawn = [instance.typed("observation_space/sample", {"seed": 7}) for _ in range(2)]
    equal(drawn[0].status, 200, "status of the sample")
    equal(drawn[0].body, drawn[1].body, "the sample of the same seed")
    value = {"value": drawn[0].json()["observation"]}
    actual = instance.typed("observation_space/contains", value)
    equal(actual.json(), {"member": True}, "whether the sample is in its space")


def _space_refused(case: dict[str, Any], target: Target) -> None:
    needs_attributes(target)
    instance = target.shared()
    value = {"value": {"$t": "space", "v": case["space"]}}
    answer = instance.typed("attributes/validate_echo/", value)
    equal((answer.status, code_of(answer)), (400, "bad-json"), "status and code")
    answer = instance.get("action_space/", headers={"Accept": TYPED})
    equal(answer.status, 200, "status of the next request")


_CONTAINS = "observation_space/contains"


def _element_checks() -> Iterator[Check]:
    for case in cases("elements"):
        yield Check(f"{case['id']}.typed", partial(_element_in_typed_json, case))
        if case.get("plain") is not None:
            yield Check(f"{case['id']}.plain", partial(_element_in_plain_json, case))


ELEMENTS = CheckGroup("elements", _element_checks, needs_attributes)


def _element_in_typed_json(case: dict[str, Any], target: Target) -> None:
    instance = given_space(target, case["space"])
    value = {"value": to_typed(from_model(case["value"]))}
    answer = instance.typed(_CONTAINS, value)
    equal(answer.status, 200, "status")
    actual = answer.json()
    if isinstance(actual, dict):
        # Spaces of Gymnasium warn of some values.
        actual.pop("warnings", None)
    equal(actual, {"member": case["member"]}, "whether it is an element")


def _element_in_plain_json(case: dict[str, Any], target: Target) -> None:
    instance = given_space(target, case["space"])
    body = b'{"value":%s}' % case["plain"].encode()
    answer = instance.post(_CONTAINS, body=body)
    equal(answer.status, 200, "status")
    equal(answer.json(), {"member": True}, "whether it is an element")
