"""Steps beyond gym-http-api: newer members, idempotency keys, several at once."""

from __future__ import annotations

import secrets
from typing import Any

from gym_http_server.validation.calls import Response
from gym_http_server.validation.checks import CheckGroup, Checks
from gym_http_server.validation.expectations import Absent, equal, that
from gym_http_server.validation.groups.errors import problem
from gym_http_server.validation.groups.legacy import action_of, json_body
from gym_http_server.validation.target import CART_POLE, Target, TargetInstance

__all__ = ["BATCHES", "KEYS", "NEWER", "steps_of"]

newer = Checks()
NEWER = CheckGroup("newer", lambda: newer)


@newer("terminated-and-truncated")
def _flags(target: Target) -> None:
    with target.made(target.env_id) as instance:
        instance.post("reset/", {})
        value = _step_with_flags(instance, action_of(instance))
        for name in ("terminated", "truncated"):
            that(type(value[name]) is bool, f"{name}: true or false", value[name])
        either = value["terminated"] or value["truncated"]
        equal(value["done"], either, "done, of terminated and truncated")


def _step_with_flags(instance: TargetInstance, action: Any) -> Any:
    value = json_body(instance.post("step/", {"action": action}))
    _there(instance.target, value, "terminated")
    _there(instance.target, value, "truncated")
    return value


def _there(target: Target, value: Any, name: str) -> None:
    """Leave a check out if the server is of gym-http-api's kind."""
    if name not in value and target.about is None:
        raise Absent(f"its answer has no {name}")
    that(name in value, f"a member {name}", value)


@newer("reset-info")
def _info(target: Target) -> None:
    with target.made(target.env_id) as instance:
        value = json_body(instance.post("reset/", {}))
        _there(target, value, "info")
        that(isinstance(value["info"], dict), "info: an object", value["info"])


@newer("reset-seed")
def _seed(target: Target) -> None:
    with target.made() as instance:
        _there(target, json_body(instance.post("reset/", {})), "info")
        first, again = (
            json_body(instance.post("reset/", {"seed": 42}))["observation"]
            for _ in "12"
        )
        equal(again, first, "the observation after the same seed")
        other = json_body(instance.post("reset/", {"seed": 43}))["observation"]
        that(other != first, "another observation after another seed", other)


@newer("done-is-either")
def _done(target: Target) -> None:
    with target.made(max_episode_steps=2) as instance:
        instance.post("reset/", {"seed": 42})
        _step_with_flags(instance, 0)
        value = _step_with_flags(instance, 1)
        flags = [value[name] for name in ("terminated", "truncated", "done")]
        equal(flags, [False, True, True], "terminated, truncated and done")


@newer("actions-are-cast")
def _cast(target: Target) -> None:
    with target.made(CART_POLE) as instance:
        _there(target, json_body(instance.post("reset/", {})), "info")
        for action in (1, 1.0, "1", [1]):
            instance.post("reset/", {"seed": 42})
            value = json_body(instance.post("step/", {"action": action}))
            observation = value["observation"]
            that(observation[1] > 0.18, f"a push to the right for {action!r}", value)


#: So many answers are kept for an instance.
KEPT = 16

keys = Checks()
KEYS = CheckGroup("keys", lambda: keys, lambda target: target.needs("idempotency"))


def _key() -> dict[str, str]:
    return {"Idempotency-Key": secrets.token_hex(12)}


def _replayed(answer: Response) -> bool:
    return answer.headers.get("idempotent-replayed") == "true"


def steps_of(instance: TargetInstance) -> int:
    """Return how many steps an instance has taken, from the server."""
    return int(instance.get().json()["steps"])


def _twice(
    instance: TargetInstance, rest: str, value: Any
) -> tuple[Response, Response]:
    key = _key()
    first = instance.post(rest, value, headers=key)
    return first, instance.post(rest, value, headers=key)


@keys("step-once")
def _step(target: Target) -> None:
    with target.made() as instance:
        instance.post("reset/", {"seed": 1})
        first, again = _twice(instance, "step/", {"action": 1})
        equal((first.status, again.status), (200, 200), "status of both")
        equal(steps_of(instance), 1, "steps")
        equal(again.body, first.body, "the second answer")
        equal((_replayed(first), _replayed(again)), (False, True), "replayed")


@keys("reset-once")
def _reset(target: Target) -> None:
    with target.made() as instance:
        first, again = _twice(instance, "reset/", {})
        equal(again.body, first.body, "the second answer")
        equal(_replayed(again), True, "replayed")


@keys("create-once")
def _create(target: Target) -> None:
    # Whether it can be made; otherwise the check is skipped.
    target.shared()
    key, ids = _key()["Idempotency-Key"], []
    for _ in range(2):
        answer = target.post_create(key, {"env_id": CART_POLE})
        ids.append(target.adopt(answer.json()["instance_id"]).id)
    for instance_id in set(ids):
        TargetInstance(target, instance_id).close()
    equal(ids[1], ids[0], "the instance of the second create")


@keys("close-once")
def _close(target: Target) -> None:
    instance, key = target.create(), _key()
    try:
        answers = [
            target.call("DELETE", instance.path(), headers=key) for _ in range(2)
        ]
    finally:
        instance.close()
    equal([answer.status for answer in answers], [204, 204], "status of both")


@keys("key-reused")
def _reused(target: Target) -> None:
    with target.made() as instance:
        instance.post("reset/", {"seed": 1})
        key = _key()
        instance.post("step/", {"action": 1}, headers=key)
        answer = instance.post("step/", {"action": 0}, headers=key)
        problem(answer, "key-reused", 422)
        equal(steps_of(instance), 1, "steps")


