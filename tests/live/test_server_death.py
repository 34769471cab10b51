"""If any process of the server is killed, no host outlives the server."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable

import psutil
import pytest

from tests.support import api as calls
from tests.support import processes
from tests.support.api import Api
from tests.support.server import ROOT, Server
from tests.support.wait import wait_until

IDLE = ("Harmless", "IgnoreTerm", "Children")
BUSY = ("Loop", "GilLoop")


def role(process: psutil.Process) -> str:
    """Return the role of one of the server's processes."""
    for name in ("supervisor", "gunicorn"):
        if processes.titled(process, name):
            return name
    return ""


def find(server: Server, wanted: str) -> psutil.Process:
    """Return the launcher, or the child of it with this role."""
    launcher = psutil.Process(server.pid)
    if wanted == "launcher":
        return launcher
    (found,) = (child for child in launcher.children() if role(child) == wanted)
    return found


@pytest.mark.parametrize("wanted", ["launcher", "supervisor", "gunicorn"])
def test_kill_9_of_a_server_process_ends_everything(
    make_server: Callable[..., Server], wanted: str
) -> None:
    server = make_server("--import", "tests.support.envs.hostile")
    api = Api(server)
    children = None
    for name in IDLE + BUSY:
        instance = api.create(f"hostile/{name}-v0")
        instance.reset()
        if name == "Children":
            children = instance
        if name in BUSY:
            send_and_leave(server, instance.path("step/"))
    assert children is not None
    children.step(1)
    everything = server.members() | {psutil.Process(server.pid)}
    assert len(everything) >= 11
    find(server, wanted).kill()
    wait_until(
        lambda: not [p for p in everything if alive(p)],
        3.0,
        "all processes to be gone",
    )
    assert server.wait_exit() != 0


def alive(process: psutil.Process) -> bool:
    """Whether a process runs still; one that only waits to be reaped does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def send_and_leave(server: Server, path: str) -> None:
    """Begin a step that never ends, and do not wait for its answer."""
    body = b'{"action": 1}'
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}"
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(head.encode() + b"\r\n\r\n" + body)
        answer_begins = threading.Event()
        connection.settimeout(0.3)
        try:
            connection.recv(1)
            answer_begins.set()
        except TimeoutError:
            pass
        assert not answer_begins.is_set()


def test_a_killed_worker_costs_only_its_requests(
    make_server: Callable[..., Server],
) -> None:
    server = make_server("--workers", "2")
    api = Api(server)
    instances = [api.create() for _ in range(6)]
    for instance in instances:
        instance.reset(seed=1)
    for steps in (1, 2):
        workers = find(server, "gunicorn").children()
        assert len(workers) == 2
        workers[0].kill()
        wait_until(lambda w=workers[0]: not alive(w), 3.0, "the worker to be gone")
        for instance in instances:
            instance.step(0)
            assert calls.ok(instance.get(""))["steps"] == steps
        wait_until(
            lambda: (
                len([w for w in find(server, "gunicorn").children() if alive(w)]) == 2
            ),
            10.0,
            "a new worker",
        )


def test_any_worker_serves_any_instance(make_server: Callable[..., Server]) -> None:
    server = make_server("--workers", "3")
    api = Api(server)
    instances = [api.create() for _ in range(4)]
    for instance in instances:
        instance.reset(seed=3)
    served = {worker.pid: 0 for worker in find(server, "gunicorn").children()}
    for worker in served:
        others = [pid for pid in served if pid != worker]
        for pid in others:
            os.kill(pid, signal.SIGSTOP)
        try:
            # Only this worker can accept now.
            for instance in instances:
                instance.step(0)
            served[worker] += 1
        finally:
            for pid in others:
                os.kill(pid, signal.SIGCONT)
    assert set(served.values()) == {1}
    for instance in instances:
        assert calls.ok(instance.get(""))["steps"] == 3


def test_two_servers_on_one_machine_do_not_meet(
    make_server: Callable[..., Server],
) -> None:
    one, other = Api(make_server()), Api(make_server())
    instance = one.create()
    assert other.instances() == {}
    foreign = calls.Instance(other, instance.id)
    calls.error(foreign.post("reset/"), 400, "unknown-instance")
    assert one.instances() == {instance.id: "CartPole-v1"}


TEST = """
import time
from tests.support.api import Api
from tests.support.server import ROOT, Server
with Server() as server:
    Api(server).create().reset()
    print(server.pid, server.base, flush=True)
    time.sleep(600)
"""


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv is missing")
def test_a_test_that_is_killed_leaves_no_server() -> None:
    command = [sys.executable, "-c", TEST]
    path = {"PYTHONPATH": f"{ROOT}:{ROOT}/clients/python"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=os.environ | path
    ) as test:
        assert test.stdout is not None
        pid, base = test.stdout.readline().split()
        left = {psutil.Process(int(pid)), *processes.descendants(int(pid))}
        assert len(left) > 3
        test.kill()

    def living() -> list[psutil.Process]:
        # Nobody may reap the launcher.
        return [
            each
            for each in processes.alive(left)
            if each.status() != psutil.STATUS_ZOMBIE
        ]

    wait_until(lambda: not living(), 20.0, "the server's end")
    shutil.rmtree(base)
