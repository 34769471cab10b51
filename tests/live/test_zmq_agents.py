"""Agents drive instances over ZeroMQ with the messages of streams."""

import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.api import Api
from tests.support.peers.zmq_peers import ZmqExternalEnv, ZmqPeer, gateway
from tests.support.server import Server
from tests.support.wait import wait_until
from tests.support.websocket import binary, value

TOKEN = "a-token-of-the-tests"
ZMQ = ["--zmq", "tcp://127.0.0.1:0"]
CART: dict[str, Any] = {"env_id": "CartPole-v1"}
# Of CartPole-v1, seed 42.
FIRST = [0.027395604, -0.006112156, 0.035859793, 0.019736802]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server that accepts agents over ZeroMQ."""
    with Server(*ZMQ) as server:
        yield server


def welcomed(peer: ZmqPeer, **greeting: Any) -> Any:
    answer = peer.call(type="agent", protocol=1, **greeting)
    assert answer["type"] == "welcome", answer
    return answer


def refused(peer: ZmqPeer, **greeting: Any) -> Any:
    answer = peer.call(type="agent", protocol=1, **greeting)
    assert answer["type"] == "refused", answer
    return answer


def test_it_creates_drives_and_closes_an_instance(server: Server) -> None:
    with ZmqPeer(server) as peer:
        welcome = welcomed(peer, create=CART)
        instance_id = welcome["instance_id"]
        assert instance_id in Api(server).instances()
        answer = peer.call(op="reset", seed=42)
        assert (answer["number"], answer["status"]) == (1, 200)
        assert answer["body"]["observation"] == FIRST
        peer.send_message(op="step", action=1)
        peer.send_message(op="step", action="left")
        assert peer.receive()["body"]["reward"] == 1.0
        assert peer.receive()["body"]["code"] == "invalid-action"
        answer = peer.call(op="close", number=7)
        assert answer == {"number": 7, "status": 204, "body": None}
        assert instance_id not in Api(server).instances()
        # And the same peer may begin anew.
        second = welcomed(peer, create=CART)
        assert second["instance_id"] != instance_id
        peer.call(op="close")


@pytest.mark.parametrize("more", [{}, {"kwargs": {"beyond": "x" * 20_000}}], ids=len)
def test_it_resumes_no_recording(more: dict[str, Any], server: Server) -> None:
    directory = f"of-http-{len(more)}"
    Api(server).create(record=directory).close()
    create = {"env_id": "Acrobot-v1", "resume": directory, "verify": False, **more}
    with ZmqPeer(server) as peer:
        for each in (create, {"resume": directory}):
            answer = refused(peer, create=each)
            words = "recordings are resumed over HTTP: expected POST /v1/envs/"
            assert (answer["code"], answer["message"]) == ("bad-parameter", words)


def test_updates_of_a_clock_wait_and_actions_pass_them(server: Server) -> None:
    realtime = {"mode": "free_running", "hz": 5, "default_action": 0}
    with ZmqPeer(server) as peer:
        welcomed(peer, create={**CART, "realtime": realtime})
        assert peer.call(op="reset", seed=42)["body"]["observation"] == FIRST
        peer.send_message(op="updates", after=1, number=2)
        peer.send_message(op="updates", after=1, number=3)
        peer.send_message(op="act", action=1, number=4)
        assert peer.receive()["number"] == 4
        waited = [peer.receive() for _ in range(2)]
        assert [each["number"] for each in waited] == [2, 3]
        for each in waited:
            (update,) = each["body"]["updates"]
            assert update["realtime"]["action"]["value"] == 1
        peer.call(op="close", number=5)


def test_the_binary_dialect(server: Server) -> None:
    with ZmqPeer(server) as peer:
        welcomed(peer, create=CART, dialect="binary")
        seed = value('{"dict":[["seed","int"]]}', struct.pack("<q", 42))
        peer.socket.send(binary(1, 1, seed))
        message = peer.socket.recv()
        size, head, status, _, form, number = struct.unpack_from("<IIHBBI", message)
        assert (status, form, number, len(message)) == (200, 3, 1, 16 + head + size)
        assert struct.unpack("<4f", message[-16:]) == pytest.approx(FIRST)
        peer.socket.send(binary(49, 2, form=0))
        message = peer.socket.recv()
        assert struct.unpack("<IIHBBI", message) == (0, 0, 204, 0, 0, 2)
    assert not Api(server).instances()


def test_another_goes_on_where_one_was_lost(server: Server) -> None:
    with ZmqPeer(server) as peer:
        welcome = welcomed(peer, create=CART)
        first = peer.call(op="reset", seed=42)
    instance, session = welcome["instance_id"], welcome["session"]
    with ZmqPeer(server) as peer:
        welcomed(peer, instance_id=instance, session=session)
        # A request with an old number is not executed again.
        assert peer.call(op="reset", seed=42, number=1) == first
        assert peer.call(op="step", action=0, number=2)["status"] == 200
        peer.call(op="close")
    assert not Api(server).instances()


def test_invalid_creates_are_refused(server: Server) -> None:
    with ZmqPeer(server) as peer:
        error = refused(peer, create={"env_id": "NoSuch-v0"})
        assert (error["status"], error["code"]) == (400, "unknown-env")
        error = refused(peer, create={"env_id": "external/nobody"})
        assert (error["status"], error["code"]) == (503, "external-away")
        error = refused(peer, instance_id="deadbeef")
        assert error["code"] == "unknown-instance"
        error = refused(peer, instance_id="../../etc")
        assert error["code"] == "unknown-instance"
        for greeting in (
            {},
            {"create": CART, "instance_id": "deadbeef"},
            {"create": CART, "dialect": "yaml"},
            {"create": CART, "session": "no good"},
            {"create": CART, "lost": "long"},
            {"create": CART, "key": "k" * 129},
            # As a node of a fleet has it.
            {"create": CART, "key": "node 7a"},
        ):
            assert refused(peer, **greeting)["code"] == "bad-parameter", greeting
        assert peer.call(type="agent", protocol=2)["type"] == "refused"


def test_a_key_makes_one_instance(server: Server) -> None:
    with ZmqPeer(server) as first, ZmqPeer(server) as second:
        made = welcomed(first, create=CART, key="once")["instance_id"]
        again = welcomed(second, create=CART, key="once")["instance_id"]
        assert made == again
        first.call(op="close")


def test_a_client_that_leaves_during_a_create_leaves_nothing(server: Server) -> None:
    with ZmqExternalEnv.to(server) as external:
        peer = ZmqPeer(server)
        peer.send_message(type="agent", protocol=1, create={"env_id": "external/game"})
        external.expect("init")
        peer.drop()
        # No request reaches the environment: its host ended with the create.
        wait_until(lambda: not Api(server).instances())


def test_the_end_of_an_instance_is_reported(server: Server) -> None:
    api = Api(server)
    with ZmqPeer(server) as peer:
        instance_id = welcomed(peer, create=CART)["instance_id"]
        api.post(f"/v1/envs/{instance_id}/close/")
        answer = peer.receive()
        assert (answer["type"], answer["code"]) == ("refused", "unknown-instance")
        assert peer.call(op="reset")["code"] == "bad-parameter"


def test_a_message_before_the_welcome_is_refused(server: Server) -> None:
    with ZmqPeer(server) as peer:
        peer.send_message(type="agent", protocol=1, create=CART)
        peer.send_message(op="reset")
        assert "welcome" in peer.receive()["message"]
    wait_until(lambda: not Api(server).instances())


def test_the_token_is_in_the_greeting(make_server: Callable[..., Server]) -> None:
    server = make_server(*ZMQ, "--token", TOKEN, token=TOKEN)
    with ZmqPeer(server) as peer:
        assert refused(peer, create=CART)["code"] == "unauthorized"
        assert refused(peer, create=CART, token="wrong")["code"] == "unauthorized"
        welcomed(peer, create=CART, token=TOKEN)
        peer.call(op="close")


def test_a_gateway_that_died_is_followed_by_another(
    make_server: Callable[..., Server],
) -> None:
    server = make_server(*ZMQ)
    with ZmqPeer(server) as peer:
        welcome = welcomed(peer, create=CART)
        peer.call(op="reset", seed=42)
        first = gateway(server)
        first.kill()
        # Messages sent before that is noticed are lost, as over any connection.
        wait_until(lambda: gateway(server) != first)
        # ZeroMQ reconnects by itself, and the new gateway knows no peers.
        assert peer.call(op="step", action=0)["type"] == "refused"
        welcomed(peer, instance_id=welcome["instance_id"], session=welcome["session"])
        assert peer.call(op="step", action=0, number=2)["status"] == 200
        peer.call(op="close")


def test_connected_agents_learn_that_the_server_stops(
    make_server: Callable[..., Server],
) -> None:
    server = make_server(*ZMQ)
    with ZmqPeer(server) as agent, ZmqExternalEnv.to(server) as external:
        welcomed(agent, create=CART)
        server.stop()
        for peer in (agent, external):
            answer = peer.receive()
            assert (answer["type"], answer["code"]) == ("refused", "draining")
