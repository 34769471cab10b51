"""Late and repeated requests, over either transport, never cause a second step."""

import itertools
import struct
from collections.abc import Iterator

import pytest

from gym_http_client import Server as Address
from gym_http_client.http.retries import Retries
from gym_http_core.idempotency import MAX_KEYS
from gym_http_wire.values import binary
from tests.support import api as calls
from tests.support.api import Api, Instance
from tests.support.envs import overwritten_array
from tests.support.server import Server
from tests.support.websocket import Answer, WebSocket

RESET, STEP = 1, 2
BINARY = "application/vnd.gym-http.binary"
SESSION = "the-session"
ACKNOWLEDGED = 1


@pytest.fixture(scope="module")
def overwriting_server() -> Iterator[Server]:
    with Server("--import", overwritten_array.__name__) as started:
        yield started


@pytest.fixture
def overwriting(overwriting_server: Server) -> Iterator[Instance]:
    """An instance that overwrites its large answers afterwards."""
    instance = Api(overwriting_server).create("overwritten/Array-v0")
    yield instance
    instance.close()


def step(stream: WebSocket, number: int, action: int = 1, *, status: int = 0) -> Answer:
    """Step over a stream."""
    body = binary.encode({"action": action})
    return stream.call_binary(STEP, number, body, status=status)


def begin(instance: Instance) -> WebSocket:
    """Open a stream and reset with request 1."""
    stream = WebSocket.to(instance, SESSION)
    reset = binary.encode({"seed": 0, "options": None})
    assert stream.call_binary(RESET, 1, reset).status == 200
    return stream


def steps(instance: Instance) -> int:
    return int(calls.ok(instance.get(""))["steps"])


def is_gone(answer: Answer) -> bool:
    return answer.status == 409 and b'"answer-gone"' in answer.body


def same_value(one: bytes, other: bytes) -> bool:
    """Return whether two values are the same, apart from signature numbers."""
    return value_of(one) == value_of(other)


def value_of(body: bytes) -> bytes:
    (size,) = struct.unpack_from("<I", body)
    assert size, "the signature was sent before"
    return body[8:]


@pytest.mark.parametrize("acknowledged", [0, ACKNOWLEDGED])
def test_a_lost_large_answer_is_replayed_unchanged(
    overwriting: Instance, acknowledged: int
) -> None:
    with begin(overwriting) as stream:
        first = step(stream, 2)
    with WebSocket.to(overwriting, SESSION) as stream:
        # Of requests before 2, that is: its own answer it has not had.
        again = step(stream, 2, status=acknowledged)
    assert (first.status, again.status) == (200, 200)
    assert len(again.body) > 20_000
    assert value_of(again.body)[-20_000:] == first.body[-20_000:]
    assert steps(overwriting) == 1


def test_another_session_acknowledges_its_own_answers_only(
    overwriting: Instance,
) -> None:
    with (
        begin(overwriting) as stream,
        WebSocket.to(overwriting, "other-session") as other,
    ):
        first = step(stream, 2)
        step(other, 3, status=ACKNOWLEDGED)
        again = step(stream, 2)
    assert again.body[-20_000:] == first.body[-20_000:]
    assert steps(overwriting) == 2


def test_a_late_copy_of_an_earlier_request_takes_no_answer_away(
    overwriting: Instance,
) -> None:
    with begin(overwriting) as stream, WebSocket.to(overwriting, SESSION) as late:
        step(stream, 2)
        third = step(stream, 3, status=ACKNOWLEDGED)
        step(late, 2, status=ACKNOWLEDGED)
        again = step(stream, 3)
    assert again.status == 200
    assert again.body[-20_000:] == third.body[-20_000:]
    assert steps(overwriting) == 2


@pytest.mark.parametrize("way", ["stream", "rest"])
@pytest.mark.parametrize("age", [1, 15, 16, 500, MAX_KEYS, 3 * MAX_KEYS])
def test_a_copy_is_no_second_step_however_late_it_comes(
    instance: Instance, age: int, way: str
) -> None:
    with begin(instance) as stream:
        for number in itertools.count(2):
            answer = step(stream, number, action=number % 2)
            if number == 2:
                body = binary.encode({"action": 0})
                first = answer
            if number == age + 2:
                break
            if answer.status != 200:
                raise AssertionError(answer)
        before = steps(instance)
        if way == "stream":
            with WebSocket.to(instance, SESSION) as late:
                copy = step(late, 2, action=0)
            status, given = copy.status, copy.body
        else:
            headers = {"Content-Type": BINARY, "Accept": BINARY}
            headers["Idempotency-Key"] = f"{SESSION}-2"
            response = instance.post("step/", data=body, headers=headers)
            status, given = response.status, response.body
    if age < 16:
        assert status == 200
        assert same_value(given, first.body)
    else:
        assert status == 409
        assert b"answer-gone" in given
    assert steps(instance) == before


@pytest.mark.parametrize("way", ["stream", "rest"])
def test_a_request_that_comes_after_a_later_one_is_not_executed(
    instance: Instance, way: str
) -> None:
    with begin(instance) as stream:
        assert step(stream, 3).status == 200
        if way == "stream":
            assert is_gone(step(stream, 2))
        else:
            key = {"Idempotency-Key": f"{SESSION}-2"}
            late = instance.post("step/", {"action": 1}, headers=key)
            calls.error(late, 409, "answer-gone")
        assert step(stream, 4).status == 200
    assert steps(instance) == 2


def test_a_lost_refusal_is_replayed(instance: Instance) -> None:
    with begin(instance) as stream:
        nothing = binary.encode({})
        refused = stream.call_binary(STEP, 2, nothing)
        assert step(stream, 3).status == 200
        again = stream.call_binary(STEP, 2, nothing)
    assert (refused.status, again.status) == (400, 400)
    assert again.body == refused.body
    assert steps(instance) == 1


def test_keys_that_only_look_like_numbers_of_a_session_may_come_in_any_order(
    instance: Instance,
) -> None:
    begin(instance).close()
    for number in (9, 3, 5):
        key = {"Idempotency-Key": f"another-{number}"}
        assert instance.post("step/", {"action": 1}, headers=key).status == 200
    assert steps(instance) == 3


@pytest.mark.parametrize("streams", [True, False])
def test_thousands_may_be_sent_before_an_answer_is_read(
    overwriting_server: Server, streams: bool
) -> None:
    count = 2000
    address = Address(
        overwriting_server.url, retries=Retries(total=5.0), streams=streams
    )
    handle = address.create(
        {"env_id": "overwritten/Array-v0", "disable_env_checker": True}
    )
    try:
        handle.send("reset/", {"seed": 0, "options": None})
        for _ in range(count):
            handle.send("step/", {"action": 1})
        rewards = [handle.receive().get("reward") for _ in range(count + 1)]
        assert rewards == [None] + [1.0] * count
        assert handle.call("GET", "")["steps"] == count
    finally:
        handle.end()
