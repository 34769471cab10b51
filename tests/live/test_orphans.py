"""Instances of killed clients free their slots when other clients need them."""

import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import api as calls
from tests.support.api import Api, Instance
from tests.support.peers.zmq_peers import zmq_url
from tests.support.raw import RawConnection
from tests.support.server import ROOT, Server
from tests.support.tls import secure_server
from tests.support.wait import wait_until
from tests.support.websocket import CLOSE, TEXT, WebSocket

#: Long enough to find an orphan before it is ended.
TIMEOUT = 2.0
SMALL = ("--max-instances", "1", "--orphan-timeout", str(TIMEOUT))
CART = {"env_id": "CartPole-v1"}
CREATE = (
    b"POST /v1/envs/ HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b'Content-Length: 25\r\n\r\n{"env_id":"CartPole-v1"}\n'
)
CLIENT = """
import sys, time
from gym_http_client import RemoteEnv
env = RemoteEnv(sys.argv[1], "CartPole-v1")
env.reset(seed=0)
env.step(0)
print(env.instance_id, flush=True)
time.sleep(1000)
"""


@pytest.fixture(scope="module")
def small() -> Iterator[Server]:
    """A server with one slot."""
    with Server(*SMALL) as started:
        yield started


@pytest.fixture
def first(small: Server) -> Iterator[Instance]:
    """The instance that has the slot, until the test ends."""
    api = Api(small)
    instance = api.create()
    yield instance
    for each in api.instances():
        Instance(api, each).close()


def killed_client(url: str, api: Api, **environ: str) -> Instance:
    """Kill a client at work; return the instance that it leaves behind."""
    python_path = str(ROOT / "clients" / "python")
    with subprocess.Popen(
        [sys.executable, "-c", CLIENT, url],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": python_path, **environ},
    ) as client:
        assert client.stdout is not None
        instance_id = client.stdout.readline().strip()
        client.send_signal(signal.SIGKILL)
    return Instance(api, instance_id)


def full(api: Api) -> Any:
    """Find no free slot; return the error's instance that is idle longest."""
    error = calls.error(api.post("/v1/envs/", CART), 429, "too-many-instances")
    # None is idle while a stream is open.
    return error.get("oldest_idle", {"ends_in_s": 1e9, "idle_s": 0.0})


def wait_in_vain(api: Api) -> Any:
    """Find no free slot until long after the timeout."""

    def idle_for_long() -> Any:
        idle = full(api)
        return idle if idle["idle_s"] > TIMEOUT + 0.5 else None

    return wait_until(idle_for_long, 10.0, "an instance to be idle for long")


def check_reclaimed(api: Api, orphan: Instance) -> None:
    """Create until an orphan's slot is free, and check the orphan's end."""

    def made() -> str | None:
        answer = api.post("/v1/envs/", CART, headers={"X-Request-Id": "successor"})
        if answer.status == 429:
            return None
        return str(calls.ok(answer)["instance_id"])

    Instance(api, wait_until(made, 20.0, "the slot of the orphan")).close()
    error = calls.error(orphan.post("step/", {"action": 0}), 410, "instance-ended")
    assert error["reason"] == "orphaned"
    assert "its clients were gone" in error["message"]
    line = f"{orphan.id} ended: orphaned [request successor]"
    wait_until(lambda: line in api.server.stderr, 5.0, "the line of the end")


def reset_connection(stream: WebSocket) -> None:
    """End a connection by RST, as the kernel of a client that has crashed does."""
    linger = struct.pack("ii", 1, 0)
    stream._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    stream.close()


@pytest.mark.parametrize("how", ["handed over", "relayed", "zeromq"])
def test_the_slot_of_a_killed_client_is_free_after_a_while(
    how: str, make_server: Callable[..., Server]
) -> None:
    flags = {"relayed": ["--stream-relay"], "zeromq": ["--zmq", "tcp://127.0.0.1:0"]}
    server = make_server(*SMALL, *flags.get(how, []))
    api = Api(server)
    url = zmq_url(server) if how == "zeromq" else server.url
    check_reclaimed(api, killed_client(url, api))


def test_the_slot_of_a_killed_client_over_tls_is_free_after_a_while(
    tmp_path: Path,
) -> None:
    with secure_server(tmp_path, *SMALL) as server:
        api = Api(server)
        url = server.url.replace("127.0.0.1", "localhost")
        certificate = next(tmp_path.glob("localhost*[0-9].pem"))
        orphan = killed_client(url, api, SSL_CERT_FILE=str(certificate))
        check_reclaimed(api, orphan)


def test_a_connection_that_is_reset_orphans_an_instance(first: Instance) -> None:
    stream = WebSocket.to(first, sec_websocket_protocol=TEXT)
    assert stream.call(op="reset")["status"] == 200
    reset_connection(stream)
    check_reclaimed(first.api, first)


