"""Which hosts and which web pages may use a server."""

import re
from collections.abc import Callable, Iterator

import pytest

from tests.support.api import Api, Instance, error, no_content, ok
from tests.support.raw import Response, exchange
from tests.support.server import Server
from tests.support.wait import wait_until

APP = "https://app.example"
DEVELOPER = "http://localhost:3000"
OPEN_ROUTES = ["/healthz", "/readyz"]

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def cors() -> Iterator[Server]:
    """A server that two origins and one name may use, and that may be shut down."""
    flags = ["--allow-origin", APP, "--allow-origin", DEVELOPER]
    flags += ["--allow-host", "gym.example", "--enable-shutdown"]
    with Server(*flags) as server:
        yield server


def get_with_host(server: Server, host: str, path: str = "/v1/envs/") -> Response:
    host = host.replace("PORT", str(server.port))
    request = f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"
    return exchange(server.port, request.encode())


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:PORT",
        "127.0.0.1",
        "localhost",
        "localhost:PORT",
        "localhost:1",
        "LocalHost:PORT",
        "[::1]",
        "[::1]:PORT",
        "192.168.1.7:5000",
        "10.0.0.1",
        "0.0.0.0:5000",
    ],
)
def test_hosts_that_cannot_be_rebound(host: str, server: Server) -> None:
    ok(get_with_host(server, host))


FOREIGN_HOSTS = [
    "evil.example",
    "evil.example:PORT",
    "evil.example:80",
    "localhost.evil.example",
    "localhost.evil.example:PORT",
    "evil.localhost.example",
    "notlocalhost",
    "127.0.0.1.nip.example",
    "127.0.0.1.evil.example:PORT",
    "a127.0.0.1",
    "gym.example",
]


@pytest.mark.parametrize("host", FOREIGN_HOSTS)
def test_foreign_hosts(host: str, server: Server) -> None:
    """The owner of a name may rebind it to this machine."""
    for path in ("/v1/envs/", "/v1/", "/v1/envs/ffffffff/", "/nowhere"):
        error(get_with_host(server, host, path), 403, "host-refused")
    for path in OPEN_ROUTES:
        ok(get_with_host(server, host, path))


@pytest.mark.parametrize(
    "host",
    ["localhost:PORT@evil.example", "localhost evil", "127.0.0.1:x.evil", "[::1"],
)
def test_invalid_hosts(host: str, server: Server) -> None:
    error(get_with_host(server, host), (400, 403))


def test_no_host_and_two_hosts(server: Server) -> None:
    ok(exchange(server.port, b"GET /v1/envs/ HTTP/1.0\r\n\r\n"))
    two = b"GET /v1/envs/ HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n"
    error(exchange(server.port, two), (400, 403))


def test_allowed_hosts(cors: Server) -> None:
    for host in ("gym.example", "gym.example:PORT", "Gym.Example", "localhost"):
        ok(get_with_host(cors, host))
    for host in ("evil.gym.example", "gym.example.evil", "evil.example"):
        error(get_with_host(cors, host), 403, "host-refused")


@pytest.mark.parametrize("host", ["127.0.0.1:PORT", "localhost:PORT", "[::1]:PORT"])
def test_own_origin(host: str, server: Server) -> None:
    host = host.replace("PORT", str(server.port))
    headers = {"Host": host, "Origin": f"http://{host}"}
    response = Api(server, headers).get("/v1/envs/")
    ok(response)
    assert response.header("Access-Control-Allow-Origin") in (None, f"http://{host}")


LOOPBACK = ["127.0.0.1:PORT", "localhost:PORT", "[::1]:PORT"]


