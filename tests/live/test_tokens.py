"""Tokens are checked on every route, in every form, and never revealed."""

import base64
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import Api, error, no_content, ok
from tests.support.raw import RawConnection
from tests.support.server import Server

TOKEN = "canary-5f1d0c8e7b6a49322d14"
APP = "https://app.example"
OPEN_ROUTES = ["/healthz", "/readyz"]

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def guarded() -> Iterator[Server]:
    """A server with a token."""
    with Server(env={"GHS_TOKEN": TOKEN}, token=TOKEN) as server:
        # The broker and the relay start when they are first needed, and stay.
        Api(server).post("/v1/external/")
        Api(server).get("/v1/runs/")
        yield server


def test_a_token_replaces_the_check_of_hosts(guarded: Server) -> None:
    ok(Api(guarded, {"Host": "gym.example"}).get("/v1/envs/"))


def basic(user: str, password: str) -> str:
    pair = f"{user}:{password}".encode()
    return "Basic " + base64.b64encode(pair).decode()


RIGHT = [
    f"Bearer {TOKEN}",
    f"bearer {TOKEN}",
    basic("", TOKEN),
    basic("anyone", TOKEN),
    basic("x", TOKEN).replace("Basic", "basic"),
]
WRONG = [
    "",
    "Bearer",
    "Bearer ",
    "Bearer x",
    f"Bearer {TOKEN[:-1]}",
    f"Bearer {TOKEN}x",
    f"Bearer {TOKEN.upper()}",
    f"Bearer x {TOKEN}",
    f"Token {TOKEN}",
    TOKEN,
    "Bearer t\xf6ken-t\xf6ken-t\xf6ken",
    "Bearer \xf0\x9f\x94\x91",
    "Basic",
    "Basic !!!",
    "Basic dG9rZW4",
    "Basic \xe9\xe9",
    basic("anyone", "wrong"),
    basic("anyone", "t\xf6ken"),
    basic("", ""),
    "Digest username=x",
    "Bearer " + "x" * 5000,
]


@pytest.mark.parametrize("authorization", RIGHT)
def test_right_tokens(authorization: str, guarded: Server) -> None:
    ok(Api(guarded, {"Authorization": authorization}).get("/v1/envs/"))


@pytest.fixture
def sources() -> Iterator[str]:
    """Addresses of this machine: of each of them ten a second may be wrong."""
    return (f"127.9.{i // 250}.{i % 250 + 1}" for i in range(50_000))


@pytest.mark.parametrize("authorization", WRONG, ids=lambda text: ascii(text[:24]))
def test_wrong_tokens(authorization: str, guarded: Server) -> None:
    headers = {"Authorization": authorization}
    source = f"127.8.0.{WRONG.index(authorization) + 1}"
    for target in ("/v1/envs/", f"/v1/envs/?token={TOKEN}"):
        response = Api(guarded, headers, source).get(target)
        answer = error(response, 401, "unauthorized")
        assert "bearer" in (response.header("WWW-Authenticate") or "").lower()
        assert TOKEN not in str(answer)


def test_a_header_of_a_megabyte(guarded: Server) -> None:
    with RawConnection(guarded.port) as connection:
        head = b"GET /v1/envs/ HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
        connection.send(head + b"x" * 1_000_000 + b"\r\n\r\n")
        try:
            response = connection.read_response()
        except ConnectionError:
            response = None
    if response is not None:
        error(response, (400, 401, 413, 431))
    ok(Api(guarded).get("/v1/envs/"))


def documented(server: Server) -> list[tuple[str, str]]:
    """Return the method and a path of every route that the server documents."""
    paths: dict[str, Any] = Api(server).get("/openapi.json").json()["paths"]
    known = {"get", "post", "put", "delete", "patch", "head"}
    routes = []
    for path, operations in paths.items():
        path = path.replace("{instance_id}", "ffffffff").replace("{value}", "1")
        path = path.replace("{connection}", "ffffffff")
        path = path.replace("{env_id}", "CartPole-v1")
        path = path.replace("client/{name}", "client/serve.js")
        path = path.replace("dashboard/{name}", "dashboard/style.css")
        path = path.replace("docs/{name}", "docs/swagger-ui.css")
        path = path.replace("{name}", "gravity").replace("{directory}", "d")
        path = re.sub(r"{(run|session|reader|token_id|version)}", "1", path)
        assert "{" not in path, f"no value known for {path}"
        routes += [(method.upper(), path) for method in operations if method in known]
    return routes