def test_a_closing_handshake_does_not_orphan_an_instance(first: Instance) -> None:
    with WebSocket.to(first, sec_websocket_protocol=TEXT) as stream:
        assert stream.call(op="reset")["status"] == 200
        stream.send_frame(CLOSE, struct.pack(">H", 1000))
        stream.read_close()
    # One that ended otherwise later on changes nothing: the first may come back.
    with WebSocket.to(first, sec_websocket_protocol=TEXT) as stream:
        assert stream.call(op="reset")["status"] == 200
    idle = wait_in_vain(first.api)
    assert (idle["instance_id"], idle["env_id"]) == (first.id, "CartPole-v1")
    assert idle["idle_s"] + idle["ends_in_s"] == pytest.approx(900.0, abs=0.2)


@pytest.mark.parametrize("request_", ["step", "look", "stream"])
def test_a_request_ends_orphanhood(request_: str, first: Instance) -> None:
    with WebSocket.to(first, sec_websocket_protocol=TEXT) as stream:
        assert stream.call(op="reset")["status"] == 200
    wait_until(lambda: full(first.api)["ends_in_s"] <= TIMEOUT, 5.0, "the orphan")
    if request_ == "step":
        first.step(0)
    elif request_ == "look":
        calls.ok(first.get(""))
    if request_ == "stream":
        with WebSocket.to(first, sec_websocket_protocol=TEXT):
            # The host notes it a moment after the handshake.
            wait_until(lambda: full(first.api)["ends_in_s"] == 1e9, 5.0, "a use")
    else:
        wait_in_vain(first.api)


def test_an_instance_without_streams_is_never_orphaned(first: Instance) -> None:
    first.reset()
    # To watch is not to use.
    with WebSocket.to(first, path=first.path("stream?watch=1")) as watching:
        assert watching.response.status == 101
    idle = wait_in_vain(first.api)
    assert idle["instance_id"] == first.id


def test_the_answer_names_the_end_of_an_orphan(
    make_server: Callable[..., Server],
) -> None:
    api = Api(make_server("--max-instances", "1", "--idle-timeout", "0"))
    orphan = killed_client(api.server.url, api)

    def orphaned() -> Any:
        idle = full(api)
        # Until the server has seen the end of its stream, the instance is not idle.
        return (
            idle
            if idle.get("ends_in_s", 1e9) is not None and "instance_id" in idle
            else None
        )

    idle = wait_until(orphaned, 10.0, "the instance to be orphaned")
    assert idle["instance_id"] == orphan.id
    assert 100.0 < idle["ends_in_s"] <= 150.0
    orphan.step(0)
    answer = calls.error(api.post("/v1/envs/", CART), 429, "too-many-instances")
    assert answer["oldest_idle"]["ends_in_s"] is None
    assert "the server does not end idle instances" in answer["message"]


def test_orphans_are_kept_where_the_timeout_is_off(
    make_server: Callable[..., Server],
) -> None:
    api = Api(make_server("--max-instances", "1", "--orphan-timeout", "0"))
    orphan = killed_client(api.server.url, api)
    assert wait_in_vain(api)["instance_id"] == orphan.id


def test_the_oldest_orphan_ends_first(make_server: Callable[..., Server]) -> None:
    api = Api(make_server("--max-instances", "2", "--orphan-timeout", str(TIMEOUT)))
    older, younger = api.create(), api.create()
    with WebSocket.to(younger, sec_websocket_protocol=TEXT) as lasting:
        with WebSocket.to(older, sec_websocket_protocol=TEXT) as stream:
            assert stream.call(op="reset")["status"] == 200
        wait_until(lambda: full(api)["ends_in_s"] <= TIMEOUT, 5.0, "the orphan")
        assert lasting.call(op="reset")["status"] == 200

    def made() -> bool:
        return api.post("/v1/envs/", CART).status == 200

    wait_until(made, 20.0, "the slot of an orphan")
    calls.error(older.post("reset/"), 410, "instance-ended")
    assert younger.reset()


def test_a_client_that_leaves_takes_no_slot(make_server: Callable[..., Server]) -> None:
    server = make_server(*SMALL, "--import", "tests.support.envs.hostile")
    api = Api(server)
    # Its host is killed 2.5 s after it was told to end.
    orphan = api.create("hostile/IgnoreTerm-v0")
    with WebSocket.to(orphan, sec_websocket_protocol=TEXT) as stream:
        assert stream.call(op="reset")["status"] == 200

    def leave() -> bool:
        """Send a create request and leave; return whether it waited for the slot."""
        with RawConnection(server.port, timeout=1.0) as client:
            client.send(CREATE)
            try:
                return client.read_response().status != 429
            except TimeoutError:
                return True

    wait_until(leave, 20.0, "the slot of the orphan")
    line = f"{orphan.id} ended: orphaned"
    wait_until(lambda: line in server.stderr, 10.0, "the line of the end")
    last = api.create()
    assert api.instances() == {last.id: "CartPole-v1"}
