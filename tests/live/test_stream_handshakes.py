"""The handshake of a stream, and the reasons for which the server refuses one."""

from collections.abc import Callable, Iterator

import pytest

from tests.support import api as calls
from tests.support.api import Api, Instance
from tests.support.raw import exchange
from tests.support.server import Server
from tests.support.wait import wait_until
from tests.support.websocket import ACCEPT, BINARY, TEXT, WebSocket, handshake

PROBLEM = "application/problem+json"


@pytest.fixture
def instance(create_either: Callable[..., Instance]) -> Instance:
    """A CartPole on either kind of server."""
    return create_either()


def test_a_stream_begins_as_websockets_do(instance: Instance) -> None:
    with WebSocket.to(instance, "my-session_1") as stream:
        answer = stream.response
    assert (answer.status, answer.version) == (101, "HTTP/1.1")
    assert answer.header("Upgrade") == "websocket"
    assert answer.header("Connection") == "Upgrade"
    assert answer.header("Sec-WebSocket-Accept") == ACCEPT
    assert answer.header("Sec-WebSocket-Protocol") == BINARY
    assert answer.header("Sec-WebSocket-Extensions") is None
    assert answer.header("Gym-Session") == "my-session_1"


def test_a_session_is_generated_when_missing(instance: Instance) -> None:
    given = set()
    for _ in range(2):
        with WebSocket.to(instance) as stream:
            given.add(stream.response.header("Gym-Session"))
    assert len(given) == 2
    assert None not in given


@pytest.mark.parametrize(
    ("protocols", "chosen"),
    [
        (TEXT, TEXT),
        (f"{TEXT}, {BINARY}", TEXT),
        (f"chat, {BINARY}", BINARY),
        (None, None),
    ],
)
def test_the_first_dialect_that_is_known_is_taken(
    instance: Instance, protocols: str | None, chosen: str | None
) -> None:
    with WebSocket.to(instance, sec_websocket_protocol=protocols) as stream:
        assert stream.response.status == 101
        assert stream.response.header("Sec-WebSocket-Protocol") == chosen
        if chosen != BINARY:
            assert stream.call(op="reset")["status"] == 200


@pytest.mark.parametrize(
    "changes",
    [
        {"connection": "keep-alive, Upgrade"},
        {"upgrade": "WebSocket", "connection": "upgrade"},
        {"path": "stream/"},
        {"sec_websocket_extensions": "permessage-deflate"},
    ],
)
def test_equivalent_handshakes(instance: Instance, changes: dict[str, str]) -> None:
    changes = {k: instance.path(v) if k == "path" else v for k, v in changes.items()}
    with WebSocket.to(instance, **changes) as stream:
        assert stream.response.status == 101
        assert stream.response.header("Sec-WebSocket-Extensions") is None


@pytest.mark.parametrize(
    "changes",
    [
        {"upgrade": None},
        {"upgrade": "h2c"},
        {"connection": "keep-alive"},
        {"sec_websocket_version": "8"},
        {"sec_websocket_version": None},
        {"version": "1.0"},
    ],
)
def test_requests_without_an_upgrade_are_426(
    instance: Instance, changes: dict[str, str | None]
) -> None:
    with WebSocket.to(instance, **changes) as stream:
        error = calls.error(stream.response, 426, "upgrade-required")
    assert stream.response.header("Upgrade") == "websocket"
    if "sec_websocket_version" in changes:
        assert stream.response.header("Sec-WebSocket-Version") == "13"
    assert error["message"]
    calls.error(instance.get("stream"), 426, "upgrade-required")


def test_only_get_begins_one(instance: Instance) -> None:
    port = instance.api.server.port
    answer = exchange(port, handshake(instance, method="HEAD"))
    assert answer.status == 426
    with WebSocket.to(instance, method="POST", content_length="0") as stream:
        calls.error(stream.response, 405, "method-not-allowed")


