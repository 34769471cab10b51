"""Environments over streams, and over REST where no stream is possible."""

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import psutil
import pytest

from gym_http_client import RemoteEnv, ServerError
from gym_http_client import Server as Client
from tests.support.api import Api, Instance
from tests.support.faults.no_upgrade_proxy import (
    NoUpgradeProxy,
    hang_on_upgrade,
    refuse_upgrade,
    strip_upgrade,
)
from tests.support.identity import assert_identical
from tests.support.server import Server
from tests.support.wait import wait_until
from tests.support.websocket import WebSocket


@pytest.fixture(scope="module")
def hostile_server() -> Iterator[Server]:
    """A server with misbehaving environments and a short deadline."""
    modules = ("--import", "tests.support.envs.hostile")
    with Server(*modules, "--step-deadline", "1") as started:
        yield started


@pytest.fixture
def remote() -> Iterator[Callable[..., Any]]:
    """Return a factory of environments, closed after the test."""
    with contextlib.ExitStack() as stack:

        def make(*args: Any, **options: Any) -> Any:
            env = RemoteEnv(*args, **options)
            stack.callback(env.close)
            return env

        yield make


def transport(env: RemoteEnv) -> str:
    """Return the transport of an environment's steps."""
    return env._handle.transport


def walk(env: Any, local: Any, steps: int = 5) -> None:
    """Compare some steps."""
    assert_identical(env.reset(seed=2), local.reset(seed=2))
    for number in range(steps):
        assert_identical(env.step(number % 2), local.step(number % 2))


def test_steps_go_over_a_stream(server: Server, remote: Callable[..., Any]) -> None:
    with gymnasium.make("CartPole-v1") as local:
        env = remote(server.url, "CartPole-v1")
        walk(env, local)
        assert transport(env) == "stream"
        env = remote(Client(server.url, streams=False), "CartPole-v1")
        walk(env, local)
        assert transport(env) == "rest"


@pytest.mark.parametrize("how", [strip_upgrade, refuse_upgrade, hang_on_upgrade])
def test_behind_a_proxy_without_upgrades_steps_go_by_rest(
    server: Server, remote: Callable[..., Any], how: Any
) -> None:
    with (
        NoUpgradeProxy(server.port, how) as proxy,
        gymnasium.make("CartPole-v1") as local,
    ):
        env = remote(Client(proxy.url, time_limit=2.0), "CartPole-v1")
        # The server reports that the headers are missing.
        seen = pytest.warns(UserWarning, match="a proxy between client and server")
        with seen if how is strip_upgrade else contextlib.nullcontext():
            walk(env, local)
        assert transport(env) == "rest"
        # Three in a row, and rarer ones on a machine on which the steps take seconds.
        assert 1 <= proxy.upgrades <= 3 + 6
        env.close()


def test_a_fork_has_a_stream_of_its_own(
    server: Server, remote: Callable[..., Any]
) -> None:
    env = remote(server.url, "CartPole-v1")
    env.reset(seed=1)
    env.step(0)
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        status = 1
        with contextlib.suppress(BaseException):
            env.step(0)
            theirs.sendall(transport(env).encode())
            status = 0
        os._exit(status)
    with ours, theirs:
        assert ours.recv(100) == b"stream"
        assert os.waitpid(child, 0)[1] == 0
    env.step(0)
    assert transport(env) == "stream"
    instance = Instance(Api(server), env.instance_id)
    assert instance.get("").json()["steps"] == 3


def test_an_interrupt_shifts_no_answers(
    hostile_server: Server, remote: Callable[..., Any]
) -> None:
    env = remote(hostile_server.url, "hostile/Slow-v0", seconds=0.6)
    env.reset()
    interrupt = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    interrupt.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            env.step(1)
    finally:
        interrupt.cancel()
        interrupt.join()
    # The interrupted step was taken all the same.
    assert env.step(0)[0] == 2
    assert env.step(0)[0] == 3
    assert transport(env) == "stream"


def failure(env: Any, action: int) -> Exception:
    """Step, and return the exception that this raises."""
    with pytest.raises(Exception) as raised:  # noqa: PT011
        env.step(action)
    return raised.value


def content(error: BaseException | None) -> dict[str, Any]:
    """Return an error's message, without the parts that vary."""
    if not isinstance(error, ServerError):
        return {"class": type(error), "words": str(error)}
    body = dict(error.body)
    return {
        "class": type(error),
        "status": error.status_code,
        **{name: body.get(name) for name in ("code", "reason", "signal", "error_type")},
        "has a log": bool(body.get("log_tail")),
    }


@pytest.mark.parametrize(
    ("env_id", "status"),
    [
        ("RaiseKeyError", None),
        ("SystemExits", 502),
        ("HugeAnswer", 502),
        ("KillSelf", 502),
        ("Segfault", 502),
        ("Exit0", 502),
        ("Loop", 504),
    ],
)
def test_errors_are_those_of_rest(
    hostile_server: Server, remote: Callable[..., Any], env_id: str, status: int | None
) -> None:
    outcomes = []
    for streams in (False, True):
        server = Client(hostile_server.url, streams=streams)
        env = remote(server, f"hostile/{env_id}-v0")
        env.reset()
        first, second = failure(env, 1), None
        if env_id not in ("HugeAnswer", "RaiseKeyError", "SystemExits"):
            # They ended the instance.
            second = failure(env, 0)
        if status is not None:
            assert isinstance(first, ServerError)
            assert first.status_code == status
        outcomes.append([content(e) for e in (first, first.__cause__, second)])
    assert outcomes[0] == outcomes[1]


def test_an_instance_that_ended_before_is_gone_and_did_not_crash_now(
    hostile_server: Server, remote: Callable[..., Any]
) -> None:
    env = remote(hostile_server.url, "hostile/Harmless-v0")
    _, info = env.reset()
    assert transport(env) == "stream"
    host = psutil.Process(info["pid"])
    host.kill()
    instance = Instance(Api(hostile_server), env.instance_id)
    wait_until(lambda: instance.get("").json().get("ended_s_ago", 0) > 1.1)
    error = failure(env, 0)
    assert isinstance(error, ServerError)
    assert (error.status_code, error.code) == (410, "instance-ended")


def test_an_instance_with_too_many_streams_is_driven_by_rest(
    instance: Instance, remote: Callable[..., Any]
) -> None:
    streams = [WebSocket.to(instance) for _ in range(64)]
    try:
        env = RemoteEnv.attach(instance.api.server.url, instance.id)
        env.reset()
        env.step(0)
        assert transport(env) == "rest"
        env.close()
    finally:
        for stream in streams:
            stream.close()


def test_returned_values_do_not_change_later(
    toy_server: Server, remote: Callable[..., Any]
) -> None:
    env = remote(toy_server.url, "toys/Big-v0", disable_env_checker=True)
    first, _ = env.reset()
    kept = [env.step(0)[0] for _ in range(3)]
    assert transport(env) == "stream"
    assert not first.any()
    for number, each in enumerate(kept, start=1):
        assert (each == np.uint8(number)).all()
