"""The directories of ended instances are removed without delaying requests."""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.support import api as calls
from tests.support.api import Api, Instance
from tests.support.server import Server
from tests.support.wait import wait_until

HOSTILE = ("--import", "tests.support.envs.hostile")
#: The latency that closing an instance may add to another request.
ADDED_S = 0.1


def trash(server: Server) -> list[Path]:
    """Return the directories that have not been removed yet."""
    return list(server.run_dir.glob("*/trash/*"))


def remover(server: Server) -> psutil.Process:
    """Return the process that removes directories."""
    (found,) = wait_until(lambda: server.services("remover"))
    return found


def group_niceness(process: psutil.Process) -> int:
    """Return the niceness of the group in which the kernel schedules a process."""
    try:
        return int(Path(f"/proc/{process.pid}/autogroup").read_text().split()[-1])
    except FileNotFoundError:
        # This kernel does not group processes by session.
        return process.nice()


def test_only_the_remover_has_a_low_priority(api: Api) -> None:
    # Its directory is moved to the remover, which runs by then.
    api.create().close()
    server = api.server
    expected = {each: each == remover(server) for each in server.members()}
    low = {each: group_niceness(each) > 0 for each in expected}
    assert low == expected


def fill(server: Server, count: int) -> Instance:
    """Return an instance that has left so many files."""
    kwargs = {"count": count}
    instance = Api(server).create("hostile/ManyFiles-v0", kwargs=kwargs)
    instance.reset()
    instance.step(1)
    return instance


def longest(api: Api, stepping: Instance, until: Callable[[], bool]) -> float:
    """Return the longest latency of any request that is sent until something is so."""
    took, rounds = 0.0, 0
    while rounds < 5 or not until():
        rounds += 1
        for call in (
            lambda: api.create().close(),
            api.instances,
            lambda: stepping.step(0),
        ):
            began = time.monotonic()
            call()
            took = max(took, time.monotonic() - began)
    return took


@pytest.mark.slow
@pytest.mark.alone
def test_closing_an_instance_with_200000_files_delays_no_request(
    make_server: Callable[..., Server],
) -> None:
    # In memory, since the test is not about the speed of a disk.
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else "/tmp"
    server = make_server(*HOSTILE, parent=memory)
    api = Api(server)
    stepping = api.create()
    stepping.reset()
    delays: list[float] = []
    # Other programs may delay requests, too, but not every time.
    while not delays or (min(delays) >= ADDED_S and len(delays) < 3):
        full = fill(server, 200_000)
        usual = longest(api, stepping, deadline(1.0))
        closing = threading.Thread(target=full.close)
        closing.start()
        delays.append(longest(api, stepping, deadline(2.0)) - usual)
        closing.join()
    assert min(delays) < ADDED_S, delays


def deadline(seconds: float) -> Callable[[], bool]:
    """Return a function that returns whether so many seconds have passed."""
    until = time.monotonic() + seconds
    return lambda: time.monotonic() > until


def test_another_remover_goes_on_where_one_was_killed(
    make_server: Callable[..., Server],
) -> None:
    server = make_server(*HOSTILE)
    first = remover(server)
    first.suspend()
    full = fill(server, 100)
    calls.no_content(full.close())
    assert server.instance_folders() == set()
    assert len(trash(server)) == 1
    first.kill()
    wait_until(lambda: not trash(server), 10.0, "the directory to be removed")
    assert remover(server).pid != first.pid
