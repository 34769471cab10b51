"""Requests do not wait forever for a supervisor or broker that is stopped."""

import contextlib
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from tests.support import api as calls
from tests.support.api import Api
from tests.support.processes import titled
from tests.support.raw import RawConnection, Response
from tests.support.server import Server
from tests.support.status_page import reader_of
from tests.support.wait import wait_until
from tests.support.websocket import TEXT, WebSocket

CREATE = {"env_id": "CartPole-v1"}
#: Within which health is promised.
HEALTH_S = 2.0
#: A launcher that waits for no 30 seconds; it is imported before it is used.
IMPATIENT = """
import sys
if "serve" in sys.orig_argv:
    import gym_http_server.commands.launcher
    gym_http_server.commands.launcher.SILENT_SECONDS = 1.5
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server whose broker runs."""
    with Server() as started:
        calls.error(Api(started).post("/v1/external/", {}), 400)
        yield started


@pytest.fixture
def suspend() -> Iterator[Callable[[psutil.Process], None]]:
    """Return a function that stops a process; all continue at the end."""
    stopped = []

    def stop(process: psutil.Process) -> None:
        process.suspend()
        stopped.append(process)

    yield stop
    for process in stopped:
        process.resume()


def broker(server: Server) -> psutil.Process:
    """Return the process that holds external connections."""
    (found,) = server.services("broker")
    return found


def check_health(api: Api, status: int) -> float:
    """Check the answers to both probes; return the seconds of the slower one."""
    times = []
    for path in ("/healthz", "/readyz"):
        began = time.monotonic()
        answer = api.get(path)
        times.append(time.monotonic() - began)
        assert answer.status == status, (path, answer)
        if status == 503:
            calls.error(answer, 503, "supervisor-unavailable")
    return max(times)


def check_stopped(
    api: Api, process: psutil.Process, suspend: Callable[[psutil.Process], None]
) -> None:
    """Stop a process, and check that health says so in time.

    A machine that is busy for a moment gets another try, with a process that was
    stopped anew: later answers could be faster than the first.
    """
    times: list[float] = []
    while len(times) < 3:
        suspend(process)
        times.append(check_health(api, 503))
        if times[-1] < HEALTH_S:
            return
        process.resume()
        wait_until(lambda: api.get("/healthz").status == 200, 5.0, "health")
    raise AssertionError(f"health took {times} s")


@pytest.mark.slow
def test_a_stopped_supervisor_is_unavailable_and_instances_go_on(
    server: Server, suspend: Callable[[psutil.Process], None]
) -> None:
    api = Api(server)
    instance, closing, ended = api.create(), api.create(), api.create()
    instance.reset()
    ended.close()
    assert check_health(api, 200) < HEALTH_S
    with WebSocket.to(instance, sec_websocket_protocol=TEXT) as stream:
        supervisor = server.supervisor
        check_stopped(api, supervisor, suspend)
        requests: list[Callable[[], Response]] = [
            lambda: api.get("/v1/"),
            lambda: api.get("/v1/envs/"),
            lambda: api.get("/v1/registry/"),
            lambda: api.post("/v1/envs/", CREATE),
            lambda: api.post("/v1/envs/", CREATE, headers={"Idempotency-Key": "a"}),
            lambda: api.post("/v1/external/", {}),
            closing.close,
            ended.close,
            lambda: ended.post("reset/"),
        ]
        with ThreadPoolExecutor(len(requests)) as pool:
            for answer in pool.map(lambda call: call(), requests):
                calls.error(answer, 503, "supervisor-unavailable")
        assert instance.step(0)
        assert stream.call(op="step", action=1)["status"] == 200
        supervisor.resume()
    wait_until(lambda: api.get("/healthz").status == 200, 5.0, "health")
    key = {"Idempotency-Key": "a"}
    made = calls.ok(api.post("/v1/envs/", CREATE, headers=key))["instance_id"]
    wait_until(lambda: set(api.instances()) == {instance.id, made}, 5.0, "what is left")
    for each in (instance, calls.Instance(api, made)):
        calls.no_content(each.close())


def test_a_create_may_take_longer_than_the_supervisor_may_be_silent(
    make_server: Callable[..., Server],
) -> None:
    api = Api(make_server("--import", "tests.support.envs.hostile"))
    slow = api.create("hostile/SlowInit-v0", kwargs={"seconds": 4.5})
    assert slow.reset()


@pytest.mark.slow
def test_a_stopped_broker_is_unavailable_and_all_else_goes_on(
    server: Server, suspend: Callable[[psutil.Process], None]
) -> None:
    api = Api(server)
    stopped = broker(server)
    check_stopped(api, stopped, suspend)
    away = {"env_id": "external/cart"}
    requests: list[tuple[Callable[[], Response], str]] = [
        (lambda: api.get("/v1/registry/"), "supervisor-unavailable"),
        (lambda: api.post("/v1/external/", {}), "supervisor-unavailable"),
        (
            lambda: api.get("/v1/external/0123/request/?wait_s=0"),
            "supervisor-unavailable",
        ),
        (lambda: api.post("/v1/envs/", away), "external-away"),
    ]
    with ThreadPoolExecutor(len(requests)) as pool:
        answers = pool.map(lambda each: each[0](), requests)
        for answer, (_, code) in zip(answers, requests, strict=True):
            calls.error(answer, 503, code)
    instance = api.create()
    instance.reset()
    instance.step(0)
    instance.close()
    stopped.resume()
    wait_until(lambda: api.get("/healthz").status == 200, 5.0, "health")


def test_an_instance_serves_streams_while_a_web_worker_is_stopped(
    make_server: Callable[..., Server], suspend: Callable[[psutil.Process], None]
) -> None:
    server = make_server("--workers", "1", "--import", "tests.support.envs.toys")
    instance = Api(server).create("toys/Big-v0")
    (gunicorn,) = (
        e for e in psutil.Process(server.pid).children() if titled(e, "gunicorn")
    )
    (worker,) = gunicorn.children()
    head = f"POST {instance.path('reset/')} HTTP/1.1\r\nHost: localhost\r\n"
    with (
        contextlib.closing(reader_of(instance)) as status,
        WebSocket.to(instance, sec_websocket_protocol=TEXT) as stream,
        RawConnection(server.port) as rest,
    ):
        used = status.read().last_used_ns
        rest.send(head.encode() + b"Content-Length: 2\r\n\r\n{}")
        # The answer has megabytes, which take the host a while.
        wait_until(lambda: status.read().busy_since_ns > used, 5.0, "the reset")
        suspend(worker)
        began = time.monotonic()
        assert stream.call(op="action_space")["status"] == 200
        assert time.monotonic() - began < 10.0
        worker.resume()
        assert len(rest.read_response().json()["observation"]) == 7_000_000
        assert stream.call(op="action_space")["status"] == 200


def test_the_launcher_ends_a_server_with_a_silent_supervisor(
    launch_server: Callable[..., Server], tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(IMPATIENT)
    server = launch_server(python_path=(tmp_path,))
    server.wait_listening()
    members = server.members()
    server.supervisor.suspend()
    assert server.wait_exit() == 1
    assert "the supervisor has been silent for 1.5 s; stopping" in server.stderr
    wait_until(lambda: not any(each.is_running() for each in members), 5.0)
