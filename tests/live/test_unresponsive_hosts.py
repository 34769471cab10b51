"""The server ends hosts that hang between calls, and callers get 504."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import psutil
import pytest

from gym_http_server.rundir.status import Status
from tests.support import api as calls
from tests.support.api import Api, Instance
from tests.support.raw import Response
from tests.support.server import Server
from tests.support.status_page import reader_of
from tests.support.wait import wait_until
from tests.support.websocket import TEXT, WebSocket

STEP_DEADLINE = 1.0
#: The documented limit, beyond the step deadline.
LATE = 2.0


@pytest.fixture(scope="module")
def short_server() -> Iterator[Server]:
    """A server with a short step deadline, which never ends idle instances."""
    modules = (
        "--import",
        "tests.support.envs.hostile",
        "--import",
        "tests.support.envs.stuck",
    )
    limits = ("--step-deadline", str(STEP_DEADLINE), "--idle-timeout", "0")
    with Server(*modules, *limits) as started:
        yield started


@pytest.fixture
def create_short(short_server: Server) -> Iterator[Callable[..., Instance]]:
    """Return a factory of instances, reset, and closed after the test."""
    made: list[Instance] = []

    def create(env_id: str = "hostile/Harmless-v0", **options: object) -> Instance:
        instance = Api(short_server).create(env_id, **options)
        made.append(instance)
        instance.reset()
        return instance

    yield create
    for instance in made:
        instance.close()


def pid_of(instance: Instance) -> int:
    """Return the process ID of an instance's host."""
    return int(instance.reset()["info"]["pid"])


def status_of(instance: Instance) -> Status:
    """Return the state in the status page of an instance."""
    with contextlib.closing(reader_of(instance)) as page:
        return page.read()


def get_stuck(instance: Instance, how: str) -> None:
    """Have the host of an instance get stuck, and wait until it is."""
    if how == "stopped":
        pid = pid_of(instance)
        os.kill(pid, signal.SIGSTOP)
        stopped = psutil.STATUS_STOPPED
        wait_until(lambda: psutil.Process(pid).status() == stopped, message="the stop")
        return
    assert instance.step(1)
    found = partial(instance.api.server.run_dir.glob, f"*/{instance.id}/work/stuck")
    wait_until(lambda: list(found()), message="the host to be stuck")


def timed(call: Callable[[], Response]) -> tuple[Response, float]:
    """Return an answer and the seconds that it took."""
    began = time.monotonic()
    return call(), time.monotonic() - began


@pytest.mark.parametrize(
    ("env_id", "how"),
    [
        ("hostile/Harmless-v0", "stopped"),
        ("stuck/HoldLock-v0", "thread"),
        ("stuck/StopLoop-v0", "handler"),
    ],
)
def test_a_stuck_host_answers_504_within_the_deadline(
    create_short: Callable[..., Instance], env_id: str, how: str
) -> None:
    alone, streamed = create_short(env_id), create_short(env_id)
    with contextlib.ExitStack() as stack:
        stream = WebSocket.to(streamed, sec_websocket_protocol=TEXT)
        stack.enter_context(stream)
        for each in (alone, streamed):
            get_stuck(each, how)
        with ThreadPoolExecutor() as pool:
            waiting = [
                pool.submit(timed, partial(each.post, "step/", {"action": 0}))
                for each in (alone, streamed)
            ]
            answers = [each.result() for each in waiting]
        for instance, (answer, seconds) in zip((alone, streamed), answers, strict=True):
            error = calls.error(answer, 504, "step-deadline")
            assert error["reason"] == "unresponsive"
            assert seconds < STEP_DEADLINE + LATE
            later = calls.error(instance.get(""), 410, "instance-ended")
            assert later["reason"] == "unresponsive"
        assert stream.read_to_end() == b""