@keys("answer-gone")
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


@keys("refusals-are-not-kept")
def _refused(target: Target) -> None:
    with target.made() as instance:
        instance.post("reset/", {"seed": 1})
        key = _key()
        refused = instance.post("step/", {"action": "x"}, headers=key)
        problem(refused, "invalid-action", 400)
        answer = instance.post("step/", {"action": 1}, headers=key)
        equal(answer.status, 200, "status of a right request under the same key")


@keys("conflicts-are-kept")
def _conflict(target: Target) -> None:
    with target.made() as instance:
        key = _key()
        early = instance.post("step/", {"action": 1}, headers=key)
        problem(early, "reset-needed", 409)
        instance.post("reset/", {"seed": 1})
        late = instance.post("step/", {"action": 1}, headers=key)
        problem(late, "reset-needed", 409)
        equal(steps_of(instance), 0, "steps")


@keys("bad-key")
def _bad(target: Target) -> None:
    with target.made() as instance:
        for key in ("a b", "x" * 129):
            answer = instance.post("reset/", {}, headers={"Idempotency-Key": key})
            problem(answer, "bad-parameter", 400)


batches = Checks()
BATCHES = CheckGroup("batches", lambda: batches)


@batches("several-steps")
def _several(target: Target) -> None:
    target.needs("batches")
    with target.made() as one, target.made() as other:
        one.post("reset/", {"seed": 42})
        other.post("reset/", {"seed": 42})
        actions = [1, 0, 1, 1]
        actual = one.post("step/", {"actions": actions}).json()
        single = [other.post("step/", {"action": each}).json() for each in actions]
        for column, name in (
            ("observations", "observation"),
            ("rewards", "reward"),
            ("terminated", "terminated"),
            ("truncated", "truncated"),
            ("done", "done"),
            ("infos", "info"),
        ):
            equal(actual[column], [each[name] for each in single], column)
        equal((actual["steps"], actual["stopped"]), (4, None), "steps and stopped")


@batches("stops-with-the-episode")
def _stops(target: Target) -> None:
    target.needs("batches")
    with target.made(max_episode_steps=3) as instance:
        instance.post("reset/", {"seed": 42})
        actual = instance.post("step/", {"actions": [0, 1, 0, 1, 0]}).json()
        equal((actual["steps"], actual["stopped"]), (3, "episode"), "steps and stopped")
        equal(actual["truncated"], [False, False, True], "truncated")
        equal(steps_of(instance), 3, "steps of the instance")


@batches("all-actions-are-looked-at")
def _looked_at(target: Target) -> None:
    target.needs("batches")
    with target.made() as instance:
        instance.post("reset/", {"seed": 42})
        answer = instance.post("step/", {"actions": [0, 1, "x"]})
        actual = problem(answer, "invalid-action", 400)
        equal((actual.get("index"), actual.get("steps")), (2, 0), "index and steps")
        equal(steps_of(instance), 0, "steps of the instance")


@batches("many-instances")
def _many(target: Target) -> None:
    target.needs("batches", target.post("/v1/batch/step/", {"steps": []}))
    with target.made() as one, target.made() as other:
        one.post("reset/", {"seed": 1})
        other.post("reset/", {"seed": 2})
        key = secrets.token_hex(8)
        steps = [
            {"instance_id": one.id, "action": 1, "key": key},
            {"instance_id": other.id, "actions": [0, 1]},
            {"instance_id": "ffffffff", "action": 0},
        ]
        actual = target.post("/v1/batch/step/", {"steps": steps}).json()
        equal(actual["pending"], [], "pending")
        results = {each["instance_id"]: each for each in actual["results"]}
        equal(results[one.id]["status"], 200, "status of a step")
        equal(results[one.id]["key"], key, "its key")
        equal(results[other.id]["answer"]["steps"], 2, "steps of several")
        lost = results["ffffffff"]
        equal(lost["problem"]["code"], "unknown-instance", "code of one that is not")
        again = target.post("/v1/batch/step/", {"steps": steps[:1]}).json()["results"]
        equal(again[0]["replayed"], True, "replayed under its key")
        equal(again[0]["answer"], results[one.id]["answer"], "the answer again")
        equal(steps_of(one), 1, "steps")


@batches("rollout")
def _rollout(target: Target) -> None:
    with target.made() as one, target.made() as other:
        request = {"actions": [[1, 0, 1]], "seed": 42}
        answer = one.post("rollout/", request)
        target.needs("rollouts", answer)
        episode = answer.json()["episodes"][0]
        first = other.post("reset/", {"seed": 42}).json()
        single = [other.post("step/", {"action": each}).json() for each in (1, 0, 1)]
        observations = [each["observation"] for each in (first, *single)]
        equal(episode["observations"], observations, "observations")
        equal(episode["rewards"], [each["reward"] for each in single], "rewards")
        equal((episode["return"], episode["length"]), (3.0, 3), "return and length")


@batches("random-rollout")
def _random(target: Target) -> None:
    with target.made() as instance:
        request = {"episodes": 2, "seed": 7, "max_steps": 20}
        answers = [instance.post("rollout/", request) for _ in range(2)]
        target.needs("rollouts", answers[0])
        equal(answers[0].status, 200, "status")
        equal(len(answers[0].json()["episodes"]), 2, "episodes")
        that(
            answers[0].json()["episodes"][0] == answers[1].json()["episodes"][0],
            "the same episode with the same seed",
            answers[1].body,
        )
