"""External environments by ZeroMQ: how the gateway ends their conversations."""

import json
import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from gym_http_server.access.identities import Identity
from gym_http_server.processes.poller import Poller
from gym_http_server.services.gateway.external_peers import ExternalPeer
from gym_http_server.services.gateway.messages import refusal
from gym_http_wire.external.framing import CountedFraming
from gym_http_wire.problems import Problem

MOST = 1000


class Broker:
    """Keeps the end of the connection that the broker would get."""

    end: socket.socket

    def pass_on(self, end: socket.socket, identity: Identity) -> None:
        """Keep a copy of the end."""
        self.end = end.dup()


class Outbox:
    """Keeps the messages to the environment."""

    full_since = 0.0

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def send(self, payload: bytes) -> None:
        """Keep a message."""
        self.sent.append(json.loads(payload))


@pytest.fixture
def context() -> Iterator[Any]:
    """The shared state of the gateway, as far as external environments need it."""
    made = SimpleNamespace(
        settings=SimpleNamespace(max_message=MOST), poller=Poller(), broker=Broker()
    )
    yield made
    made.broker.end.close()


def connected(context: Any, outbox: Outbox) -> list[str]:
    """Connect a peer; return the list that gets a word when it is over."""
    over: list[str] = []
    ExternalPeer(context, outbox, Identity(), lambda: over.append("over"))  # type: ignore[arg-type]
    return over


def test_a_refused_environment_may_send_its_next_hello_at_once(context: Any) -> None:
    """The broker closes the connection a little after it has refused."""
    over = connected(context, outbox := Outbox())
    framing = CountedFraming(MOST)
    context.broker.end.sendall(framing.message(refusal(Problem("no")), text=True))
    context.poller.serve(5.0)
    assert [each["type"] for each in outbox.sent] == ["refused"]
    assert over == ["over"]
    context.broker.end.close()
    context.poller.serve(0.0)
    assert (len(outbox.sent), over) == (1, ["over"])


def test_an_environment_gets_a_refusal_at_the_end_of_its_connection(
    context: Any,
) -> None:
    over = connected(context, outbox := Outbox())
    framing = CountedFraming(MOST)
    context.broker.end.sendall(framing.message(b'{"type":"ping"}', text=True))
    context.poller.serve(5.0)
    assert over == []
    context.broker.end.close()
    context.poller.serve(5.0)
    assert [each["type"] for each in outbox.sent] == ["ping", "refused"]
    assert outbox.sent[1]["code"] == "ended"
    assert over == ["over"]
