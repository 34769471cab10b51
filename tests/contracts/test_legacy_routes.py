"""The routes of gym-http-api: methods, both slash forms, bodies and exact answers."""

import json
import re
from collections.abc import Callable
from typing import Any

import gymnasium
import pytest

from tests.support.api import Api, Instance, error, no_content, ok
from tests.support.plain import plain, plain_step
from tests.support.raw import chunked, exchange
from tests.support.server import Server
from tests.support.wait import wait_until

SLASHES = pytest.mark.parametrize("slash", ["", "/"])
Create = Callable[..., Instance]

INSTANCE_ROUTES = {
    "POST": ["reset", "step", "close", "monitor/start", "monitor/close"],
    "GET": [
        "action_space",
        "observation_space",
        "action_space/sample",
        "action_space/contains/0",
    ],
}
ONLY = [(method, rest) for method, routes in INSTANCE_ROUTES.items() for rest in routes]

HEADS = {
    "json": "Content-Type: application/json\r\n",
    "json with charset": "Content-Type: application/json; charset=utf-8\r\n",
    "text": "Content-Type: text/plain\r\n",
    "form": "Content-Type: application/x-www-form-urlencoded\r\n",
    "unknown": "Content-Type: nonsense\r\n",
    "none": "",
}


def bounds(response: Any) -> dict[str, Any]:
    info: dict[str, Any] = ok(response)["info"]
    return info


@SLASHES
def test_create(slash: str, api: Api) -> None:
    response = api.post("/v1/envs" + slash, {"env_id": "CartPole-v1"})
    ok(response)
    assert re.fullmatch(rb'\{"instance_id":"[0-9a-f]{8}"\}\n', response.body)
    no_content(Instance(api, response.json()["instance_id"]).close())


@pytest.mark.parametrize("pretty", [False, True], ids=["compact", "pretty"])
@pytest.mark.parametrize("in_chunks", [False, True], ids=["whole", "chunked"])
@pytest.mark.parametrize("kind", HEADS)
def test_create_looks_at_no_content_type(
    kind: str, in_chunks: bool, pretty: bool, api: Api
) -> None:
    body = json.dumps({"env_id": "CartPole-v1"}, indent=4 if pretty else None).encode()
    framing = (
        "Transfer-Encoding: chunked" if in_chunks else f"Content-Length: {len(body)}"
    )
    host = f"Host: 127.0.0.1:{api.server.port}"
    head = f"POST /v1/envs/ HTTP/1.1\r\n{host}\r\n{HEADS[kind]}{framing}\r\n\r\n"
    sent = head.encode() + (chunked(body) if in_chunks else body)
    value = ok(exchange(api.server.port, sent))
    no_content(Instance(api, value["instance_id"]).close())


@SLASHES
def test_list(slash: str, api: Api, create: Create) -> None:
    one, two = create("CartPole-v1"), create("FrozenLake-v1")
    value = ok(api.get("/v1/envs" + slash))
    assert set(value) == {"all_envs"}
    assert value["all_envs"][one.id] == "CartPole-v1"
    assert value["all_envs"][two.id] == "FrozenLake-v1"


@SLASHES
def test_reset(slash: str, create: Create) -> None:
    value = ok(create(seed=5).post("reset" + slash))
    with gymnasium.make("CartPole-v1") as local:
        observation, info = local.reset(seed=5)
    assert value == {"info": info, "observation": plain(observation)}


@SLASHES
def test_step(slash: str, create: Create) -> None:
    instance = create(seed=5)
    instance.reset()
    with gymnasium.make("CartPole-v1") as local:
        local.reset(seed=5)
        expected = plain_step(local.step(1))
    response = instance.post("step" + slash, {"action": 1, "render": False})
    assert ok(response) == expected
    assert b'"reward":1.0,' in response.body
    assert b'"done":false,' in response.body


@SLASHES
def test_discrete_action_space(slash: str, instance: Instance) -> None:
    response = instance.get("action_space" + slash)
    assert bounds(response) == {"n": 2, "name": "Discrete"}
    assert response.body.startswith(b'{"info":{"n":2,"name":"Discrete"},"space":{')


