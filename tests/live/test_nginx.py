"""deploy/nginx.conf in the real nginx: REST, streams, external environments, Tango."""

import contextlib
import re
import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from gym_http_client import RemoteEnv
from tests.support.api import Api, error, no_content, ok
from tests.support.broker import wait_until_unlisted
from tests.support.drivers import Program, needs
from tests.support.identity import assert_identical
from tests.support.nginx import OUTSIDE, WITHIN, nginx
from tests.support.peers.agent_calls import close_external, create_and_reset
from tests.support.peers.external_env import ExternalEnv, refused_handshake
from tests.support.peers.openenv import OpenEnvClient
from tests.support.peers.tango import TangoPage
from tests.support.raw import SECURED, exchange
from tests.support.reference_runs import ReferenceRun
from tests.support.server import ROOT, Server, free_port
from tests.support.tls import certificate_and_key
from tests.support.websocket import WebSocket

pytestmark = [
    pytest.mark.live,
    pytest.mark.toolchain,
    # The C++ driver is built within the first test that needs it.
    pytest.mark.timeout(300),
]

CONFIGURATION = ROOT / "deploy" / "nginx.conf"
#: The configuration around it.
MAIN = f"""
{OUTSIDE}
events {{ worker_connections 512; }}
http {{
    {WITHIN}
    include {{folder}}/site.conf;
}}
"""
FIRST = {"observation": [[0, 5], [6, 1]], "info": {}}


@dataclass
class Proxied:
    """A server as its clients reach it, through nginx."""

    port: int
    behind: Server
    certificate: Path | None = None
    token: str | None = None

    @property
    def url(self) -> str:
        """The address for clients."""
        scheme = "https" if self.certificate else "http"
        return f"{scheme}://localhost:{self.port}"


@pytest.fixture(scope="module")
def behind() -> Iterator[Server]:
    """The server behind nginx."""
    with Server("--access-log") as server:
        # Broker and relay start with the first request that needs them, and stay.
        Api(server).post("/v1/external/")
        Api(server).get("/v1/runs/")
        yield server


@contextlib.contextmanager
def with_site(folder: Path, server: Server, site: str) -> Iterator[Proxied]:
    """Run nginx with a site in the place of deploy/nginx.conf; no " ssl" is no TLS."""
    needs("openssl")
    certificate, key = certificate_and_key(folder)
    secured = " ssl;" in site
    port = free_port()
    for old, new in (
        ("server 127.0.0.1:5000;", f"server 127.0.0.1:{server.port};"),
        ("listen 443", f"listen 127.0.0.1:{port}"),
        ("server_name gym.example.org;", "server_name localhost;"),
        ("/etc/letsencrypt/live/gym.example.org/fullchain.pem", str(certificate)),
        ("/etc/letsencrypt/live/gym.example.org/privkey.pem", str(key)),
    ):
        assert site.count(old) == 1, old
        site = site.replace(old, new)
    (folder / "site.conf").write_text(site)
    if secured:
        SECURED[port] = ssl.create_default_context(cafile=str(certificate))
    try:
        with nginx(folder, MAIN, port):
            yield Proxied(port, server, certificate if secured else None)
    finally:
        SECURED.pop(port, None)


@pytest.fixture(scope="module")
def proxied(
    behind: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Proxied]:
    """The server behind nginx, which is configured as in deploy."""
    folder = tmp_path_factory.mktemp("nginx")
    with with_site(folder, behind, CONFIGURATION.read_text()) as made:
        yield made


@pytest.fixture(scope="module")
def without_upgrades(
    behind: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Proxied]:
    """A configuration that forgets WebSockets, as many do, without TLS."""
    site = CONFIGURATION.read_text().replace("443 ssl;", "443;")
    site = site.replace("proxy_set_header Upgrade $http_upgrade;", "")
    site = site.replace("$gym_connection;", "'';")
    with with_site(tmp_path_factory.mktemp("nginx"), behind, site) as made:
        yield made


def api_of(proxied: Proxied) -> Api:
    """Return a client that connects through nginx."""
    return Api(proxied, {"Host": f"localhost:{proxied.port}"})  # type: ignore[arg-type]


def episode(env: gymnasium.Env[Any, Any]) -> list[object]:
    """Reset an environment, and step it."""
    seen: list[object] = [env.reset(seed=7)]
    seen += [env.step(number % 2) for number in range(20)]
    env.close()
    return seen


