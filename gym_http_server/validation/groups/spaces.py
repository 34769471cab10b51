"""Spaces as data: they go and come as they are, and what is none is refused."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from gym_http_server.validation.checks import Check, CheckGroup, Mismatch, equal, shown
from gym_http_server.validation.groups.values import needs_attributes
from gym_http_server.validation.target import Target, TargetInstance, code_of
from gym_http_server.validation.typed import TYPED
from gym_http_server.validation.vectors import cases

__all__ = ["GROUP", "given_space"]

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


def _checks() -> Iterator[Check]:
    for env_id in _KNOWN:
        yield Check(f"actions-of-{env_id}", partial(_known, env_id))
    for case in cases("spaces"):
        run = _refused if case.get("refused") else _described
        yield Check(case["id"], partial(run, case))


GROUP = CheckGroup("spaces", _checks)


def _known(env_id: str, target: Target) -> None:
    with target.made(env_id) as instance:
        answer = instance.get("action_space/")
        target.needs("spaces")
        equal(answer.json().get("space"), _KNOWN[env_id], "space")


def given_space(target: Target, space: Any) -> TargetInstance:
    """Give an instance whose observation space is a certain one.

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
    """What is drawn from a space is in it, and is the same with the same seed."""
    drawn = [instance.typed("observation_space/sample", {"seed": 7}) for _ in range(2)]
    equal(drawn[0].status, 200, "status of the sample")
    equal(drawn[0].body, drawn[1].body, "the sample of the same seed")
    value = {"value": drawn[0].json()["observation"]}
    told = instance.typed("observation_space/contains", value)
    equal(told.json(), {"member": True}, "whether the sample is in its space")


def _refused(case: dict[str, Any], target: Target) -> None:
    needs_attributes(target)
    instance = target.shared()
    value = {"value": {"$t": "space", "v": case["space"]}}
    answer = instance.typed("attributes/validate_echo/", value)
    equal((answer.status, code_of(answer)), (400, "bad-json"), "status and code")
    answer = instance.get("action_space/", headers={"Accept": TYPED})
    equal(answer.status, 200, "status of the next request")