def test_every_route_requires_the_token(
    guarded: Server, sources: Iterator[str]
) -> None:
    """The list comes from the server, so it contains new routes."""
    routes = documented(guarded)
    assert len(routes) > 20
    open_routes = {*OPEN_ROUTES, "/v1/external/client/serve.js/"}
    open_routes |= {"/openenv/CartPole-v1/health"}
    open_routes |= {"/dashboard/style.css/", "/docs/", "/docs/swagger-ui.css/"}
    guarded_routes = [(m, p) for m, p in routes if p not in open_routes]
    guarded_routes += [("GET", "/nowhere"), ("PUT", "/v1/envs/"), ("GET", "/v1/x")]
    for method, path in guarded_routes:
        for form in {path, path.rstrip("/") or "/", path.rstrip("/") + "/"}:
            for wrong in ("", "Bearer wrong-wrong-wrong"):
                headers = {"Authorization": wrong}
                api = Api(guarded, headers, next(sources))
                error(api.request(method, form), 401, "unauthorized")
            response = Api(guarded).request(method, form)
            assert response.status not in (401, 500), (method, form, response)


def test_every_documented_route_without_a_token(server: Server) -> None:
    for method, path in documented(server):
        headers = {"Authorization": "Bearer whatever-it-may-be"}
        for api in (Api(server), Api(server, headers)):
            response = api.request(method, path)
            if path.startswith("/v1/external/ffffffff/"):
                # The route exists, but no such connection.
                error(response, 404, "not-found")
                continue
            if path.startswith("/v1/recordings/") and path != "/v1/recordings/":
                error(response, 404, "not-found")
                continue
            if path.startswith("/v1/runs/1/"):
                # The same holds for runs; uploads need further headers.
                code = error(response, (400, 404, 428))["code"]
                assert code in ("unknown-run", "bad-parameter", "precondition-required")
                continue
            assert response.status not in (401, 404, 405, 500), (method, path)


@pytest.mark.parametrize("path", OPEN_ROUTES)
def test_health_needs_nothing(path: str, guarded: Server, server: Server) -> None:
    status = {"/healthz": "ok", "/readyz": "ready"}[path]
    for each in (guarded, server):
        for host in ("evil.example", "localhost"):
            api = Api(each, {"Host": host, "Authorization": ""})
            assert ok(api.get(path)) == {"status": status}


def test_a_preflight_needs_no_token(make_server: Callable[..., Server]) -> None:
    """A browser never sends a token along with it."""
    server = make_server("--allow-origin", APP, env={"GHS_TOKEN": TOKEN}, token=TOKEN)
    headers = {"Origin": APP, "Access-Control-Request-Method": "POST"}
    preflight = Api(server, {**headers, "Authorization": ""})
    response = preflight.request("OPTIONS", "/v1/envs/")
    assert response.status in (200, 204)
    assert response.header("Access-Control-Allow-Origin") == APP
    unauthorized = Api(server, {"Origin": APP, "Authorization": ""}).get("/v1/envs/")
    error(unauthorized, 401, "unauthorized")
    assert unauthorized.header("Access-Control-Allow-Origin") == APP


@pytest.mark.parametrize("way", ["variable", "flag", "file"])
def test_the_token_appears_in_no_answer(
    way: str, tmp_path: Path, make_server: Callable[..., Server]
) -> None:
    """Nor do logs and hosts contain it: an environment's code can read them."""
    (tmp_path / "token").write_text(TOKEN + "\n")
    flags = {
        "flag": ["--token", TOKEN],
        "file": ["--token-file", str(tmp_path / "token")],
    }
    env = {"GHS_TOKEN": TOKEN} if way == "variable" else {}
    server = make_server(*flags.get(way, []), env=env, token=TOKEN)
    instance = Api(server).create()
    host = server.host(instance.id)
    for name in ("environ", "cmdline"):
        assert TOKEN.encode() not in Path(f"/proc/{host.pid}/{name}").read_bytes()
    for authorization in ("", f"Bearer {TOKEN}x", basic("x", TOKEN), basic(TOKEN, "")):
        api = Api(server, {"Authorization": authorization})
        for target in (f"/v1/envs/?token={TOKEN}", f"/nowhere?access_token={TOKEN}"):
            assert TOKEN not in str(api.get(target).headers)
    for path in server.run_dir.rglob("*"):
        if path.is_file():
            inside = "host" if path.parent.name == instance.id else "server"
            assert inside == "server" or TOKEN.encode() not in path.read_bytes()
    no_content(instance.close())
    assert server.stop() == 0
    assert TOKEN not in server.log()
