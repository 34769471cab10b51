"""Large answers that clients do not read take bounded memory in a web worker."""

import contextlib
import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import api as calls
from tests.support import processes
from tests.support.api import Api, Instance
from tests.support.raw import RawConnection, Response
from tests.support.server import Server
from tests.support.token_file import api_of, write_file
from tests.support.wait import wait_until

BINARY = {"Accept": "application/vnd.gym-http.binary"}
MIB = 1 << 20
FRAME = 27_000_000
READERS = 32
#: Half of the default budget of 256 MiB, which is the share of one instance.
FIT = 128 * MIB // FRAME


class SlowReader(RawConnection):
    """A client that reads only the head of an answer until `read_frame` is called."""

    def __init__(self, instance: Instance) -> None:
        super().__init__(instance.api.server.port)
        head = f"POST {instance.path('reset/')} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        for name, value in (BINARY | instance.api.headers).items():
            head += f"{name}: {value}\r\n"
        self.send(f"{head}\r\n".encode())

    def status(self) -> int:
        """Return the status, as soon as it is there."""
        self._socket.recv(1, socket.MSG_PEEK)
        return int(self._socket.recv(12, socket.MSG_PEEK)[9:12])

    def read_frame(self) -> bytes:
        """Read the whole answer, and return the last bytes of the frame in it."""
        size, tail = 0, b""
        while size <= FRAME:
            data = self._socket.recv(MIB)
            assert data, f"the answer ended after {size} bytes"
            size += len(data)
            tail = (tail + data)[-1000:]
        return tail


@pytest.fixture(scope="module")
def one_worker() -> Iterator[Server]:
    """A server with one web worker and toys."""
    with Server("--import", "tests.support.envs.toys", "--workers", "1") as started:
        yield started


@pytest.fixture
def second(one_worker: Server) -> Iterator[Instance]:
    """Another such instance."""
    with instance_of(one_worker, FRAME) as made:
        yield made


@pytest.fixture
def big(one_worker: Server) -> Iterator[Instance]:
    """An instance with frames of 27 MB."""
    with instance_of(one_worker, FRAME) as made:
        yield made


@contextlib.contextmanager
def instance_of(server: Server, size: int) -> Iterator[Instance]:
    """Make an instance whose observations have so many bytes."""
    instance = Api(server).create("toys/Big-v0", kwargs={"size": size})
    try:
        yield instance
    finally:
        instance.close()


def has_room(instance: Instance) -> bool:
    """Return whether the server has room for another frame."""
    with SlowReader(instance) as reader:
        return reader.status() == 200


def peak_mib(server: Server) -> float:
    """Return the most memory that the only web worker has ever had."""
    _, (worker,) = processes.gunicorn(server.pid)
    status = Path(f"/proc/{worker.pid}/status").read_text()
    match = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert match
    return int(match[1]) / 1024


def step(instance: Instance, **headers: str) -> Response:
    """Take a step; observations come as bytes."""
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    return instance.post("step/", {"action": 1}, headers={**BINARY, **headers})


@pytest.mark.slow
def test_slow_readers_of_large_frames_take_a_bounded_memory(
    one_worker: Server, big: Instance, second: Instance
) -> None:
    with contextlib.ExitStack() as stack:
        for instance in (second, big):
            readers = [
                stack.enter_context(SlowReader(instance)) for _ in range(READERS // 2)
            ]
            statuses = [each.status() for each in readers]
            assert statuses.count(200) == FIT
            assert statuses.count(503) == READERS // 2 - FIT
        refused = readers[statuses.index(503)].read_response()
        error = calls.error(refused, 503, "answer-budget-full")
        assert "of this instance" in error["message"]
        assert refused.header("Retry-After")
        assert peak_mib(one_worker) < 400
        assert bytes(500) in readers[statuses.index(200)].read_frame()
        # Small answers are not concerned.
        assert calls.ok(big.get("action_space/"))["info"]["n"] == 2
    # When the readers are gone, the budget is free again.
    wait_until(lambda: has_room(big))


def test_a_call_without_room_for_its_answer_is_not_executed_twice(
    one_worker: Server, big: Instance, second: Instance
) -> None:
    with (
        instance_of(one_worker, 4 * MIB) as other,
        contextlib.ExitStack() as stack,
    ):
        other.post("reset/", headers=BINARY)
        readers = [
            stack.enter_context(SlowReader(instance))
            for instance in (big, second)
            for _ in range(FIT)
        ]
        wait_until(lambda: [each.status() for each in readers] == [200] * 2 * FIT)
        # The remaining budget is larger than the answer, so it must be filled.
        fill = 256 * MIB - 2 * FIT * FRAME
        assert fill > 4 * MIB
        with instance_of(one_worker, fill - 2 * MIB) as rest:
            reader = stack.enter_context(SlowReader(rest))
            assert reader.status() == 200
            first = calls.error(step(other, Idempotency_Key="a"), 503)
            assert first["code"] == "answer-budget-full"
            assert "the call was executed" in first["message"]
            # That its answers are large is known now.
            second = calls.error(step(other, Idempotency_Key="b"), 503)
            assert "the call was not executed" in second["message"]
            stack.close()
        wait_until(lambda: step(other, Idempotency_Key="a").status == 200)
        again = step(other, Idempotency_Key="a")
        assert again.header("Idempotent-Replayed") == "true"
        assert bytes([1]) * 4 * MIB in again.body
        assert step(other, Idempotency_Key="b").header("Idempotent-Replayed") is None
        assert calls.ok(other.get(""))["steps"] == 2


def test_large_answers_are_whole_on_all_ways(one_worker: Server) -> None:
    with instance_of(one_worker, 2 * MIB) as instance:
        instance.post("reset/", headers=BINARY)
        frame = bytes([1]) * 2 * MIB
        answers = [
            step(instance, Idempotency_Key="a"),
            # Read by gunicorn, since the header is not known.
            step(instance, Idempotency_Key="a", X_Odd="1"),
            # Flask answers this request, since the path contains a name.
            instance.get("attributes/frame/", headers=BINARY),
        ]
        for answer in answers:
            assert answer.status == 200
            assert frame in answer.body
            assert answer.header("Content-Length") == str(len(answer.body))
        steps = [{"instance_id": instance.id, "action": 1}]
        batch = Api(one_worker).post("/v1/batch/step/", {"steps": steps})
        observation = calls.ok(batch)["results"][0]["answer"]["observation"]
        assert observation == [2] * 2 * MIB


def test_a_token_leaves_room_for_others(
    make_server: Callable[..., Server], tmp_path: Path
) -> None:
    flags = ("--tokens", write_file(tmp_path), "--import", "tests.support.envs.toys")
    server = make_server(*flags, "--workers", "1", "--answer-budget", str(2 * FRAME))
    bob, ada = api_of(server, "bob"), api_of(server, "ada")
    options = {"kwargs": {"size": FRAME - 1000}}
    bobs = [bob.create("toys/Big-v0", **options) for _ in range(2)]
    adas = ada.create("toys/Big-v0", **options)
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(SlowReader(bobs[0]))
        assert first.status() == 200
        error = calls.error(bobs[1].post("reset/", headers=BINARY), 503)
        assert "of the token 'bob'" in error["message"]
        assert stack.enter_context(SlowReader(adas)).status() == 200