@pytest.mark.parametrize("origin", LOOPBACK)
@pytest.mark.parametrize("host", LOOPBACK)
def test_names_of_loopback_are_one_origin(
    origin: str, host: str, server: Server
) -> None:
    origin = "http://" + origin.replace("PORT", str(server.port))
    headers = {"Host": host.replace("PORT", str(server.port)), "Origin": origin}
    api = Api(server, headers)
    instance = api.create()
    no_content(instance.close())
    if not origin.endswith(headers["Host"]):
        # For the browser they are two origins, so answers must permit this one.
        request = {"Access-Control-Request-Method": "POST"}
        for response in (
            api.get("/v1/envs/"),
            api.request("OPTIONS", "/v1/envs/", headers=request),
        ):
            assert response.status in (200, 204)
            assert response.header("Access-Control-Allow-Origin") == origin
            assert "origin" in names(response, "Vary")


def test_a_refused_origin_is_logged_with_the_flag_that_lets_it_in(
    make_server: Callable[..., Server],
) -> None:
    server = make_server()
    origin = "https://app.example"
    named = {"Origin": origin, "X-Request-Id": "from-a-page"}
    refused = Api(server, named).get("/v1/envs/")
    error(refused, 403, "origin-refused")
    line = re.compile(r"WARNING .*refused GET /v1/envs/ from 127\.0\.0\.1: .*")
    found = wait_until(lambda: line.search(server.stderr))
    assert f"--allow-origin {origin}" in found[0]
    assert found[0].endswith("[request from-a-page]")


FOREIGN_ORIGINS = [
    "null",
    "https://evil.example",
    "http://evil.example",
    "https://127.0.0.1:PORT",
    "http://127.0.0.1",
    "http://127.0.0.1:1",
    "http://localhost:1",
    "https://localhost:PORT",
    "http://localhost.evil.example:PORT",
    "http://127.0.0.2:PORT",
    "http://127.0.0.1:PORT.evil.example",
    "http://127.0.0.1:PORT@evil.example",
    "http://evil.example/127.0.0.1:PORT",
    "http://evil.example#127.0.0.1:PORT",
    "http://127.0.0.1:PORT, http://evil.example",
    "http://127.0.0.1:PORT/",
    "file://",
    "127.0.0.1:PORT",
    "*",
    "https://app.example",
]


@pytest.mark.parametrize("origin", FOREIGN_ORIGINS)
def test_foreign_origins(origin: str, server: Server, instance: Instance) -> None:
    headers = {"Origin": origin.replace("PORT", str(server.port))}
    api = Api(server, headers)
    root = instance.path()
    for method, path in [
        ("GET", "/v1/envs/"),
        ("POST", "/v1/envs/"),
        ("POST", root + "reset/"),
        ("POST", root + "close/"),
        ("POST", root + "monitor/close/"),
        ("DELETE", root),
        ("POST", "/v1/shutdown/"),
        ("GET", "/nowhere"),
    ]:
        response = api.request(method, path, {"env_id": "CartPole-v1"})
        error(response, 403, "origin-refused")
        assert response.header("Access-Control-Allow-Origin") is None
    assert set(instance.api.instances()) == {instance.id}


def test_own_origin_under_a_foreign_host(server: Server) -> None:
    headers = {"Host": "evil.example", "Origin": "http://evil.example"}
    error(Api(server, headers).post("/v1/envs/", {"env_id": "CartPole-v1"}), 403)


FETCHES = [
    # method, Sec-Fetch-Site, Sec-Fetch-Mode, allowed
    ("GET", "cross-site", "no-cors", False),
    ("GET", "same-site", "no-cors", False),
    ("GET", "cross-site", "cors", False),
    ("POST", "cross-site", "no-cors", False),
    ("POST", "same-site", "cors", False),
    ("POST", "cross-site", "navigate", False),
    ("GET", "cross-site", "websocket", False),
    ("GET", "cross-site", "navigate", True),
    ("GET", "same-site", "navigate", True),
    ("GET", "same-origin", "cors", True),
    ("POST", "same-origin", "cors", True),
    ("GET", "none", "navigate", True),
]


@pytest.mark.parametrize(("method", "site", "mode", "allowed"), FETCHES)
def test_fetch_metadata(
    method: str, site: str, mode: str, allowed: bool, instance: Instance
) -> None:
    """A page's images and forms have no Origin, but fetch metadata."""
    path = instance.path("reset/" if method == "POST" else "action_space/")
    headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode}
    response = instance.api.request(method, path, headers=headers)
    if allowed:
        ok(response)
    else:
        error(response, 403, "origin-refused")


