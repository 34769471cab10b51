"""External environments connect over ZeroMQ where a server's setting permits it."""

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import gymnasium
import pytest

from gym_http_client import RemoteEnv, Retries, ServerError
from gym_http_client import Server as Place
from tests.support.api import Api, error, ok
from tests.support.broker import listed_env, wait_until_unlisted
from tests.support.identity import assert_identical
from tests.support.peers.agent_calls import (
    answer_of,
    close_external,
    create_and_reset,
    in_background,
)
from tests.support.peers.external_env import RESULT
from tests.support.peers.provider_process import provided_env
from tests.support.peers.zmq_peers import (
    HELLO,
    ZmqExternalEnv,
    ZmqPeer,
    gateway,
    zmq_url,
)
from tests.support.server import Server
from tests.support.wait import wait_until

TOKEN = "a-token-of-the-tests"
ZMQ = ["--zmq", "tcp://127.0.0.1:0"]
LAUNCHERS_ALONE = """
import sys

ROUTER = 6
if "serve" not in sys.argv:
    raise ImportError("libzmq.so.5: cannot open shared object file")
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server that accepts environments over ZeroMQ."""
    with Server(*ZMQ, "--external-grace", "1") as server:
        yield server


def test_it_is_stepped_and_released(server: Server) -> None:
    with ZmqExternalEnv.to(server) as external:
        for _ in range(2):
            instance = create_and_reset(Api(server), external)
            future = in_background(instance.post, "step/", {"action": 2})
            external.answer("step", **RESULT)
            body = ok(answer_of(future))
            assert (body["observation"], body["reward"]) == (RESULT["observation"], 2.0)
            close_external(instance, external)
        assert listed_env(Api(server))["free"] == 1
    wait_until_unlisted(Api(server))


def test_a_disconnected_environment_is_removed_at_once(server: Server) -> None:
    external = ZmqExternalEnv.to(server)
    instance = create_and_reset(Api(server), external)
    external.drop()
    error(instance.post("step/", {"action": 1}), 503, "external-away")
    wait_until(lambda: instance.id not in Api(server).instances())
    problem = error(instance.post("step/", {"action": 1}), 410, "instance-ended")
    assert problem["reason"] == "external-gone"


def test_it_resumes_with_its_token(server: Server) -> None:
    replay = {"capabilities": ["reset", "replay"]}
    external = ZmqExternalEnv.to(server, **replay)
    instance = create_and_reset(Api(server), external)
    future = in_background(instance.post, "step/", {"action": 1})
    first = external.expect("step")
    external.drop()
    error(answer_of(future), 503, "external-away")
    with ZmqExternalEnv(server, resume=external.welcome["resume"], **replay) as again:
        assert again.welcome["resumed"] is True
        future = in_background(instance.post, "step/", {"action": 1})
        assert again.answer("step", **RESULT)["id"] == first["id"]
        ok(answer_of(future))
        future = in_background(instance.close)
        again.answer("close")
        assert answer_of(future).status == 204
    wait_until_unlisted(Api(server))


def test_a_fault_is_reported(server: Server) -> None:
    with ZmqExternalEnv.to(server) as external:
        instance = create_and_reset(Api(server), external)
        future = in_background(instance.post, "step/", {"action": 1})
        external.answer("step", **{**RESULT, "reward": "much"})
        error(answer_of(future), 502, "bad-answer")
        assert external.expect("fault")["field"] == "reward"
        future = in_background(instance.close)
        external.answer("close")
        assert answer_of(future).status == 204
    wait_until_unlisted(Api(server))


def test_an_invalid_hello_is_refused_and_another_accepted(server: Server) -> None:
    with ZmqPeer(server) as peer:
        assert peer.call(type="hi")["code"] == "bad-parameter"
        peer.socket.send(b"\xff\0{")
        assert peer.receive()["code"] == "bad-parameter"
        peer.socket.send_multipart([b"{}", b"{}", b"{}"])
        assert "several frames" in peer.receive()["message"]
        assert peer.call(**{**HELLO, "name": "-"})["code"] == "bad-hello"
        assert peer.call(**HELLO)["type"] == "welcome"
    wait_until_unlisted(Api(server))


def test_an_environment_that_ignores_pings_is_refused_with_a_reason(
    make_server: Callable[..., Server],
) -> None:
    server = make_server(*ZMQ, "--external-heartbeat", "0.2")
    with ZmqExternalEnv.to(server) as external:
        assert external.receive() == {"type": "ping"}
        external.send_message(type="pong")
        assert external.receive() == {"type": "ping"}
        assert external.receive()["code"] == "ended"
        wait_until_unlisted(Api(server))


