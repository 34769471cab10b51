"""Hostile ZeroMQ peers do not bring the gateway down and do not affect other peers."""

import contextlib
import socket
import struct
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest
import zmq

from tests.support.api import Api
from tests.support.peers.tango import SPACES, TangoAgent, TangoPage
from tests.support.peers.zmq_peers import ZmqExternalEnv, ZmqPeer, gateway, zmq_url
from tests.support.server import Server
from tests.support.wait import wait_until

ZMQ = ["--zmq", "tcp://127.0.0.1:0", "--tango-name", "game"]
TOKEN = "a-token-of-the-tests"
CART: dict[str, Any] = {"env_id": "CartPole-v1"}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server that accepts peers over ZeroMQ."""
    with Server(*ZMQ) as server:
        yield server


@pytest.fixture
def witness(server: Server) -> Iterator[ZmqPeer]:
    """An agent that is there before, and has to be served after."""
    before = gateway(server)
    with ZmqPeer(server) as peer:
        welcome = peer.call(type="agent", protocol=1, create=CART)
        assert welcome["type"] == "welcome", welcome
        assert peer.call(op="reset")["status"] == 200
        yield peer
        assert peer.call(op="reset")["status"] == 200
        assert peer.call(op="close")["status"] == 204
    assert gateway(server) == before


FOREIGN = [
    b"",
    b"\xff\xfe",
    b"null",
    b'{"type":["reset"]}',
    b'{"type":{"reset":1}}',
    b'{"type":"action","action":"\\ud800"}',
    b'{"type":"action","action":' + b"9" * 5000 + b"}",
    b'{"type":"action","action":' + b"[" * 960 + b"]" * 960 + b"}",
    b'{"type":"action","action":"' + b"[" * 980 + b"]" * 980 + b'"}',
    b'{"type":"reset","seed":123456789012345678901234567890}',
    b'{"type":"reset","seed":NaN}',
]


def test_any_message_of_a_tango_agent_is_answered(
    server: Server, witness: ZmqPeer
) -> None:
    with ZmqExternalEnv.to(server) as external, TangoAgent(server) as agent:
        agent.socket.send(b'{"type":"reset"}')
        external.answer("init")
        external.answer("reset", observation=[0, 1])
        assert "observation" in agent.receive()
        for message in FOREIGN:
            agent.socket.send(message)
            assert agent.receive()["error"]["status"] in (400, 501), message
        agent.socket.send(b'{"type":"close"}')
        external.answer("close")
        assert agent.receive() == {"info": "closed"}


def test_a_req_is_answered_if_its_message_is_in_pieces(
    server: Server, witness: ZmqPeer
) -> None:
    with TangoAgent(server) as agent:
        agent.socket.send_multipart([b'{"type":', b'"reset"}'])
        assert "frames" in agent.receive()["error"]["message"]
        assert agent.reset()["error"]["code"] == "external-away"


def test_a_message_in_pieces_ends_the_conversation(
    server: Server, witness: ZmqPeer
) -> None:
    with ZmqPeer(server) as peer:
        peer.call(type="agent", protocol=1, create=CART, key="pieces")
        peer.socket.send_multipart([b'{"op":', b'"reset"}'])
        answer = peer.receive()
        assert (answer["type"], answer["code"]) == ("refused", "bad-parameter")
        # So refusing any number of them takes no memory.
        assert "over" in peer.call(op="reset")["message"]
        peer.call(type="agent", protocol=1, create=CART, key="pieces")
        assert peer.call(op="close")["status"] == 204


HELLO_BY_TCP = b'{"type":"hello","protocol":1,"name":"game"' + b" " * 300 + b"}"
ANOTHER = struct.pack("<I", len(HELLO_BY_TCP)) + HELLO_BY_TCP
HELLO = b'{"type":"hello"}'


@pytest.mark.parametrize(
    "output",
    [
        b"POST /v1/envs/ HTTP/1.1\r\nContent-Length: 200\r\n\r\n" + bytes(200),
        ANOTHER + ANOTHER,
        b"\x01\0" + bytes([1 + len(HELLO), 0]) + HELLO,
        b"\xff\0\0\0\0\0\0\0\1\x7f\1\5\0\0" + bytes([0, len(HELLO)]) + HELLO,
    ],
    ids=["HTTP", "plain TCP", "ZMTP 1", "ZMTP 2"],
)
def test_other_protocols_and_old_zeromq(
    server: Server, witness: ZmqPeer, output: bytes
) -> None:
    host, port = zmq_url(server).removeprefix("tcp://").split(":")
    with socket.create_connection((host, int(port)), 20) as sock:
        message = sock.recv(10)
        sock.sendall(output)
        # A peer with another protocol is not answered in this one.
        while HELLO in output and b"libzmq 4" not in message:
            more = sock.recv(1024)
            assert more, message
            message += more


def test_nothing_is_kept_for_a_host_that_has_not_answered_yet(
    server: Server, witness: ZmqPeer
) -> None:
    with ZmqPeer(server) as first, ZmqPeer(server) as second:
        welcome = first.call(type="agent", protocol=1, create=CART)
        host = server.host(welcome["instance_id"])
        host.suspend()
        try:
            again = {"protocol": 1, "instance_id": welcome["instance_id"]}
            second.send_message(type="agent", **again)
            second.send_message(op="step", action=0)
            assert "welcome" in second.receive()["message"]
        finally:
            host.resume()
        assert first.call(op="close")["status"] == 204


def test_a_flood_of_connections_ends_no_others(
    make_server: Callable[..., Server],
) -> None:
    server = make_server(*ZMQ)
    with ZmqExternalEnv.to(server), ZmqPeer(server) as there, ZmqPeer(server) as late:
        assert late.call(type="nobody")["type"] == "refused"
        created = there.call(type="agent", protocol=1, create=CART)
        before = gateway(server)
        usual = before.rlimit(psutil.RLIMIT_NOFILE)
        before.rlimit(psutil.RLIMIT_NOFILE, (before.num_fds(), usual[1]))
        for greeting in (
            {"type": "hello", "name": "game"},
            {"type": "agent", "protocol": 1, "create": CART},
            {"type": "agent", "protocol": 1, "instance_id": created["instance_id"]},
        ):
            answer = late.call(**greeting)
            assert (answer["type"], answer["status"]) == ("refused", 503), answer
        assert there.call(op="reset")["status"] == 200
        before.rlimit(psutil.RLIMIT_NOFILE, usual)
        assert late.call(type="agent", protocol=1, create=CART)["type"] == "welcome"
        assert late.call(op="close")["status"] == 204
        assert there.call(op="close")["status"] == 204
        assert gateway(server) == before


def test_idle_connections_do_not_lock_out_a_peer(
    make_server: Callable[..., Server],
) -> None:
    server = make_server(*ZMQ, "--max-external", "1")
    host, port = zmq_url(server).removeprefix("tcp://").split(":")
    with contextlib.ExitStack() as stack:
        external = stack.enter_context(ZmqExternalEnv.to(server))
        agent = stack.enter_context(ZmqPeer(server))
        assert agent.call(type="agent", protocol=1, create=CART)["type"] == "welcome"
        # ZMTP 3 from a peer that sends its half of the greeting and no more.
        silent = []
        for _ in range(66):
            sock = socket.create_connection((host, int(port)), 20)
            silent.append(stack.enter_context(sock))
            sock.sendall(b"\xff\0\0\0\0\0\0\0\1\x7f\3")
        for sock in silent[:2]:
            while sock.recv(1024):
                pass
        for sock in silent[2:]:
            sock.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                assert sock.recv(1024)
        late = stack.enter_context(ZmqPeer(server))
        assert late.call(type="nobody")["type"] == "refused"
        assert agent.call(op="reset")["status"] == 200
        assert agent.call(op="close")["status"] == 204
        assert external.welcome


def test_a_first_message_without_end_is_not_kept(
    make_server: Callable[..., Server],
) -> None:
    server = make_server(*ZMQ, "--token", TOKEN, token=TOKEN)
    host, port = zmq_url(server).removeprefix("tcp://").split(":")
    with (
        ZmqPeer(server) as patient,
        socket.create_connection((host, int(port)), 20) as sock,
    ):
        # The greeting and the READY of ZMTP 3.0, and then piece after piece.
        assert patient.call(type="hello", token="x")["code"] == "unauthorized"
        sock.sendall(b"\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL" + bytes(48))
        ready = b"\x05READY\x0bSocket-Type\0\0\0\x06DEALER"
        sock.sendall(bytes([4, len(ready)]) + ready)
        piece = b"\3" + (2**20).to_bytes(8, "big") + bytes(2**20)
        sock.settimeout(3)
        sent = 0
        # After the end the kernel may not open the window again: then this waits.
        with contextlib.suppress(ConnectionError, TimeoutError):
            while sent < 1024:
                sock.sendall(piece)
                sent += 1
        assert sent < 1024
        # A peer that sends whole messages stays connected.
        for _ in range(20):
            answer = patient.call(type="hello", token="x", filler="x" * 2**20)
            assert answer["status"] in (401, 413, 429)


def test_a_long_first_message_is_refused_unread(
    make_server: Callable[..., Server],
) -> None:
    server = make_server(*ZMQ, "--token", TOKEN, "--max-body", "4096", token=TOKEN)
    with ZmqPeer(server) as peer:
        answer = peer.call(type="hello", token="x", filler="x" * 2**20)
        assert (answer["code"], answer["status"]) == ("body-too-large", 413)
        assert str(2**20) in answer["message"]
        assert peer.call(type="hello", token="x")["code"] == "unauthorized"


def test_a_server_stops_in_time_despite_peers_that_read_nothing(
    make_server: Callable[..., Server],
) -> None:
    server = make_server(*ZMQ)
    with ZmqPeer(server) as peer, ZmqPeer(server), ZmqExternalEnv.to(server):
        peer.call(type="agent", protocol=1, create=CART)
        peer.socket.setsockopt(zmq.SNDTIMEO, 20_000)
        # Answers fill all buffers on the way, and more.
        for _ in range(20_000):
            peer.send_message(op="action_space")
        assert server.stop() == 0


def test_a_page_is_free_again_when_the_gateway_of_its_agent_was_killed(
    make_server: Callable[..., Server],
) -> None:
    server = make_server(*ZMQ)
    with TangoPage(server, **SPACES) as page, TangoAgent(server) as agent:
        request = {"type": "reset", "seed": None, "options": None}
        agent.socket.send(b'{"type":"reset"}')
        page.answer(request, {"observation": [[0, 0], [0, 0]], "info": {}})
        assert "observation" in agent.receive()
        first = gateway(server)
        first.kill()
        wait_until(lambda: gateway(server) != first)
        page.answer({"type": "close"}, {"info": "closed"})
        wait_until(lambda: not Api(server).instances())
