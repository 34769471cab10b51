"""Steps of external environments on the fast path, and those that cannot take it."""

import json
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces as gs

from gym_http_server.external.connection import ConnectionDetails
from gym_http_server.host.external.connections import Awaited, ExternalConnections
from gym_http_server.host.external.environment import ExternalEnv
from gym_http_server.host.external.fast_step import FastStep
from gym_http_server.host.external.leased_connection import ExternalSettings
from gym_http_wire.external.framing import COUNTED
from gym_http_wire.external.handshake import Hello
from gym_http_wire.external.steps import PackedStep
from gym_http_wire.problems import BadAnswer, EnvError, ExternalAway
from gym_http_wire.spaces import describe
from gym_http_wire.values import binary

SPACE = gs.Box(0, 9, (3,), np.uint8)
STEP: dict[str, Any] = {
    "observation": [1, 2, 3],
    "reward": 0.5,
    "terminated": False,
    "truncated": False,
}


class Toy:
    """An external environment that sends its answers before the requests."""

    def __init__(self) -> None:
        ours, self.socket = socket.socketpair()
        self.socket.settimeout(5)
        hello = Hello(
            protocol=1,
            name="toy",
            observation_space=describe(SPACE),
            action_space=describe(gs.Discrete(3)),
            capabilities=["reset"],
            dialect="json",
        )
        limits = ExternalSettings(5.0, 30.0, 60.0, 100_000, 100_000)
        self.connections = ExternalConnections(limits, no_broker)
        details = ConnectionDetails(COUNTED, "c", hello, 1, "r")
        self.connection = self.connections.add(details, ours)
        # Sent only when the environment waits for it, and until when it does.
        self.later: list[bytes] = []
        self.deadlines: list[float] = []
        self.send({"id": 1, "result": {}})
        self.env = ExternalEnv(self.connection, self.connections, {}, None)
        self.send({"id": 2, "result": {"observation": [0, 0, 0], "info": {}}})
        self.env.reset()
        assert self.env.stream_step
        self.fast: FastStep[PackedStep] = self.env.stream_step
        self.requests()

    def fast_step(self, action: Any) -> PackedStep | None:
        """Return the step if it took the fast way."""
        stepped = self.fast.step(action)
        return stepped if isinstance(stepped, PackedStep) else None

    def step(self, action: Any) -> Any:
        """Step the environment in the general way."""
        with self.connections.waiting_by(self.wait):
            return self.env.step(action)

    def wait(self, call: Awaited) -> None:
        """Send the delayed answers; receive pending requests."""
        self.deadlines.append(call.deadline)
        if self.later:
            self.socket.sendall(self.later.pop(0))
        self.connections.attend(max(0.0, call.deadline - time.monotonic()))

    def send(self, message: Any) -> None:
        """Send a message."""
        self.socket.sendall(framed(message))

    def requests(self) -> list[dict[str, Any]]:
        """Return the requests since the last look."""
        data, messages = self.socket.recv(65536), []
        while data:
            (size,) = struct.unpack_from("<I", data)
            messages.append(json.loads(data[4 : 4 + size]))
            data = data[4 + size :]
        return messages

    def close(self) -> None:
        """End it."""
        self.env.close()
        self.connections.release()
        self.connections.close()
        self.socket.close()


def no_broker() -> socket.socket:
    """Return a connection to the broker that has ended."""
    ours, theirs = socket.socketpair()
    theirs.close()
    return ours


def framed(message: Any) -> bytes:
    """Return a message with its count of bytes."""
    payload = json.dumps(message).encode()
    return struct.pack("<I", len(payload)) + payload


def step(number: int, **changed: Any) -> dict[str, Any]:
    """Return the answer to a step."""
    return {"id": number, "result": STEP | changed}


@pytest.fixture
def toy() -> Iterator[Toy]:
    """An environment that was reset; the next request's ID is 3."""
    toy = Toy()
    yield toy
    # It answers to the request to close.
    number = toy.connection.details.next_number
    if not toy.connection.lost:
        toy.send({"id": number, "result": {}})
    toy.close()