def test_fetch_metadata_of_an_allowed_origin(cors: Server) -> None:
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors", "Origin": APP}
    ok(Api(cors, headers).get("/v1/envs/"))


def names(response: Response, header: str) -> set[str]:
    """Return the lower-cased names in a header that lists some."""
    value = response.header(header) or ""
    return {name.strip().lower() for name in value.split(",")}


@pytest.mark.parametrize("origin", [APP, DEVELOPER])
def test_allowed_origins(origin: str, cors: Server) -> None:
    api = Api(cors, {"Origin": origin})
    answers = [
        api.get("/v1/envs/"),
        api.get("/nowhere"),
        api.post("/v1/envs/", data=b"{"),
        api.request("PUT", "/v1/envs/"),
    ]
    assert [answer.status for answer in answers] == [200, 404, 400, 405]
    for answer in answers:
        assert answer.header("Access-Control-Allow-Origin") == origin
        exposed = names(answer, "Access-Control-Expose-Headers")
        assert {"gym-dtype", "gym-shape", "idempotent-replayed"} <= exposed
        assert {"etag", "gym-version", "gym-first", "gym-last"} <= exposed
        assert "content-range" in exposed
        assert "origin" in names(answer, "Vary")


@pytest.mark.parametrize("origin", [APP, DEVELOPER])
@pytest.mark.parametrize("path", ["/v1/envs/", "/v1/envs/ffffffff/step/", "/v1/"])
def test_preflight(path: str, origin: str, cors: Server) -> None:
    headers = {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type,authorization,idempotency-key",
        "Sec-Fetch-Mode": "cors",
        "Sec-Fetch-Site": "cross-site",
    }
    response = Api(cors, headers).request("OPTIONS", path)
    assert response.status in (200, 204), response
    assert response.header("Access-Control-Allow-Origin") == origin
    allowed = names(response, "Access-Control-Allow-Headers")
    assert {"content-type", "authorization", "idempotency-key"} <= allowed
    assert {"if-match", "if-none-match", "content-digest", "range"} <= allowed
    methods = names(response, "Access-Control-Allow-Methods")
    assert {"get", "post", "put", "delete"} <= methods
    if path != "/v1/":
        assert "post" in methods
    assert "origin" in names(response, "Vary")


@pytest.mark.parametrize("origin", [*FOREIGN_ORIGINS[:3], APP + ".evil.example"])
def test_preflight_of_foreign_origins(origin: str, cors: Server) -> None:
    headers = {"Origin": origin, "Access-Control-Request-Method": "POST"}
    for path in ("/v1/envs/", "/v1/shutdown/"):
        response = Api(cors, headers).request("OPTIONS", path)
        assert response.header("Access-Control-Allow-Origin") is None
        error(Api(cors, headers).post(path, {}), 403, "origin-refused")
    ok(Api(cors).get("/v1/envs/"))


@pytest.mark.parametrize("origin", ["*", "null"])
def test_no_wildcards(origin: str, launch_server: Callable[..., Server]) -> None:
    """Either value as a setting is refused, or is never matched and never sent."""
    server = launch_server("--allow-origin", origin)
    try:
        server.wait_listening()
    except AssertionError:
        assert server.wait_exit() != 0
        return
    for sent in ("null", "https://evil.example"):
        response = Api(server, {"Origin": sent}).get("/v1/envs/")
        error(response, 403, "origin-refused")
        assert response.header("Access-Control-Allow-Origin") is None


@pytest.mark.usefixtures("instance")
def test_sockets_in_the_run_directory_are_the_users_alone(server: Server) -> None:
    modes = {
        path.name: path.stat().st_mode & 0o777
        for path in server.run_dir.rglob("*.sock")
    }
    assert modes == dict.fromkeys(
        ("control.sock", "supervisor.sock", "broker.sock", "relay.sock", "host.sock"),
        0o600,
    )
