"""The server as the first process of a PID namespace, as in a container."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from tests.support import processes
from tests.support.api import Api
from tests.support.server import Server
from tests.support.wait import wait_until

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 and not os.environ.get("CI"), reason="needs root: PID namespaces"
)


@pytest.fixture
def first(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server whose launcher is process 1 of its namespace."""
    plain = subprocess.Popen

    def in_namespace(command: list[str], **options: Any) -> Any:
        unshare = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
        return plain([*unshare, *command], **options)

    server = Server("--import", "tests.support.envs.hostile")
    monkeypatch.setattr("tests.support.server.subprocess.Popen", in_namespace)
    server.launch()
    monkeypatch.undo()
    try:
        server.wait_listening()
        yield server
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            for launcher in psutil.Process(server.pid).children():
                launcher.terminate()
        server.wait_exit()
        left = server.end()
    assert not left


def test_orphans_are_reaped_and_sigterm_drains(first: Server) -> None:
    (launcher,) = psutil.Process(first.pid).children()
    instance = Api(first).create("hostile/Children-v0")
    instance.reset()
    supervisor = processes.supervisor(launcher.pid)
    host = next(c for c in supervisor.children() if processes.holds(c, instance.id))
    instance.step(1)
    children = wait_until(host.children, message="children")
    instance.close()
    wait_until(lambda: not any(each.is_running() for each in (host, *children)))

    def zombies() -> bool:
        states = {each.status() for each in processes.descendants(launcher.pid)}
        return psutil.STATUS_ZOMBIE in states

    wait_until(lambda: not zombies(), message="the orphans to be reaped")
    os.kill(launcher.pid, signal.SIGTERM)
    assert first.wait_exit() == 0
