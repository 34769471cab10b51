"""Repeated steps take the fast path and get the same answers as all others."""

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from gym_http_core.lossless_calls import LosslessCalls
from gym_http_core.vectors import operations_of
from gym_http_server.host import env_warnings
from gym_http_server.host.activity import Activity
from gym_http_server.host.dispatch import Dispatch
from gym_http_server.host.fast_step import FastStepper, frame_of
from gym_http_server.host.inspection import Inspection
from gym_http_server.host.monitor import Monitor
from gym_http_server.host.step_recorder import StepRecorder
from gym_http_server.host.streams import Stream
from gym_http_server.rundir.status import StatusPage, StatusReader
from gym_http_wire.fast_frames import FastClientFrames
from gym_http_wire.frames import HEADER, Frame
from gym_http_wire.handshakes import BINARY_PROTOCOL, StreamHandshake
from gym_http_wire.messages import Form, Op
from gym_http_wire.problems import AnswerGone
from gym_http_wire.signatures import ReceivedSignatures, SentSignatures
from gym_http_wire.step_records import Kind, StepDecoder
from gym_http_wire.values.writing import Writing
from gym_http_wire.websocket import Masks, MessageReader, Opcode, encode
from tests.support.values import assert_same

BOTH = Form.BINARY | Form.BINARY << 4


class Host:
    """A host's side of a stream around CartPole, and a client's."""

    def __init__(self, *, strict: bool = False, env: Any = None) -> None:
        self.env = env or gymnasium.make("CartPole-v1")
        self.env.reset(seed=1)
        operations = operations_of(self.env, strict_actions=strict)
        exact = LosslessCalls(operations)
        self.reader = StatusReader()
        self.page = StatusPage(self.reader.file)
        activity = Activity(self.page, operations)
        inspection = Inspection(operations, exact, activity, "00000000", "CartPole-v1")
        self.dispatch = Dispatch(
            operations,
            exact,
            inspection,
            activity,
            open_file=lambda request: -1,
            max_answer=1 << 20,
        )
        self.fast_step = FastStepper(self.dispatch, activity)
        self.near, host_end = socket.socketpair()
        host_end.setblocking(False)
        self.near.settimeout(5.0)
        hello = StreamHandshake("x", BINARY_PROTOCOL, "s")
        self.stream = Stream(host_end, hello, 1 << 20, time.monotonic)
        assert self.near.recv(4096).startswith(b"HTTP/1.1 101 ")
        self._messages = MessageReader(masked=False, max_message=1 << 20)
        self._announcing, self._announced = SentSignatures(), ReceivedSignatures()
        self.asking = FastClientFrames(self._announcing, self._announced)
        self._writing, self._masks = Writing(), Masks()

    def message(self, number: int, given: Any) -> bytes:
        """Return the message of a step."""
        signature, parts = self._writing.split(given)
        value = self._announcing.header(signature) + b"".join(parts)
        header = HEADER.pack(len(value), 0, 1, Op.STEP, BOTH, number)
        return encode(Opcode.BINARY, header + value, self._masks.next())

    def step(self, number: int, given: Any) -> bool:
        """Send a step; return whether it went the fast way."""
        self.near.sendall(self.message(number, given))
        lane = self.stream.fast_frames
        assert lane is not None
        data = self.stream.read()
        request = lane.decode_request(data)
        if request is not None and self.fast_step.execute(self.stream, lane, request):
            return True
        if request is not None:
            frame = frame_of(request)
        else:
            self.stream.feed(data)
            (frame,) = self.stream.inbox
            self.stream.inbox.clear()
        assert isinstance(frame, Frame)
        self.stream.answer(self.dispatch.answer(frame, "s"))
        return False

    def answered(self) -> tuple[int, int, Any]:
        """Return number, status and value of the next answer."""
        (message,) = self._messages.feed(self.near.recv(4096))
        payload = bytes(message.payload)
        _, _, status, _, form, number = HEADER.unpack_from(payload)
        if form != Form.BINARY:
            return number, status, payload[16:]
        return number, status, self._announced.read(payload, 16)

    def close(self) -> None:
        """Close everything."""
        self.stream.close()
        self.near.close()
        self.page.close()
        self.reader.close()


@pytest.fixture
def host() -> Iterator[Host]:
    host = Host()
    yield host
    host.close()


def test_fast_steps_equal_those_of_a_local_environment(host: Host) -> None:
    local = gymnasium.make("CartPole-v1")
    local.reset(seed=1)
    taken = []
    for number in range(1, 9):
        taken.append(host.step(number, {"action": number & 1}))
        answered, status, value = host.answered()
        assert (answered, status) == (number, 200)
        observation, reward, terminated, truncated, info = local.step(number & 1)
        assert_same(
            value,
            {
                "info": info,
                "observation": observation,
                "reward": reward,
                "terminated": terminated,
                "truncated": truncated,
            },
        )
    assert taken == [False, False, *[True] * 6]
    assert host.reader.read().steps == 8
    assert host.reader.read().busy_since_ns == 0


