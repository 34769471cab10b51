"""One request steps many instances, each of them once."""

import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest

from gym_http_wire.messages import MEDIA_TYPES, Form
from gym_http_wire.values import typed
from tests.support import api as calls
from tests.support.api import Api, Instance
from tests.support.identity import assert_identical
from tests.support.plain import plain
from tests.support.server import Server

Create = Callable[..., Instance]
BINARY = MEDIA_TYPES[Form.BINARY]
TYPED = MEDIA_TYPES[Form.TYPED]


def batch(api: Api, *items: Any, key: str = "", **more: Any) -> Any:
    headers = {"Idempotency-Key": key} if key else {}
    body = {"steps": list(items), **more}
    return calls.ok(api.post("/v1/batch/step/", body, headers=headers))


def test_a_batch_steps_many_instances(api: Api, create: Create) -> None:
    instances = [create() for _ in range(5)]
    for seed, each in enumerate(instances):
        each.reset(seed=seed)
    items: list[Any] = [{"instance_id": each.id, "action": 1} for each in instances]
    items[1] = {"instance_id": instances[1].id, "actions": [0, 1]}
    items[2]["action"] = 7
    items.insert(3, {"instance_id": "00c0ffee", "action": 1})
    items.append({"instance_id": "no/id", "action": 1})
    answer = batch(api, *items)
    assert answer["pending"] == []
    results = answer["results"]
    named = [each["instance_id"] for each in results]
    assert named == [each["instance_id"] for each in items]
    statuses = [each["status"] for each in results]
    assert statuses == [200, 200, 400, 400, 200, 200, 400]
    codes = [each["problem"]["code"] for each in results if "problem" in each]
    assert codes == ["invalid-action", "unknown-instance", "unknown-instance"]
    with gymnasium.make("CartPole-v1") as local:
        for seed in (0, 3, 4):
            local.reset(seed=seed)
            (found,) = (r for r in results if r["instance_id"] == instances[seed].id)
            assert found["answer"]["observation"] == plain(local.step(1)[0])
    assert results[1]["answer"]["steps"] == 2
    assert not any(each["replayed"] for each in results)


def test_a_batch_with_a_key_is_stepped_once(api: Api, create: Create) -> None:
    instances = [create() for _ in range(3)]
    for each in instances:
        each.reset()
    items = [{"instance_id": each.id, "action": 1} for each in instances]
    first = batch(api, *items, key="batch-1")
    again = batch(api, *items, key="batch-1")
    assert {each["replayed"] for each in first["results"]} == {False}
    assert {each["replayed"] for each in again["results"]} == {True}
    for one, other in zip(first["results"], again["results"], strict=True):
        assert (one["answer"], one["key"]) == (other["answer"], other["key"])
    for each in instances:
        assert calls.ok(each.get(""))["steps"] == 1
    # Its key is one for the instance like any other.
    spent = {
        "instance_id": instances[0].id,
        "action": 0,
        "key": again["results"][0]["key"],
    }
    (answer,) = batch(api, spent)["results"]
    assert (answer["status"], answer["problem"]["code"]) == (422, "key-reused")


def test_pending_steps_continue_and_are_returned_later(
    make_server: Callable[..., Server],
) -> None:
    api = Api(make_server("--import", "tests.support.envs.hostile", "--workers", "2"))
    slow = api.create("hostile/Slow-v0", kwargs={"seconds": 4.0})
    quick = [api.create() for _ in range(2)]
    for each in (slow, *quick):
        each.reset()
    items = [{"instance_id": each.id, "action": 1} for each in (slow, *quick)]
    answer = batch(api, *items, first=2)
    assert [r["instance_id"] for r in answer["results"]] == [each.id for each in quick]
    (pending,) = answer["pending"]
    assert pending["instance_id"] == slow.id
    # Together with new steps of the others.
    again = [items[0] | {"key": pending["key"]}, *items[1:]]
    answer = batch(api, *again)
    assert [r["status"] for r in answer["results"]] == [200] * 3
    assert answer["results"][0]["replayed"]
    for each, steps in ((slow, 1), (quick[0], 2), (quick[1], 2)):
        assert calls.ok(each.get(""))["steps"] == steps


