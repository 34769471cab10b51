"""Members that no route knows: old routes name them in a header, others refuse them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from gym_http_wire.values import typed
from tests.support.api import Api, Instance, error, no_content, ok
from tests.support.peers.watcher import open_stream
from tests.support.raw import Response

TYPED = "application/vnd.gym-http.typed+json"


@pytest.fixture
def instance(api: Api) -> Iterator[Instance]:
    """An instance that was reset, and has no warnings to send."""
    instance = api.create()
    instance.reset(seed=1)
    yield instance
    instance.close()


def warnings_of(response: Response) -> list[str]:
    """Return the messages of the header with warnings."""
    text = response.header("Gym-Warnings") or "[]"
    return [each["message"] for each in json.loads(text)]


@pytest.mark.parametrize(
    ("rest", "body", "name", "meant"),
    [
        ("reset/", {"sead": 3}, "sead", "seed"),
        ("reset/", {"option": {}}, "option", "options"),
        ("step/", {"action": 1, "rendr": True}, "rendr", "render"),
        ("step/", {"actions": [1], "acton": 1}, "acton", "action"),
        ("action_space/sample", {"sed": 3}, "sed", "seed"),
        ("observation_space/sample", {"musk": None}, "musk", "mask"),
        ("action_space/contains", {"value": 1, "values": 2}, "values", "value"),
        ("monitor/start/", {"directory": "u", "forces": 1}, "forces", "force"),
    ],
)
def test_old_routes_name_them_in_a_header(
    instance: Instance, rest: str, body: dict[str, Any], name: str, meant: str
) -> None:
    response = instance.post(rest, body)
    if rest == "monitor/start/":
        no_content(response)
    else:
        assert "warnings" not in ok(response)
    (words,) = warnings_of(response)
    assert f"the member {name!r} " in words
    assert words.endswith(f"is unknown; did you mean {meant!r}?")
    # Each once: the next answer has none.
    assert not warnings_of(
        instance.post("reset/", {"sead": 3} if "sead" in body else {})
    )


def test_a_refused_request_names_them_too(instance: Instance) -> None:
    response = instance.post("step/", {"acton": 1})
    error(response, 400, "missing-parameter")
    assert "did you mean 'action" in str(warnings_of(response))


@pytest.mark.parametrize(
    ("rest", "body"),
    [
        ("reset/", {"seed": 3, "options": None, "instance_id": "3c657dbc"}),
        ("step/", {"action": 1, "render": True, "instance_id": "3c657dbc"}),
        ("step/", {"action": 1, "render": False, "video_callable": True}),
        ("action_space/sample", {"seed": "", "mask": None}),
        ("action_space/contains", {"value": 1}),
        ("observation_space/contains", {"name": "Box", "shape": [4]}),
        (
            "monitor/start/",
            {
                "directory": "known",
                "force": "true",
                "resume": "",
                "video_callable": False,
                "instance_id": "3c657dbc",
            },
        ),
    ],
)
def test_what_old_clients_send_gives_no_warning(
    instance: Instance, rest: str, body: dict[str, Any]
) -> None:
    response = instance.post(rest, body)
    assert response.status in (200, 204), response
    assert response.header("Gym-Warnings") is None


@pytest.mark.parametrize(
    ("rest", "name", "others"),
    [
        *(
            ("rollout/", name, {})
            for name in ("branches", "count", "steps", "observations", "reseed")
        ),
        *(
            ("rollout/", name, {})
            for name in ("actions", "episodes", "max_steps", "policy")
        ),
        *(
            ("attributes/spec/call/", name, {})
            for name in ("args", "kwargs", "indices", "method", "path")
        ),
        ("attributes/gravity/", "force", {"value": 9.8}),
        ("generator/", "replace", {"state": {}}),
        ("/v1/batch/step/", "first", {}),
    ],
)
@pytest.mark.parametrize("media", ["application/json", TYPED])
def test_null_is_refused_where_it_would_stand_for_something_else(
    instance: Instance,
    rest: str,
    name: str,
    others: dict[str, Any],
    media: str,
) -> None:
    before = instance.get("").json()["steps"]
    body = json.dumps({name: None, **others}).encode()
    if rest.startswith("/v1/batch/"):
        steps = [{"instance_id": instance.id, "action": 0}]
        body = json.dumps({"first": None, "steps": steps}).encode()
    headers = {"Content-Type": media}
    path = rest if rest.startswith("/") else f"/v1/envs/{instance.id}/{rest}"
    answer = instance.api.request("POST", path, data=body, headers=headers)
    problem = error(answer, 400, "bad-parameter")
    if name != "indices":
        assert problem["message"].startswith(f"{name} is None: expected ")
    assert instance.get("").json()["steps"] == before


@pytest.mark.parametrize(
    ("rest", "body", "name", "meant"),
    [
        ("rollout/", {"paths": 3}, "paths", ""),
        ("rollout/", {"episode": 3}, "episode", "episodes"),
        ("generator/", {"state": {}, "replaced": True}, "replaced", "replace"),
        ("attributes/gravity/", {"value": 1.0, "forced": False}, "forced", "force"),
        ("attributes/gravity/call/", {"arg": [1]}, "arg", "args"),
    ],
)
@pytest.mark.parametrize("media", ["application/json", TYPED])
def test_other_routes_refuse_them(
    instance: Instance, media: str, rest: str, body: Any, name: str, meant: str
) -> None:
    headers = {"Content-Type": media}
    data = json.dumps(body).encode() if media != TYPED else typed.encode(body)
    answer = error(instance.post(rest, data=data, headers=headers), 400)
    assert answer["code"] == "bad-parameter"
    assert f"has the unknown member {name!r}: expected " in answer["message"]
    if meant:
        assert f"did you mean {meant!r}?" in answer["message"]
    assert ok(instance.get(""))["episodes"] == 0


@pytest.mark.parametrize(
    ("more", "path", "name"),
    [
        ({"firsts": 1}, "", "first"),
        ({}, "steps[0].", "action"),
    ],
)
def test_batches_refuse_them(
    api: Api, instance: Instance, more: Any, path: str, name: str
) -> None:
    step = {"instance_id": instance.id, "action": 1}
    if path:
        step["acton"] = step.pop("action")
    response = api.post("/v1/batch/step/", {"steps": [step], **more})
    answer = error(response, 400, "bad-parameter")
    assert f"did you mean {name!r}?" in answer["message"]
    assert ok(instance.get(""))["steps"] == 0


def test_parts_of_a_create_refuse_them(api: Api) -> None:
    for more, words in (
        (
            {"wrappers": [{"name": "TimeLimit", "kwarg": {}}]},
            "wrappers[0] has the unknown member 'kwarg': "
            "expected some of name, kwargs; did you mean 'kwargs'?",
        ),
        ({"num_envs": 2, "vector_kwargs": {"copi": True}}, "did you mean 'copy'?"),
    ):
        answer = error(api.post("/v1/envs/", {"env_id": "CartPole-v1", **more}), 400)
        assert words in answer["message"]


def test_streams_have_the_warning_in_the_answer(instance: Instance) -> None:
    with open_stream(instance) as stream:
        answer = stream.call(op="reset", sead=1)
        assert answer["status"] == 200
        (warning,) = answer["body"]["warnings"]
        assert warning["message"].endswith("did you mean 'seed'?")
        refused = stream.call(op="rollout", paths=3)
        assert refused["status"] == 400
        assert "unknown member 'paths'" in refused["body"]["message"]
        assert "warnings" not in stream.call(op="step", action=0)["body"]


@pytest.mark.parametrize("query", ["form=1", "from=0&wait=1"])
def test_queries_refuse_them(instance: Instance, query: str) -> None:
    answer = error(instance.get(f"log/?{query}"), 400, "bad-parameter")
    assert "did you mean" in answer["message"]


def test_a_number_means_the_same_however_it_is_written(api: Api) -> None:
    made = []
    for spelling in ("3", "3.0", "3e0"):
        body = '{"env_id": "CartPole-v1", "seed": %s, "num_envs": 2e0, '
        body += '"vectorization_mode": "sync"}'
        made_of = api.post("/v1/envs/", data=(body % spelling).encode())
        instance = Instance(api, ok(made_of)["instance_id"])
        created = ok(instance.post("reset/"))["observation"]
        seeds = f'{{"seed": [{spelling}, null]}}'.encode()
        listed = ok(instance.post("reset/", data=seeds))["observation"][0]
        alone = api.create()
        seed = f'{{"seed": {spelling}}}'.encode()
        reset = ok(alone.post("reset/", data=seed))["observation"]
        sampled = ok(alone.post("observation_space/sample", data=seed))
        plan = f'{{"seed": {spelling}, "episodes": {spelling}, "max_steps": 2e0}}'
        played = ok(alone.post("rollout/", data=plan.encode()))
        assert played["steps"] == 6
        made.append((created, listed, reset, sampled, played))
        for each in (instance, alone):
            no_content(each.close())
    assert made[1] == made[0]
    assert made[2] == made[0]


@pytest.mark.parametrize("spelling", ["1", "1.0", "1e0"])
def test_a_number_of_a_query_means_the_same(instance: Instance, spelling: str) -> None:
    ok(instance.post("rollout/", {"episodes": 3}))
    found = ok(instance.get(f"episodes/?from={spelling}&last={spelling}"))
    assert [each["number"] for each in found["episodes"]] == [2]
    assert instance.get(f"log/?from={spelling}&wait_s=0.0").status == 200
