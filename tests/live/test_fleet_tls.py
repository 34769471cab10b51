"""Servers of a fleet that call each other by HTTPS, and clients that call them."""

import contextlib
import re
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live import test_streams
from tests.support.api import Api, Instance, error, no_content, ok
from tests.support.drivers import Program
from tests.support.fleet import Redis, node, redis_server, start, wait_until_known
from tests.support.raw import SECURED
from tests.support.reference_runs import ReferenceRun
from tests.support.server import Server, free_port
from tests.support.tls import certificate_and_key
from tests.support.wait import wait_until
from tests.support.websocket import WebSocket

Fleet = tuple[Redis, list[Server]]

TOKEN = "a-token-that-no-other-address-gets"
pytestmark = [
    pytest.mark.live,
    pytest.mark.toolchain,
    # The C++ driver is built within the first test that needs it.
    pytest.mark.timeout(300),
]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The certificate of all nodes, beside its key."""
    path, _ = certificate_and_key(tmp_path_factory.mktemp("tls"))
    return path


def secured_node(redis: Redis, name: str, certificate: Path, *args: str) -> Server:
    """Prepare a node with a certificate, which trusts the nodes that have the same."""
    port = str(free_port())
    flags = ["--certfile", str(certificate), "--fleet-ca", str(certificate)]
    flags += ["--keyfile", str(certificate).replace(".pem", "-key.pem")]
    flags += ["--port", port, "--node-url", f"https://localhost:{port}"]
    return node(redis, name, *flags, *args)


@contextlib.contextmanager
def secured(server: Server, certificate: Path) -> Iterator[Server]:
    """Have our raw clients call a node by TLS, with the token."""
    server.token = TOKEN
    SECURED[server.port] = ssl.create_default_context(cafile=str(certificate))
    try:
        yield server
    finally:
        del SECURED[server.port]


@pytest.fixture(scope="module")
def fleet(
    certificate: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fleet]:
    """Two nodes; all instances but one are made on the second one."""
    token = tmp_path_factory.mktemp("token") / "token"
    token.write_text(TOKEN + "\n")
    token.chmod(0o600)
    args = ["--token-file", str(token), "--access-log"]
    args += ["--import", "tests.support.envs.toys"]
    with redis_server() as redis, contextlib.ExitStack() as stack:
        servers = [
            secured_node(redis, name, certificate, *args, "--max-instances", slots)
            for name, slots in (("one", "1"), ("two", "20"))
        ]
        start(servers, redis, stack)
        for each in servers:
            stack.enter_context(secured(each, certificate))
        api = Api(servers[0])
        first = api.create(node="one")
        yield redis, servers
        no_content(first.close())


@pytest.mark.parametrize(
    "test",
    [
        test_streams.test_text_equals_rest,
        test_streams.test_a_hundred_steps_in_one_piece,
        test_streams.test_a_close_is_answered,
    ],
)
def test_a_node_relays_streams_to_another_one(
    test: Callable[..., None], fleet: Fleet
) -> None:
    api = Api(fleet[1][0])
    with contextlib.ExitStack() as stack:

        def create(*which: str, **options: Any) -> Instance:
            made = api.create(*which, node="two", **options)
            stack.callback(made.close)
            return made

        test(create)


@pytest.mark.parametrize("name", ["python", "lua5.4", "cpp", "js"])
def test_clients_connect_streams_to_the_node_and_verify_it(
    name: str,
    driver: Callable[[str], Program],
    fleet: Fleet,
    certificate: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, two = fleet[1]
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    monkeypatch.setenv("NODE_EXTRA_CA_CERTS", str(certificate))
    walk = ReferenceRun("CartPole-v1", 7, 60)
    url = f"https://localhost:{one.port}"
    program, before = driver(name), streams(two)
    done = program.run(*walk.args(url, "stream", tmp_path), token=TOKEN)
    assert done.returncode == 0, done.stdout + done.stderr
    walk.compare(done.stdout)
    wait_until(lambda: len(streams(two)) > len(before))
    (opened,) = set(streams(two)) - set(before)
    assert opened not in streams(one)


def test_large_answers_are_those_of_their_node(fleet: Fleet) -> None:
    one, two = fleet[1]
    options = {"kwargs": {"size": 3_000_000}, "node": "two"}
    instance = Api(one).create("toys/Big-v0", **options)
    bodies = set()
    for server in (two, one, one):
        answer = Instance(Api(server), instance.id).post(
            *("reset/", {"seed": 1}),
            headers={"Accept": "application/vnd.gym-http.binary"},
        )
        assert answer.status == 200
        bodies.add(answer.body)
    assert [len(each) > 3_000_000 for each in bodies] == [True]
    no_content(instance.close())


def streams(server: Server) -> list[str]:
    """Return the paths of the streams that a server has opened, from its log."""
    return re.findall(r"GET (/v1/envs/\w+/stream/?) 101", server.log())


def test_a_node_with_another_certificate_is_not_called(
    fleet: Fleet, tmp_path: Path
) -> None:
    redis, (one, two) = fleet
    other, _ = certificate_and_key(tmp_path)
    token = tmp_path / "token"
    token.write_text(TOKEN + "\n")
    token.chmod(0o600)
    made = secured_node(redis, "three", other, "--token-file", str(token))
    with made as running, secured(running, other) as three:
        wait_until_known(redis, [one, two, three])
        own = Api(three).create(node="three")
        api = Api(two)
        problem = error(
            api.post("/v1/envs/", {"env_id": "CartPole-v1", "node": "three"}),
            *(503, "node-away"),
        )
        assert "certificate" in problem["detail"]
        problem = error(api.post(own.path("reset/")), 503, "node-away")
        with WebSocket.to(Instance(api, own.id)) as stream:
            error(stream.response, 503, "node-away")
        words = f"node three at https://localhost:{three.port} is not trusted: "
        wait_until(lambda: words + "self-signed certificate" in two.stderr)
        listed = api.get("/v1/envs/")
        assert listed.header("Gym-Missing-Nodes") == "three"
        # Each other node makes what it refuses.
        for _ in range(6):
            no_content(api.create().close())
        ok(own.post("reset/"))
        no_content(own.close())
    wait_until_known(redis, [one, two])
