"""An agent or provider that connects to the wrong port gets a hint to the right one."""

import logging
import re
import threading
from collections.abc import Iterator

import gymnasium
import pytest

from gym_http_client import RemoteEnv, ServerError, serve_env
from tests.support.peers.zmq_peers import zmq_url
from tests.support.server import Server
from tests.support.wait import wait_until

WORDS = {
    "http": "for HTTP, and its address begins with http://",
    "plain": "serve_env takes it as tcp://; it is not that of --zmq",
    "zmq": "for ZeroMQ, and its address begins with zmq+tcp://",
}
_PLAIN = re.compile(r"connect at tcp://(\S+)")


@pytest.fixture(scope="module")
def ports() -> Iterator[dict[str, str]]:
    """A server's ports, by their purpose."""
    with Server("--external-tcp", "0", "--zmq", "tcp://127.0.0.1:0") as server:
        plain = wait_until(lambda: _PLAIN.search(server.stdout))[1]
        zmq = zmq_url(server).removeprefix("tcp://")
        yield {"http": f"127.0.0.1:{server.port}", "plain": plain, "zmq": zmq}


@pytest.mark.parametrize(
    ("scheme", "port"),
    [
        ("http://", "zmq"),
        ("tcp://", "http"),
        ("zmq+tcp://", "http"),
        ("zmq+tcp://", "plain"),
    ],
)
def test_an_agent_gets_a_hint(ports: dict[str, str], scheme: str, port: str) -> None:
    with pytest.raises(ServerError, match=re.escape(WORDS[port])) as caught:
        RemoteEnv(scheme + ports[port], "CartPole-v1")
    assert ports[port] in str(caught.value)


@pytest.mark.parametrize(
    ("scheme", "port", "transport"),
    [
        ("http://", "zmq", "websocket"),
        ("http://", "zmq", "http"),
        ("tcp://", "zmq", "websocket"),
        ("zmq+tcp://", "http", "websocket"),
        ("zmq+tcp://", "plain", "websocket"),
    ],
)
def test_a_provider_gets_a_hint(
    ports: dict[str, str],
    caplog: pytest.LogCaptureFixture,
    scheme: str,
    port: str,
    transport: str,
) -> None:
    stop = threading.Event()
    provider = threading.Thread(
        target=serve_env,
        args=(gymnasium.make("CartPole-v1"), scheme + ports[port]),
        kwargs={"name": "cart", "transport": transport, "stop": stop},
    )
    with caplog.at_level(logging.WARNING, "gym_http_client.serving"):
        provider.start()
        try:
            wait_until(lambda: WORDS[port] in caplog.text, 15)
        finally:
            stop.set()
            provider.join(20)
    assert not provider.is_alive()
