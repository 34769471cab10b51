"""The protocol of external environments, sans I/O: any bytes are read or refused."""

import contextlib
import itertools
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_http_wire.external.binary_dialect import BinaryDialect
from gym_http_wire.external.framing import (
    CountedFraming,
    FramingError,
    WebSocketFraming,
)
from gym_http_wire.external.handshake import BadHello, Hello, parse_hello, parse_reply
from gym_http_wire.external.json_dialect import JSONDialect
from gym_http_wire.external.messages import (
    Answer,
    BadMessage,
    Control,
    Dialect,
    Fault,
    Request,
)
from gym_http_wire.messages import Op
from gym_http_wire.values import typed

HELLO = {
    "type": "hello",
    "protocol": 1,
    "name": "game",
    "observation_space": {},
    "action_space": {},
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
MEMBERS = ("type", "id", "result", "error", "action", "name", "protocol", "dialect")


def text() -> JSONDialect:
    return JSONDialect(typed.encode, typed.decode)


DIALECTS = [text, BinaryDialect]


@pytest.mark.parametrize("make", DIALECTS)
@given(data=st.binary(max_size=200))
def test_any_bytes_give_a_message_or_an_error(make: Any, data: bytes) -> None:
    for hear in ("decode_answer", "decode_request", "peek_id"):
        dialect: Dialect = make()
        with contextlib.suppress(BadMessage):
            getattr(dialect, hear)(data)


@given(
    message=st.dictionaries(
        st.sampled_from(MEMBERS), JSON | st.sampled_from(["fault", "step", "pong", 1])
    )
)
def test_any_object_gives_a_message_or_an_error(message: dict[str, Any]) -> None:
    data = json.dumps(message).encode()
    for hear in ("decode_answer", "decode_request", "peek_id"):
        with contextlib.suppress(BadMessage):
            getattr(text(), hear)(data)
    for greet in (parse_hello, parse_reply):
        with contextlib.suppress(BadHello):
            greet(data)


@given(
    head=st.binary(min_size=16, max_size=16),
    rest=st.binary(max_size=64),
    kind=st.sampled_from([0, 1, 2, 13, 48, 50, 52, 200]),
)
def test_any_frame_gives_a_message_or_an_error(
    head: bytes, rest: bytes, kind: int
) -> None:
    body = len(rest).to_bytes(4, "little") + bytes(4)
    data = body + head[8:10] + bytes([kind, head[11] & 0x33]) + head[12:] + rest
    for hear in ("decode_answer", "decode_request", "peek_id"):
        with contextlib.suppress(BadMessage):
            getattr(BinaryDialect(), hear)(data)


@given(
    st.fixed_dictionaries(
        {"id": st.integers(-1, 2**33) | JSON, "result": st.just({"a": 1}) | JSON},
        optional={"type": JSON, "error": JSON, "more": JSON},
    )
)
def test_one_pass_decodes_what_two_passes_do(message: dict[str, Any]) -> None:
    payload = msgspec.json.encode(message)
    decoded = []
    for decode in (text().decode_answer, text()._decode_other):
        try:
            decoded.append(repr(decode(payload)))
        except BadMessage as error:
            decoded.append(f"{error} {error.number} {error.field} {error.fatal}")
    assert decoded[0] == decoded[1]


@given(
    messages=st.lists(st.binary(max_size=300), max_size=5),
    cuts=st.lists(st.integers(0, 1000)),
)
def test_counted_messages_come_out_as_they_went_in(
    messages: list[bytes], cuts: list[int]
) -> None:
    carrier = CountedFraming(1000)
    data = b"".join(carrier.message(each, text=True) for each in messages)
    received = []
    places = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    for start, end in itertools.pairwise(places):
        received += carrier.feed(data[start:end])
    assert [each.payload for each in received] == messages
    assert carrier.between


def test_a_count_over_the_limit_ends_the_connection_before_memory_is_taken() -> None:
    with pytest.raises(FramingError, match="announces 4294967295 bytes"):
        CountedFraming(1000).feed(b"\xff\xff\xff\xff")


@given(data=st.binary(max_size=200))
def test_any_bytes_give_messages_or_an_end(data: bytes) -> None:
    for carrier in (WebSocketFraming(100), CountedFraming(100)):
        with contextlib.suppress(FramingError):
            for message in carrier.feed(data):
                assert len(message.payload) <= 100


def test_a_websocket_answers_pings_and_closes_by_itself() -> None:
    ours, theirs = WebSocketFraming(100), WebSocketFraming(100, client=True)
    ping = ours.ping()
    assert ping
    assert theirs.feed(ping) == []
    assert ours.feed(theirs.replies) == []
    theirs.replies = b""
    assert theirs.feed(ours.encode_close("so long")) == []
    assert theirs.over
    assert theirs.replies


@pytest.mark.parametrize("make", DIALECTS)
@pytest.mark.parametrize(
    "request_",
    [
        Request(Op.INIT, 1, {"kwargs": {"level": 3}, "render_mode": None}),
        Request(Op.RESET, 2, {"seed": 7, "options": None}),
        Request(Op.STEP, 3, {"action": 1}),
        Request(Op.ATTRIBUTE, 4, {"name": "length"}),
        Request(Op.SET_ATTRIBUTE, 5, {"name": "a", "value": 0.5, "force": True}),
    ],
)
def test_requests_arrive(make: Any, request_: Request) -> None:
    message = make().decode_request(make().encode_request(request_, 30.0))
    assert isinstance(message, Request)
    assert (message.op, message.number) == (request_.op, request_.number)
    assert {
        k: v for k, v in message.given.items() if k != "deadline_s"
    } == request_.given


@pytest.mark.parametrize("make", DIALECTS)
@pytest.mark.parametrize(
    "answer",
    [
        Answer(1, {}),
        Answer(2, {"observation": (1, 2.5), "info": {}}),
        Answer(3, None, {"message": "the crate is stuck", "status": 502}),
    ],
)
def test_answers_arrive(make: Any, answer: Answer) -> None:
    server_side, env_side = make(), make()
    assert server_side.decode_answer(env_side.encode_answer(answer)) == answer
    # By its number, the second time.
    assert server_side.decode_answer(env_side.encode_answer(answer)) == answer
    assert server_side.peek_id(env_side.encode_answer(answer)) == answer.number


@pytest.mark.parametrize("make", DIALECTS)
def test_pings_and_faults_arrive(make: Any) -> None:
    for ask in (Op.PING, Op.PONG):
        assert make().decode_answer(make().encode_control(ask)) == Control(ask)
        assert make().decode_request(make().encode_control(ask)) == Control(ask)
    fault = Fault("too large", 7, "observation")
    assert make().decode_request(make().encode_fault(fault)) == fault


def test_numbers_of_signatures_begin_anew_with_an_instance() -> None:
    server_side, env_side = BinaryDialect(), BinaryDialect()
    for number in (1, 2):
        env_side.decode_request(
            server_side.encode_request(Request(Op.INIT, number, {"kwargs": {}}), 1.0)
        )
        for _ in range(3):
            assert server_side.decode_answer(
                env_side.encode_answer(Answer(number, {"a": 1}))
            )


def test_members_left_out_of_a_hello_have_defaults() -> None:
    hello = parse_hello(json.dumps(HELLO).encode())
    assert (hello.dialect, hello.capabilities, hello.reward_channels) == (
        "json",
        [],
        None,
    )
    assert parse_hello(msgspec.json.encode(hello)) == hello
    secret = Hello(1, "game", {}, {}, token="secret", resume="secret")
    assert "secret" not in str(secret.public())
