"""Unusual requests that HTTP allows are answered as documented."""

import gzip
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from gym_http_wire.messages import MEDIA_TYPES, Form
from gym_http_wire.values import binary, typed
from tests.support import api as calls
from tests.support.api import Api, Instance
from tests.support.raw import RawConnection, Response, chunked, exchange
from tests.support.server import Server

TOKEN = "a-token-for-odd-requests"
PROBLEM = "application/problem+json"
#: One media type, as RFC 9110, 8.3.1, allows to write it.
SPELLINGS: list[Callable[[str], str]] = [
    str.title,
    lambda media: f"{media}; charset=utf-8",
    lambda media: f"{media.upper()} ;Charset=UTF-8",
]


def test_a_long_accept_is_no_harm(create: Callable[..., Instance]) -> None:
    instance = create("CliffWalking-v1", render_mode="ansi")
    instance.reset()
    # More than a host reads beside a body, in as many headers as one request may have.
    many = "\r\nAccept: ".join(",".join(["a/b"] * 2000) for _ in range(7))
    headers = {"Accept": f"text/plain,{many}"}
    assert instance.get("render/", headers=headers).status == 200
    many = ",".join(f"a{i}/b" for i in range(900))
    calls.error(instance.get("render/", headers={"Accept": many}), 406)


@pytest.mark.parametrize("spell", SPELLINGS, ids=["title", "parameter", "upper"])
@pytest.mark.parametrize("form", [typed, binary], ids=["typed", "binary"])
def test_media_types_in_other_spellings(
    form: ModuleType, spell: Callable[[str], str], api: Api
) -> None:
    media = MEDIA_TYPES[Form.TYPED if form is typed else Form.BINARY]
    both = {"Content-Type": spell(media), "Accept": spell(media)}
    given = {"env_id": "MountainCar-v0", "kwargs": {"goal_velocity": np.float32(0.5)}}
    made = api.post("/v1/envs/", data=form.encode(given), headers=both)
    assert (made.status, made.content_type) == (200, media), made
    instance = Instance(api, form.decode(made.body)["instance_id"])
    try:
        velocity = "attributes/goal_velocity/"
        answer = instance.get(velocity, headers=both)
        value = form.decode(answer.body)["value"]
        assert (type(value), value) == (np.float32, 0.5)
        body = form.encode({"value": np.float32(0.25)})
        assert instance.post(velocity, data=body, headers=both).status == 200
        assert calls.ok(instance.get(velocity))["value"] == 0.25
        instance.reset()
        steps = [{"instance_id": instance.id, "action": np.int64(2)}]
        body, path = form.encode({"steps": steps}), "/v1/batch/step/"
        batch = api.post(path, data=body, headers=both)
        if form is binary:
            calls.error(batch, 400, "bad-json")
        else:
            result = form.decode(batch.body)["results"][0]
            assert (batch.content_type, result["status"]) == (media, 200), batch
    finally:
        instance.close()


@pytest.mark.parametrize("spell", SPELLINGS, ids=["title", "parameter", "upper"])
def test_accepted_media_types_in_other_spellings(
    spell: Callable[[str], str], create: Callable[..., Instance], api: Api
) -> None:
    instance = create(render_mode="rgb_array")
    instance.reset()
    accept = {"Accept": spell("application/octet-stream") + ";Q=0.5, text/plain;Q=0"}
    picture = instance.get("render/", headers=accept)
    assert (picture.status, picture.header("Gym-Dtype")) == (200, "uint8")
    accept = {"Accept": spell(PROBLEM)}
    unknown = api.get("/v1/envs/00000000/action_space/", headers=accept)
    assert (unknown.status, unknown.content_type) == (404, PROBLEM)
    accept = {"Accept": spell("application/openmetrics-text")}
    figures = api.get("/metrics/", headers=accept)
    assert figures.content_type.startswith("application/openmetrics-text;")


@pytest.mark.parametrize("media", ["text/plain", "application/openmetrics-text"])
@pytest.mark.parametrize("version", ["x", "1..", '"1.0.0"'])
def test_metrics_in_a_version_that_is_none(media: str, version: str, api: Api) -> None:
    accept = {"Accept": f"{media}; version={version}"}
    answer = api.get("/metrics/", headers=accept)
    assert (answer.status, answer.content_type.startswith("text/plain")) == (200, True)


UPGRADES = [
    {"Connection": "Upgrade"},
    {"Connection": "Upgrade", "Upgrade": "websocket"},
    {"Connection": "keep-alive, upgrade", "Upgrade": "WebSocket"},
    {
        "Connection": "Upgrade, HTTP2-Settings",
        "Upgrade": "h2c",
        "HTTP2-Settings": "AAMAAABkAAQAAP__",
    },
]
ROUTES: list[tuple[str, str, bytes, int]] = [
    ("GET", "/v1/", b"", 200),
    ("GET", "/v1/envs/", b"", 200),
    ("GET", "/v1/envs", b"", 200),
    ("POST", "/v1/envs/", b"{}", 400),
    ("PUT", "/v1/envs/", b"", 405),
    ("GET", "/v1/nowhere/", b"", 404),
    ("POST", "{}reset/", b"", 200),
    ("POST", "{}step/", b'{"action": 1}', 200),
    ("GET", "{}action_space/", b"", 200),
    ("GET", "{}action_space/contains/1", b"", 200),
    ("GET", "{}step/", b"", 405),
    ("POST", "{}monitor/close/", b"", 204),
]


