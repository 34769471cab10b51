"""Clients of a fleet connect their streams to the node that has the instance."""

import contextlib
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import gym_http_client as ghc
from gym_http_client import RemoteEnv
from tests.support.api import Api
from tests.support.drivers import Program
from tests.support.faults.fleet_front import (
    CutDirect,
    FleetFront,
    Recorder,
)
from tests.support.faults.lying_proxy import Exchange, Lie
from tests.support.fleet import fleet
from tests.support.reference_runs import ReferenceRun
from tests.support.server import Server

TOKEN = "a-token-that-no-other-address-gets"
NAMES = ("python", "lua5.4", "cpp", "js")
#: The cut comes in the middle of an episode.
MESSAGES = 23
pytestmark = [
    pytest.mark.live,
    pytest.mark.toolchain,
    # The C++ driver is built within the first test that needs it.
    pytest.mark.timeout(300),
]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    """Two nodes; the second one has ``--node-url``."""
    file = tmp_path_factory.mktemp("token") / "token"
    file.write_text(TOKEN + "\n")
    file.chmod(0o600)
    with fleet("one", "two", args=("--token-file", str(file))) as (_, servers):
        for each in servers:
            each.token = TOKEN
        yield servers


@pytest.fixture(params=NAMES)
def play(
    request: pytest.FixtureRequest, driver: Callable[[str], Program], tmp_path: Path
) -> Callable[[str], None]:
    """Return a function that has a client play, and checks the trajectory."""
    program = driver(request.param)
    walk = ReferenceRun("CartPole-v1", 7, 60)

    def play(url: str) -> None:
        done = program.run(*walk.args(url, "stream", tmp_path), token=TOKEN)
        assert done.returncode == 0, done.stdout + done.stderr
        walk.compare(done.stdout)

    return play


def front(nodes: list[Server], port: int) -> FleetFront:
    """Return a proxy before the first node, whose tickets name a port."""

    def change(url: str) -> str:
        assert f":{nodes[1].port}/" in url
        return url.replace(f":{nodes[1].port}/", f":{port}/")

    return FleetFront(nodes[0].port, "two", {"stream_url": change})


def test_a_stream_is_opened_at_the_instances_node(
    nodes: list[Server], play: Callable[[str], None]
) -> None:
    with CutDirect(nodes[1].port) as direct, front(nodes, direct.port) as first:
        play(first.url)
        assert first.paths("stream?") == []
        assert len(first.paths("/v1/tickets/")) == 1
        (head,) = direct.heads
        assert re.search(r"stream/?\?session=[\w-]+&ticket=[\w-]{32} ", head), head
        assert "authorization" not in head.lower()
        assert TOKEN not in head


def test_a_lost_stream_goes_on_in_its_session_through_the_first_address(
    nodes: list[Server], play: Callable[[str], None]
) -> None:
    with (
        CutDirect(nodes[1].port, MESSAGES) as direct,
        front(nodes, direct.port) as first,
    ):
        play(first.url)
        assert len(direct.heads) == 2
        assert len(first.sessions()) == 1
        assert len({*direct.sessions(), *first.sessions()}) == 1
        # Each with a new ticket.
        assert len(set(re.findall(r"ticket=([\w-]+)", "".join(direct.heads)))) == 2
        lost = [re.search(r"&lost=\d(\.\d{1,3})?", each) for each in direct.heads]
        assert [each is not None for each in lost] == [False, True]
        # A handshake at the first address may take ten seconds, one at the node one.
        assert 0.9 < first.times[-1] - direct.times[-1] < 9.0


def test_an_instance_that_exists_has_its_stream_at_its_node(
    nodes: list[Server],
) -> None:
    instance = Api(nodes[1]).create(node="two")
    with CutDirect(nodes[1].port) as direct, front(nodes, direct.port) as first:
        env = RemoteEnv.attach(ghc.Server(first.url, token=TOKEN), instance.id)
        with contextlib.closing(env):
            env.reset(seed=1)
            assert len(direct.sessions()) == 1
            assert first.sessions() == []


class ProxyWithoutServer(Recorder):
    """Answers the first handshakes as a proxy does while its server is away."""

    def __init__(self, port: int, handshakes: int) -> None:
        super().__init__(port, Lie(request=self._begin, answer=self._answer))
        self._left = handshakes

    def _begin(self, exchange: Exchange) -> None:
        self.record(exchange)
        if "stream?" in exchange.path and self._left > 0:
            self._left -= 1
            exchange.head = exchange.head.replace(b"stream?", b"nothing?")
        elif "/step/" in exchange.path and self._left == 0:
            # The first rest is over with this request.
            self._left = -1
            time.sleep(0.6)

    def _answer(self, exchange: Exchange) -> None:
        if "nothing?" in exchange.path:
            exchange.status, exchange.answer = 502, b"<html>Bad Gateway</html>"
            exchange.headers["content-type"] = "text/html"


def test_streams_are_tried_again_when_the_server_is_back(
    server: Server, play: Callable[[str], None]
) -> None:
    with ProxyWithoutServer(server.port, handshakes=3) as first:
        play(first.url)
        assert len(first.sessions()) == 4
        assert 1 <= len(first.paths("/step/")) < 5


def test_a_client_of_a_server_alone_requests_no_ticket(
    server: Server, play: Callable[[str], None]
) -> None:
    with Recorder(server.port) as first:
        play(first.url)
        assert len(first.sessions()) == 1
        assert first.paths("tickets") == []
