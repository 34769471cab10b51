"""A reload that removes a token ends what it has opened, and nothing else."""

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import msgspec
import psutil
import pytest

from gym_http_client import RemoteEnv, ServerError
from gym_http_client import Server as Remote
from gym_http_server.access.identities import Identity
from gym_http_server.processes.frame_socket import FrameSocket
from gym_http_wire.handshakes import StreamHandshake
from gym_http_wire.messages import Op, RequestHead, problem_of, request
from tests.live.test_wrong_tokens import HELLO, counted
from tests.live.test_zmq_agents import CART
from tests.support import processes
from tests.support.api import Api, Instance, error, no_content, ok
from tests.support.broker import listed_env, tcp_url, wait_until_unlisted
from tests.support.peers.agent_calls import create_and_reset
from tests.support.peers.external_env import ExternalEnv, open_websocket
from tests.support.peers.zmq_peers import ZmqExternalEnv, ZmqPeer
from tests.support.reloads import USER, Tokens, lines_about, reloaded
from tests.support.runs import Run
from tests.support.server import Server
from tests.support.status_page import is_busy
from tests.support.tls import secure_server
from tests.support.token_file import api_of, line, token_of
from tests.support.wait import wait_until
from tests.support.websocket import BINARY, TEXT, WebSocket

pytestmark = pytest.mark.live

POLICY = (1008, "the token was removed from the server's --tokens file")
#: The tokens at the beginning of each test.
TOKENS = {
    "root": "admin",
    "chief": "admin",
    "ada": f"{USER},external:game,runs",
    "bob": f"{USER},external:game",
}
ZMQ = ("--zmq", "tcp://127.0.0.1:0")


class Reloading:
    """A server, and its file of tokens."""

    def __init__(self, server: Server, tokens: Tokens) -> None:
        self.server = server
        self.tokens = tokens

    @classmethod
    def with_new(
        cls, make_server: Callable[..., Server], folder: Path, *flags: str
    ) -> Self:
        """Start a server with these tokens."""
        tokens = Tokens(folder)
        tokens.write(**TOKENS)
        file = ("--tokens", str(tokens.path))
        return cls(make_server(*file, *flags, token=token_of("root")), tokens)

    def remove(self, *names: str, **more: str) -> str:
        """Have the server accept all tokens but these, and more; return its words."""
        kept = {name: rest for name, rest in TOKENS.items() if name not in names}
        self.tokens.write(**kept, **more)
        return reloaded(self.server)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reloading]:
    """A server that is open to every transport, with a broker and a relay."""
    tokens = Tokens(tmp_path_factory.mktemp("tokens"))
    tokens.write(**TOKENS)
    flags = ["--tokens", str(tokens.path), "--external-tcp", "0", *ZMQ]
    flags += ["--import", "tests.support.envs.hostile", "--external-grace", "2"]
    with Server(*flags, token=token_of("root")) as server:
        ok(Api(server).get("/v1/runs/"))
        yield Reloading(server, tokens)


@pytest.fixture
def server(shared: Reloading) -> Server:
    """The server, which accepts all tokens."""
    shared.remove()
    return shared.server


def stream_of(name: str, instance: Instance, query: str = "", **more: Any) -> WebSocket:
    """Open a stream with a token."""
    stream = WebSocket.to(
        instance,
        authorization=f"Bearer {token_of(name)}",
        path=instance.path(f"stream/{query}"),
        **{"sec_websocket_protocol": TEXT, **more},
    )
    assert stream.response.status == 101, stream.response.text
    return stream


