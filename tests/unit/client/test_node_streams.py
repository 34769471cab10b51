"""The streams of nodes of a fleet that the Python client opens, and refuses to."""

import json
from typing import Any

import pytest

from gym_http_client.errors import ServerError
from gym_http_client.http.addresses import Address
from gym_http_client.http.http1 import Reply
from gym_http_client.streaming.node_streams import NodeStreams

ID = "00a3c657"
PATH = f"/v1/envs/{ID}/stream"


class Tickets:
    """Answers requests for tickets, in place of a server."""

    def __init__(self, reply: dict[str, Any] | ServerError, status: int = 200) -> None:
        self.requests = 0
        self._reply = reply
        self._status = status

    def request(self, method: str, path: str, body: bytes, **_: Any) -> Reply:
        """Return the answer to a request."""
        assert (method, path) == ("POST", "/v1/tickets/")
        assert json.loads(body) == {"instance_id": ID}
        self.requests += 1
        if isinstance(self._reply, ServerError):
            raise self._reply
        return Reply(self._status, {}, json.dumps(self._reply).encode())


def streams(tickets: Tickets, url: str = "http://127.0.0.1:5000") -> NodeStreams:
    """Return the streams of an instance of a fleet."""
    address = Address.parse(url, "the-token")
    found = NodeStreams(tickets, address, ID)  # type: ignore[arg-type]
    found.learn({"gym-node": "two"})
    return found


@pytest.mark.parametrize(
    ("first", "url", "expected"),
    [
        ("http://lb", f"ws://10.0.0.7:5000{PATH}/", "http://10.0.0.7:5000"),
        ("http://lb", f"ws://[fd00::7]:5000{PATH}", "http://[fd00::7]:5000"),
        ("http://lb", f"wss://node-2{PATH}/", "https://node-2"),
        ("https://lb", f"wss://node-2/gym{PATH}/", "https://node-2/gym"),
        ("http+unix:///run/gym", f"wss://node-2{PATH}/", "https://node-2"),
        # Without TLS in place of with, or of a socket of this machine.
        ("https://lb", f"ws://node-2{PATH}/", None),
        ("http+unix:///run/gym", f"ws://node-2{PATH}/", None),
        ("http://lb", f"http://node-2{PATH}/", None),
        ("http://lb", f"ftp://node-2{PATH}/", None),
        ("http://lb", f"ws://user:secret@node-2{PATH}/", None),
        ("http://lb", f"ws://node-2/?x={PATH}/", None),
        ("http://lb", f"ws://node-2/#{PATH}/", None),
        ("http://lb", f"ws://node-2:99999{PATH}/", None),
        ("http://lb", f"ws://node 2{PATH}/", None),
        ("http://lb", f"ws://node-2\r\nX: y{PATH}/", None),
        ("http://lb", f"ws://{PATH}/", None),
        ("http://lb", "ws://node-2/v1/envs/00a00000/stream/", None),
        ("http://lb", f"ws://node-2{PATH}/other", None),
        ("http://lb", "", None),
        ("http://lb", 5, None),
        ("http://lb", None, None),
    ],
)
def test_urls_of_streams_are_checked(
    first: str, url: object, expected: str | None
) -> None:
    tickets = Tickets({"ticket": "T" * 32, "stream_url": url})
    node_streams = streams(tickets, first)
    found = node_streams.find()
    if expected is None:
        assert found is None
        # Another ticket would have the same URL.
        assert node_streams.find() is None
        assert tickets.requests == 1
        return
    assert found is not None
    assert (found.address.url, found.path) == (expected, PATH)
    assert found.address.token is None
    assert found.ticket == "T" * 32


@pytest.mark.parametrize(
    "tickets",
    [
        Tickets({"code": "too-many-tickets"}, 429),
        Tickets({"code": "unknown-instance"}, 400),
        Tickets(ServerError("no answer", code="x")),
    ],
)
def test_without_a_ticket_a_later_stream_requests_one(tickets: Tickets) -> None:
    node_streams = streams(tickets)
    assert node_streams.find() is None
    assert node_streams.find() is None
    assert tickets.requests == 2


def test_a_server_without_a_fleet_gets_no_request() -> None:
    tickets = Tickets({})
    node_streams = NodeStreams(
        tickets,  # type: ignore[arg-type]
        Address.parse("http://127.0.0.1:5000"),
        ID,
    )
    node_streams.learn({"content-type": "application/json"})
    assert node_streams.find() is None
    assert tickets.requests == 0
