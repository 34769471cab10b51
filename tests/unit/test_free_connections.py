"""Idle connections of the broker: how long they may be silent, and their hellos."""

import contextlib
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from gym_http_server.access.identities import Identity
from gym_http_server.external.handshakes import read_hello
from gym_http_server.processes.poller import Poller
from gym_http_server.services.broker import free_connections
from gym_http_server.services.broker.free_connections import FreeConnections
from gym_http_server.services.broker.messages import BrokerSettings, ConnectRequest
from gym_http_server.services.broker.registry import Registry
from gym_http_wire.external.handshake import BadHello

SPACE = {"type": "Discrete", "n": 5}
HELLO = {"type": "hello", "protocol": 1, "name": "game"}
HELLO |= {"observation_space": SPACE, "action_space": SPACE}
HEARTBEAT = 2.0
MIB = 1024 * 1024


class Clock:
    """Monotonic seconds."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock that only the test advances."""
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", clock)
    return clock


class Connected:
    """The broker's connections, and the environment's end of one by plain TCP."""

    def __init__(
        self, clock: Clock, near: socket.socket, external: socket.socket
    ) -> None:
        settings = BrokerSettings(HEARTBEAT, 30.0, 1024, 4, MIB)
        self.registry = Registry()
        self._poller = Poller()
        self.connections = FreeConnections(self._poller, self.registry, settings)
        self.env_side = external
        self._clock = clock
        self.connections.add(near, "counted")

    def send(self, data: bytes) -> None:
        self.env_side.sendall(data)
        self._poller.serve(1.0)

    def send_message(self, **message: Any) -> None:
        data = msgspec.json.encode(message)
        self.send(struct.pack("<I", len(data)) + data)

    def received(self) -> list[Any]:
        """Return the messages that have arrived."""
        messages = []
        with contextlib.suppress(BlockingIOError):
            while head := self.env_side.recv(4, socket.MSG_DONTWAIT):
                (size,) = struct.unpack("<I", head)
                messages.append(msgspec.json.decode(self.env_side.recv(size)))
        return messages

    def wait(self, seconds: float) -> bool:
        """Advance the clock; return whether the connection is still there."""
        self._clock.now += seconds
        self.connections.check(self._clock.now)
        return bool(len(self.connections))


@pytest.fixture
def visit(clock: Clock) -> Iterator[Connected]:
    """A connection that has sent nothing yet."""
    near, external = socket.socketpair()
    with near, external:
        yield Connected(clock, near, external)


def test_a_hello_that_trickles_in_meets_the_deadline(visit: Connected) -> None:
    visit.send(struct.pack("<I", 1000))
    for _ in range(9):
        assert visit.wait(1.0)
        visit.send(b" ")
    assert visit.wait(0.9)
    assert not visit.wait(0.2)
    (answer,) = visit.received()
    assert (answer["type"], answer["code"]) == ("refused", "bad-hello")
    assert "no hello in 10 s" in answer["message"]


def test_connections_without_a_ping_are_kept(visit: Connected) -> None:
    """As after this process itself has stood still."""
    visit.send_message(**HELLO)
    assert visit.wait(100.0)
    assert [each["type"] for each in visit.received()] == ["welcome", "ping"]
    visit.send_message(type="pong")
    assert visit.wait(HEARTBEAT + 0.1)
    assert visit.wait(HEARTBEAT - 0.1)
    assert not visit.wait(0.2)


def metadata_of_levels(levels: int) -> bytes:
    """Return a hello whose metadata has this many levels."""
    hello = msgspec.json.encode(HELLO | {"metadata": "@"})
    return hello.replace(b'"@"', b'{"a":' * levels + b"1" + b"}" * levels)


def test_a_hello_is_kept_small() -> None:
    given = ["seed", "fly", "reset", "seed", *map(str, range(1000))]
    hello = read_hello(msgspec.json.encode(HELLO | {"capabilities": given}), MIB)
    assert hello.capabilities == ["reset", "seed"]
    for changes, words in (
        ({"metadata": {"a": "b" * 65530}}, "metadata has 65538 bytes"),
        ({"render_modes": ["a"] * 65}, "render_modes are 65"),
        ({"render_modes": ["a", "b" * 65]}, "the longest of 65 characters"),
    ):
        with pytest.raises(BadHello, match=words):
            read_hello(msgspec.json.encode(HELLO | changes), MIB)


def test_a_deep_hello_is_refused() -> None:
    assert read_hello(metadata_of_levels(199), MIB).metadata
    for levels in (200, 500, 900):
        with pytest.raises(BadHello, match="nested deeper than 200 levels"):
            read_hello(metadata_of_levels(levels), MIB)
    inner = msgspec.json.decode(metadata_of_levels(200))["metadata"]
    for member in ("observation_space", "action_space"):
        deep = msgspec.json.encode(HELLO | {member: SPACE | {"more": inner}})
        with pytest.raises(BadHello, match="nested deeper"):
            read_hello(deep, MIB)


def test_connections_of_one_token_displace_no_other_before_its_hello(
    visit: Connected, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(free_connections, "MAX_WITHOUT_HELLO", 4)
    with contextlib.ExitStack() as stack:
        ends = []
        for name in ("bob", *["ada"] * 3):
            near, external = socket.socketpair()
            ends.append(stack.enter_context(external))
            clock.now += 0.1
            request = ConnectRequest("", "counted", identity=Identity(name))
            # With that of the fixture, these are five.
            visit.connections.connect(stack.enter_context(near), request, b"")
        assert len(visit.connections) == 4
        bob, *of_ada = ends
        assert b"too-many-external" in of_ada[0].recv(4096)
        for end in (bob, *of_ada[1:]):
            with pytest.raises(BlockingIOError):
                end.recv(1, socket.MSG_DONTWAIT)