def test_the_token_is_in_the_hello(make_server: Callable[..., Server]) -> None:
    server = make_server(*ZMQ, "--token", TOKEN, token=TOKEN)
    with ZmqPeer(server) as external:
        for token in ("", "another-token-of-the-tests"):
            assert external.call(**HELLO, token=token)["code"] == "unauthorized"
        assert external.call(**HELLO, token=TOKEN)["type"] == "welcome"
        assert listed_env(Api(server))["free"] == 1


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--zmq", "tcp://0.0.0.0:0"], "set a token"),
        (["--zmq", "tcp://*:0", "--no-token"], "set a token"),
        (["--zmq", "5556"], "expected tcp://HOST:PORT"),
        (["--zmq", "ipc:///here"], "expected tcp://HOST:PORT"),
        (["--zmq", "tcp://127.0.0.1:70000"], "expected tcp://HOST:PORT"),
    ],
)
def test_settings_refused_at_the_start(
    launch_server: Callable[..., Server], flags: list[str], words: str
) -> None:
    server = launch_server(*flags)
    assert server.wait_exit() == 1
    assert words in server.stderr


def test_a_broken_pyzmq_is_reported(
    launch_server: Callable[..., Server], tmp_path: Path
) -> None:
    (tmp_path / "zmq.py").write_text(LAUNCHERS_ALONE)
    server = launch_server(*ZMQ, python_path=(tmp_path,))
    # No gateway runs for longer than a moment.
    server.wait_listening()
    words = "the gateway cannot start: --zmq needs pyzmq, which is installed but "
    wait_until(lambda: f"{words}cannot be loaded: libzmq.so.5" in server.stderr)
    assert "Traceback" not in server.stderr
    assert Api(server).instances() == {}


def test_it_is_off_by_default(make_server: Callable[..., Server]) -> None:
    assert "ZeroMQ" not in make_server().stdout


def provider_url(server: Server) -> str:
    return "zmq+" + zmq_url(server)


def test_its_process_finds_the_next_gateway(
    make_server: Callable[..., Server],
) -> None:
    """Agents continue, and the environment takes every step once."""
    server = make_server(*ZMQ)
    with (
        provided_env(provider_url(server), "CartPole-v1"),
        RemoteEnv(server.url, "external/provided", wait_s=20) as env,
    ):
        local = gymnasium.make("CartPole-v1")
        assert_identical(env.reset(seed=5), local.reset(seed=5))
        for _ in range(2):
            gateway(server).kill()
            for _ in range(3):
                assert_identical(env.step(0), local.step(0))
        local.close()
    wait_until_unlisted(Api(server), "provided")


def test_a_connection_that_is_half_open_is_found(
    make_server: Callable[..., Server],
) -> None:
    """Even while an answer is owed, when an environment may be silent."""
    server = make_server(*ZMQ, "--external-heartbeat", "0.5")
    with provided_env(provider_url(server), "CartPole-v1") as process:
        env = RemoteEnv(server.url, "external/provided", wait_s=20)
        once = Place(server.url, retries=Retries(total=0))
        other = RemoteEnv.attach(once, env.instance_id)
        other.reset(seed=5)
        # The connection stays open, but the environment sends nothing more.
        process.send_signal(signal.SIGSTOP)
        with pytest.raises(ServerError) as caught:
            other.step(0)
        assert caught.value.code == "external-away"
        process.send_signal(signal.SIGCONT)
        # The provider detects that, reconnects and continues.
        local = gymnasium.make("CartPole-v1")
        assert_identical(env.reset(seed=6), local.reset(seed=6))
        assert_identical(env.step(0), local.step(0))
        local.close()
        other.close()
        env.close()


def test_too_many_bytes_end_the_connection(make_server: Callable[..., Server]) -> None:
    server = make_server(*ZMQ, "--max-answer", "100000", "--max-body", "100000")
    with ZmqExternalEnv.to(server) as external:
        instance = create_and_reset(Api(server), external)
        future = in_background(instance.post, "step/", {"action": 1})
        request = external.expect("step")
        external.socket.send(b'{"id": %d, "result": {"observation": "' % request["id"])
        fault = external.expect("fault")
        assert "not a JSON object" in fault["message"]
        error(answer_of(future), 502, "bad-answer")
        assert external.receive()["code"] == "ended"
        assert instance.close().status == 204
    with ZmqExternalEnv.to(server) as external:
        assert listed_env(Api(server))["free"] == 1
        external.socket.send(bytes(200_000))
        wait_until_unlisted(Api(server))


def test_external_environments_are_counted(make_server: Callable[..., Server]) -> None:
    server = make_server(*ZMQ, "--max-external", "1")
    with ZmqExternalEnv.to(server), ZmqExternalEnv(server) as second:
        assert second.welcome["code"] == "too-many-external"


def test_a_lost_environment_is_given_up_despite_requests(server: Server) -> None:
    external = ZmqExternalEnv.to(server)
    instance = create_and_reset(Api(server), external)
    external.drop()
    until = time.monotonic() + 20
    while (answer := instance.post("step/", {"action": 1})).status == 503:
        assert time.monotonic() < until
    assert error(answer, 410, "instance-ended")["reason"] == "external-gone"