@SLASHES
def test_box_observation_space(slash: str, instance: Instance) -> None:
    info = bounds(instance.get("observation_space" + slash))
    # float32 bounds as their shortest decimals, infinity as 1e100.
    high = [4.8, 1e100, 0.41887903, 1e100]
    low = [-bound for bound in high]
    assert info == {"high": high, "low": low, "name": "Box", "shape": [4]}
    assert all(type(bound) is float for bound in info["high"] + info["low"])
    assert all(type(size) is int for size in info["shape"])


@pytest.mark.parametrize(
    ("space", "info"),
    [
        ("box", {"high": [1.0] * 4, "low": [-1.0] * 4, "name": "Box", "shape": [2, 2]}),
        ("bytes", {"high": [255.0] * 3, "low": [0.0] * 3, "name": "Box", "shape": [3]}),
        ("start", {"n": 3, "name": "Discrete", "start": 5}),
        ("multidiscrete", {"name": "MultiDiscrete", "nvec": [2, 3]}),
        ("multibinary", {"n": 3, "name": "MultiBinary"}),
        ("multibinary2", {"name": "MultiBinary", "shape": [2, 2]}),
    ],
)
def test_info_of_other_spaces(
    space: str, info: dict[str, Any], create_toy: Create
) -> None:
    """Bounds are flat lists of float literals, whatever the dtype and shape."""
    instance = create_toy("toys/Echo-v0", kwargs={"space": space})
    shown = bounds(instance.get("action_space/"))
    assert {key: shown[key] for key in info} == info
    if info["name"] in ("Box", "Discrete"):
        assert set(shown) == set(info), "old clients read every key"
    assert all(type(bound) is float for bound in shown.get("high", []))


def test_info_of_nested_spaces(create_toy: Create) -> None:
    instance = create_toy("toys/Echo-v0", kwargs={"space": "dict"})
    info = bounds(instance.get("observation_space/"))
    assert info["name"] == "Dict"
    assert info["spaces"]["go"] == {"n": 3, "name": "Discrete"}
    assert info["spaces"]["by"]["high"] == [9.0, 9.0]


def test_tuple_observation_space(create: Create) -> None:
    info = bounds(create("Blackjack-v1").get("observation_space/"))
    assert info["name"] == "Tuple"
    assert [space["n"] for space in info["spaces"]] == [32, 11, 2]


@SLASHES
def test_sample(slash: str, instance: Instance) -> None:
    response = instance.get("action_space/sample" + slash)
    assert ok(response) in ({"action": 0}, {"action": 1})
    assert re.fullmatch(rb'\{"action":[01]\}\n', response.body)


def test_sample_of_a_box(create: Create) -> None:
    action = ok(create("Pendulum-v1").get("action_space/sample"))["action"]
    assert len(action) == 1
    assert type(action[0]) is float
    assert -2.0 <= action[0] <= 2.0


@SLASHES
@pytest.mark.parametrize(
    ("value", "member"), [("0", True), ("1", True), ("2", False), ("-1", False)]
)
def test_contains(value: str, member: bool, slash: str, instance: Instance) -> None:
    response = instance.get(f"action_space/contains/{value}{slash}")
    assert ok(response) == {"member": member}
    assert response.body == b'{"member":%s}\n' % str(member).lower().encode()


def test_contains_of_a_box_parses_json(create: Create) -> None:
    instance = create("Pendulum-v1")
    for value, member in [("[0.5]", True), ("[9]", False), ("[0,0]", False)]:
        path = "action_space/contains/" + value.replace("[", "%5B").replace("]", "%5D")
        assert ok(instance.get(path)) == {"member": member}, value


@SLASHES
@pytest.mark.parametrize(
    ("params", "member"),
    [
        ({"name": "Box"}, True),
        ({"name": "Discrete"}, False),
        ({"shape": [4]}, True),
        ({"shape": [5]}, False),
        ({"high": [4.8, 1e100, 0.41887903, 1e100]}, True),
        ({"name": "Box", "shape": [5]}, False),
        ({}, True),
    ],
    ids=str,
)
def test_observation_contains_compares_info(
    params: dict[str, Any], member: bool, slash: str, instance: Instance
) -> None:
    response = instance.post("observation_space/contains" + slash, params)
    assert ok(response) == {"member": member}


