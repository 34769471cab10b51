"""Steps that cross on the short way, and those that cannot."""

import json
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces as gs

from gym_http_server.envhost.external.connection import ExternalConnection
from gym_http_server.envhost.external.connections import (
    ExternalConnections,
    ExternalSettings,
)
from gym_http_server.envhost.external.environment import ExternalEnv
from gym_http_server.envhost.external.fast_step import FastStep
from gym_http_server.envhost.external.state import State
from gym_http_server.rundir import RunDir
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
    """An environment elsewhere, which says what it is told to before it is asked."""

    def __init__(self, run: RunDir) -> None:
        ours, self.line = socket.socketpair()
        self.line.settimeout(5)
        hello = Hello(
            protocol=1,
            name="toy",
            observation_space=describe(SPACE),
            action_space=describe(gs.Discrete(3)),
            capabilities=["reset"],
            dialect="json",
        )
        self.outside = ExternalConnections(
            run, ExternalSettings(5.0, 30.0, 60.0, 100_000, 100_000)
        )
        self.outside.pause = self.pause
        state = State(COUNTED, "c", hello, 1, "r")
        far = ExternalConnection(state, ours, 100_000, self.outside._watch)
        self.outside.far_sides.append(far)
        # Said only when the environment waits for it, and until when it does.
        self.later: list[bytes] = []
        self.deadlines: list[float] = []
        self.say({"id": 1, "result": {}})
        self.env = ExternalEnv(far, self.outside, {}, None)
        self.say({"id": 2, "result": {"observation": [0, 0, 0], "info": {}}})
        self.env.reset()
        assert self.env.crossing
        self.crossing: FastStep = self.env.crossing
        self.heard()

    def pause(self, call: Any) -> None:
        """Say what is to be said later; take what has come."""
        self.deadlines.append(call.deadline)
        if self.later:
            self.line.sendall(self.later.pop(0))
        self.outside._pause(call)

    def say(self, message: Any) -> None:
        """Say something."""
        self.line.sendall(framed(message))

    def heard(self) -> list[dict[str, Any]]:
        """Give what was asked since the last look."""
        data, messages = self.line.recv(65536), []
        while data:
            (size,) = struct.unpack_from("<I", data)
            messages.append(json.loads(data[4 : 4 + size]))
            data = data[4 + size :]
        return messages

    def close(self) -> None:
        """End it."""
        self.env.close()
        self.outside.give_back()
        self.outside._epoll.close()
        self.line.close()


def framed(message: Any) -> bytes:
    """Give a message with its count of bytes."""
    payload = json.dumps(message).encode()
    return struct.pack("<I", len(payload)) + payload


def step(number: int, **changed: Any) -> dict[str, Any]:
    """Give the answer to a step."""
    return {"id": number, "result": STEP | changed}


@pytest.fixture
def toy(tmp_path: Path) -> Iterator[Toy]:
    """Have an environment that was reset; the next request's ID is 3."""
    toy = Toy(RunDir(str(tmp_path)))
    yield toy
    # It is told that the agent goes, and takes its leave.
    number = toy.outside.far_sides[0].state.next_number
    if toy.outside.far_sides[0].away_since is None:
        toy.say({"id": number, "result": {}})
    toy.close()


def test_a_step_becomes_the_leaves_that_its_value_has(toy: Toy) -> None:
    toy.say(step(3, truncated=True))
    record = toy.crossing.step(2)
    assert isinstance(record, PackedStep)
    assert record.over
    value = {
        "info": {},
        "observation": np.array([1, 2, 3], np.uint8),
        "reward": 0.5,
        "terminated": False,
        "truncated": True,
    }
    signature, leaves = binary.split(value)
    assert record.leaves == b"".join(leaves)
    assert toy.crossing.signature == signature
    (asked,) = toy.heard()
    assert asked == {"type": "step", "id": 3, "deadline_s": 5.0, "action": 2}


