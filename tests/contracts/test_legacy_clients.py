"""Every known client of gym-http-api, replayed byte for byte.

All clients read the same answers, so each session is checked against the needs of all
of them: Swift's casts, Go's disregard of status codes, Java's Doubles.
"""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.api import Api, Instance, no_content, ok
from tests.support.peers.legacy_clients import RECORDINGS, Recording
from tests.support.raw import RawConnection, Response, exchange
from tests.support.server import Server

NAMES = [recording.name for recording in RECORDINGS]
BY_NAME = {recording.name: recording for recording in RECORDINGS}

Send = Callable[[bytes], Response]


@contextmanager
def connected(recording: Recording, port: int) -> Iterator[Send]:
    """Send over one connection or over many, as the client does."""

    def send_alone(request: bytes) -> Response:
        with RawConnection(port, timeout=5.0) as connection:
            connection.send(request)
            response = connection.read_response(request=request)
            assert connection.read_to_end() == b"", "bytes after the answer"
            return response

    if not recording.keep_alive:
        yield send_alone
        return
    with RawConnection(port) as connection:

        def send(request: bytes) -> Response:
            head, end, body = request.partition(b"\r\n\r\n")
            connection.send(head + end)
            if b"Expect: 100-continue" in head:
                interim = connection.read_response(request=request)
                assert interim.status == 100, interim
            connection.send(body)
            return connection.read_response(request=request)

        yield send


def floats(value: Any) -> bool:
    """Return whether it is a flat list of float literals: Java casts to Double."""
    return isinstance(value, list) and all(type(item) is float for item in value)


def created(response: Response) -> str:
    value = ok(response)
    assert set(value) == {"instance_id"}, "Swift casts it to [String: String]"
    assert re.fullmatch("[0-9a-f]{8}", value["instance_id"])
    return value["instance_id"]


def listed(response: Response, instance_id: str, env_id: str) -> None:
    value = ok(response)
    assert set(value) == {"all_envs"}, "Swift casts it to [String: [String: String]]"
    assert value["all_envs"][instance_id] == env_id
    assert all(isinstance(name, str) for name in value["all_envs"].values())


def discrete(response: Response, n: int) -> None:
    # Retrofit's client reads every value as a primitive.
    assert ok(response)["info"] == {"n": n, "name": "Discrete"}


def box(response: Response, size: int) -> None:
    info = ok(response)["info"]
    # Retrofit's client reads every key but the name as an array.
    assert set(info) == {"high", "low", "name", "shape"}
    assert info["name"] == "Box"
    assert info["shape"] == [size]
    assert type(info["shape"][0]) is int, "Go reads []int"
    assert floats(info["low"])
    assert floats(info["high"])
    assert len(info["low"]) == len(info["high"]) == size


def observed(response: Response, size: int) -> None:
    observation = ok(response)["observation"]
    assert floats(observation)
    assert len(observation) == size


def stepped(response: Response, size: int) -> None:
    observed(response, size)
    value = ok(response)
    assert {"done", "info", "observation", "reward", "truncated"} <= set(value)
    assert type(value["reward"]) is float, "Spring casts to double"
    assert value["done"] is (value["terminated"] or value["truncated"])
    assert value["info"] == {}, "Scala reads a Map[String, String]"


@pytest.mark.parametrize("name", NAMES)
def test_a_whole_session(name: str, server: Server) -> None:
    client, port = BY_NAME[name], server.port
    with connected(client, port) as send:
        body = {"env_id": "CartPole-v0", **client.create}
        instance_id = created(send(client.post("/v1/envs/", body, port=port)))
        root = f"/v1/envs/{instance_id}/"
        try:
            listed(send(client.get("/v1/envs/", port=port)), instance_id, "CartPole-v0")
            play(client, send, root, port)
        finally:
            closed = send(client.post_empty(root + "close/", port=port))
        no_content(closed)
        again = send(client.post_empty(root + "close/", port=port))
        assert again.status == 400
        assert again.json()["message"] == f"Instance_id {instance_id} unknown"


def play(client: Recording, send: Send, root: str, port: int) -> None:
    """Call every route of one instance."""

    def get(rest: str) -> Response:
        return send(client.get(root + rest, port=port))

    def post(rest: str, body: dict[str, Any]) -> Response:
        return send(client.post(root + rest, body, port=port))

    def post_empty(rest: str) -> Response:
        return send(client.post_empty(root + rest, port=port))

    discrete(get("action_space/"), 2)
    box(get("observation_space/"), 4)
    sample = ok(get("action_space/sample"))
    assert set(sample) == {"action"}
    assert type(sample["action"]) is int
    assert ok(get("action_space/contains/1")) == {"member": True}
    assert ok(get("action_space/contains/2")) == {"member": False}
    directory = f"/tmp/client-{NAMES.index(client.name)}-results"
    monitor = {"directory": directory, **client.monitor}
    no_content(post("monitor/start/", monitor))
    observed(post_empty("reset/"), 4)
    for _ in range(3):
        stepped(post("step/", {"action": client.action, **client.step}), 4)
    no_content(post_empty("monitor/close/"))


