"""Closing environments whose server has ended, is frozen or is busy."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from gym_http_client import RemoteEnv, RemoteVectorEnv, Server
from gym_http_client.envs.handles import (
    CLOSE_SECONDS,
    EXIT_SECONDS,
    RENEWED_SECONDS,
    CloseBudget,
)
from tests.support.api import Api
from tests.support.peers.zmq_peers import zmq_url
from tests.support.server import Server as RunningServer
from tests.support.wait import wait_until

#: The seconds that a busy machine may add to a documented time.
SLACK = 2.0
CLIENT = Path(__file__).resolve().parents[3] / "clients" / "python"
ZMQ = ("--zmq", "tcp://127.0.0.1:0")


@pytest.fixture
def frozen() -> Iterator[Callable[[RunningServer], None]]:
    """Return a function that stops all processes of a server until the end."""
    stopped: list[psutil.Process] = []

    def freeze(server: RunningServer) -> None:
        for each in (psutil.Process(server.pid), *server.members()):
            # The fork server goes on, whose children end at once.
            with contextlib.suppress(psutil.NoSuchProcess):
                each.suspend()
                stopped.append(each)

    yield freeze
    for each in stopped:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.resume()


def several(server: RunningServer) -> list[Any]:
    """Make environments that are reached in each way."""
    envs = [RemoteEnv(server.url, "CartPole-v1") for _ in range(3)]
    envs.append(RemoteEnv(Server(server.url, streams=False), "CartPole-v1"))
    envs.append(RemoteVectorEnv(server.url, "CartPole-v1", num_envs=2))
    envs.append(RemoteEnv(zmq_url(server), "CartPole-v1"))
    for env in envs:
        env.reset(seed=0)
        env.step(env.action_space.sample())
    return envs


def seconds_of(call: Callable[[], Any]) -> float:
    began = time.monotonic()
    call()
    return time.monotonic() - began


def close_all(envs: list[Any]) -> None:
    for env in envs:
        env.close()


def test_closing_does_not_wait_for_a_server_that_has_ended(
    make_server: Callable[..., RunningServer], caplog: pytest.LogCaptureFixture
) -> None:
    server = make_server(*ZMQ)
    envs = several(server)
    server.stop(signal.SIGKILL)
    assert seconds_of(lambda: close_all(envs)) < CLOSE_SECONDS
    # One for all instances that are reached at one address.
    warned = [each for each in caplog.messages if "could not end instance" in each]
    assert len(warned) == 2
    assert len(caplog.messages) == 2
    assert seconds_of(lambda: close_all(envs)) < 0.1


def test_closing_waits_once_for_a_server_that_is_frozen(
    make_server: Callable[..., RunningServer],
    frozen: Callable[[RunningServer], None],
) -> None:
    server = make_server(*ZMQ)
    envs = several(server)
    web = [each for each in envs if each.transport != "zeromq"]
    others = [each for each in envs if each.transport == "zeromq"]
    frozen(server)
    for each in (web, others):
        assert seconds_of(lambda each=each: close_all(each)) < CLOSE_SECONDS + SLACK


def test_closing_does_not_wait_for_a_thread_that_waits_for_a_frozen_server(
    make_server: Callable[..., RunningServer],
    frozen: Callable[[RunningServer], None],
) -> None:
    server = make_server("--import", "tests.support.envs.hostile")
    env = RemoteEnv(Server(server.url, time_limit=8.0), "CartPole-v1")
    env.reset(seed=0)
    frozen(server)
    ended = []

    def step() -> None:
        try:
            env.step(0)
        except Exception as error:
            ended.append(error)

    thread = threading.Thread(target=step, daemon=True)
    thread.start()
    assert seconds_of(env.close) < CLOSE_SECONDS + SLACK
    psutil.Process(server.pid).resume()
    for each in server.members():
        each.resume()
    thread.join(60.0)
    assert not thread.is_alive()


def test_closing_renews_its_patience_with_answers_and_with_time() -> None:
    now = 1000.0
    budget = CloseBudget(lambda: now)
    assert budget.left() == CLOSE_SECONDS
    assert budget.spend(2.0)
    assert not budget.spend(0.5)
    assert budget.left() == CLOSE_SECONDS - 2.5
    budget.spend(10.0)
    assert budget.left() == 0.0
    budget.renew()
    assert budget.left() == CLOSE_SECONDS
    assert budget.spend(10.0)
    now += RENEWED_SECONDS - 1
    assert budget.left() == 0.0
    now += 1
    assert budget.left() == CLOSE_SECONDS


def python(code: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a program that uses the client, and wait until it is ready."""
    program = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(CLIENT)},
    )
    assert program.stdout is not None
    assert program.stdout.readline() == "ready\n", program.communicate()
    return program


