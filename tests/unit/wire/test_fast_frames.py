"""Frames of the fast path equal those of the general path, to the bit."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_http_wire.fast_frames import MISSED, FastClientFrames, FastHostFrames
from gym_http_wire.frames import HEADER, Frame, Pieces
from gym_http_wire.messages import Form, Op
from gym_http_wire.signatures import ReceivedSignatures, SentSignatures
from gym_http_wire.streams import BinaryStreamDialect
from gym_http_wire.values import BadValue
from gym_http_wire.values.writing import Writing
from gym_http_wire.websocket import Masks, MessageReader, Opcode, encode, head_of
from tests.support.values import VALUES, assert_same

STEP = {"action": 1}
BOTH = Form.BINARY | Form.BINARY << 4
ANSWER = {
    "info": {},
    "observation": np.arange(4, dtype=np.float32),
    "reward": 1.0,
    "terminated": False,
    "truncated": False,
}


class Client:
    """The client's side of a stream, by either way."""

    def __init__(self) -> None:
        self.announcing, self.announced = SentSignatures(), ReceivedSignatures()
        self.frames = FastClientFrames(self.announcing, self.announced)
        self._writing, self._masks = Writing(), Masks()

    def general(self, number: int, given: Any, op: int = Op.STEP) -> bytes:
        """Return a request's message on the general path."""
        signature, parts = self._writing.split(given)
        value = self.announcing.header(signature) + b"".join(parts)
        header = HEADER.pack(len(value), 0, 1, op, BOTH, number)
        self.frames.learn(op, signature)
        return encode(Opcode.BINARY, header + value, self._masks.next())


def taught(
    step: Any = STEP, answer: Any = ANSWER
) -> tuple[Client, BinaryStreamDialect, FastHostFrames]:
    """Return both sides of a stream with earlier steps."""
    client, dialect = Client(), BinaryStreamDialect()
    lane = dialect.fast_frames
    assert lane is not None
    writing = Writing()
    for number in (1, 2, 3):
        request = read(dialect, client.general(number, step))
        reply = Frame(0, request.number, 200, Form.BINARY, b"", writing.pieces(answer))
        lane.learn(reply)
        (payload,) = dialect.write(reply)
        client.announced.read(bytes(payload), 16)
    return client, dialect, lane


def read(dialect: BinaryStreamDialect, data: bytes) -> Frame:
    """Read a request in general."""
    (message,) = MessageReader(masked=True, max_message=1 << 20).feed(data)
    return dialect.read(bytes(message.payload))


def test_a_fast_step_is_valid_in_general() -> None:
    client, dialect, lane = taught()
    message = client.frames.message(Op.STEP, 4, 1, STEP)
    assert message is not MISSED
    frame = read(dialect, message)
    assert (frame.kind, frame.number, frame.status, frame.form) == (2, 4, 1, BOTH)
    request = lane.decode_request(message)
    assert request is not None
    kind, number, status, value, signature, leaves = request
    assert (kind, number, status) == (2, 4, 1)
    assert_same(value, STEP)
    assert isinstance(frame.body, Pieces)
    assert (signature, [leaves]) == (frame.body.signature, frame.body.leaves)


def test_a_general_step_is_valid_as_a_fast_one() -> None:
    client, _, lane = taught()
    request = lane.decode_request(client.general(4, STEP))
    assert request is not None
    assert request[:4] == (2, 4, 1, STEP)


def test_masks_differ() -> None:
    client, _, _ = taught()
    messages = {client.frames.message(Op.STEP, 4, 1, STEP) for _ in range(3000)}
    assert len(messages) > 2990


def test_a_fast_answer_is_valid_in_general() -> None:
    client, dialect, lane = taught()
    answer = lane.encode_answer(4, ANSWER)
    assert answer is not None
    message, signature, leaves = answer
    body = Pieces(signature, [leaves], 8 + len(signature) + len(leaves))
    (payload,) = dialect.write(Frame(0, 4, 200, Form.BINARY, b"", body))
    assert message == head_of(Opcode.BINARY, len(payload)) + payload
    assert_same(client.frames.value(message, 4), ANSWER)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x82",
        b"\x88\x02\x03\xe8",
        b"\x82" + bytes(60),
        head_of(Opcode.BINARY, 40) + bytes(40),
    ],
)
def test_unusual_messages_are_left_to_the_general_path(data: bytes) -> None:
    client, _, lane = taught()
    assert lane.decode_request(data) is None
    assert client.frames.value(data, 4) is MISSED


def test_answers_to_other_requests_are_left_to_the_general_path() -> None:
    client, _, lane = taught()
    answer = lane.encode_answer(5, ANSWER)
    assert answer is not None
    assert client.frames.value(answer[0], 4) is MISSED
    assert client.frames.value(answer[0] + answer[0], 5) is MISSED
    assert client.frames.value(answer[0][:-1], 5) is MISSED


@given(VALUES)
def test_other_values_are_left_to_the_general_path(value: Any) -> None:
    client, _, lane = taught()
    assert client.frames.message(Op.STEP, 4, 1, {"action": [value]}) is MISSED
    assert client.frames.message(Op.RESET, 4, 1, STEP) is MISSED
    assert lane.encode_answer(4, {**ANSWER, "reward": [value]}) is None


@given(st.binary(max_size=140), st.integers(0, 60))
def test_changed_bytes_mean_the_same_on_both_paths(change: bytes, place: int) -> None:
    client, dialect, lane = taught()
    message = bytearray(client.frames.message(Op.STEP, 4, 1, STEP))
    message[place : place + len(change)] = change[: max(0, len(message) - place)]
    request = lane.decode_request(bytes(message))
    if request is not None:
        frame = read(dialect, bytes(message))
        assert (frame.kind, frame.number, frame.status) == request[:3]
        assert (frame.body.signature, frame.body.leaves) == (request[4], [request[5]])


