"""Both dialects of streams, one message at a time."""

import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_http_wire.frames import Frame, Pieces
from gym_http_wire.messages import (
    AnswerHead,
    Form,
    Op,
    RequestHead,
    answer,
    request_head,
)
from gym_http_wire.streams import (
    KEYLESS,
    BinaryStreamDialect,
    JSONStreamDialect,
    RefusedRequest,
    stream_dialect,
)
from gym_http_wire.values import binary as values
from gym_http_wire.websocket import WebSocketError
from tests.support import websocket as raw

ACTION = values.encode({"action": 1})
PLAIN = Form.PLAIN | Form.PLAIN << 4


def body_of(frame: Frame) -> bytes:
    """Return a body in one piece."""
    return frame.body.join() if isinstance(frame.body, Pieces) else bytes(frame.body)


def test_the_dialects_by_name() -> None:
    assert isinstance(stream_dialect("gym-http.v1"), BinaryStreamDialect)
    assert isinstance(stream_dialect("gym-http.v1.json"), JSONStreamDialect)
    assert isinstance(stream_dialect(""), JSONStreamDialect)
    assert (BinaryStreamDialect.opcode, JSONStreamDialect.opcode) == (2, 1)


def test_a_binary_request() -> None:
    ours = BinaryStreamDialect()
    frame = ours.read(raw.binary(Op.STEP, 7, ACTION, status=1))
    assert (frame.kind, frame.number, frame.status, frame.form) == (2, 7, 1, 0x33)
    assert body_of(frame) == ACTION
    head = b'{"value":"x"}   '
    frame = ours.read(raw.binary(Op.ATTRIBUTE, 8, b"{}", head=head, form=0x11))
    assert request_head(frame).value == "x"
    assert body_of(frame) == b"{}"


def test_numbered_signatures_are_written_out() -> None:
    ours = BinaryStreamDialect()
    signature, leaves = '{"dict":[["action","int"]]}', struct.pack("<q", 1)
    named = raw.value(signature, leaves, number=9)
    assert body_of(ours.read(raw.binary(Op.STEP, 1, named))) == ACTION
    short = struct.pack("<II", 0, 9) + leaves
    assert body_of(ours.read(raw.binary(Op.STEP, 2, short))) == ACTION
    with pytest.raises(RefusedRequest) as refused:
        BinaryStreamDialect().read(raw.binary(Op.STEP, 3, short))
    assert (refused.value.answer.number, refused.value.answer.status) == (3, 400)


@pytest.mark.parametrize("size", range(16))
def test_less_than_a_header_breaks_the_protocol(size: int) -> None:
    with pytest.raises(WebSocketError) as raised:
        BinaryStreamDialect().read(raw.binary(Op.STEP, 1)[:size])
    assert raised.value.code == 1002


@pytest.mark.parametrize(("body", "head"), [(1, 0), (0, 8), (9, 0), (2**32 - 1, 0)])
def test_sizes_that_are_not_so_break_the_protocol(body: int, head: int) -> None:
    message = struct.pack("<IIHBBI", body, head, 0, Op.STEP, 0x11, 1) + bytes(7)
    with pytest.raises(WebSocketError) as raised:
        BinaryStreamDialect().read(message)
    assert raised.value.code == 1002


@given(st.binary(max_size=80), st.integers(0, 40), st.sampled_from([0x11, 0x33, 0x13]))
def test_no_message_does_anything_else(rest: bytes, op: int, form: int) -> None:
    size = len(rest) // 8 * 8
    for message in (
        rest,
        raw.binary(op, 1, rest, form=form),
        raw.binary(op, 1, rest[size:], head=rest[:size], form=form),
    ):
        for ours in (BinaryStreamDialect(), JSONStreamDialect()):
            try:
                request_head(ours.read(message))
            except (RefusedRequest, WebSocketError):
                continue


