"""The limit of requests that wait for one instance."""

import contextlib
import json
import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from tests.support import api as calls
from tests.support import processes
from tests.support.api import Api
from tests.support.peers.external_env import BOX, THREE
from tests.support.raw import RawConnection
from tests.support.server import Server
from tests.support.wait import wait_until
from tests.support.websocket import WebSocket

WAITING = 4


@pytest.fixture(scope="module")
def short_server() -> Iterator[Server]:
    """A server with a limit of four waiting requests per instance."""
    modules = ("--import", "tests.support.envs.stuck")
    limits = ("--max-waiting", str(WAITING), "--workers", "2")
    with Server(*modules, *limits) as started:
        # The broker starts when it is first needed.
        Api(started).post("/v1/external/")
        yield started


@pytest.fixture
def gate(short_server: Server) -> Iterator["Gate"]:
    """A gate that is closed, and opened after the test."""
    made = Gate(short_server)
    yield made
    made.open()
    made.instance.close()


class Gate:
    """An instance whose calls with action 1 wait until the gate is opened."""

    def __init__(self, server: Server) -> None:
        self.instance = Api(server).create("stuck/Gate-v0")
        self.instance.reset()
        (host,) = server.run_dir.glob(f"*/{self.instance.id}")
        self._work = host / "work"

    def open(self) -> None:
        """Let all calls continue."""
        (self._work / "go").touch()

    def fill(self, stack: contextlib.ExitStack) -> list[RawConnection]:
        """Have one call in work, and send requests until one is refused.

        Returns:
            The connections of those that were not refused.
        """
        sent = [self._send(stack)]
        wait_until((self._work / "stuck").exists, message="the call")
        while not (refused := [each for each in sent if _answered(each)]):
            sent.append(self._send(stack))
            assert len(sent) < 10 * WAITING, "nothing is refused"
        for each in refused:
            sent.remove(each)
            error = calls.error(each.read_response(), 429, "queue-full")
            assert f"{WAITING} requests wait" in error["message"]
            assert "--max-waiting" in error["message"]
        return sent

    def _send(self, stack: contextlib.ExitStack) -> RawConnection:
        data = json.dumps({"action": 1}).encode()
        head = f"POST {self.instance.path('step/')} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        connection = RawConnection(self.instance.api.server.port)
        stack.enter_context(connection)
        connection.send(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        return connection


def _answered(connection: RawConnection) -> bool:
    return bool(select.select([connection._socket], [], [], 0.05)[0])


def test_a_full_queue_is_429_at_once_over_all_web_workers(gate: Gate) -> None:
    instance, server = gate.instance, gate.instance.api.server
    other = Api(server).create()
    other.reset()
    with contextlib.ExitStack() as stack:
        stack.callback(other.close)
        waiting = gate.fill(stack)
        # Two web workers that check at the same time may accept one more.
        assert WAITING + 1 <= len(waiting) <= WAITING + 2
        # All ways to the instance are closed, and no way to another one.
        answer = instance.get("")
        calls.error(answer, 429, "queue-full")
        assert answer.header("Retry-After")
        with WebSocket.to(instance) as stream:
            calls.error(stream.response, 429, "queue-full")
        steps = [{"instance_id": each.id, "action": 0} for each in (instance, other)]
        results = calls.ok(Api(server).post("/v1/batch/step/", {"steps": steps}))
        assert [each["status"] for each in results["results"]] == [429, 200]
        gate.open()
        assert [each.read_response().status for each in waiting] == [200] * len(waiting)
    # Refused requests were not executed, and the queue is empty again.
    assert instance.step(0)["observation"] == len(waiting) + 1


def test_workers_that_replace_busy_ones_count_with_them(
    make_server: Callable[..., Server],
) -> None:
    modules = ("--import", "tests.support.envs.stuck")
    server = make_server(*modules, "--max-waiting", str(WAITING), "--workers", "1")
    gate = Gate(server)
    arbiter, before = processes.gunicorn(server.pid)
    with contextlib.ExitStack() as stack:
        waiting = gate.fill(stack)
        os.kill(arbiter.pid, signal.SIGHUP)
        wait_until(lambda: not any(map(_listens, before)), 10.0, "the old worker's end")
        calls.error(gate.instance.get(""), 429, "queue-full")
        assert processes.alive(before), "the old worker has calls in flight"
        gate.open()
        assert [each.read_response().status for each in waiting] == [200] * len(waiting)
    wait_until(lambda: not processes.alive(before), 10.0, "the end of the old worker")
    assert gate.instance.step(0)["observation"] == len(waiting) + 1
    calls.no_content(gate.instance.close())


def test_more_workers_than_have_counters_serve(
    make_server: Callable[..., Server],
) -> None:
    server = make_server("--workers", "1")
    arbiter, _ = processes.gunicorn(server.pid)
    with contextlib.ExitStack() as stack:
        for count in (2, 3):
            # So that the newest one serves.
            for each in arbiter.children():
                each.suspend()
                stack.callback(each.resume)
            os.kill(arbiter.pid, signal.SIGTTIN)
            wait_until(lambda count=count: len(arbiter.children()) == count)
            assert Api(server).instances() == {}


def _listens(process: psutil.Process) -> bool:
    found = process.net_connections("tcp")
    return any(each.status == psutil.CONN_LISTEN for each in found)


def test_long_polls_do_not_count(short_server: Server) -> None:
    api = Api(short_server)
    hello = {"type": "hello", "protocol": 1, "name": "queue", "capabilities": ["reset"]}
    hello |= {"observation_space": BOX, "action_space": THREE}
    count = 2 * WAITING
    with ThreadPoolExecutor(count) as pool:
        welcomes = list(
            pool.map(lambda _: api.post("/v1/external/", hello), range(count))
        )
        names = [calls.ok(each)["connection"] for each in welcomes]
        began = time.monotonic()
        polls = list(
            pool.map(
                lambda name: api.get(f"/v1/external/{name}/request/?wait_s=0.5"), names
            )
        )
    assert {each.status for each in polls} == {204}
    assert time.monotonic() - began >= 0.5


def test_polls_of_logs_have_a_limit_of_their_own(short_server: Server) -> None:
    instance = Api(short_server).create()
    most, count = WAITING + 1, 4 * WAITING
    path = instance.path("log/?wait_s=20")
    with contextlib.ExitStack() as stack:
        polls = []
        for _ in range(count):
            connection = stack.enter_context(RawConnection(short_server.port))
            connection.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            polls.append(connection)
        refused: list[RawConnection] = []

        def are_refused() -> bool:
            refused[:] = [each for each in polls if _answered(each)]
            # Web workers that check at the same time may accept one more.
            return len(refused) >= count - most - 1

        wait_until(are_refused, 10.0, "the polls over the limit")
        assert len(refused) <= count - most
        for each in refused:
            answer = each.read_response()
            error = calls.error(answer, 429, "queue-full")
            assert f"wait for the log of instance {instance.id}" in error["message"]
            assert answer.header("Retry-After")
        # They block neither requests to the instance nor reads of its log.
        instance.reset()
        assert instance.get("log/").status == 200
        calls.no_content(instance.close())
        for each in polls:
            if each not in refused:
                assert each.read_response().header("Gym-Log-Ended") == "true"
    other = Api(short_server).create()
    assert other.get("log/?wait_s=0.1").status == 200
    calls.no_content(other.close())


def test_requests_of_a_killed_web_worker_do_not_count(
    make_server: Callable[..., Server],
) -> None:
    limits = ("--workers", "1", "--max-waiting", str(WAITING))
    server = make_server("--import", "tests.support.envs.stuck", *limits)
    gate = Gate(server)
    _, (worker,) = processes.gunicorn(server.pid)
    with contextlib.ExitStack() as stack:
        assert len(gate.fill(stack)) == WAITING + 1
        worker.kill()
        wait_until(lambda: not processes.alive([worker]), message="the worker's end")
        wait_until(lambda: processes.gunicorn(server.pid)[1], 10.0, "another worker")
        waiting = gate.fill(stack)
        assert len(waiting) == WAITING + 1
        gate.open()
        assert {each.read_response().status for each in waiting} == {200}
    gate.instance.close()
