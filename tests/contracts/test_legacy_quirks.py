"""The quirks that clients of gym-http-api depend on, each with at least one test."""

import json
from collections.abc import Callable
from typing import Any

import gymnasium
import pytest

from tests.support.api import Api, Instance, error, no_content, ok
from tests.support.plain import plain, plain_step
from tests.support.raw import RawConnection, chunked, exchange

Create = Callable[..., Instance]

IGNORED_BODIES = {
    "none": None,
    "empty": b"",
    "null": b"null",
    "empty string": b'""',
    "object": b"{}",
    "list": b"[]",
    "number": b"7",
    "text": b'"seed"',
    "not JSON": b"seed=1",
    "half an object": b'{"seed": 1',
    "not UTF-8": b"\xff\xfe\x00",
    "unknown keys": b'{"instance_id": "3c657dbc", "x-y": [1, {"a": null}]}',
}
TYPES = ["application/json", "application/x-www-form-urlencoded", ""]
FREE_ROUTES = ["reset/", "monitor/close/", "close/"]


@pytest.mark.parametrize("body", IGNORED_BODIES)
@pytest.mark.parametrize("route", FREE_ROUTES)
def test_1_free_bodies(route: str, body: str, create: Create) -> None:
    for kind in TYPES:
        instance = create()
        headers = {"Content-Type": kind} if kind else {}
        response = instance.post(route, data=IGNORED_BODIES[body], headers=headers)
        if route == "reset/":
            assert len(ok(response)["observation"]) == 4
        else:
            no_content(response)


def test_1_options_are_read_from_objects_only(create: Create) -> None:
    instance = create()
    with gymnasium.make("CartPole-v1") as local:
        expected = plain(local.reset(seed=11)[0])
    assert instance.reset(seed=11)["observation"] == expected
    for ignored in (b"11", b'"seed"', b'[{"seed": 11}]', b"seed=11", b'{"seed": 11'):
        response = instance.post("reset/", data=ignored)
        assert ok(response)["observation"] != expected, ignored


def test_1_shutdown_reads_no_body(api: Api) -> None:
    for body in IGNORED_BODIES.values():
        error(api.post("/v1/shutdown/", data=body), 403, "shutdown-disabled")


def test_2_unknown_keys_are_ignored(api: Api) -> None:
    extra = {"video-callable": False, "instance_id": 3, "": None, "_x": [{}]}
    instance = api.create(**extra)
    try:
        instance.reset(**extra)
        instance.step(0, **extra)
        no_content(instance.post("monitor/start/", {"directory": "q2", **extra}))
        no_content(instance.post("monitor/close/", extra))
    finally:
        no_content(instance.post("close/", extra))


@pytest.mark.parametrize(
    ("method", "rest", "body"),
    [
        ("GET", "action_space", {}),
        ("GET", "observation_space", {}),
        ("GET", "action_space/sample", {}),
        ("GET", "action_space/contains/1", {}),
        ("POST", "observation_space/contains", {"name": "Box"}),
        ("POST", "action_space/contains", {"value": 1}),
        ("POST", "reset", {}),
        ("POST", "step", {"action": 1}),
        ("POST", "monitor/start", {"directory": "q3", "force": True}),
        ("POST", "monitor/close", {}),
        ("POST", "close", {}),
    ],
)
def test_3_no_redirects(method: str, rest: str, body: Any, create: Create) -> None:
    for ending in ("", "/", "?", "/?", "?x=1", "/?x=1"):
        instance = create()
        instance.reset()
        response = instance.api.request(method, instance.path(rest) + ending, body)
        assert response.status in (200, 204), (ending, response)
        assert response.header("Location") is None


def test_4_bodies_of_get_are_drained(instance: Instance) -> None:
    """Unread bytes of one request would be read as the next one."""
    body = b'{"padding": "' + b"GET /v1/nowhere HTTP/1.1\\r\\n" * 3000 + b'"}'
    framings = [
        (b"Content-Length: %d" % len(body), body),
        (b"Transfer-Encoding: chunked", chunked(body, 1000)),
        (b"Content-Length: 2", b"{}"),
    ]
    path = instance.path("action_space/").encode()
    with RawConnection(instance.api.server.port) as connection:
        for framing, sent in framings * 2:
            head = b"GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n" % (path, framing)
            connection.send(head + sent)
            info = ok(connection.read_response())["info"]
            assert info == {"n": 2, "name": "Discrete"}