def test_answers_that_do_not_fit_are_returned_later(
    make_server: Callable[..., Server],
) -> None:
    api = Api(make_server("--max-answer", "3000"))
    instances = [api.create("CartPole-v1") for _ in range(4)]
    for each in instances:
        each.reset()
    items = [{"instance_id": i.id, "actions": [0, 1] * 5} for i in instances]
    answer = batch(api, *items)
    assert answer["pending"]
    assert answer["results"]
    seen = {each["instance_id"] for each in answer["results"]}
    while answer["pending"]:
        keys = {each["instance_id"]: each["key"] for each in answer["pending"]}
        left = [
            i | {"key": keys[i["instance_id"]]}
            for i in items
            if i["instance_id"] in keys
        ]
        answer = batch(api, *left)
        assert all(each["replayed"] for each in answer["results"])
        seen |= {each["instance_id"] for each in answer["results"]}
    assert seen == {each.id for each in instances}
    for each in instances:
        assert calls.ok(each.get(""))["steps"] == 10


def test_a_batch_is_as_slow_as_its_slowest(make_server: Callable[..., Server]) -> None:
    api = Api(make_server("--import", "tests.support.envs.hostile"))
    instances = [
        api.create("hostile/Slow-v0", kwargs={"seconds": 1.5}) for _ in range(6)
    ]
    for each in instances:
        each.reset()
    began = time.monotonic()
    answer = batch(api, *({"instance_id": i.id, "action": 1} for i in instances))
    assert len(answer["results"]) == 6
    # One after the other, it would take nine seconds.
    assert time.monotonic() - began < 8.9


def test_a_death_is_reported_for_its_instance_alone(
    make_server: Callable[..., Server],
) -> None:
    api = Api(make_server("--import", "tests.support.envs.hostile"))
    dies, lives = api.create("hostile/Exit0-v0"), api.create()
    for each in (dies, lives):
        each.reset()
    items = [{"instance_id": each.id, "action": 1} for each in (dies, lives)]
    first, second = batch(api, *items)["results"]
    assert (first["status"], first["problem"]["code"]) == (502, "env-crashed")
    assert second["status"] == 200
    first, second = batch(api, *items)["results"]
    assert (first["status"], first["problem"]["code"]) == (410, "instance-ended")


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "bad-json"),
        (b"[]", "bad-json"),
        (b"{", "bad-json"),
        (b'{"steps": NaN}', "bad-json"),
        (b"[" * 100_000, "bad-json"),
        (b'{"steps": [{"instance_id": "a", "action": ' + b"[" * 100_000, "bad-json"),
        (b"{}", "missing-parameter"),
        (b'{"steps": []}', "missing-parameter"),
        (b'{"steps": {}}', "bad-parameter"),
        (b'{"steps": [1]}', "bad-parameter"),
        (b'{"steps": [{}]}', "missing-parameter"),
        (b'{"steps": [{"instance_id": 1}]}', "bad-parameter"),
        (b'{"steps": [{"instance_id": "a", "key": ""}]}', "bad-parameter"),
        (b'{"steps": [{"instance_id": "a"}, {"instance_id": "a"}]}', "bad-parameter"),
        (b'{"steps": [{"instance_id": "a"}], "first": 0}', "bad-parameter"),
        (b'{"steps": [{"instance_id": "a"}], "first": "1"}', "bad-parameter"),
        (
            b'{"steps": [%b]}'
            % b",".join(b'{"instance_id": "%d"}' % n for n in range(1025)),
            "bad-parameter",
        ),
    ],
)
def test_invalid_batches(data: bytes, code: str, api: Api) -> None:
    calls.error(api.post("/v1/batch/step/", data=data), 400, code)


def test_a_batch_in_typed_json(api: Api, create: Create) -> None:
    instance = create()
    instance.reset(seed=1)
    headers = {"Content-Type": TYPED, "Accept": TYPED}
    action = '{"$t": "ns", "d": "<i8", "v": "AQAAAAAAAAA="}'
    item = f'{{"instance_id": "{instance.id}", "action": {action}}}'
    data = f'{{"steps": [{item}]}}'.encode()
    answer = api.post("/v1/batch/step/", data=data, headers=headers)
    assert (answer.status, answer.content_type) == (200, TYPED)
    (result,) = typed.decode(answer.body)["results"]
    with gymnasium.make("CartPole-v1") as local:
        local.reset(seed=1)
        assert_identical(result["answer"]["observation"], local.step(np.int64(1))[0])
    answer = api.post("/v1/batch/step/", data=b"", headers={"Accept": BINARY})
    calls.error(answer, 406, "not-acceptable")
    answer = api.post("/v1/batch/step/", data=b"", headers={"Content-Type": BINARY})
    calls.error(answer, 400, "bad-json")