@pytest.mark.parametrize("name", ["C++", "C++, GymRequests"])
def test_libcurl_goes_on_in_http_1_0(name: str, instance: Instance) -> None:
    client, port = BY_NAME[name], instance.api.server.port
    for path, size in (("reset/", 4), ("reset/", 4)):
        request = client.post_empty(instance.path(path), port=port, version="1.0")
        with RawConnection(port) as connection:
            connection.send(request)
            response = connection.read_response(request=request)
            assert response.header("Transfer-Encoding") is None
            assert connection.read_to_end() == b""
        observed(response, size)
    request = client.get(instance.path("action_space/"), port=port, version="1.0")
    discrete(exchange(port, request), 2)


def test_lua_ignores_a_missing_member_route(instance: Instance) -> None:
    """Lua requests contains without a value, and then reads nil fields."""
    client, port = BY_NAME["Lua"], instance.api.server.port
    request = client.get(instance.path("action_space/contains"), port=port)
    response = exchange(port, request)
    assert response.status in (400, 404, 405)
    assert response.json()["message"]


@pytest.mark.parametrize("force", ["true", "false", True, False])
@pytest.mark.parametrize("resume", ["true", "false", True, False])
def test_lua_sends_booleans_as_strings(
    force: Any, resume: Any, instance: Instance
) -> None:
    """The string "false" is false: existing data must not be lost."""
    directory = f"lua-{force!r}-{resume!r}".replace("'", "s")
    body = {"directory": directory, "force": force, "resume": resume}
    no_content(instance.post("monitor/start/", body))
    play_an_episode(instance)
    no_content(instance.post("monitor/close/"))
    again = instance.post("monitor/start/", body)
    wanted = "true" in (force, resume) or True in (force, resume)
    assert again.status == (204 if wanted else 400), again


def play_an_episode(instance: Instance) -> None:
    instance.reset()
    while not instance.step(0)["done"]:
        pass


@pytest.mark.parametrize("action", ["0", "1"])
def test_php_sends_actions_as_strings(action: str, create: Any) -> None:
    one, two = create(seed=3), create(seed=3)
    one.reset()
    two.reset()
    assert one.step(action) == two.step(int(action))


@pytest.mark.parametrize("render_mode", [None, "rgb_array"])
def test_ocaml_sends_a_render_mode(render_mode: str | None, create: Any) -> None:
    instance = create("CartPole-v1", render_mode=render_mode)
    assert instance.reset()["observation"]


@pytest.mark.parametrize(("action", "member"), [(0, True), (1, True), (2, False)])
def test_dart_posts_contains(action: int, member: bool, instance: Instance) -> None:
    client, port = BY_NAME["Dart"], instance.api.server.port
    for body in (action, {"value": action}):
        path = instance.path("action_space/contains")
        request = client.post(path, body, port=port)
        assert ok(exchange(port, request)) == {"member": member}


def test_rl4j_reads_the_spaces_of_a_tuple(create: Any) -> None:
    info = ok(create("Blackjack-v1").get("observation_space/"))["info"]
    discrete_spaces = [{"n": n, "name": "Discrete"} for n in (32, 11, 2)]
    assert info == {"name": "Tuple", "spaces": discrete_spaces}


def test_csharp_posts_without_a_redirect(server: Server) -> None:
    """.NET turns a redirected POST into a GET: create would become list."""
    client, port = BY_NAME["C#"], server.port
    with connected(client, port) as send:
        body = {"env_id": "CartPole-v1"}
        instance_id = created(send(client.post("/v1/envs/", body, port=port)))
        path = f"/v1/envs/{instance_id}/close/"
        no_content(send(client.post_empty(path, port=port)))


@pytest.mark.parametrize("name", ["Haskell", "Java", "Ruby"])
def test_accept_changes_no_answer(name: str, instance: Instance) -> None:
    client, port = BY_NAME[name], instance.api.server.port
    with connected(client, port) as send:
        path = instance.path("observation_space/")
        answers = [
            send(client.get(path, port=port)),
            instance.get("observation_space/"),
        ]
    assert answers[0].body == answers[1].body
    assert answers[0].content_type == answers[1].content_type


@pytest.mark.parametrize("name", ["Haskell", "OCaml", "Rust", "Swift"])
def test_errors_of_a_client_are_json(name: str, api: Api) -> None:
    client, port = BY_NAME[name], api.server.port
    request = client.post("/v1/envs/ffffffff/step/", {"action": 1}, port=port)
    response = exchange(port, request)
    assert response.status == 400
    assert json.loads(response.body)["message"] == "Instance_id ffffffff unknown"