@pytest.mark.parametrize(
    ("target", "status"), [("/v1/nowhere", 404), ("/v1/shutdown/", 403)]
)
def test_4_unread_bodies_are_drained(target: str, status: int, api: Api) -> None:
    """After an error, too, the connection is in order, or it is closed."""
    body = b"GET /v1/nowhere HTTP/1.1\r\n\r\n" * 3000
    head = f"POST {target} HTTP/1.1\r\nHost: localhost\r\n"
    head += f"Content-Length: {len(body)}\r\n\r\n"
    with RawConnection(api.server.port) as connection:
        connection.send(head.encode() + body)
        response = connection.read_response()
        error(response, status)
        if (response.header("Connection") or "").lower() == "close":
            assert connection.read_to_end() == b""
            return
        connection.send(b"GET /v1/envs/ HTTP/1.1\r\nHost: localhost\r\n\r\n")
        ok(connection.read_response())


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_5_chunked_bodies(size: int, api: Api) -> None:
    body = json.dumps({"env_id": "CartPole-v1"}).encode()
    head = "POST /v1/envs/ HTTP/1.1\r\nHost: localhost\r\n"
    head += "Transfer-Encoding: chunked\r\n\r\n"
    with RawConnection(api.server.port) as connection:
        connection.send(head.encode() + chunked(body, size))
        value = ok(connection.read_response())
    no_content(Instance(api, value["instance_id"]).close())


def test_5_expect_continue(instance: Instance) -> None:
    instance.reset()
    body = b'{"action": 1}'
    head = (
        f"POST {instance.path('step/')} HTTP/1.1\r\nHost: localhost\r\n"
        f"Content-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n"
    )
    with RawConnection(instance.api.server.port) as connection:
        for _ in range(2):
            connection.send(head.encode())
            assert connection.read_response().status == 100
            connection.send(body)
            assert ok(connection.read_response())["reward"] == 1.0


def test_6_no_content_is_empty_html(instance: Instance) -> None:
    no_content(instance.post("monitor/start/", {"directory": "q6"}))
    no_content(instance.post("monitor/close/"))
    no_content(instance.close())


def test_7_message_marks_errors_and_nothing_else(instance: Instance) -> None:
    """Go's client never looks at the status code."""
    root = instance.path()
    for method, path, body in [
        ("GET", "/v1/nowhere", None),
        ("PUT", root + "step/", b"{}"),
        ("POST", root + "step/", b"{}"),
        ("POST", root + "step/", b"{"),
        ("POST", root + "step/", b'{"action": 99}'),
        ("POST", root + "step/", b'{"action": 0}'),
        ("GET", root + "action_space/contains/abc", None),
    ]:
        response = instance.api.request(method, path, data=body)
        assert response.status >= 400, (method, path)
        error(response, response.status)
    for route in ("action_space/", "observation_space/", "action_space/sample", ""):
        ok(instance.get(route))
    ok(instance.post("reset/"))
    ok(instance.post("step/", {"action": 0}))
    ok(instance.api.get("/v1/envs/"))


@pytest.mark.parametrize(
    ("env_id", "action"),
    [("FrozenLake-v1", 1), ("CliffWalking-v1", 0), ("Taxi-v4", 0), ("Blackjack-v1", 0)],
)
def test_8_floats_stay_floats(env_id: str, action: int, create: Create) -> None:
    """Gymnasium's toy text rewards are ints; Java and OCaml die of them."""
    instance = create(env_id, seed=2)
    with gymnasium.make(env_id) as local:
        observation, info = local.reset(seed=2)
        reset = instance.reset()
        assert reset == {"info": plain(info), "observation": plain(observation)}
        leaf = reset["observation"]
        assert type(leaf[0] if isinstance(leaf, list) else leaf) is int
        answer = instance.step(action)
        assert answer == plain_step(local.step(action))
        assert type(answer["reward"]) is float


def test_8_whole_numbers_in_boxes(create: Create) -> None:
    """MountainCar starts with a velocity of exactly 0: written 0.0."""
    instance = create("MountainCar-v0", seed=1)
    response = instance.post("reset/")
    velocity = ok(response)["observation"][1]
    assert velocity == 0.0
    assert type(velocity) is float
    assert type(instance.step(0)["reward"]) is float


def test_9_infinity_is_1e100(instance: Instance) -> None:
    response = instance.get("observation_space/")
    assert ok(response)["info"]["high"][1] == 1e100
    assert ok(response)["info"]["low"][1] == -1e100


def test_9_no_tokens_that_json_lacks(create_toy: Create) -> None:
    """NaN is null, infinity is 1e100, wherever it stands."""
    instance = create_toy("toys/Odd-v0")
    shown = [None, 1e100, -1e100, 1.0]
    assert instance.reset() == {"info": {"value": 1e100}, "observation": shown}
    answer = instance.step(0)
    assert answer["observation"] == shown
    assert answer["reward"] == 1e100
    assert answer["info"] == {"deep": [{"inf": -1e100}], "nan": None}
    assert instance.step(1)["reward"] is None


