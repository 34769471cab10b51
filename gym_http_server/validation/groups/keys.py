"""Idempotency: what has a key is executed once, and answered as often as it is sent."""

from __future__ import annotations

import secrets
from typing import Any

from gym_http_server.validation.calls import Response
from gym_http_server.validation.checks import CheckGroup, Checks, equal
from gym_http_server.validation.groups.errors import problem
from gym_http_server.validation.target import CART_POLE, Target, TargetInstance

__all__ = ["GROUP", "steps_of"]

#: So many answers are kept for an instance.
KEPT = 16

checks = Checks()
GROUP = CheckGroup("keys", lambda: checks, lambda target: target.needs("idempotency"))


def _key() -> dict[str, str]:
    return {"Idempotency-Key": secrets.token_hex(12)}


def _replayed(answer: Response) -> bool:
    return answer.headers.get("idempotent-replayed") == "true"


def steps_of(instance: TargetInstance) -> int:
    """Ask how many steps an instance has taken."""
    return int(instance.get().json()["steps"])


def _twice(
    instance: TargetInstance, rest: str, value: Any
) -> tuple[Response, Response]:
    key = _key()
    first = instance.post(rest, value, headers=key)
    return first, instance.post(rest, value, headers=key)


@checks("step-once")
def _step(target: Target) -> None:
    with target.made() as instance:
        instance.post("reset/", {"seed": 1})
        first, again = _twice(instance, "step/", {"action": 1})
        equal((first.status, again.status), (200, 200), "status of both")
        equal(steps_of(instance), 1, "steps")
        equal(again.body, first.body, "the second answer")
        equal((_replayed(first), _replayed(again)), (False, True), "replayed")


@checks("reset-once")
def _reset(target: Target) -> None:
    with target.made() as instance:
        first, again = _twice(instance, "reset/", {})
        equal(again.body, first.body, "the second answer")
        equal(_replayed(again), True, "replayed")


@checks("create-once")
def _create(target: Target) -> None:
    # Whether it can be made; else there is nothing to check.
    target.shared()
    key, ids = _key()["Idempotency-Key"], []
    for _ in range(2):
        answer = target.post_create(key, {"env_id": CART_POLE})
        ids.append(target.adopt(answer.json()["instance_id"]).id)
    for instance_id in set(ids):
        TargetInstance(target, instance_id).close()
    equal(ids[1], ids[0], "the instance that the second create tells")


@checks("close-once")
def _close(target: Target) -> None:
    instance, key = target.create(), _key()
    try:
        answers = [
            target.call("DELETE", instance.path(), headers=key) for _ in range(2)
        ]
    finally:
        instance.close()
    equal([answer.status for answer in answers], [204, 204], "status of both")


@checks("key-reused")
def _reused(target: Target) -> None:
    with target.made() as instance:
        instance.post("reset/", {"seed": 1})
        key = _key()
        instance.post("step/", {"action": 1}, headers=key)
        answer = instance.post("step/", {"action": 0}, headers=key)
        problem(answer, "key-reused", 422)
        equal(steps_of(instance), 1, "steps")


@checks("answer-gone")
def _gone(target: Target) -> None:
    with target.made() as instance:
        instance.post("reset/", {"seed": 1})
        keys = [_key() for _ in range(KEPT + 1)]
        for number, key in enumerate(keys):
            instance.post("step/", {"action": number % 2}, headers=key)
            if number == KEPT // 2:
                instance.post("reset/", {"seed": 2})
        before = steps_of(instance)
        kept = instance.post("step/", {"action": 1}, headers=keys[1])
        equal(_replayed(kept), True, f"whether the last {KEPT} are kept")
        answer = instance.post("step/", {"action": 0}, headers=keys[0])
        problem(answer, "answer-gone", 409)
        equal(steps_of(instance), before, "steps")


@checks("refusals-are-not-kept")
def _refused(target: Target) -> None:
    with target.made() as instance:
        instance.post("reset/", {"seed": 1})
        key = _key()
        refused = instance.post("step/", {"action": "x"}, headers=key)
        problem(refused, "invalid-action", 400)
        answer = instance.post("step/", {"action": 1}, headers=key)
        equal(answer.status, 200, "status of a right request under the same key")


@checks("conflicts-are-kept")
def _conflict(target: Target) -> None:
    with target.made() as instance:
        key = _key()
        early = instance.post("step/", {"action": 1}, headers=key)
        problem(early, "reset-needed", 409)
        instance.post("reset/", {"seed": 1})
        late = instance.post("step/", {"action": 1}, headers=key)
        problem(late, "reset-needed", 409)
        equal(steps_of(instance), 0, "steps")


@checks("bad-key")
def _bad(target: Target) -> None:
    with target.made() as instance:
        for key in ("a b", "x" * 129):
            answer = instance.post("reset/", {}, headers={"Idempotency-Key": key})
            problem(answer, "bad-parameter", 400)
