"""OpenEnv's connections: tokens, web pages, TLS, a stop, and web workers that die."""

import base64
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest

from tests.support import processes
from tests.support.api import Api, error, ok
from tests.support.peers.openenv import OpenEnvClient
from tests.support.raw import RawConnection
from tests.support.reloads import Tokens, lines_about, reloaded
from tests.support.server import Server
from tests.support.token_file import api_of, line, token_of
from tests.support.wait import wait_until

pytestmark = pytest.mark.live

MakeServer = Callable[..., Server]
CART = {"env_id": "CartPole-v1"}
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


class Guarded:
    """A server, and its file of tokens."""

    def __init__(self, server: Server, tokens: Tokens) -> None:
        self.server = server
        self.tokens = tokens

    def accept(self, **scopes: str) -> None:
        """Have the server accept the tokens of the tests, some with other scopes."""
        self.tokens.write(**TOKENS | scopes)
        reloaded(self.server)

    def remove(self, name: str) -> None:
        """Have the server accept all tokens but one."""
        self.tokens.write(**{key: TOKENS[key] for key in TOKENS if key != name})
        reloaded(self.server)

    def renew(self, name: str) -> None:
        """Have the server accept all tokens, and one with a new secret."""
        kept = "".join(line(key, TOKENS[key]) for key in TOKENS if key != name)
        renewed = line(f"renewed-{name}", TOKENS[name]).removeprefix("renewed-")
        self.tokens.write_text(kept + renewed)
        reloaded(self.server)

    def connect(self, name: str) -> OpenEnvClient:
        """Connect with a token."""
        return OpenEnvClient.connect(self.server, authorization=bearer(name))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    tokens = Tokens(tmp_path_factory.mktemp("tokens"))
    tokens.write(**TOKENS)
    flags = ("--tokens", str(tokens.path))
    with Server(*flags, token=token_of("root")) as server:
        yield Guarded(server, tokens)


@pytest.fixture
def guarded(shared: Guarded) -> Iterator[Guarded]:
    """A server that accepts all tokens, and has no instance in the end."""
    shared.accept()
    yield shared
    api = Api(shared.server)
    wait_until(lambda: api.instances() == {}, 10.0, "the ends")


def test_tokens_and_scopes(guarded: Guarded) -> None:
    server = guarded.server

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
        guarded.remove("ada")
        assert ada.read_close() == REMOVED
        assert bob.step(1)["reward"] == 1.0


def test_changed_scopes_hold_from_the_next_message_on(guarded: Guarded) -> None:
    def lacks(scope: str, kind: str, **data: Any) -> None:
        """Check that a message is refused, since the token has lost a scope."""
        refusal = ada.error(kind, data)
        assert (refusal["code"], refusal["problem"]) == (
            *("EXECUTION_ERROR", "scope-missing"),
        )
        assert f"the token 'ada' lacks the scope {scope}," in refusal["message"]

    with guarded.connect("ada") as ada, guarded.connect("bob") as bob:
        made = ada.reset(seed=3)["metadata"]["instance_id"]
        guarded.accept(ada="read", bob="read")
        lacks("step", "step", action=1)
        lacks("step", "reset", seed=3)
        lacks("step", "reset", max_episode_steps=9)
        # Also of a connection without an instance so far.
        assert bob.error("reset")["problem"] == "scope-missing"
        assert ada.state()["step_count"] == 0
        assert [row["instance_id"] for row in rows(guarded.server)] == [made]
        guarded.accept(ada="step")
        assert ada.step(1)["reward"] == 1.0
        assert ada.reset()["metadata"]["instance_id"] == made
        lacks("create", "reset", max_episode_steps=9)
        assert ada.step(1)["reward"] == 1.0
        guarded.accept(ada="step,create")
        replaced = ada.reset(max_episode_steps=9)["metadata"]["instance_id"]
        assert {row["instance_id"]: row["owner"] for row in rows(guarded.server)} == {
            replaced: "ada"
        }
        assert bob.reset()["metadata"]["instance_id"]