@pytest.mark.parametrize("action", [np.int64(1), [1, 2], {"a": np.ones(2)}, None])
def test_actions_are_sent_as_on_the_general_path(toy: Toy, action: Any) -> None:
    toy.say(step(3))
    assert toy.crossing.step(action)
    toy.say(step(4))
    toy.env.step(action)
    short, long = toy.heard()
    assert short["action"] == long["action"]
    assert {**short, "id": 4} == {**long, "deadline_s": 5.0}


def test_an_info_takes_the_general_path_and_is_requested_once(toy: Toy) -> None:
    toy.say(step(3, info={"level": 1}))
    assert toy.crossing.step(1) is None
    observation, _, _, _, info = toy.env.step(1)
    assert observation.tolist() == [1, 2, 3]
    assert info == {"level": 1}
    assert [each["id"] for each in toy.heard()] == [3]
    # For a while it is not even tried.
    assert toy.crossing.step(1) is None
    toy.say(step(4))
    toy.env.step(1)
    assert [each["id"] for each in toy.heard()] == [4]


def test_late_and_fragmented_answers_take_the_general_path(toy: Toy) -> None:
    message = framed(step(3))
    toy.line.sendall(message[:9])
    assert toy.crossing.step(1) is None
    toy.later = [message[9:20], message[20:]]
    assert toy.env.step(1)[1] == 0.5
    # It was slow, no more: the next one may cross.
    toy.say(step(4))
    assert toy.crossing.step(1)
    assert [each["id"] for each in toy.heard()] == [3, 4]


def test_a_slow_answer_is_awaited_on_the_general_path(toy: Toy) -> None:
    assert toy.crossing.step(1) is None
    toy.say(step(3))
    assert toy.env.step(1)[1] == 0.5
    toy.say(step(4))
    assert toy.crossing.step(1)
    assert [each["id"] for each in toy.heard()] == [3, 4]


def test_the_deadline_is_that_of_the_whole_step(toy: Toy) -> None:
    before = time.monotonic()
    assert toy.crossing.step(1) is None
    waited_until = time.monotonic()
    toy.later = [framed(step(3))]
    toy.deadlines.clear()
    toy.env.step(1)
    assert before + 5.0 <= toy.deadlines[0] < waited_until + 5.0 - 0.05


def test_an_answer_that_is_too_late_is_no_answer(toy: Toy) -> None:
    toy.say(step(2, reward=9))
    assert toy.crossing.step(1) is None
    toy.say(step(3))
    assert toy.env.step(1)[1] == 0.5


def test_a_bad_answer_is_reported_to_both_sides(toy: Toy) -> None:
    toy.say(step(3, observation=[1, 2, 10]))
    assert toy.crossing.step(1) is None
    with pytest.raises(BadAnswer, match="observation"):
        toy.env.step(1)
    asked, fault = toy.heard()
    assert (asked["id"], fault["type"]) == (3, "fault")
    # It has to be reset, so nothing crosses.
    assert toy.crossing.step(1) is None


def test_an_error_is_returned(toy: Toy) -> None:
    toy.say({"id": 3, "error": {"message": "the crate is stuck"}})
    assert toy.crossing.step(1) is None
    with pytest.raises(EnvError, match="the crate is stuck"):
        toy.env.step(1)


def test_a_lost_connection_is_reported(toy: Toy) -> None:
    toy.line.shutdown(socket.SHUT_WR)
    assert toy.crossing.step(1) is None
    with pytest.raises(ExternalAway):
        toy.env.step(1)
    # While it is away, and what was asked is in doubt, nothing crosses.
    assert toy.crossing.step(1) is None


def test_a_request_that_cannot_be_encoded_is_not_sent(toy: Toy) -> None:
    deep: list[Any] = []
    for _ in range(2000):
        deep = [deep]
    assert toy.crossing.step(deep) is None
    toy.say(step(3))
    assert toy.crossing.step(1)
    assert [each["id"] for each in toy.heard()] == [3]


def test_before_a_reset_no_step_is_sent(tmp_path: Path, toy: Toy) -> None:
    toy.env._asking.wants_reset = "it was not reset yet"
    assert toy.crossing.step(1) is None
