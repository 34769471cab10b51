"""The protocol of an external environment's connection, without sockets or clocks."""

import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_http_server.external.connection import (
    HELLO_SECONDS,
    Call,
    ConnectionDetails,
    ConnectionState,
    ExternalConnection,
)
from gym_http_server.host import plain_json
from gym_http_wire.external.framing import COUNTED, WEBSOCKET
from gym_http_wire.external.handshake import Hello, Limits, Welcome
from gym_http_wire.external.json_dialect import JSONDialect
from gym_http_wire.frames import MAX_NUMBER
from gym_http_wire.messages import Op

SPACE = {"type": "Discrete", "n": 5}
HELLO = Hello(1, "game", SPACE, SPACE, capabilities=["replay"])
HEARTBEAT = 2.0
MAX_MESSAGE = 1000
NOW = 1000.0
DEADLINE = NOW + 30.0


def dialect_of(hello: Hello) -> JSONDialect:
    """Return the dialect of plain JSON."""
    return JSONDialect(plain_json.dumps, plain_json.loads)


def connection_of(
    *, leased: bool | None = None, framing: str = COUNTED
) -> ExternalConnection:
    """Return a connection: leased, free, or before its hello."""
    details = None if leased is None else ConnectionDetails(framing, "c", HELLO, 1, "r")
    return ExternalConnection(
        framing,
        dialect_of,
        max_message=MAX_MESSAGE,
        heartbeat_s=HEARTBEAT,
        now=NOW,
        details=details,
        leased=bool(leased),
    )


def framed(message: Any) -> bytes:
    """Return a message with its count of bytes."""
    payload = message if isinstance(message, bytes) else json.dumps(message).encode()
    return struct.pack("<I", len(payload)) + payload


def sent(connection: ExternalConnection) -> list[dict[str, Any]]:
    """Return the messages that the connection has to send."""
    data, messages = connection.take_outgoing(), []
    while data:
        (size,) = struct.unpack_from("<I", data)
        messages.append(json.loads(data[4 : 4 + size]))
        data = data[4 + size :]
    return messages


def started(connection: ExternalConnection, op: Op = Op.STEP) -> Call:
    """Start a call, and remove its request from the connection."""
    number = connection.new_number(NOW)
    call = Call(op, {"action": 1}, number, DEADLINE)
    connection.start(call, NOW)
    (request,) = sent(connection)
    assert (request["type"], request["id"]) == (op.name.lower(), number)
    return call


def accepted(connection: ExternalConnection) -> None:
    """Accept the hello of a connection."""
    details = ConnectionDetails(COUNTED, "c", HELLO, 1, "r")
    welcome = Welcome(1, "c", "r", False, HEARTBEAT, 30.0, Limits(MAX_MESSAGE))
    connection.accept(details, welcome, NOW)


def test_a_hello_is_returned_and_accepted() -> None:
    connection = connection_of()
    assert connection.state is ConnectionState.HANDSHAKE
    message = framed({"type": "hello"})
    assert connection.receive(message[:7], NOW) is None
    assert connection.receive(message[7:], NOW) == b'{"type": "hello"}'
    assert not connection.hello_accepted
    accepted(connection)
    assert connection.state is ConnectionState.FREE
    assert connection.hello_accepted
    assert [each["type"] for each in sent(connection)] == ["welcome"]


def test_messages_behind_the_hello_are_processed_once_it_is_accepted() -> None:
    connection = connection_of()
    data = framed({"type": "hello"}) + framed({"type": "ping"})
    assert connection.receive(data, NOW) is not None
    accepted(connection)
    assert [each["type"] for each in sent(connection)] == ["welcome", "pong"]


def test_a_refused_hello_ends_the_connection() -> None:
    connection = connection_of()
    connection.receive(framed({"type": "hello"}), NOW)
    connection.refuse("bad-hello", "no spaces", NOW)
    (refused,) = sent(connection)
    assert refused == {"type": "refused", "code": "bad-hello", "message": "no spaces"}
    assert connection.state is ConnectionState.LOST
    assert connection.lost_because == "no spaces"
    assert not connection.transferable


def test_a_hello_that_trickles_in_is_late() -> None:
    connection = connection_of()
    for second in range(int(HELLO_SECONDS)):
        connection.receive(b"\1" if second else struct.pack("<I", 900), NOW + second)
        connection.check(NOW + second)
    assert connection.state is ConnectionState.HANDSHAKE
    connection.check(NOW + HELLO_SECONDS + 0.1)
    assert connection.state is ConnectionState.LOST
    assert "no hello in 10 s" in connection.lost_because