def test_signatures_that_come_once_get_no_writer() -> None:
    client, _, _ = taught()
    client.general(4, {"action": 1.5})
    assert client.frames.message(Op.STEP, 5, 1, {"action": 1.5}) is MISSED
    assert client.frames.message(Op.STEP, 5, 1, STEP) is not MISSED
    client.general(5, {"action": 1.5})
    assert client.frames.message(Op.STEP, 6, 1, {"action": 1.5}) is not MISSED


def vector(count: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return request and answer of a step of this many environments."""
    answer = {
        "info": {},
        "observation": np.arange(4 * count, dtype=np.float32).reshape(count, 4),
        "reward": np.ones(count),
        "terminated": np.zeros(count, np.bool_),
        "truncated": np.zeros(count, np.bool_),
    }
    return {"action": np.arange(count)}, answer


@pytest.mark.parametrize("count", [1, 12, 13, 16, 100, 128])
def test_steps_of_vectors_are_the_same_on_both_paths(count: int) -> None:
    step, answer = vector(count)
    client, dialect, lane = taught(step, answer)
    message = client.frames.message(Op.STEP, 4, 1, step)
    request, frame = lane.decode_request(message), read(dialect, message)
    assert request is not None
    assert request[:3] == (frame.kind, frame.number, frame.status) == (2, 4, 1)
    assert_same(request[3], step)
    assert (frame.body.signature, frame.body.leaves) == (request[4], [request[5]])
    assert lane.decode_request(client.general(5, step)) is not None
    result = lane.encode_answer(4, answer)
    assert result is not None
    body = Pieces(result[1], [result[2]], 8 + len(result[1]) + len(result[2]))
    (payload,) = dialect.write(Frame(0, 4, 200, Form.BINARY, b"", body))
    assert result[0] == head_of(Opcode.BINARY, len(payload)) + payload
    assert_same(client.frames.value(result[0], 4), answer)
    for wrong in (message[:-8], message + message, message[:-1]):
        assert lane.decode_request(wrong) is None
    for wrong in (result[0][:-8], result[0] + result[0], result[0][:-1]):
        assert client.frames.value(wrong, 4) is MISSED


def test_steps_of_large_vectors_are_left_to_the_general_path() -> None:
    step, answer = vector(600)
    client, _, lane = taught(step, answer)
    assert client.frames.message(Op.STEP, 4, 1, step) is MISSED
    assert lane.decode_request(client.general(4, step)) is None
    assert lane.encode_answer(4, answer) is None


def ended(*places: int) -> dict[str, Any]:
    """Return the answer to a step of 16 in which these episodes ended."""
    _, answer = vector(16)
    last, mask = np.full(16, None, object), np.zeros(16, np.bool_)
    for place in places:
        last[place] = np.full(4, place, np.float32)
        mask[place] = True
    info = {"final_obs": last, "_final_obs": mask, "final_info": {}}
    return {**answer, "info": {**info, "_final_info": mask}, "terminated": mask}


@given(st.lists(st.sets(st.integers(0, 15)), min_size=3, max_size=20))
def test_ends_of_episodes_are_the_same_on_both_paths(steps: list[set[int]]) -> None:
    client, dialect, lane = taught(*vector(16))
    other, general, _ = taught(*vector(16))
    learnt = ended(1), ended(2)
    for number, answer in enumerate([*learnt, *(ended(*each) for each in steps)], 4):
        reply = Frame(0, number, 200, Form.BINARY, b"", Writing().pieces(answer))
        (payload,) = general.write(reply)
        expected = head_of(Opcode.BINARY, len(payload)) + payload
        result = lane.encode_answer(number, answer)
        if number < 6:
            assert result is None
            lane.learn(reply)
            (written,) = dialect.write(reply)
            message = head_of(Opcode.BINARY, len(written)) + written
        else:
            assert result is not None
            message = result[0]
            assert result[1:] == (reply.body.signature, b"".join(reply.body.leaves))
        assert message == expected
        assert_same(client.frames.value(message, number), answer)
        assert_same(other.announced.read(bytes(payload), 16), answer)


def test_signatures_beyond_the_last_number_are_sent_in_full() -> None:
    client, _, lane = taught(*vector(16))
    for place in (1, 2):
        pieces = Writing().pieces(ended(place))
        lane.learn(Frame(0, 4, 200, Form.BINARY, b"", pieces))
    for number in range(300):
        places = [place for place in range(16) if number >> place & 1]
        answer = lane.encode_answer(number, ended(*places))
        assert answer is not None
        assert_same(client.frames.value(answer[0], number), ended(*places))


def test_answers_of_several_kinds_are_fast() -> None:
    _, dialect, lane = taught()
    kinds = [{**ANSWER, "info": info} for info in ({"lives": 3}, {"score": 1.0})]
    for kind in kinds * 2:
        reply = Frame(0, 4, 200, Form.BINARY, b"", Writing().pieces(kind))
        dialect.write(reply)
        lane.learn(reply)
    for kind in (*kinds, ANSWER):
        assert lane.encode_answer(5, kind) is not None


def test_malformed_values_are_refused() -> None:
    client, _, lane = taught()
    answer = lane.encode_answer(4, ANSWER)
    assert answer is not None
    message = bytearray(answer[0])
    message[22] = 200
    with pytest.raises(BadValue, match="names signature 200"):
        client.frames.value(bytes(message), 4)
    message = bytearray(answer[0])
    message[-1] = 1
    with pytest.raises(BadValue, match="true"):
        client.frames.value(bytes(message), 4)