def test_10_done_is_terminated_or_truncated(create: Create) -> None:
    """MountainCar never terminates by itself: the time limit must end the loop."""
    instance = create("MountainCar-v0", max_episode_steps=3)
    instance.reset()
    steps = [instance.step(1) for _ in range(3)]
    flags = [(s["done"], s["terminated"], s["truncated"]) for s in steps]
    assert flags == [(False, False, False)] * 2 + [(True, False, True)]


@pytest.mark.parametrize("render", [True, "true", 1, None])
@pytest.mark.parametrize("env_id", ["CartPole-v0", "FrozenLake-v0"])
def test_11_render_never_fails(env_id: str, render: Any, create: Create) -> None:
    instance = create(env_id)
    instance.reset()
    assert isinstance(instance.step(0, render=render)["done"], bool)


def test_12_monitor_needs_no_render_mode(create: Create) -> None:
    for mode in ({}, {"render_mode": None}):
        instance = create("CartPole-v0", **mode)
        body = {"directory": "/tmp/random-agent-results", "force": True}
        no_content(instance.post("monitor/start/", body))
        no_content(instance.post("monitor/close/"))


@pytest.mark.parametrize(
    "accept", ["text/html", "image/gif", "application/xml", "*/*;q=0", "nonsense", ""]
)
def test_13_accept_is_not_negotiated(accept: str, instance: Instance) -> None:
    headers = {"Accept": accept}
    ok(instance.get("action_space/", headers=headers))
    ok(instance.post("reset/", headers=headers))
    ok(instance.post("step/", {"action": 1}, headers=headers))
    no_content(instance.post("monitor/close/", headers=headers))
    response = instance.api.get("/v1/nowhere", headers=headers)
    error(response, 404)
    assert response.content_type == "application/json"


def test_seeds_of_creation_count_once(create: Create) -> None:
    """Zero is a seed, too; the original took it for none."""
    instance = create(seed=0)
    with gymnasium.make("CartPole-v1") as local:
        for seed in (0, None):
            expected = plain(local.reset(seed=seed)[0])
            assert instance.reset()["observation"] == expected


@pytest.mark.parametrize("nothing", [None, "", []], ids=repr)
def test_optional_parameters_that_count_as_not_given(
    nothing: Any, create: Create
) -> None:
    """The original took its default for null, "" and [] alike."""
    instance = create(seed=nothing)
    seeded = create(seed=5)
    with gymnasium.make("CartPole-v1") as local:
        expected = plain(local.reset(seed=5)[0])
    # Had this reset set a seed, the seed of the creation would not count.
    reset = seeded.reset(seed=nothing)
    assert reset["observation"] == expected
    ok(instance.post("action_space/sample", {"seed": nothing}))
    instance.reset()
    instance.step(0, render=nothing)
    monitor = {"directory": f"nothing-{nothing!r}".replace("'", "_")}
    options = {"force": nothing, "resume": nothing, "video_callable": nothing}
    no_content(instance.post("monitor/start/", monitor | options))
    no_content(instance.post("monitor/close/"))
    # Neither forced nor resumed, existing data is kept.
    error(instance.post("monitor/start/", monitor | options), 400)
    vector = create(num_envs=2)
    vector.reset(seed=nothing)


def test_other_values_are_no_parameters_that_are_missing(instance: Instance) -> None:
    for wrong in ({}, [0], "0", [[]], [""]):
        error(instance.post("reset/", {"seed": wrong}), 400, "bad-parameter")
        body = {"directory": "wrong", "force": wrong}
        error(instance.post("monitor/start/", body), 400, "bad-parameter")


@pytest.mark.filterwarnings("ignore:.*already returned terminated")
def test_a_step_after_the_end_is_answered(create: Create) -> None:
    instance = create(seed=1)
    instance.reset()
    with gymnasium.make("CartPole-v1") as local:
        local.reset(seed=1)
        for _ in range(20):
            assert instance.step(1) == plain_step(local.step(1))


def test_the_monitor_allows_a_reset_at_any_time(instance: Instance) -> None:
    no_content(instance.post("monitor/start/", {"directory": "any-time"}))
    for _ in range(3):
        instance.reset()
        instance.step(1)
    no_content(instance.post("monitor/close/"))


def test_http_1_0_is_answered_and_closed(instance: Instance) -> None:
    request = f"GET {instance.path('action_space/')} HTTP/1.0\r\n\r\n".encode()
    response = exchange(instance.api.server.port, request)
    assert ok(response)["info"]["n"] == 2
    assert response.header("Transfer-Encoding") is None