def test_an_answer_completes_its_call() -> None:
    connection = connection_of(leased=True)
    assert connection.state is ConnectionState.READY
    call = started(connection)
    assert connection.state is ConnectionState.AWAITING
    data = framed({"id": call.number, "result": {"observation": 3}})
    for byte in data[:-1]:
        connection.receive(bytes([byte]), NOW)
        assert not call.over
        assert not connection.transferable
    connection.receive(data[-1:], NOW)
    assert call.answer is not None
    assert call.answer.result == {"observation": 3}
    assert connection.state is ConnectionState.READY
    assert connection.transferable
    assert sent(connection) == []


def test_an_abandoned_call_leaves_its_answer_to_be_dropped() -> None:
    connection = connection_of(leased=True)
    late = started(connection)
    connection.abandon(late, DEADLINE)
    assert connection.state is ConnectionState.READY
    call = started(connection)
    connection.abandon(late, DEADLINE)
    connection.receive(framed({"id": late.number, "result": {}}), DEADLINE)
    assert not late.over
    assert not call.over
    assert connection.state is ConnectionState.AWAITING
    assert sent(connection) == []


@pytest.mark.parametrize("leased", [True, False])
def test_an_answer_to_a_request_that_was_not_sent_is_a_fault(leased: bool) -> None:
    connection = connection_of(leased=leased)
    connection.receive(framed({"id": 1, "result": {}}), NOW)
    (fault,) = sent(connection)
    assert (fault["type"], fault["id"], fault["field"]) == ("fault", 1, "id")
    assert connection.state is (
        ConnectionState.READY if leased else ConnectionState.FREE
    )


@pytest.mark.parametrize(
    ("message", "field", "ends"),
    [
        ({"id": 1}, "result", False),
        ({"id": 1, "result": 5}, "result", False),
        ({"id": 1, "error": {}}, "error", False),
        ({"id": 0, "result": {}}, "id", False),
        ({"type": "step"}, "type", False),
        (b"[", "message", True),
        (b"\xff", "message", True),
    ],
)
def test_a_malformed_answer_fails_the_call(
    message: Any, field: str, ends: bool
) -> None:
    connection = connection_of(leased=True)
    call = started(connection)
    connection.receive(framed(message), NOW)
    assert call.error is not None
    assert call.error.field == field
    (fault,) = sent(connection)
    assert (fault["type"], fault["field"]) == ("fault", field)
    assert connection.state is (ConnectionState.LOST if ends else ConnectionState.READY)


def test_a_message_beyond_the_limit_ends_the_connection() -> None:
    connection = connection_of(leased=True)
    call = started(connection)
    connection.receive(struct.pack("<I", MAX_MESSAGE + 1), NOW)
    assert call.error is not None
    assert "1001 bytes; the limit is 1000" in str(call.error)
    assert connection.state is ConnectionState.LOST
    assert [each["type"] for each in sent(connection)] == ["fault"]


def test_pings_are_answered_in_every_state_after_the_handshake() -> None:
    for leased in (False, True):
        connection = connection_of(leased=leased)
        connection.receive(framed({"type": "ping"}), NOW)
        assert sent(connection) == [{"type": "pong"}]


@pytest.mark.parametrize("leased", [True, False])
def test_a_silent_environment_is_pinged_and_then_lost(leased: bool) -> None:
    connection = connection_of(leased=leased)
    connection.check(NOW + HEARTBEAT)
    assert sent(connection) == []
    # From the ping on: this process may have stood still before.
    pinged = NOW + 100.0
    connection.check(pinged)
    assert sent(connection) == [{"type": "ping"}]
    connection.check(pinged + HEARTBEAT)
    assert connection.state is not ConnectionState.LOST
    connection.receive(framed({"type": "pong"}), pinged + HEARTBEAT)
    connection.check(pinged + 2 * HEARTBEAT + 0.1)
    assert sent(connection) == [{"type": "ping"}]
    connection.check(pinged + 3 * HEARTBEAT + 0.2)
    assert connection.state is ConnectionState.LOST
    assert connection.lost_because == "no answer to a ping"


