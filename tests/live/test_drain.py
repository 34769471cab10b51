"""A stopping server answers running calls, accepts no new ones and cleans up."""

import os
import signal
import socket
import threading
import time
from collections.abc import Callable

import pytest

from tests.support import api as calls
from tests.support.api import Api
from tests.support.raw import Response
from tests.support.server import Server
from tests.support.status_page import is_busy
from tests.support.wait import wait_until

HOSTILE = ("--import", "tests.support.envs.hostile")


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_a_step_end_and_refuses_new_instances(
    make_server: Callable[..., Server], sig: int
) -> None:
    server = make_server(*HOSTILE)
    api = Api(server)
    slow = api.create("hostile/Slow-v0", kwargs={"seconds": 2.0})
    slow.reset()
    api.create("hostile/IgnoreTerm-v0").reset()
    members = server.members()
    answers: list[Response] = []
    step = threading.Thread(
        target=lambda: answers.append(slow.post("step/", {"action": 1}))
    )
    with socket.create_connection(("127.0.0.1", server.port)) as idle:
        idle.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert idle.recv(4096).startswith(b"HTTP/1.1 200")
        step.start()
        wait_until(lambda: is_busy(slow), 10.0, "the step to begin")
        began = time.monotonic()
        os.kill(server.pid, sig)
        refused = wait_until(
            lambda: (a := api.get("/readyz")).status == 503 and a, 5.0, "readiness 503"
        )
        assert "Retry-After" in dict(refused.headers)
        calls.error(api.post("/v1/envs/", {"env_id": "CartPole-v1"}), 503, "draining")
        assert api.get("/healthz").status == 200
        assert server.wait_exit(10.0) == 0
    assert time.monotonic() - began < 10.0
    step.join(20.0)
    assert calls.ok(answers[0])["observation"] == 1
    wait_until(
        lambda: not any(p.is_running() for p in members), 5.0, "processes to be gone"
    )
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port))


def test_a_second_signal_ends_at_once(make_server: Callable[..., Server]) -> None:
    server = make_server(*HOSTILE)
    slow = Api(server).create("hostile/Slow-v0", kwargs={"seconds": 60.0})
    slow.reset()
    step = threading.Thread(target=lambda: swallow(slow))
    step.start()
    wait_until(lambda: is_busy(slow), 10.0, "the step to begin")
    os.kill(server.pid, signal.SIGTERM)
    wait_until(lambda: Api(server).get("/readyz").status == 503, 10.0, "draining")
    began = time.monotonic()
    os.kill(server.pid, signal.SIGTERM)
    assert server.wait_exit(5.0) == 0
    assert time.monotonic() - began < 5.0
    step.join(20.0)


def swallow(slow: calls.Instance) -> None:
    """Step, and ignore that the server ends."""
    try:
        slow.post("step/", {"action": 1})
    except OSError:
        return


def test_an_idle_server_stops_fast(make_server: Callable[..., Server]) -> None:
    server = make_server()
    for _ in range(4):
        Api(server).create().reset()
    began = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - began < 5.0
    assert list(server.run_dir.iterdir()) == []


def test_drain_delay_goes_on_serving(make_server: Callable[..., Server]) -> None:
    server = make_server("--drain-delay", "4")
    api = Api(server)
    instance = api.create()
    instance.reset(seed=0)
    os.kill(server.pid, signal.SIGTERM)
    wait_until(lambda: api.get("/readyz").status == 503, message="readiness 503")
    instance.step(0)
    assert server.wait_exit(10.0) == 0


def test_instances_are_served_until_they_are_closed(
    make_server: Callable[..., Server],
) -> None:
    server = make_server("--drain-until-idle", "1h")
    api = Api(server)
    body, key = {"env_id": "CartPole-v1"}, {"Idempotency-Key": "first"}
    first = calls.ok(api.post("/v1/envs/", body, headers=key))
    instances = [api.create(), calls.Instance(api, first["instance_id"])]
    instances[0].reset(seed=0)
    os.kill(server.pid, signal.SIGTERM)
    wait_until(lambda: api.get("/readyz").status == 503, message="readiness 503")
    calls.error(api.post("/v1/envs/", body), 503, "draining")
    # A client that has lost the answer.
    assert calls.ok(api.post("/v1/envs/", body, headers=key)) == first
    api.get("/v1/")
    for instance in instances:
        instance.reset(seed=0)
        for action in (0, 1, 0):
            instance.step(action)
        assert api.instances()
        instance.close()
    assert server.wait_exit(10.0) == 0


def test_instances_are_served_for_a_time_at_most(
    make_server: Callable[..., Server],
) -> None:
    server = make_server("--drain-until-idle", "2s")
    instance = Api(server).create()
    began = time.monotonic()
    os.kill(server.pid, signal.SIGTERM)
    wait_until(lambda: Api(server).get("/readyz").status == 503, message="503")
    instance.reset()
    assert server.wait_exit(15.0) == 0
    assert time.monotonic() - began > 2.0


def test_a_request_with_a_clock_waits_until_the_server_stops(
    make_server: Callable[..., Server],
) -> None:
    server = make_server("--drain-until-idle", "1h")
    api = Api(server)
    clocked = api.create(realtime={"mode": "elastic", "hz": 2, "default_action": 0})
    clocked.reset()
    os.kill(server.pid, signal.SIGTERM)
    wait_until(lambda: api.get("/readyz").status == 503, message="readiness 503")
    for _ in range(2):
        api.get("/v1/")
        clocked.step(0)
    clocked.close()
    assert server.wait_exit(10.0) == 0


def test_shutdown_by_request(make_server: Callable[..., Server]) -> None:
    server = make_server("--enable-shutdown")
    answer = Api(server).post("/v1/shutdown/")
    assert (answer.status, answer.text) == (200, "Server shutting down")
    assert server.wait_exit(10.0) == 0


@pytest.mark.parametrize("sig", [signal.SIGQUIT, signal.SIGINT])
def test_other_signals_drain_and_none_ends_undrained(
    make_server: Callable[..., Server], sig: int
) -> None:
    server = make_server(*HOSTILE)
    slow = Api(server).create("hostile/Slow-v0", kwargs={"seconds": 1.0})
    slow.reset()
    answers: list[Response] = []
    step = threading.Thread(
        target=lambda: answers.append(slow.post("step/", {"action": 1}))
    )
    step.start()
    wait_until(lambda: is_busy(slow), 10.0, "the step to begin")
    for ignored in (signal.SIGUSR1, signal.SIGUSR2):
        os.kill(server.pid, ignored)
    os.kill(server.pid, sig)
    assert server.wait_exit(10.0) == 0
    step.join(20.0)
    assert calls.ok(answers[0])["observation"] == 1
