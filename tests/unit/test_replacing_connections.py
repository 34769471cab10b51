"""Which new external connections take the places of lost ones."""

import socket

import pytest

from gym_http_server.external.connection import (
    ConnectionDetails,
    ExternalConnection,
    Loss,
)
from gym_http_server.processes.frame_socket import FrameSocket
from gym_http_server.services.broker.free_connection import FreeConnection, dialect_of
from gym_http_server.services.broker.registry import LATE_SECONDS, Lease, Registry
from gym_http_wire.external.handshake import Hello

SPACE = {"type": "Discrete", "n": 5}
HEARD_AT = 1000.0
HELLO = Hello(1, "game", SPACE, SPACE, replace=True)


def details(resume: str, hello: Hello = HELLO, owner: str = "") -> ConnectionDetails:
    """Return the record of a connection."""
    return ConnectionDetails("counted", resume[:4], hello, 1, resume, owner)


@pytest.fixture
def host() -> FrameSocket:
    """The connection of the host that has a lease."""
    near, far = socket.socketpair()
    far.close()
    near.close()
    return FrameSocket(near)


@pytest.fixture
def registry(host: FrameSocket) -> Registry:
    """A registry with one lease."""
    registry = Registry()
    registry.leases["lost"] = Lease(host, details("lost"))
    return registry


def new(opened_at: float = HEARD_AT) -> FreeConnection:
    """Return a connection whose program may replace another."""
    near, far = socket.socketpair()
    far.close()
    protocol = ExternalConnection(
        "counted", dialect_of, max_message=1, heartbeat_s=1.0, now=opened_at
    )
    connection = FreeConnection(near, protocol, None, opened_at)
    connection.may_replace = True
    near.close()
    return connection


def test_one_replaces_what_was_silent_since_it_came(
    registry: Registry, host: FrameSocket
) -> None:
    assert registry.replaced_by(new(), details("new")) is None
    registry.lose(host, Loss("lost", 0, HEARD_AT))
    early = new(HEARD_AT - LATE_SECONDS - 0.1)
    assert registry.replaced_by(early, details("new")) is None
    for opened_at in (HEARD_AT - LATE_SECONDS + 0.1, HEARD_AT + 25.0):
        found = registry.replaced_by(new(opened_at), details("new"))
        assert found is registry.leases["lost"]
    registry.end_lease("lost")
    assert registry.replaced_by(new(), details("new")) is None


def test_a_report_of_an_earlier_loss_is_ignored(
    registry: Registry, host: FrameSocket
) -> None:
    registry.leases["lost"].details.resumptions = 2
    registry.lose(host, Loss("lost", 1, HEARD_AT))
    assert registry.replaced_by(new(), details("new")) is None
    registry.lose(host, Loss("lost", 2, HEARD_AT))
    assert registry.replaced_by(new(), details("new")) is not None


def test_only_the_host_that_has_a_connection_reports_its_loss(
    registry: Registry,
) -> None:
    near, far = socket.socketpair()
    with near, far:
        registry.lose(FrameSocket(far), Loss("lost", 0, HEARD_AT))
        registry.lose(FrameSocket(far), Loss("unknown", 0, HEARD_AT))
    assert not registry.lost


@pytest.mark.parametrize(
    ("changes", "owner"),
    [
        ({"name": "other"}, ""),
        ({"observation_space": {"type": "Discrete", "n": 6}}, ""),
        ({"action_space": {"type": "Discrete", "n": 6}}, ""),
        ({"dialect": "binary"}, ""),
        ({"reward_channels": ["food"]}, ""),
        ({}, "bob"),
    ],
)
def test_it_has_to_be_like_the_lost_one(
    registry: Registry, host: FrameSocket, changes: dict[str, object], owner: str
) -> None:
    registry.lose(host, Loss("lost", 0, HEARD_AT))
    members = {"name": "game", "observation_space": SPACE, "action_space": SPACE}
    hello = Hello(1, **{**members, **changes})  # type: ignore[arg-type]
    assert registry.replaced_by(new(), details("new", hello, owner)) is None
    # All else may differ, as after a change of the program.
    hello = Hello(1, "game", SPACE, SPACE, metadata={"version": 2})
    assert registry.replaced_by(new(), details("new", hello)) is not None
