"""External environments connect by plain TCP where a server's setting permits it."""

import contextlib
import json
import socket
import struct
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.api import Api, error, ok
from tests.support.broker import listed_env, tcp_url, wait_until_unlisted
from tests.support.peers.agent_calls import (
    answer_of,
    close_external,
    create_and_reset,
    in_background,
)
from tests.support.peers.external_env import BOX, RESULT, THREE
from tests.support.server import Server

TOKEN = "a-token-of-the-tests"
HELLO = {"type": "hello", "protocol": 1, "name": "game", "capabilities": ["reset"]}
HELLO |= {"observation_space": BOX, "action_space": THREE}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server that accepts environments over plain TCP."""
    with Server("--external-tcp", "0", "--external-grace", "1") as server:
        yield server


class Counted:
    """A connection with counted messages."""

    def __init__(self, server: Server) -> None:
        door = urlsplit(tcp_url(server))
        self.socket = socket.create_connection((door.hostname, door.port), 20)

    def __enter__(self) -> "Counted":
        return self

    def __exit__(self, *exception: object) -> None:
        self.socket.close()

    def send_message(self, **message: Any) -> None:
        data = json.dumps(message).encode()
        self.socket.sendall(struct.pack("<I", len(data)) + data)

    def receive(self) -> Any:
        (size,) = struct.unpack("<I", self._read(4))
        return json.loads(self._read(size))

    def answer(self, kind: str, **result: Any) -> None:
        request = self.receive()
        assert request["type"] == kind
        self.send_message(id=request["id"], result=result)

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            if not more:
                raise EOFError
            data += more
        return data


def test_it_is_stepped_and_released(server: Server) -> None:
    api = Api(server)
    with Counted(server) as external:
        external.send_message(**HELLO)
        assert external.receive()["type"] == "welcome"
        for _ in range(2):
            instance = create_and_reset(api, external)
            future = in_background(instance.post, "step/", {"action": 2})
            external.answer("step", **RESULT)
            body = ok(answer_of(future))
            assert (body["observation"], body["reward"]) == (RESULT["observation"], 2.0)
            close_external(instance, external)
    wait_until_unlisted(Api(server))


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n", b"\xff\xff\xff\xff"])
def test_an_invalid_length_prefix_ends_the_connection(
    server: Server, data: bytes
) -> None:
    with Counted(server) as external:
        external.socket.sendall(data)
        assert external.socket.recv(1) == b""


def test_an_environment_that_ignores_pings_is_removed(
    make_server: Callable[..., Server],
) -> None:
    server = make_server("--external-tcp", "0", "--external-heartbeat", "0.2")
    with Counted(server) as external:
        external.send_message(**HELLO)
        assert external.receive()["type"] == "welcome"
        assert external.receive() == {"type": "ping"}
        external.send_message(type="pong")
        assert external.receive() == {"type": "ping"}
        with pytest.raises(EOFError):
            external.receive()
        wait_until_unlisted(Api(server))


def test_idle_connections_do_not_lock_out_an_environment(server: Server) -> None:
    with contextlib.ExitStack() as stack:
        accepted = stack.enter_context(Counted(server))
        accepted.send_message(**HELLO)
        assert accepted.receive()["type"] == "welcome"
        silent = [stack.enter_context(Counted(server)) for _ in range(64)]
        external = stack.enter_context(Counted(server))
        answer = silent[0].receive()
        assert (answer["type"], answer["code"]) == ("refused", "too-many-external")
        with pytest.raises(EOFError):
            silent[0].receive()
        external.send_message(**HELLO)
        assert external.receive()["type"] == "welcome"
        # The others of them stay, as does the one that was accepted before.
        silent[1].send_message(**HELLO)
        assert silent[1].receive()["type"] == "welcome"
        assert listed_env(Api(server))["free"] == 3
    wait_until_unlisted(Api(server))


def test_the_token_is_in_the_hello(make_server: Callable[..., Server]) -> None:
    flags = ["--external-tcp", "127.0.0.1:0", "--token", TOKEN]
    server = make_server(*flags, token=TOKEN)
    for token in ("", "another-token-of-the-tests"):
        with Counted(server) as external:
            external.send_message(**HELLO, token=token)
            assert external.receive()["code"] == "unauthorized"
            with pytest.raises(EOFError):
                external.receive()
    # Nothing but the token is parsed of a hello that shows the wrong one.
    for changes in ({"observation_space": {"type": "no space"}}, {"protocol": [2]}):
        with Counted(server) as external:
            external.send_message(**HELLO | changes)
            assert external.receive()["code"] == "unauthorized"
    with Counted(server) as external:
        external.send_message(**HELLO, token=TOKEN)
        assert external.receive()["type"] == "welcome"
        assert listed_env(Api(server))["free"] == 1
        assert TOKEN not in json.dumps(listed_env(Api(server)))


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--external-tcp", "0.0.0.0:0"], "set a token"),
        (["--external-tcp", "0.0.0.0:0", "--no-token"], "set a token"),
        (["--external-tcp", "here"], "expected a port"),
        (["--external-tcp", "70000"], "expected a port"),
    ],
)
def test_settings_refused_at_the_start(
    launch_server: Callable[..., Server], flags: list[str], words: str
) -> None:
    server = launch_server(*flags)
    assert server.wait_exit() == 1
    assert words in server.stderr


def test_a_port_in_use_is_reported_at_once(
    launch_server: Callable[..., Server],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = launch_server("--external-tcp", str(port))
        assert server.wait_exit() == 1
        assert "choose another port with --external-tcp" in server.stderr


def test_it_is_off_by_default(make_server: Callable[..., Server]) -> None:
    assert "connect at" not in make_server().stdout


def test_creating_a_missing_environment_is_refused(server: Server) -> None:
    answer = Api(server).post("/v1/envs/", {"env_id": "external/game"})
    error(answer, 503, "external-away")