def test_observation_contains_refuses_unknown_keys(instance: Instance) -> None:
    error(instance.post("observation_space/contains", {"colour": "red"}), 400)


@SLASHES
def test_monitor(slash: str, instance: Instance) -> None:
    server = instance.api.server
    directory = f"routes-{len(slash)}"
    no_content(instance.post("monitor/start" + slash, {"directory": directory}))
    instance.reset()
    while not instance.step(0)["done"]:
        pass
    no_content(instance.post("monitor/close" + slash))
    written = server.data_dir / directory / "episodes.jsonl"
    lines = written.read_text().splitlines()
    assert len(lines) == 1
    assert isinstance(json.loads(lines[0]), dict)


@SLASHES
def test_monitor_close_without_monitor(slash: str, instance: Instance) -> None:
    no_content(instance.post("monitor/close" + slash))


@SLASHES
def test_close(slash: str, instance: Instance) -> None:
    no_content(instance.post("close" + slash))
    again = error(instance.post("close" + slash), 400, "unknown-instance")
    assert again["message"] == f"Instance_id {instance.id} unknown"
    assert instance.id not in instance.api.instances()


@SLASHES
def test_upload(slash: str, api: Api) -> None:
    needed = "A required request parameter '{}' was not provided"
    body: dict[str, Any] = {"algorithm_id": "random"}
    answer = error(api.post("/v1/upload" + slash, body), 400, "missing-parameter")
    assert answer["message"] == needed.format("training_dir")
    body["training_dir"] = "/tmp/random-agent-results"
    answer = error(api.post("/v1/upload" + slash, body), 400, "missing-parameter")
    assert answer["message"] == needed.format("api_key")
    body["api_key"] = "sk_0123456789"
    error(api.post("/v1/upload" + slash, body), 410, "upload-gone")


@SLASHES
def test_shutdown_is_off_by_default(slash: str, api: Api) -> None:
    error(api.post("/v1/shutdown" + slash), 403, "shutdown-disabled")
    assert api.get("/v1/envs/").status == 200


@SLASHES
def test_shutdown(slash: str, make_server: Callable[..., Server]) -> None:
    server = make_server("--enable-shutdown")
    api = Api(server)
    api.create()
    response = api.post("/v1/shutdown" + slash, data=b"null")
    assert response.status == 200
    assert response.content_type == "text/html; charset=utf-8"
    assert response.body == b"Server shutting down"
    assert server.wait_exit() == 0
    wait_until(lambda: not server.members(), 5.0, "the end of all processes")


@SLASHES
@pytest.mark.parametrize(("allowed", "rest"), ONLY)
def test_other_methods_are_405(
    allowed: str, rest: str, slash: str, instance: Instance
) -> None:
    path = instance.path(rest) + slash
    others = {"PUT", "PATCH", "DELETE"} | ({"POST", "GET"} - {allowed})
    if rest == "action_space/sample":
        others -= {"POST"}
    for method in others:
        response = instance.api.request(method, path)
        error(response, 405, "method-not-allowed")
        offered = re.split(r",\s*", response.header("Allow") or "")
        assert allowed in offered, (method, offered)
        assert method not in offered
    assert instance.id in instance.api.instances()


@pytest.mark.parametrize("path", ["/v1/envs/", "/v1/envs"])
def test_methods_of_the_collection(path: str, api: Api) -> None:
    for method in ("PUT", "PATCH", "DELETE"):
        response = api.request(method, path)
        error(response, 405, "method-not-allowed")
        assert {"GET", "POST"} <= set(re.split(r",\s*", response.header("Allow") or ""))


@pytest.mark.parametrize("path", ["/nowhere", "/v2/envs/", "/v1/envs/1/2/3/4", "/v1/x"])
def test_unknown_routes_are_404_in_json(path: str, api: Api) -> None:
    error(api.get(path), 404, "not-found")