def test_a_binary_answer_has_its_signature_once() -> None:
    ours = BinaryStreamDialect()
    given = values.encode({"reward": 1.0})
    size = struct.unpack_from("<I", given)[0]
    signature, leaves = given[8 : 8 + size], given[8 + size :]
    written = []
    for number in (1, 2):
        pieces = Pieces(signature, [leaves], len(given))
        frame = Frame(0, number, 200, Form.BINARY, b"", pieces)
        written.append(b"".join(ours.write(frame)))
    header = struct.pack("<IIHBBI", len(given), 0, 200, 0, 3, 1)
    assert written[0] == header + struct.pack("<II", size, 1) + signature + leaves
    header = struct.pack("<IIHBBI", 8 + len(leaves), 0, 200, 0, 3, 2)
    assert written[1] == header + struct.pack("<II", 0, 1) + leaves


def test_other_answers_are_frames_as_they_are() -> None:
    frame = answer(404, b'{"code":"x"}', number=5)
    assert b"".join(BinaryStreamDialect().write(frame)) == (
        struct.pack("<IIHBBI", 12, 0, 404, 0, 1, 5) + b'{"code":"x"}'
    )


def parsed(ours: JSONStreamDialect, **members: Any) -> Frame:
    """Read a request in the text dialect."""
    return ours.read(json.dumps(members).encode())


def test_a_text_request() -> None:
    ours = JSONStreamDialect()
    frame = parsed(ours, op="step", action=[1, 2.5], more=None)
    assert (frame.kind, frame.number, frame.form) == (Op.STEP, 1, PLAIN)
    assert frame.body == b'{"action":[1, 2.5],"more":null}'
    frame = parsed(ours, op="reset", form="typed")
    assert (frame.kind, frame.number, frame.form) == (Op.RESET, 2, 0x22)
    assert frame.body == b"{}"
    assert request_head(parsed(ours, op="attribute", name="a")) == RequestHead(
        value="a"
    )
    accepted = request_head(parsed(ours, op="render")).accept
    assert accepted == ("application/json",)


def test_numbers_that_are_left_out_go_on() -> None:
    ours = JSONStreamDialect()
    given = [None, None, 10, None, 3, None, 2**32 - 1]
    numbers = [
        parsed(ours, op="step", **({} if number is None else {"number": number})).number
        for number in given
    ]
    assert numbers == [1, 2, 10, 11, 3, 12, 2**32 - 1]
    with pytest.raises(RefusedRequest):
        parsed(ours, op="step")


def test_every_operation_has_its_name() -> None:
    for op in Op:
        name = op.name.lower()
        if 0 < op < Op.STREAM:
            assert parsed(JSONStreamDialect(), op=name).kind == op
        else:
            with pytest.raises(RefusedRequest):
                parsed(JSONStreamDialect(), op=name)


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        (
            answer(200, b'{"a":1}\n', number=3),
            {"number": 3, "status": 200, "body": {"a": 1}},
        ),
        (answer(204, number=4), {"number": 4, "status": 204, "body": None}),
        (
            answer(
                200,
                'ä "b"\n'.encode(),
                AnswerHead("text/plain"),
                form=Form.OTHER,
                number=5,
            ),
            {"number": 5, "status": 200, "body": 'ä "b"\n'},
        ),
    ],
)
def test_a_text_answer(frame: Frame, expected: dict[str, Any]) -> None:
    assert json.loads(b"".join(JSONStreamDialect().write(frame))) == expected


def test_requests_that_change_nothing_have_no_key() -> None:
    changing = {op.name for op in Op if 0 < op < Op.STREAM and op not in KEYLESS}
    assert changing == {
        "RESET",
        "STEP",
        "RENDER",
        "ROLLOUT",
        "ACTION_SAMPLE",
        "OBSERVATION_SAMPLE",
        "MONITOR_START",
        "MONITOR_CLOSE",
        "SET_GENERATOR",
        "SET_ATTRIBUTE",
        "CALL_ATTRIBUTE",
    }