def test_an_environment_may_be_silent_while_an_answer_is_due() -> None:
    connection = connection_of(leased=True)
    started(connection)
    connection.check(DEADLINE + HEARTBEAT)
    assert sent(connection) == []
    connection.check(DEADLINE + HEARTBEAT + 0.1)
    assert sent(connection) == [{"type": "ping"}]


def test_a_lost_connection_is_resumed_with_the_same_call() -> None:
    connection = connection_of(leased=True)
    call = started(connection)
    connection.receive(framed({"id": call.number, "result": {}})[:9], NOW)
    connection.lose("it ended the connection", NOW)
    assert call.lost
    assert call.over
    assert (connection.state, connection.lost_at) == (ConnectionState.LOST, NOW)
    # Nothing is sent or processed meanwhile.
    connection.check(NOW + 100.0)
    connection.lose("again", NOW + 100.0)
    assert connection.lost_because == "it ended the connection"
    assert sent(connection) == []

    connection.resume(COUNTED, NOW + 101.0)
    assert connection.state is ConnectionState.READY
    call.deadline = NOW + 200.0
    connection.start(call, NOW + 101.0)
    assert not call.lost
    (request,) = sent(connection)
    assert request["id"] == call.number
    connection.receive(framed({"id": call.number, "result": {}}), NOW + 102.0)
    assert call.answer is not None


def test_a_newer_connection_replaces_one_that_is_not_lost() -> None:
    connection = connection_of(leased=True)
    call = started(connection)
    connection.resume(WEBSOCKET, NOW)
    assert call.lost
    assert connection.state is ConnectionState.READY
    assert connection.details.framing == WEBSOCKET


def test_request_ids_end() -> None:
    connection = connection_of(leased=True)
    connection.details.next_number = MAX_NUMBER
    assert connection.new_number(NOW) == MAX_NUMBER
    assert connection.new_number(NOW) == 0
    assert connection.state is ConnectionState.LOST


def test_a_step_that_was_written_is_followed_as_a_call() -> None:
    connection = connection_of(leased=True)
    written = connection.write_step(3, 5.0)
    assert written is not None
    number, data = written
    assert json.loads(data[4:])["action"] == 3
    call = Call(Op.STEP, {"action": 3}, number, DEADLINE)
    answer = framed({"id": number, "result": {"observation": 1}})
    connection.follow(call, answer[:10], NOW)
    assert connection.state is ConnectionState.AWAITING
    assert connection.write_step(3, 5.0) is None
    connection.receive(answer[10:], NOW)
    assert call.answer is not None


def test_an_action_that_cannot_be_written_changes_nothing() -> None:
    connection = connection_of(leased=True)
    deep: list[Any] = []
    for _ in range(2000):
        deep = [deep]
    assert connection.write_step(deep, 5.0) is None
    assert connection.details.next_number == 1
    assert connection.state is ConnectionState.READY


@pytest.mark.parametrize("framing", [COUNTED, WEBSOCKET])
@given(data=st.data())
def test_any_bytes_in_any_pieces_leave_a_valid_state(
    framing: str, data: st.DataObject
) -> None:
    """No input raises, and its division into pieces makes no difference."""
    messages = st.sampled_from(
        [
            framed({"id": 1, "result": {"observation": 1}}),
            framed({"id": 2, "result": {}}),
            framed({"id": 1, "error": {"message": "stuck"}}),
            framed({"type": "ping"}),
            framed(b"{"),
        ]
    )
    noise = st.one_of(messages, st.binary(max_size=20))
    whole = b"".join(data.draw(st.lists(noise, max_size=6)))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(whole)), max_size=6)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]

    outcomes = []
    for parts in ([whole], pieces):
        connection = connection_of(leased=True, framing=framing)
        call = Call(Op.STEP, {"action": 1}, connection.new_number(NOW), DEADLINE)
        connection.start(call, NOW)
        for part in parts:
            if connection.state is not ConnectionState.LOST:
                connection.receive(part, NOW)
        assert (connection.state is ConnectionState.AWAITING) == (not call.over)
        outgoing = connection.take_outgoing()
        outcomes.append((connection.state, call.answer, outgoing))
    assert outcomes[0][0] == outcomes[1][0]
    # Messages in one piece with invalid bytes are dropped with them.
    if connection.state is not ConnectionState.LOST:
        assert outcomes[0] == outcomes[1]