def steps_of(server: Server) -> list[tuple[str, str]]:
    """Return route and status of the requests for steps and streams."""
    pattern = r"gym_http_server\.access: \S+ \S+ \S+/(step|stream)/? (\d+),"
    return re.findall(pattern, server.stderr)


def test_rest_and_streams(proxied: Proxied, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(proxied.certificate))
    instance = api_of(proxied).create()
    instance.reset(seed=7)
    instance.step(1)
    with WebSocket.to(instance) as stream:
        stream.send_binary(12, 1)
    no_content(instance.close())
    before = len(steps_of(proxied.behind))
    seen = episode(RemoteEnv(proxied.url, "CartPole-v1"))
    assert_identical(seen, episode(gymnasium.make("CartPole-v1")))
    # All went over one stream.
    assert steps_of(proxied.behind)[before:] == [("stream", "101")]


def test_clients_of_http_1_0_need_no_host(proxied: Proxied) -> None:
    request = b"GET /v1/envs/ HTTP/1.0\r\n\r\n"
    assert ok(exchange(proxied.port, request)) == {"all_envs": {}}


def test_large_bodies_and_long_polls_of_training_runs(proxied: Proxied) -> None:
    api = api_of(proxied)
    assert api.post("/v1/runs/", {"run": "nginx"}).status == 201
    weights = bytes(9 << 20)
    first = {"If-None-Match": "*"}
    path = "/v1/runs/nginx/weights/"
    stored = api.request("PUT", path, data=weights, headers=first)
    assert stored.status == 201, stored.text
    assert api.get(path).body == weights
    known = {"If-None-Match": stored.header("ETag") or ""}
    assert api.request("GET", f"{path}?wait_s=0.2", headers=known).status == 304
    too_large = api.post("/v1/envs/", data=weights)
    assert too_large.status == 413
    assert api.request("DELETE", "/v1/runs/nginx/").status == 204


def test_external_environments_and_pages_of_tango(proxied: Proxied) -> None:
    api = api_of(proxied)
    external = ExternalEnv(api)
    close_external(create_and_reset(api, external), external)
    external.websocket.close()
    wait_until_unlisted(api)
    with (
        ThreadPoolExecutor(1) as pool,
        TangoPage(proxied) as page,  # type: ignore[arg-type]
    ):
        instance = api.create("external/tango")
        request = pool.submit(instance.post, "reset/", {})
        page.answer({"type": "reset", "seed": None, "options": None}, FIRST)
        assert ok(request.result(20))["observation"] == FIRST["observation"]
        no_content(instance.close())
    wait_until_unlisted(api, "tango")


def test_openenv(proxied: Proxied) -> None:
    server: Any = proxied
    host = f"localhost:{proxied.port}"
    with OpenEnvClient.connect(server, "gymnasium%2FNope-v1", host=host) as client:
        assert "gymnasium" in client.error("reset")["message"]
    with OpenEnvClient.connect(server, host=host) as client:
        client.reset(seed=1)
        assert client.step(1)["reward"] == 1.0


def test_a_proxy_that_removes_upgrade_is_named(without_upgrades: Proxied) -> None:
    api = api_of(without_upgrades)
    for path in ("/v1/external/", "/game/ws?observation_space={}&action_space={}"):
        problem = error(refused_handshake(api, path=path), 426, "upgrade-required")
        assert (
            "a proxy between client and server may have removed" in problem["message"]
        )
        assert "deploy/nginx.conf" in problem["message"]
    with pytest.warns(UserWarning, match="a proxy between client and server may"):
        seen = episode(RemoteEnv(without_upgrades.url, "CartPole-v1"))
    assert_identical(seen, episode(gymnasium.make("CartPole-v1")))


@pytest.mark.parametrize("name", ["python", "lua5.4", "cpp", "js"])
def test_all_clients_name_it_and_step_over_http(
    name: str,
    without_upgrades: Proxied,
    driver: Callable[[str], Program],
    tmp_path: Path,
) -> None:
    walked = ReferenceRun("CartPole-v1", 42, 20)
    args = walked.args(without_upgrades.url, "stream", tmp_path)
    done = driver(name).run(*args)
    assert done.returncode == 0, done.stderr
    walked.compare(done.stdout)
    words = "steps go over HTTP, which is slower than a stream: "
    assert done.stderr.count(words) == 1
    assert "a proxy between client and server may have removed them" in done.stderr
    assert "deploy/nginx.conf" in done.stderr