def test_streams_and_watchers_end(server: Server, shared: Reloading) -> None:
    root = Api(server)
    hers, his = api_of(server, "ada").create(), api_of(server, "bob").create()
    ended = [
        stream_of("ada", hers),
        stream_of("ada", hers, sec_websocket_protocol=BINARY),
        stream_of("ada", hers, "?watch=1"),
        stream_of("ada", hers, "?watch=1&form=show"),
        # Of an admin, in the instance of another one.
        stream_of("chief", his),
        stream_of("chief", his, "?watch=1"),
    ]
    kept = [stream_of("bob", his), stream_of("root", hers)]
    clocked = api_of(server, "ada").create(
        "Pendulum-v1", realtime={"mode": "elastic", "hz": 50}
    )
    ended += [stream_of("ada", clocked), stream_of("ada", clocked, "?watch=1")]
    assert [each.call(op="reset", seed=1)["status"] for each in kept] == [200] * 2
    assert shared.remove("ada", "chief") == "removed tokens: ada, chief\n"
    for each in ended:
        frames = [each.read_frame()]
        while frames[-1][0] != 8:
            frames.append(each.read_frame())
        status, reason = frames[-1][1][:2], frames[-1][1][2:].decode()
        assert (int.from_bytes(status, "big"), reason) == POLICY
        each.close()
    assert [each.call(op="step", action=0)["status"] for each in kept] == [200] * 2
    for each in kept:
        each.close()
    # Her instance goes on in the hands of admins.
    assert {hers.id, his.id} <= root.instances().keys()
    assert api_of(server, "bob").instances().keys() == {his.id}
    for each in (hers, his, clocked):
        no_content(root.post(each.path("close/")))


def test_a_token_that_was_removed_just_after_its_check_opens_nothing(
    server: Server, shared: Reloading
) -> None:
    """A web worker checks a token, stops for a moment, and then asks a host."""
    hers = api_of(server, "ada").create()
    shared.remove("ada")
    (run,) = server.run_dir.iterdir()
    hello = StreamHandshake("x", TEXT, "s", owner="ada")
    identity = Identity("ada", frozenset({"external:game"}))
    for path, op, head, body in (
        (run / hers.id / "host.sock", Op.STREAM, hello, b""),
        (run / "broker.sock", Op.EXTERNAL_HELLO, identity, msgspec.json.encode(HELLO)),
    ):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(20.0)
            sock.connect(str(path))
            value = RequestHead(value=msgspec.json.encode(head).decode())
            connection = FrameSocket(sock)
            connection.send(request(op, body, value))
            answer = connection.receive_one()
            assert answer is not None
            problem = problem_of(answer)
            assert (problem.code, problem.message) == ("unauthorized", POLICY[1])
    no_content(Api(server).post(hers.path("close/")))


def test_a_host_in_a_call_ends_streams_after_it(
    server: Server, shared: Reloading
) -> None:
    slow = api_of(server, "ada").create("hostile/Slow-v0", kwargs={"seconds": 8.0})
    slow.reset()
    watcher = stream_of("ada", slow, "?watch=1")
    stream = stream_of("ada", slow)
    stream.send_message(op="step", action=1)
    wait_until(lambda: is_busy(slow), message="the step to begin")
    said = shared.remove("ada")
    assert said == f"removed tokens: ada; not yet in {slow.id}, busy at the moment\n"
    for each in (watcher, stream):
        frames = [each.read_frame()]
        while frames[-1][0] != 8:
            frames.append(each.read_frame())
        assert int.from_bytes(frames[-1][1][:2], "big") == POLICY[0]
        # At most a copy of the reset, for the watcher, and the answer to the call.
        assert len(frames) <= 3
        each.close()
    described = ok(Api(server).get(slow.path()))
    assert described["steps"] == 1
    no_content(Api(server).post(slow.path("close/")))