def test_a_repeated_fast_step_gets_the_stored_answer(host: Host) -> None:
    for number in range(1, 7):
        host.step(number, {"action": 0})
        last = host.answered()
    assert not host.step(6, {"action": 0})
    frame = Frame(Op.STEP, 6, 1, BOTH, b"", b"")
    assert host.reader.read().steps == 6
    assert last[:2] == (6, 200)
    with pytest.raises(AnswerGone):
        host.dispatch.sessions.replay_or_begin("s", 0, frame)


def test_errors_in_a_fast_step_are_returned(host: Host) -> None:
    for number in range(1, 7):
        host.step(number, {"action": 0})
        host.answered()
    assert host.step(7, {"action": 5})
    number, status, body = host.answered()
    assert (number, status) == (7, 502)
    assert b"AssertionError" in body


def test_an_answer_of_another_kind_takes_the_general_path(host: Host) -> None:
    for number in range(1, 7):
        host.step(number, {"action": 0})
        host.answered()
    env = gymnasium.wrappers.TransformReward(host.env, np.float32)
    host.dispatch.operations.env = env
    assert host.step(7, {"action": 0})
    _, status, value = host.answered()
    assert status == 200
    assert type(value["reward"]) is np.float32


def test_a_strict_host_takes_only_actions_by_the_fast_path() -> None:
    host = Host(strict=True)
    taken = []
    for number, action in enumerate([0, 1, 0, 1, 2, 0], 1):
        taken.append(host.step(number, {"action": action}))
        answered, status, _ = host.answered()
        assert (answered, status) == (number, 400 if action == 2 else 200)
    assert taken == [False, False, True, True, False, True]
    assert host.reader.read().steps == 5
    host.close()


def cart_poles() -> Any:
    """Make a vector whose episodes end after a few steps."""
    return gymnasium.make_vec(
        "CartPole-v1",
        num_envs=4,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP},
    )


def test_ends_of_episodes_take_the_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    host, local = Host(env=cart_poles()), cart_poles()
    local.reset(seed=1)
    general: list[int] = []
    answer_step = host.dispatch.handlers.answer_step

    def counted(frame: Frame, action: Any, outcome: Any) -> Frame:
        general.append(frame.number)
        return answer_step(frame, action, outcome)

    monkeypatch.setattr(host.dispatch.handlers, "answer_step", counted)
    draws, ends = np.random.default_rng(1), []
    for number in range(1, 301):
        action = draws.integers(2, size=4)
        host.step(number, {"action": action})
        observation, reward, terminated, truncated, info = local.step(action)
        expected = {
            "info": info,
            "observation": observation,
            "reward": reward,
            "terminated": terminated,
            "truncated": truncated,
        }
        answered, status, value = host.answered()
        assert (answered, status) == (number, 200)
        assert_same(value, expected)
        if info:
            ends.append(number)
    # Two steps teach the codec the signature.
    assert len(ends) > 30
    assert len(general) <= 4
    assert not set(ends[2:]) & set(general)
    host.close()


def test_a_step_is_recorded_before_it_is_answered(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a host that is killed at any moment has recorded each answered step."""
    events: list[str] = []

    class Recording:
        error = ""

        def streamed_step(self, *values: Any) -> None:
            events.append("recorded")

        def step(self, *values: Any) -> None:
            events.append("observed")

    # The first ones teach both sides their signatures.
    for number in range(1, 6):
        host.step(number, {"action": number % 2})
    recording = host.dispatch.handlers.recording
    monkeypatch.setattr(recording, "monitor", Recording())
    monkeypatch.setattr(recording, "recorder", Recording())
    send = host.stream.send
    monkeypatch.setattr(
        host.stream, "send", lambda data: (events.append("answered"), send(data))
    )
    assert host.step(6, {"action": 0})
    assert events == ["recorded", "answered", "observed"]


def opened(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT)


def test_recorded_steps_of_all_parts_are_those_of_the_environment(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [tmp_path / f"{number}.gym" for number in range(2)]
    files, handlers = map(opened, parts), host.dispatch.handlers
    recorder = StepRecorder(
        next(files), {}, lambda: next(files), host.page, part_bytes=1000
    )
    handlers.recording.recorder = recorder
    handlers.recording.monitor = Monitor(opened(tmp_path / "episodes.jsonl"), "x")
    local = gymnasium.make("CartPole-v1")
    local.reset(seed=1)
    names = ("observation", "reward", "terminated", "truncated", "info")
    expected: list[Any] = []
    for number in range(1, 22):
        host.step(number, {"action": number & 1})
        results = dict(zip(names, local.step(number & 1), strict=True))
        expected.append({"action": number & 1} | results)
    # Nothing was closed: so it is if the host is killed.
    found = [StepDecoder().feed(part.read_bytes()) for part in parts]
    assert all(len(records) > 5 for records in found)
    steps = [each for part in found for each in part if each.kind == Kind.STEP]
    assert_same([each.value for each in steps], expected)

    def fail(*values: int) -> None:
        raise OSError(0, "no room")

    monkeypatch.setattr("os.posix_fallocate", fail)
    monkeypatch.setattr(recorder._part, "_allocated", 0)
    host.step(22, {"action": 0})
    (warned,) = env_warnings.take()
    assert warned["message"] == "the recording of steps has ended: no room"
    assert host.reader.read().steps == 22
    handlers.close()