def finish(program: subprocess.Popen[str], expected: int = 0) -> tuple[float, str]:
    """Let a program run to its end; return the seconds, and its output."""
    began = time.monotonic()
    message, wrong = program.communicate("\n", timeout=60.0)
    seconds = time.monotonic() - began
    assert program.returncode == expected, wrong
    assert "Traceback" not in wrong
    return seconds, message + wrong


#: Environments that only the end of the interpreter closes.
FORGETFUL = """
import signal, sys
from gym_http_client import RemoteEnv, RemoteVectorEnv, Server
before = {each: signal.getsignal(each) for each in signal.valid_signals()}
envs = [RemoteEnv(url, "CartPole-v1") for url in sys.argv[1:] for _ in range(6)]
envs.append(RemoteEnv(Server(sys.argv[1], streams=False), "CartPole-v1"))
envs.append(RemoteVectorEnv(sys.argv[1], "CartPole-v1", num_envs=2))
for env in envs:
    env.reset(seed=0)
    env.__dict__["itself"] = env
assert before == {each: signal.getsignal(each) for each in signal.valid_signals()}
print("ready", flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize("how", ["frozen", "killed"])
def test_the_interpreter_ends_soon_without_its_server(
    how: str,
    make_server: Callable[..., RunningServer],
    frozen: Callable[[RunningServer], None],
) -> None:
    server = make_server(*ZMQ)
    program = python(FORGETFUL, server.url, zmq_url(server))
    if how == "frozen":
        frozen(server)
    else:
        server.stop(signal.SIGKILL)
    seconds, message = finish(program)
    assert seconds < EXIT_SECONDS + SLACK
    assert message.count("could not end instance") == 2


def test_exiting_closes_own_instances(
    make_server: Callable[..., RunningServer],
) -> None:
    server = make_server(*ZMQ)
    api = Api(server)
    program = python(FORGETFUL, server.url, zmq_url(server))
    assert len(api.instances()) == 14
    _, message = finish(program)
    assert not message
    assert not api.instances()


ATTACHED = """
import sys
from gym_http_client import RemoteEnv
env = RemoteEnv.attach(sys.argv[1], sys.argv[2])
env.reset(seed=0)
print("ready", flush=True)
sys.stdin.readline()
sys.exit(3)
"""


def test_exiting_leaves_instances_of_other_processes(
    server: RunningServer, instance: Any
) -> None:
    finish(python(ATTACHED, server.url, instance.id), expected=3)
    assert instance.step(0)


FORKED = """
import multiprocessing, os, sys
from gym_http_client import RemoteEnv

def child():
    global own
    own = RemoteEnv(sys.argv[1], "Acrobot-v1")
    own.reset()

env = RemoteEnv(sys.argv[1], "CartPole-v1")
env.reset(seed=0)
pid = os.fork()
if pid == 0:
    child()
    sys.exit()
os.waitpid(pid, 0)
process = multiprocessing.get_context("fork").Process(target=child)
process.start()
process.join()
env.step(0)
print("ready", flush=True)
sys.stdin.readline()
env.step(0)
"""


def test_a_forked_child_ends_its_own_and_not_its_parents(
    make_server: Callable[..., RunningServer],
) -> None:
    api = Api(make_server())
    program = python(FORKED, api.server.url)
    wait_until(lambda: list(api.instances().values()) == ["CartPole-v1"], 5.0, "one")
    finish(program)
    assert not api.instances()
