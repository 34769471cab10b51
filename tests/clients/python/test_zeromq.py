"""The Python client's ZeroMQ transport against scripted sockets."""

import itertools
import json
import re
import socket
import struct
import threading
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

import pytest
import zmq

from gym_http_client import RemoteEnv, Retries, Server, ServerError, ServerTimeout
from gym_http_client.zeromq.dealer import Dealer, address_of
from gym_http_client.zeromq.session import ZeroMQOpener, ZeroMQSession
from tests.support.fake_clock import FakeClock

PROTOCOL: dict[str, Any] = {"protocol": 1, "instance_id": "3c657dbc"}
WELCOME = json.dumps({"type": "welcome", **PROTOCOL, "session": "s"}).encode()
BUSY = {"status": 503, "code": "busy", "message": "much is going on here"}
STEP = {"action": 1}


def refused(**answer: Any) -> bytes:
    return json.dumps({"type": "refused", **answer}, separators=(",", ":")).encode()


def busy(number: int) -> bytes:
    """Answer a request on a stream: not now."""
    body = json.dumps(BUSY).encode()
    return struct.pack("<IIHBBI", len(body), 0, 503, 0, 1, number) + body


class Router:
    """A socket that answers its peers by a script, and is silent afterwards.

    Args:
        scripts: The answers to each peer in order, one per message; further peers
            get the last script.

    Attributes:
        greetings: The first message of each peer.
    """

    def __init__(self, *scripts: list[bytes]) -> None:
        self._scripts = itertools.chain(scripts, itertools.repeat(scripts[-1]))
        self.greetings: list[Any] = []
        self._context: zmq.Context[Any] = zmq.Context()
        self._socket: zmq.Socket[Any] = self._context.socket(zmq.ROUTER)
        port = self._socket.bind_to_random_port("tcp://127.0.0.1")
        self.url = f"tcp://127.0.0.1:{port}"
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._answer)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join(20)
        self._context.destroy(linger=0)

    def _answer(self) -> None:
        peers: dict[bytes, Iterator[bytes]] = {}
        while not self._over.is_set():
            if not self._socket.poll(50):
                continue
            peer, message = self._socket.recv_multipart()
            if peer not in peers:
                self.greetings.append(json.loads(message))
                peers[peer] = iter(next(self._scripts))
            answer = next(peers[peer], None)
            if answer is not None:
                self._socket.send_multipart([peer, answer])


def session_with(router: Router, total: float = 120.0) -> ZeroMQSession:
    """Return a session without pauses."""
    retries, url = FakeClock().retries(total), router.url
    openings = ZeroMQOpener(
        address_of(url, ""), "3c657dbc", time_limit=0.3, retries=retries
    )
    return ZeroMQSession(openings, f"{url}/v1/envs/3c657dbc/", retries)


def test_an_instance_that_ends_during_a_retry_is_lost() -> None:
    ended = refused(status=410, code="stream-ended", message="it ended")
    crashed = refused(status=500, code="env-crashed", message="it crashed")
    with Router([WELCOME, busy(1)], [WELCOME, ended], [crashed]) as router:
        session = session_with(router)
        with pytest.raises(ServerError) as caught:
            session.call("step/", STEP)
        assert caught.value.code == "env-crashed"
        # By the clock of the pauses: of 0.05 s after the first, and twice that then.
        since = [greeting.get("lost") for greeting in router.greetings]
        assert since == [None, None, pytest.approx(0.1)]


def test_the_message_of_a_busy_server_is_raised_when_time_is_up() -> None:
    with Router([WELCOME, busy(1)], [WELCOME]) as router:
        session = session_with(router, total=0.3)
        words = re.escape("before that: much is going on here (503)")
        with pytest.raises(ServerTimeout, match=words):
            session.call("step/", STEP)


def test_a_further_try_to_create_has_the_time_that_is_left() -> None:
    with Router([refused(**BUSY)], []) as router:
        there = Server(router.url, time_limit=5, retries=Retries(total=0.5))
        began = time.monotonic()
        with pytest.raises(ServerTimeout, match="much is going on here"):
            RemoteEnv(there, "CartPole-v1")
        assert time.monotonic() - began < 4
        assert len(router.greetings) == 2


@pytest.mark.parametrize("seconds", [0.2, 1.3])
def test_probing_a_silent_port_adds_no_time(seconds: float) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = address_of(f"tcp://127.0.0.1:{listener.getsockname()[1]}", "")
        began = time.monotonic()
        with pytest.raises(TimeoutError, match=f"within {seconds:g} s"):
            Dealer(address, 1000, seconds)
        assert time.monotonic() - began < seconds + 0.5