@pytest.mark.parametrize("headers", UPGRADES, ids=lambda each: "; ".join(each.values()))
def test_an_upgrade_is_ignored_where_there_is_none(
    headers: dict[str, str], create: Callable[..., Instance]
) -> None:
    """RFC 9110, 7.8: a server may ignore Upgrade, and so do all but streams."""
    ordinary, upgrading = create(seed=4), create(seed=4)
    for method, path, body, status in ROUTES:
        answers = [
            instance.api.request(
                method, path.format(instance.path()), data=body, headers=more
            )
            for instance, more in ((ordinary, {}), (upgrading, headers))
        ]
        assert [answer.status for answer in answers] == [status] * 2, (method, path)
        if status == 200 and path != "/v1/":
            assert answers[0].body == answers[1].body
        for name in ("Allow", "Content-Type"):
            assert answers[0].header(name) == answers[1].header(name)


def test_the_connection_stays_after_an_upgrade_that_is_ignored(
    instance: Instance,
) -> None:
    instance.reset()
    head = "Host: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    get = f"GET {instance.path('action_space/')} HTTP/1.1\r\n{head}\r\n"
    with RawConnection(instance.api.server.port) as connection:
        for _ in range(2):
            connection.send(get.encode())
            assert calls.ok(connection.read_response())["info"]["n"] == 2


def malformed(api: Api, request: str, status: int, code: str) -> dict[str, Any]:
    """Check that a request is refused and the connection then closed."""
    with RawConnection(api.server.port) as connection:
        connection.send(request.encode())
        answer = calls.error(connection.read_response(), status, code)
        assert connection.read_to_end() == b""
    return answer


@pytest.mark.parametrize("path", ["/v1/envs/", "/healthz", "/nowhere"])
def test_http_1_1_without_host_is_refused(path: str, api: Api) -> None:
    answer = malformed(api, f"GET {path} HTTP/1.1\r\n\r\n", 400, "malformed-request")
    assert "Host" in answer["message"]
    two = "Host: localhost\r\nHost: localhost\r\n"
    malformed(api, f"GET {path} HTTP/1.1\r\n{two}\r\n", 400, "malformed-request")


@pytest.mark.parametrize("coding", ["gzip, chunked", "deflate,chunked", "br, chunked"])
def test_compressed_transfers_are_not_implemented(
    coding: str, instance: Instance
) -> None:
    instance.reset()
    body = chunked(gzip.compress(b'{"action": 1}', mtime=0))
    head = f"POST {instance.path('step/')} HTTP/1.1\r\nHost: localhost\r\n"
    with RawConnection(instance.api.server.port) as connection:
        connection.send(f"{head}Transfer-Encoding: {coding}\r\n\r\n".encode() + body)
        calls.error(connection.read_response(), 501, "transfer-coding")
        assert connection.read_to_end() == b""
    assert calls.ok(instance.get(""))["steps"] == 0


def test_a_transfer_that_does_not_end_chunked_is_malformed(api: Api) -> None:
    """RFC 9112, 6.3: its length cannot be known."""
    for coding in ("gzip", "chunked, gzip"):
        head = f"Host: localhost\r\nTransfer-Encoding: {coding}\r\n\r\n"
        request = f"POST /v1/envs/ HTTP/1.1\r\n{head}"
        malformed(api, request, 400, "malformed-request")


def test_two_idempotency_keys_are_refused(instance: Instance) -> None:
    instance.reset()

    def step(*keys: str) -> Response:
        lines = "".join(f"{key}\r\n" for key in keys)
        return exchange(
            instance.api.server.port,
            f"POST {instance.path('step/')} HTTP/1.1\r\nHost: localhost\r\n{lines}"
            'Content-Length: 13\r\n\r\n{"action": 1}'.encode(),
        )

    for keys in (
        ("Idempotency-Key: one", "Idempotency-Key: two"),
        ("Idempotency-Key: one", "Accept: */*", "idempotency-key: two"),
        ("idempotency-key: one", "Idempotency-Key: two"),
    ):
        answer = calls.error(step(*keys), 400, "malformed-request")
        assert "Idempotency-Key" in answer["message"]
    assert calls.ok(instance.get(""))["steps"] == 0
    # The same one twice is one.
    first = step("Idempotency-Key: same", "Idempotency-Key: same")
    again = step("Idempotency-Key: same")
    assert calls.ok(first) == calls.ok(again)
    assert again.header("Idempotent-Replayed") == "true"


def expecting(api: Api, start: str, size: int, more: str = "") -> Response:
    """Send a head that expects 100 Continue, and return its first answer."""
    head = f"{start} HTTP/1.1\r\n{more or 'Host: localhost'}\r\n"
    head += f"Content-Length: {size}\r\nExpect: 100-continue\r\n\r\n"
    with RawConnection(api.server.port) as connection:
        connection.send(head.encode())
        response = connection.read_response()
        if response.status != 100:
            assert response.header("Connection") == "close"
            assert connection.read_to_end() == b""
    return response