def test_a_stream_of_a_stuck_host_ends_within_the_deadline(
    create_short: Callable[..., Instance],
) -> None:
    instance = create_short()
    with WebSocket.to(instance, "tried", sec_websocket_protocol=TEXT) as stream:
        assert stream.call(op="step", action=0)["status"] == 200
        get_stuck(instance, "stopped")
        began = time.monotonic()
        stream.send_message(op="step", action=0)
        assert stream.read_to_end() == b""
        assert time.monotonic() - began < STEP_DEADLINE + LATE
    path = instance.path("stream?session=tried&lost=0.1")
    with WebSocket.to(instance, path=path) as again:
        calls.error(again.response, 504, "step-deadline")


def test_a_handshake_that_waits_for_a_stuck_host_is_504(
    create_short: Callable[..., Instance],
) -> None:
    instance = create_short()
    get_stuck(instance, "stopped")
    began = time.monotonic()
    with WebSocket.to(instance) as stream:
        calls.error(stream.response, 504, "step-deadline")
    assert time.monotonic() - began < STEP_DEADLINE + LATE


def test_a_host_that_is_stopped_in_a_call_is_504(
    create_short: Callable[..., Instance],
) -> None:
    instance = create_short("hostile/Slow-v0", kwargs={"seconds": 0.5})
    pid = pid_of(instance)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(timed, partial(instance.post, "step/", {"action": 1}))
        wait_until(lambda: status_of(instance).busy_since_ns, message="the call")
        os.kill(pid, signal.SIGSTOP)
        answer, seconds = waiting.result()
    error = calls.error(answer, 504, "step-deadline")
    assert error["reason"] == "step-deadline"
    assert seconds < STEP_DEADLINE + LATE


def test_requests_that_wait_behind_live_calls_end_nothing(
    create_short: Callable[..., Instance],
) -> None:
    instance = create_short("hostile/Slow-v0", kwargs={"seconds": 0.6})
    with ThreadPoolExecutor(6) as pool:
        waiting = [
            pool.submit(timed, partial(instance.post, "step/", {"action": 1}))
            for _ in range(6)
        ]
        answers = [each.result() for each in waiting]
    assert [answer.status for answer, _ in answers] == [200] * 6
    assert max(seconds for _, seconds in answers) > STEP_DEADLINE + LATE
    assert instance.step(0)["observation"] == 7


def test_idle_hosts_answer_pings_and_are_not_used_by_them(
    create_short: Callable[..., Instance],
) -> None:
    single = create_short()
    vector = create_short("CartPole-v1", num_envs=2, vectorization_mode="async")
    last_used = [status_of(each).last_used_ns for each in (single, vector)]
    for _ in range(3):
        before = [status_of(each).alive_ns for each in (single, vector)]
        wait_until(
            lambda before=before: all(
                status_of(each).alive_ns > mark
                for each, mark in zip((single, vector), before, strict=True)
            ),
            message="an answer to a ping",
        )
    assert [status_of(each).last_used_ns for each in (single, vector)] == last_used
    assert single.step(0)


def test_a_server_that_was_frozen_ends_no_host(
    create_short: Callable[..., Instance], short_server: Server
) -> None:
    instance = create_short()
    host = pid_of(instance)
    supervisor = psutil.Process(host).ppid()
    stopped = psutil.STATUS_STOPPED
    # The host first, so that a ping is likely to be on its way.
    os.kill(host, signal.SIGSTOP)
    alive = status_of(instance).alive_ns
    wait_until(lambda: time.monotonic_ns() > alive + 1_200_000_000, message="a ping")
    os.kill(supervisor, signal.SIGSTOP)
    try:
        wait_until(lambda: psutil.Process(supervisor).status() == stopped)
        frozen = time.monotonic()
        wait_until(lambda: time.monotonic() > frozen + STEP_DEADLINE + 1.0)
    finally:
        os.kill(supervisor, signal.SIGCONT)
        os.kill(host, signal.SIGCONT)
    wait_until(lambda: status_of(instance).alive_ns > alive, message="an answer")
    wait_until(lambda: status_of(instance).busy_since_ns == 0)
    assert instance.step(0)["observation"] == 1
