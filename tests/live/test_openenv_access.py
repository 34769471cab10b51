"""OpenEnv's connections: tokens, web pages, TLS, a stop, and web workers that die."""

import base64
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support import processes
from tests.support.api import Api, error, ok
from tests.support.peers.openenv import OpenEnvClient
from tests.support.reloads import Tokens, reloaded
from tests.support.server import Server
from tests.support.token_file import token_of
from tests.support.wait import wait_until

pytestmark = pytest.mark.live

MakeServer = Callable[..., Server]
REMOVED = (1008, "the token was removed from the server's --tokens file")
TOKENS = {
    "root": "admin",
    "ada": "read,step,create",
    "bob": "step,create",
    "maker": "create",
    "stepper": "step",
}


def basic(name: str) -> str:
    """Return the header of a client that has the token in its URL."""
    return "Basic " + base64.b64encode(f":{token_of(name)}".encode()).decode()


def bearer(name: str) -> str:
    return f"Bearer {token_of(name)}"


def test_tokens_and_scopes(make_server: MakeServer, tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    tokens.write(**TOKENS)
    server = make_server("--tokens", str(tokens.path), token=token_of("root"))

    def connect(authorization: str | None) -> OpenEnvClient:
        return OpenEnvClient.connect(server, authorization=authorization)

    refusals: list[tuple[str | None, int, str]] = [
        (None, 401, "unauthorized"),
        ("Bearer wrong-wrong-wrong", 401, "unauthorized"),
        (bearer("maker"), 403, "scope-missing"),
        (bearer("stepper"), 403, "scope-missing"),
    ]
    for authorization, status, code in refusals:
        with connect(authorization) as refused:
            error(refused.response, status, code)
    assert (
        Api(server, {"Authorization": ""}).get("/openenv/CartPole-v1/health").status
        == 200
    )
    with connect(bearer("ada")) as ada, connect(basic("bob")) as bob:
        owned = ada.reset()["metadata"]["instance_id"]
        bob.reset()
        owners = {row["instance_id"]: row["owner"] for row in rows(server)}
        assert owners[owned] == "ada"
        tokens.write(**{name: TOKENS[name] for name in TOKENS if name != "ada"})
        reloaded(server)
        assert ada.read_close() == REMOVED
        assert bob.step(1)["reward"] == 1.0
    wait_until(lambda: Api(server).instances() == {}, 10.0, "the ends")


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"origin": "http://evil.example"}, "origin-refused"),
        ({"host": "evil.example"}, "host-refused"),
        ({"sec_fetch_site": "cross-site"}, "origin-refused"),
    ],
)
def test_web_pages_are_refused(
    server: Server, headers: dict[str, str], code: str
) -> None:
    with OpenEnvClient.connect(server, **headers) as refused:
        error(refused.response, 403, code)


def test_over_tls(secured_server: Server) -> None:
    with OpenEnvClient.connect(secured_server) as client:
        client.reset(seed=1)
        assert client.step(1)["reward"] == 1.0
        client.send_frame(1, b'{"type": "close"}')
        assert client.read_close() == (1000, "")
    wait_until(lambda: Api(secured_server).instances() == {}, 10.0, "the end")


def test_a_stop_closes_after_the_step_under_way(make_server: MakeServer) -> None:
    server = make_server("--import", "tests.support.envs.hostile")
    idle = OpenEnvClient.connect(server)
    idle.reset()
    stepping = OpenEnvClient.connect(server, "hostile/Slow-v0")
    stepping.reset(kwargs={"seconds": 1.0})
    with idle, stepping:
        stepping.send_frame(1, b'{"type": "step", "data": {"action": 1}}')
        wait_until(lambda: any(row["busy_s"] for row in rows(server)), 10.0, "the step")
        os.kill(server.pid, signal.SIGTERM)
        assert stepping.receive()["data"]["reward"] == 1.0
        assert stepping.read_close() == (1001, "the server is stopping")
        assert idle.read_close() == (1001, "the server is stopping")
        assert server.wait_exit(10.0) == 0


def rows(server: Server) -> list[dict[str, Any]]:
    """Return the instances with their figures."""
    listed: list[dict[str, Any]] = ok(Api(server).get("/v1/instances/"))["instances"]
    return listed


def web_workers(server: Server) -> list[psutil.Process]:
    return sorted(processes.gunicorn(server.pid)[1], key=lambda each: each.pid)


def test_instances_end_with_a_killed_web_worker(make_server: MakeServer) -> None:
    server = make_server("--workers", "2", "--max-instances", "20")
    api = Api(server)
    mine = api.create(label="openenv")
    clients = [OpenEnvClient.connect(server) for _ in range(12)]
    ids = [each.reset()["metadata"]["instance_id"] for each in clients]
    assert set(api.instances()) == {mine.id, *ids}
    first, second = web_workers(server)
    first.kill()
    lost = [each for each in clients if not answers(each)]
    kept = [each for each in clients if each not in lost]
    wait_until(lambda: len(api.instances()) == 1 + len(kept), 20.0, "the ends")
    assert len(lost) + len(kept) == 12
    second.kill()
    wait_until(lambda: set(api.instances()) == {mine.id}, 20.0, "the other ends")
    for each in clients:
        each.close()
    with OpenEnvClient.connect(server) as again:
        assert "reset" in again.error("step", {"action": 1})["message"]
        again.reset()
        assert again.step(1)["reward"] == 1.0
    wait_until(lambda: set(api.instances()) == {mine.id}, 20.0, "the end of the last")
    mine.close()


def answers(client: OpenEnvClient) -> bool:
    """Whether a connection is still there."""
    try:
        state: Any = client.state()
    except OSError:
        return False
    return bool(state)
