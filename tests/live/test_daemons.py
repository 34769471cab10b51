"""Daemons of an environment live and end with their own instance."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.support import api as calls
from tests.support import processes
from tests.support.api import Api, Instance
from tests.support.server import Server
from tests.support.wait import wait_until


@pytest.fixture(scope="module")
def hostile_server() -> Iterator[Server]:
    """A server with environments that leave processes behind."""
    with Server("--import", "tests.support.envs.hostile") as started:
        yield started


@pytest.fixture
def create(hostile_server: Server) -> Iterator[Callable[..., Instance]]:
    """Return a factory of instances, by the name of their misbehaviour."""
    made: list[Instance] = []

    def create(vice: str = "Daemonise", **options: object) -> Instance:
        made.append(Api(hostile_server).create(f"hostile/{vice}-v0", **options))
        made[-1].reset()
        return made[-1]

    yield create
    for instance in made:
        instance.close()


def daemon_of(instance: Instance) -> psutil.Process:
    """Make an environment start a daemon; return it as the supervisor's child."""
    daemon = psutil.Process(instance.step(1)["info"]["daemon"])
    wait_until(
        lambda: processes.titled((daemon.parent() or daemon), "supervisor"),
        message="the daemon to have a new parent",
    )
    return daemon


def end_by_closing(instance: Instance) -> None:
    """Close it, as its client does."""
    calls.no_content(instance.close())


def end_by_crash(instance: Instance) -> None:
    """Kill its host."""
    os.kill(instance.reset()["info"]["pid"], signal.SIGKILL)
    wait_until(lambda: instance.get("").status == 410, message="its end")


@pytest.mark.parametrize("end", [end_by_closing, end_by_crash])
def test_a_daemon_ends_with_its_own_instance(
    create: Callable[..., Instance], end: Callable[[Instance], None]
) -> None:
    first, second = create(), create()
    daemons = [daemon_of(first), daemon_of(second)]
    plain = create("Harmless")
    end(plain)
    end(first)
    wait_until(lambda: not daemons[0].is_running(), message="the first daemon's end")
    assert daemons[1].is_running()
    end(second)
    wait_until(lambda: not daemons[1].is_running(), message="the second daemon's end")


def test_a_daemon_of_a_vector_over_processes_ends_with_it(
    create: Callable[..., Instance],
) -> None:
    vector = create(num_envs=3, vectorization_mode="sync", hosts=3)
    pids = vector.step([1, 1, 1])["info"]["daemon"]
    daemons = [psutil.Process(pid) for pid in pids]
    end_by_closing(create("Harmless"))
    assert all(each.is_running() for each in daemons)
    end_by_closing(vector)
    wait_until(lambda: not any(each.is_running() for each in daemons))


THREADED = """
import threading, time
from tests.support.envs import hostile
threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
"""


def test_a_daemon_of_a_fresh_interpreter_ends_with_its_own_instance(
    make_server: Callable[..., Server], tmp_path: Path
) -> None:
    (tmp_path / "threaded_hostile.py").write_text(THREADED)
    server = make_server("--import", "threaded_hostile", python_path=(tmp_path,))
    api = Api(server)
    first, second = (api.create("hostile/Daemonise-v0") for _ in range(2))
    first.reset()
    daemon = daemon_of(first)
    end_by_closing(second)
    assert daemon.is_running()
    end_by_closing(first)
    wait_until(lambda: not daemon.is_running())