def test_a_token_is_told_its_own_limit(guarded: Guarded) -> None:
    guarded.accept(bob="step,create 1")
    with guarded.connect("ada") as ada, guarded.connect("bob") as bob:
        ada.reset()
        bob.reset()
        with guarded.connect("bob") as another:
            refused = another.error("reset")
        assert refused["code"] == "CAPACITY_REACHED"
        assert (refused["active_sessions"], refused["max_sessions"]) == (1, 1)
        assert refused["message"].startswith("the token 'bob' has 1 instances, and")
        answer = api_of(guarded.server, "bob").post("/v1/envs/", CART)
        problem = error(answer, 429, "too-many-instances")
        assert (problem["instances"], problem["max_instances"]) == (1, 1)


def test_connections_outlive_a_new_secret_and_not_their_name(guarded: Guarded) -> None:
    wrong = len(lines_about(guarded.server, "wrong token"))
    with guarded.connect("bob") as bob:
        bob.reset()
        guarded.renew("bob")
        assert bob.step(1)["reward"] == 1.0
        guarded.accept()
        assert bob.step(1)["reward"] == 1.0
        guarded.remove("bob")
        guarded.renew("bob")
        assert bob.read_close() == REMOVED
    assert len(lines_about(guarded.server, "wrong token")) == wrong


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


def reset_over_openenv(server: Server) -> OpenEnvClient:
    """Begin a create of a connection, and do not wait for the answer."""
    client = OpenEnvClient.connect(server, "hostile/SlowInit-v0")
    client.send_frame(1, b'{"type": "reset", "data": {"kwargs": {"seconds": 0.5}}}')
    return client


def create_over_rest(server: Server) -> RawConnection:
    """Send a create without a key, and do not wait for the answer."""
    client = RawConnection(server.port)
    body = b'{"env_id": "hostile/SlowInit-v0", "kwargs": {"seconds": 0.5}}'
    head = f"POST /v1/envs/ HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    client.send(head.encode() + body)
    return client


@pytest.fixture(scope="module")
def lone() -> Iterator[Server]:
    """A server with one web worker."""
    with Server("--workers", "1", "--import", "tests.support.envs.hostile") as started:
        yield started


def the_worker(server: Server) -> psutil.Process:
    wait_until(lambda: len(web_workers(server)) == 1, 10.0, "the web worker")
    return web_workers(server)[0]


@pytest.mark.parametrize("create", [reset_over_openenv, create_over_rest])
def test_an_instance_ends_if_its_web_worker_is_killed_before_it_is_told(
    lone: Server, create: Callable[[Server], OpenEnvClient | RawConnection]
) -> None:
    worker, before = the_worker(lone), lone.stderr.count(" made, an instance")
    with create(lone):
        wait_until(lambda: rows(lone), 10.0, "the create")
        worker.suspend()
        wait_until(
            lambda: lone.stderr.count(" made, an instance") > before, 10.0, "the host"
        )
        worker.kill()
        wait_until(lambda: Api(lone).instances() == {}, 10.0, "the end")
    assert " ended: abandoned" in lone.stderr


def test_an_instance_ends_though_no_web_worker_follows(lone: Server) -> None:
    worker, before = the_worker(lone), lone.stderr.count(" ended: closed")
    arbiter = processes.gunicorn(lone.pid)[0]
    with OpenEnvClient.connect(lone) as client:
        client.reset()
        arbiter.suspend()
        worker.kill()
        try:
            wait_until(
                lambda: lone.stderr.count(" ended: closed") > before, 5.0, "the end"
            )
        finally:
            arbiter.resume()


def answers(client: OpenEnvClient) -> bool:
    """Whether a connection is still there."""
    try:
        state: Any = client.state()
    except OSError:
        return False
    return bool(state)