def test_a_step_becomes_the_leaves_that_its_value_has(toy: Toy) -> None:
    toy.send(step(3, truncated=True))
    record = toy.fast_step(2)
    assert isinstance(record, PackedStep)
    assert record.terminated or record.truncated
    value = {
        "info": {},
        "observation": np.array([1, 2, 3], np.uint8),
        "reward": 0.5,
        "terminated": False,
        "truncated": True,
    }
    signature, leaves = binary.split(value)
    assert record.leaves == b"".join(leaves)
    assert toy.fast.signature == signature
    (request,) = toy.requests()
    assert request == {"type": "step", "id": 3, "deadline_s": 5.0, "action": 2}


@pytest.mark.parametrize("action", [np.int64(1), [1, 2], {"a": np.ones(2)}, None])
def test_actions_are_sent_as_on_the_general_path(toy: Toy, action: Any) -> None:
    toy.send(step(3))
    assert toy.fast_step(action)
    toy.send(step(4))
    toy.step(action)
    short, long = toy.requests()
    assert short["action"] == long["action"]
    assert {**short, "id": 4} == {**long, "deadline_s": 5.0}


def test_an_info_takes_the_general_path_and_is_requested_once(toy: Toy) -> None:
    toy.send(step(3, info={"level": 1}))
    assert toy.fast_step(1) is None
    observation, _, _, _, info = toy.step(1)
    assert observation.tolist() == [1, 2, 3]
    assert info == {"level": 1}
    assert [each["id"] for each in toy.requests()] == [3]
    # For a while it is not even tried.
    assert toy.fast_step(1) is None
    toy.send(step(4))
    toy.step(1)
    assert [each["id"] for each in toy.requests()] == [4]


def test_late_and_fragmented_answers_take_the_general_path(toy: Toy) -> None:
    message = framed(step(3))
    toy.socket.sendall(message[:9])
    assert toy.fast_step(1) is None
    toy.later = [message[9:20], message[20:]]
    assert toy.step(1)[1] == 0.5
    # It was only slow: the next one may take the fast path.
    toy.send(step(4))
    assert toy.fast_step(1)
    assert [each["id"] for each in toy.requests()] == [3, 4]


def test_a_slow_answer_is_awaited_on_the_general_path(toy: Toy) -> None:
    assert toy.fast_step(1) is None
    toy.send(step(3))
    assert toy.step(1)[1] == 0.5
    toy.send(step(4))
    assert toy.fast_step(1)
    assert [each["id"] for each in toy.requests()] == [3, 4]


def test_the_deadline_is_that_of_the_whole_step(toy: Toy) -> None:
    before = time.monotonic()
    assert toy.fast_step(1) is None
    waited_until = time.monotonic()
    toy.later = [framed(step(3))]
    toy.deadlines.clear()
    toy.step(1)
    assert before + 5.0 <= toy.deadlines[0] < waited_until + 5.0 - 0.05


def test_a_late_answer_to_an_earlier_request_is_dropped(toy: Toy) -> None:
    toy.send(step(2, reward=9))
    assert toy.fast_step(1) is None
    toy.send(step(3))
    assert toy.step(1)[1] == 0.5


def test_a_bad_answer_is_reported_to_both_sides(toy: Toy) -> None:
    toy.send(step(3, observation=[1, 2, 10]))
    assert toy.fast_step(1) is None
    with pytest.raises(BadAnswer, match="observation"):
        toy.step(1)
    request, fault = toy.requests()
    assert (request["id"], fault["type"]) == (3, "fault")
    # It has to be reset first.
    assert toy.fast_step(1) is None


def test_an_error_is_returned(toy: Toy) -> None:
    toy.send({"id": 3, "error": {"message": "the crate is stuck"}})
    assert toy.fast_step(1) is None
    with pytest.raises(EnvError, match="the crate is stuck"):
        toy.step(1)


def test_a_lost_connection_is_reported(toy: Toy) -> None:
    toy.socket.shutdown(socket.SHUT_WR)
    assert toy.fast_step(1) is None
    with pytest.raises(ExternalAway):
        toy.step(1)
    # Nor does the next one, while the connection is lost.
    assert toy.fast_step(1) is None


def test_a_request_that_cannot_be_encoded_is_not_sent(toy: Toy) -> None:
    deep: list[Any] = []
    for _ in range(2000):
        deep = [deep]
    assert toy.fast_step(deep) is None
    toy.send(step(3))
    assert toy.fast_step(1)
    assert [each["id"] for each in toy.requests()] == [3]


def test_before_a_reset_no_step_is_sent(toy: Toy) -> None:
    toy.env._requester.needs_reset = "it was not reset yet"
    assert toy.fast_step(1) is None