@pytest.mark.parametrize(
    "changes",
    [
        {"sec_websocket_key": None},
        {"sec_websocket_key": "abc"},
        {"sec_websocket_key": "AAAA"},
        {"sec_websocket_key": "dGhlIHNhbXBsZSBub25jZQ==x"},
        {"sec_websocket_protocol": "chat"},
        {"session": "a/b"},
        {"session": "x" * 65},
        {"content_length": "5"},
        {"transfer_encoding": "chunked"},
    ],
)
def test_other_subprotocols_are_400(
    instance: Instance, changes: dict[str, str | None]
) -> None:
    early = b"5\r\nhello\r\n0\r\n\r\n" if "transfer_encoding" in changes else b""
    early = b"hello" if "content_length" in changes else early
    with WebSocket.to(instance, early=early, **changes) as stream:  # type: ignore[arg-type]
        calls.error(stream.response, 400, "bad-parameter")


def test_there_has_to_be_an_instance(create: Callable[..., Instance]) -> None:
    gone = create()
    calls.no_content(gone.close())
    for instance in (gone, Instance(gone.api, "0" * 8), Instance(gone.api, "x.y")):
        with WebSocket.to(instance) as stream:
            calls.error(stream.response, 400, "unknown-instance")
        with WebSocket.to(instance, accept=PROBLEM) as stream:
            calls.error(stream.response, 404, "unknown-instance")


def test_other_origins_and_hosts_are_refused(instance: Instance) -> None:
    with WebSocket.to(instance, origin="http://evil.example") as stream:
        calls.error(stream.response, 403, "origin-refused")
    with WebSocket.to(instance, host="evil.example") as stream:
        calls.error(stream.response, 403, "host-refused")
    own = f"http://127.0.0.1:{instance.api.server.port}"
    with WebSocket.to(instance, origin=own) as stream:
        assert stream.response.status == 101


@pytest.fixture(scope="module")
def token_server() -> Iterator[Server]:
    """A server with a token."""
    with Server("--token", "a-token-to-try-with", token="a-token-to-try-with") as made:
        yield made


def test_a_stream_needs_the_token(token_server: Server) -> None:
    instance = Api(token_server).create()
    for wrong in (None, "Bearer another-token"):
        with WebSocket.to(instance, authorization=wrong) as stream:
            calls.error(stream.response, 401, "unauthorized")
    with WebSocket.to(instance) as stream:
        assert stream.response.status == 101
    instance.close()


def test_a_refusal_leaves_the_connection_for_another_try(instance: Instance) -> None:
    with WebSocket.to(instance, sec_websocket_protocol="chat") as stream:
        calls.error(stream.response, 400, "bad-parameter")
        stream.send(handshake(instance, sec_websocket_protocol=TEXT))
        assert stream.read_response().status == 101
        assert stream.call(op="reset", seed=1)["status"] == 200


def test_the_description_counts_streams(instance: Instance) -> None:
    assert calls.ok(instance.get(""))["streams"] == 0
    with WebSocket.to(instance), WebSocket.to(instance):
        assert calls.ok(instance.get(""))["streams"] == 2


def opens(instance: Instance) -> bool:
    """Open and close a stream; return whether it opened."""
    with WebSocket.to(instance) as stream:
        return stream.response.status == 101


def test_there_are_64_streams_and_no_more(instance: Instance) -> None:
    streams = [WebSocket.to(instance, sec_websocket_protocol=TEXT) for _ in range(64)]
    try:
        assert {stream.response.status for stream in streams} == {101}
        with WebSocket.to(instance) as another:
            error = calls.error(another.response, 503, "too-many-streams")
        assert "64" in error["message"]
        assert another.response.header("Retry-After")
        assert streams[-1].call(op="reset", seed=0)["status"] == 200
        streams.pop(0).close()
        wait_until(lambda: opens(instance), message="room for another stream")
        assert streams[-1].call(op="step", action=0)["status"] == 200
    finally:
        for stream in streams:
            stream.close()
