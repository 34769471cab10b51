"""A refused request is refused in every form in which it can be sent."""

from collections.abc import Callable

import pytest

from tests.support.api import Api, Instance, error, no_content, ok
from tests.support.raw import RawConnection, exchange
from tests.support.server import Server

#: An attribute that CartPole has, and that is private.
PRIVATE = "_sutton_barto_reward"

pytestmark = pytest.mark.live


@pytest.mark.parametrize("env_id", ["CartPole-v1", "external/game"])
def test_human_render_mode_among_the_arguments(env_id: str, api: Api) -> None:
    given = {"env_id": env_id, "kwargs": {"render_mode": "human"}}
    for more in ({}, {"num_envs": 2}):
        problem = error(api.post("/v1/envs/", given | more), 400, "bad-parameter")
        assert problem["message"].startswith("kwargs.render_mode is 'human'")
        assert "rgb_array" in problem["message"]


def test_other_render_modes_among_the_arguments(
    create: Callable[..., Instance],
) -> None:
    instance = create(kwargs={"render_mode": "rgb_array"})
    instance.reset()
    assert instance.get("render/").content_type == "image/png"


BY_NAME = [
    ("get_wrapper_attr", {"args": [PRIVATE]}),
    ("get_wrapper_attr", {"kwargs": {"name": PRIVATE}}),
    ("set_wrapper_attr", {"args": [PRIVATE, True]}),
    ("set_wrapper_attr", {"args": [PRIVATE, True], "kwargs": {"force": False}}),
    ("set_wrapper_attr", {"kwargs": {"name": PRIVATE, "value": True}}),
    ("has_wrapper_attr", {"args": [PRIVATE]}),
    ("get_wrapper_attr", {"args": ["__class__"]}),
]
BY_NAME_OF_VECTORS = [
    ("get_attr", {"args": [PRIVATE]}),
    ("set_attr", {"args": [PRIVATE, True]}),
    ("call", {"args": [PRIVATE]}),
    ("call", {"args": ["get_wrapper_attr", PRIVATE]}),
    ("call", {"args": ["get_wrapper_attr"], "kwargs": {"name": PRIVATE}}),
    ("call", {"args": ["set_wrapper_attr", PRIVATE, True]}),
    ("call_async", {"args": [PRIVATE]}),
    ("call_async", {"args": ["get_wrapper_attr", PRIVATE]}),
]


def test_private_names_among_the_arguments(instance: Instance) -> None:
    for method, given in BY_NAME:
        answer = instance.post(f"attributes/{method}/call/", given)
        body = error(answer, 404, "no-attribute")
        assert "private" in body["message"], (method, given)
    body = ok(instance.post("attributes/get_wrapper_attr/call/", {"args": ["gravity"]}))
    assert body["value"] == 9.8


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_private_names_among_the_arguments_of_vectors(
    mode: str, create: Callable[..., Instance]
) -> None:
    instance = create(num_envs=2, vectorization_mode=mode)
    for method, given in BY_NAME_OF_VECTORS:
        if method == "call_async" and mode == "sync":
            continue
        answer = instance.post(f"attributes/{method}/call/", given)
        problem = error(answer, 404, "no-attribute")
        assert "private" in problem["message"], (method, given)
    given = {"args": ["get_wrapper_attr", "gravity"]}
    assert ok(instance.post("attributes/call/call/", given))["value"] == [9.8, 9.8]


CHANGES = [
    "action_space/sample/",
    "action_space/sample",
    "observation_space/sample/",
    "action_space/s%61mple/",
    "render/",
    "generator/",
    "attributes/gravity/",
]


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_links_of_other_sites_have_no_effects(
    site: str, create: Callable[..., Instance]
) -> None:
    """A page opens windows and frames, and the browser sends its origin."""
    instance = create(render_mode="rgb_array")
    instance.reset()
    headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"}
    for path in CHANGES:
        problem = error(instance.get(path, headers=headers), 403, "origin-refused")
        assert f"Sec-Fetch-Site: {site}" in problem["message"]
    ok(instance.get("action_space/", headers=headers))
    error(
        instance.api.get("/v1/external/none/request/", headers=headers),
        403,
        "origin-refused",
    )
    # A person's own visit, a page of this server, and a program.
    for headers in (
        {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"},
        {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"},
        {},
    ):
        ok(instance.get("action_space/sample/", headers=headers))


def test_every_answer_forbids_sniffing(instance: Instance, server: Server) -> None:
    api = instance.api
    host = f"Host: 127.0.0.1:{server.port}\r\n"
    answers = [
        api.get("/v1/"),
        api.get("/healthz"),
        api.get("/openapi.json"),
        api.get("/v1/external/client/serve.js"),
        api.get("/v1/envs/"),
        api.get("/nowhere"),
        api.request("PUT", "/v1/envs/"),
        api.request("HEAD", "/v1/"),
        api.get("/v1/envs/", headers={"Origin": "http://evil.example"}),
        api.get("/v1/envs/", headers={"Host": "evil.example"}),
        instance.post("reset/"),
        instance.get("stream/"),
        instance.post("step/", data=b"{"),
        instance.post("step/", {"action": 7}),
        # These never reach the application.
        exchange(server.port, b"no HTTP\r\n\r\n"),
        exchange(server.port, f"GET /{'x' * 9000} HTTP/1.1\r\n{host}\r\n".encode()),
        exchange(server.port, f"GET / HTTP/1.1\r\n{host}Expect: 1\r\n\r\n".encode()),
    ]
    with RawConnection(server.port) as connection:
        # Read whole, and kept alive.
        for path in ("/v1/", f"/v1/envs/{instance.id}/action_space/sample/"):
            connection.send(f"GET {path} HTTP/1.1\r\n{host}\r\n".encode())
            answers.append(connection.read_response())
    closed = api.create().close()
    no_content(closed)
    for answer in (*answers, closed):
        assert answer.header("X-Content-Type-Options") == "nosniff", answer
    statuses = {answer.status for answer in answers}
    assert statuses >= {200, 400, 403, 404, 405, 414, 417, 426}, statuses