@pytest.mark.toolchain
def test_streams_over_tls_end(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    tokens.write(**TOKENS)
    with secure_server(tmp_path, "--tokens", str(tokens.path)) as server:
        server.token = token_of("root")
        hers = api_of(server, "ada").create()
        ended, kept = stream_of("ada", hers), stream_of("root", hers)
        Reloading(server, tokens).remove("ada")
        assert ended.read_close() == POLICY
        assert kept.call(op="reset")["status"] == 200
        for each in (ended, kept):
            each.close()
        external = open_websocket(
            Api(server), authorization=f"Bearer {token_of('ada')}"
        )
        assert external.response.status == 401
        external.close()


def test_relayed_streams_end(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    tokens.write(**TOKENS)
    flags = ("--tokens", str(tokens.path), "--stream-relay")
    with Server(*flags, token=token_of("root")) as server:
        ended = stream_of("ada", api_of(server, "ada").create())
        with ExternalEnv.to(api_of(server, "ada")) as external:
            Reloading(server, tokens).remove("ada")
            assert ended.read_close() == POLICY
            assert external.websocket.read_close() == POLICY
        ended.close()


def status_with(ticket: str, instance: Instance) -> int:
    """Open a stream by a ticket, and return the status of the answer."""
    path = instance.path(f"stream/?ticket={ticket}")
    with WebSocket.to(instance, authorization=None, path=path) as stream:
        return stream.response.status


def test_tickets_open_nothing(server: Server, shared: Reloading) -> None:
    hers = api_of(server, "ada").create()
    first, second, others = (
        ok(api_of(server, name).post("/v1/tickets/"))["ticket"]
        for name in ("ada", "ada", "root")
    )
    shared.remove("ada")
    assert status_with(first, hers) == 401
    # The name is accepted again, and the ticket is not.
    shared.remove()
    assert status_with(second, hers) == 401
    assert status_with(others, hers) == 101
    no_content(hers.close())


def test_free_external_connections_end(server: Server, shared: Reloading) -> None:
    ada, bob = api_of(server, "ada"), api_of(server, "bob")
    by_websocket = ExternalEnv.to(ada)
    polled = ok(ada.post("/v1/external/", HELLO))["connection"]
    zeromq = ZmqExternalEnv(server, token=token_of("ada"))
    tcp: dict[str, Any] = {}
    with ExternalEnv.to(bob) as his, by_websocket, zeromq:
        wait_until(lambda: listed_env(Api(server))["free"] == 4)
        shared.remove("ada")
        assert by_websocket.websocket.read_close() == POLICY
        # From the gateway, unless it reads the end of the broker's connection first.
        codes = ("unauthorized", "ended")
        assert zeromq.receive()["code"] in codes
        path = f"/v1/external/{polled}/request/?wait_s=0"
        error(ada.get(path), 401, "unauthorized")
        error(Api(server).get(path), 404, "not-found")
        wait_until(lambda: listed_env(Api(server))["free"] == 1)
        instance = create_and_reset(bob, his)
        tcp = counted(tcp_url(server), token=token_of("ada"))
        assert tcp["code"] == "unauthorized"
        with ZmqExternalEnv(server, token=token_of("ada")) as again:
            assert again.welcome["code"] == "unauthorized"
        his.drop()
        wait_until(lambda: instance.id not in Api(server).instances(), 10.0)
    wait_until_unlisted(Api(server))


def test_leased_external_connections_end(server: Server, shared: Reloading) -> None:
    """Also in the middle of a call."""
    with ExternalEnv.to(api_of(server, "ada"), name="game") as hers:
        his = create_and_reset(api_of(server, "bob"), hers)
        answers = []
        step = threading.Thread(
            target=lambda: answers.append(his.post("step/", {"action": 1}))
        )
        step.start()
        hers.expect("step")
        shared.remove("ada")
        assert hers.websocket.read_close() == POLICY
        step.join(10.0)
        error(answers[0], 503, "external-away")
    # The instance ends as after any loss of its environment.
    wait_until(lambda: his.id not in Api(server).instances(), 10.0)


def services(server: Server, *names: str) -> set[psutil.Process]:
    """Return the processes of services."""
    return {
        each
        for each in server.members()
        if any(processes.titled(each, name) for name in names)
    }


def kill_services(server: Server, *names: str) -> None:
    """Kill services, and wait until others have replaced them."""
    old = services(server, *names)
    assert len(old) == len(names)
    for each in old:
        each.kill()
    wait_until(lambda: len(services(server, *names) - old) == len(names), 10.0)


def test_a_new_broker_learns_whose_the_leased_connections_are(
    tmp_path: Path, make_server: Callable[..., Server]
) -> None:
    shared = Reloading.with_new(make_server, tmp_path, "--external-grace", "1")
    server = shared.server
    with ExternalEnv.to(api_of(server, "ada")) as hers:
        his = create_and_reset(api_of(server, "bob"), hers)
        kill_services(server, "broker")
        wait_until(lambda: listed_env(Api(server)), 10.0, "the host to report")
        shared.remove("ada")
        assert hers.websocket.read_close() == POLICY
    wait_until(lambda: his.id not in Api(server).instances(), 10.0)


def greet(peer: ZmqPeer, name: str, **greeting: Any) -> Any:
    """Send an agent's first message."""
    return peer.call(type="agent", protocol=1, token=token_of(name), **greeting)


def test_agents_over_zeromq_end(server: Server, shared: Reloading) -> None:
    with ZmqPeer(server) as hers, ZmqPeer(server) as his:
        made = greet(hers, "ada", create=CART)
        assert greet(his, "bob", create=CART)["type"] == "welcome"
        assert hers.call(op="reset")["status"] == 200
        shared.remove("ada")
        refused = hers.receive()
        assert (refused["type"], refused["code"]) == ("refused", "unauthorized")
        assert refused["message"] == POLICY[1]
        again = greet(hers, "ada", instance_id=made["instance_id"])
        assert again["code"] == "unauthorized"
        assert his.call(op="reset")["status"] == 200
        assert his.call(op="close")["status"] == 204
    root = Api(server)
    assert made["instance_id"] in root.instances()
    no_content(Instance(root, made["instance_id"]).close())


@pytest.mark.parametrize("restart", [False, True])
def test_new_tokens_work_over_tcp_and_zeromq(
    tmp_path: Path, make_server: Callable[..., Server], restart: bool
) -> None:
    """Also in services that start later."""
    flags = ("--external-tcp", "0", *ZMQ)
    shared = Reloading.with_new(make_server, tmp_path, *flags)
    server = shared.server
    shared.remove(carol="external:game,step,create")
    if restart:
        kill_services(server, "broker", "gateway")
    assert counted(tcp_url(server), token=token_of("carol"))["type"] == "welcome"
    with ZmqExternalEnv(server, token=token_of("carol")) as external:
        assert external.welcome["type"] == "welcome"


OCTETS = {"Content-Type": "application/octet-stream"}


def test_waits_and_sessions_of_the_relay_end(server: Server, shared: Reloading) -> None:
    root = Api(server)
    run = Run.create(api_of(server, "ada"), "removed")
    of_run = Api(server, {"Authorization": f"Bearer {run.tokens['worker']}"})
    worker = Run(of_run, "removed", {})
    for each, name in ((run, "hers"), (worker, "other")):
        target = each.samples(each.session(name))
        assert each.api.post(target, data=b"x", headers=OCTETS).status == 201
    answers = []
    wait = threading.Thread(
        target=lambda: answers.append(run.get("samples/?after=2&wait_s=50"))
    )
    wait.start()
    # In the order of their arrival, on the relay's one thread.
    ok(root.get(run.path()))
    shared.remove("ada")
    wait.join(10.0)
    error(answers[0], 401, "unauthorized")
    error(run.get(), 401, "unauthorized")
    workers = ok(root.get(run.path()))["workers"]
    states = {each["worker"]: each["state"] for each in workers}
    assert states == {"hers": "left", "other": "active"}


def test_the_name_stands_for_the_user(server: Server, shared: Reloading) -> None:
    """What was opened with an earlier secret of the name goes on."""
    hers = api_of(server, "ada").create()
    secret = line("spare", TOKENS["ada"]).replace("spare", "ada", 1)
    with stream_of("ada", hers) as stream:
        kept = [line(n, rest) for n, rest in TOKENS.items() if n != "ada"]
        shared.tokens.write_text("".join([*kept, secret]))
        assert reloaded(server) == "changed tokens: ada\n"
        assert stream.call(op="reset")["status"] == 200
        error(hers.post("reset/"), 401, "unauthorized")
        ok(api_of(server, "spare").post(hers.path("reset/"), {}))
    no_content(api_of(server, "spare").post(hers.path("close/")))


def test_services_log_at_the_new_level(server: Server) -> None:
    def lines() -> int:
        """Have the broker log two lines at level info; return those there are."""
        ExternalEnv.to(Api(server)).drop()
        wait_until_unlisted(Api(server))
        return len(lines_about(server, "INFO gym_http_server.broker: "))

    before = lines()
    assert reloaded(server, "--log-level", "warning") == "log level warning\n"
    assert lines() == before
    assert reloaded(server) == "log level info\n"
    assert lines() == before + 2


def test_clients_report_that_their_token_is_refused(
    server: Server, shared: Reloading
) -> None:
    """They send nothing again and again."""
    env = RemoteEnv(Remote(server.url, token=token_of("ada")), "CartPole-v1")
    env.reset(seed=1)
    env.step(0)
    shared.remove("ada")
    with pytest.raises(ServerError, match="the token is missing or wrong"):
        env.step(0)
    (instance_id,) = Api(server).instances()
    no_content(Instance(Api(server), instance_id).close())
    env.close()