def test_no_continue_before_a_refusal_that_needs_no_body(
    api: Api, make_server: Callable[..., Server]
) -> None:
    host, large = "Host: localhost", 1 << 40
    for start, size, more, status in [
        ("POST /v1/nowhere", 13, host, 404),
        ("PUT /v1/envs/", 13, host, 405),
        ("POST /v1/envs/", 13, "Host: evil.example", 403),
        ("POST /v1/envs/", 13, f"{host}\r\nOrigin: http://evil", 403),
        ("POST /v1/envs/", large, host, 413),
        ("POST /v1/envs/00000000/step/", large, host, 413),
        ("POST /v1/envs/", 13, f"{host}\r\nContent-Encoding: gzip", 415),
        ("POST /v1/envs/", 13, f"{host}\r\nIdempotency-Key: \x7f", 400),
        ("POST /v1/shutdown/", 13, host, 403),
        ("POST /v1/shutdown", 13, host, 403),
    ]:
        calls.error(expecting(api, start, size, more), status)
    assert expecting(api, "POST /v1/envs/", 13).status == 100
    locked = Api(make_server("--token", TOKEN, token=TOKEN))
    calls.error(expecting(locked, "POST /v1/envs/", 13), 401)
    allowed = f"{host}\r\nAuthorization: Bearer {TOKEN}"
    assert expecting(locked, "POST /v1/envs/", 13, allowed).status == 100


@pytest.mark.parametrize(
    "route",
    [
        "DELETE ",
        "GET ",
        "GET action_space/",
        "GET attributes/x/",
        "GET log/",
        "GET render/",
        "POST action_space/contains",
        "POST attributes/x/call/",
        "POST close/",
        "POST render/",
        "POST reset/",
        "POST rollout/",
    ],
)
def test_no_continue_for_an_unknown_instance(route: str, instance: Instance) -> None:
    method, _, rest = route.partition(" ")
    refused = expecting(instance.api, f"{method} /v1/envs/00000000/{rest}", 13)
    calls.error(refused, 400, "unknown-instance")
    if rest != "log/":
        known = expecting(instance.api, f"{method} {instance.path(rest)}", 13)
        assert known.status == 100


def test_a_close_with_a_key_may_be_sent_again_with_expect(instance: Instance) -> None:
    key = "Host: localhost\r\nIdempotency-Key: once"
    calls.no_content(instance.post("close/", headers={"Idempotency-Key": "once"}))
    start = f"POST {instance.path('close/')}"
    assert expecting(instance.api, start, 2, key).status == 100
    calls.error(expecting(instance.api, start, 2), 400, "unknown-instance")


def test_a_client_that_does_not_wait_for_continue(instance: Instance) -> None:
    """RFC 9110, 10.1.1: it may send the body at once, and after a refusal too."""
    port = instance.api.server.port
    for path, status in ((instance.path("step/"), 200), ("/v1/nowhere", 404)):
        instance.reset()
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 13\r\n"
        request = f'{head}Expect: 100-continue\r\n\r\n{{"action": 1}}'
        with RawConnection(port) as connection:
            connection.send(request.encode())
            response = connection.read_response()
            if response.status == 100:
                response = connection.read_response()
            assert response.status == status


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/v1/", {"GET", "HEAD", "OPTIONS"}),
        ("/v1/envs/", {"GET", "HEAD", "OPTIONS", "POST"}),
        ("/v1/envs/00000000", {"DELETE", "GET", "HEAD", "OPTIONS"}),
        ("/v1/envs/00000000/step/", {"OPTIONS", "POST"}),
        ("/v1/envs/00000000/action_space/contains/1", {"GET", "HEAD", "OPTIONS"}),
        ("/v1/runs/", {"GET", "HEAD", "OPTIONS", "POST"}),
        ("/v1/runs/r/weights", {"GET", "HEAD", "OPTIONS", "PUT"}),
        ("*", {"DELETE", "GET", "HEAD", "OPTIONS", "POST", "PUT"}),
    ],
)
def test_options_list_the_methods(path: str, methods: set[str], api: Api) -> None:
    answer = api.request("OPTIONS", path)
    calls.no_content(answer)
    assert set((answer.header("Allow") or "").split(", ")) == methods


def test_options_of_unknown_routes(api: Api) -> None:
    calls.error(api.request("OPTIONS", "/v1/nowhere"), 404, "not-found")
    headers = {"Origin": "http://evil", "Access-Control-Request-Method": "POST"}
    answer = api.request("OPTIONS", "/v1/envs/", headers=headers)
    calls.error(answer, 403, "origin-refused")


def test_a_host_that_is_no_name_is_refused_as_malformed(
    make_server: Callable[..., Server],
) -> None:
    api = Api(make_server("--token", TOKEN, token=TOKEN))
    calls.error(api.get("/v1/", headers={"Host": ".."}), 400, "malformed-request")
