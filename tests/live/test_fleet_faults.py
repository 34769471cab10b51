"""Over a bad network, a fleet loses no step while its parts are killed.

CHAOS_TIMES=100 has each client take 10,000 steps.
"""

import itertools
import os
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path

import pytest

from tests.support import processes
from tests.support.api import Api
from tests.support.faults.http_faults import FaultyNetwork
from tests.support.fleet import LinkedNode, Redis, linked_fleet, wait_until_known
from tests.support.nginx import round_robin
from tests.support.server import Server
from tests.support.wait import wait_until
from tests.support.walks import IMPORT, Walk

TIMES = float(os.environ.get("CHAOS_TIMES", "1"))
STEPS = int(100 * TIMES)
#: Half of them use streams.
CLIENTS = 4 if TIMES == 1 else 16
FAULTS = 0.2
PAUSE_SECONDS = 0.2 if TIMES == 1 else 2.0

pytestmark = [
    pytest.mark.live,
    pytest.mark.toolchain,
    pytest.mark.filterwarnings("ignore:.*:UserWarning", "ignore::DeprecationWarning"),
]

Fleet = tuple[Redis, list[LinkedNode]]


def kill_worker(server: Server) -> None:
    """Kill a web worker, the oldest; gunicorn starts another."""
    workers = processes.gunicorn(server.pid)[1]
    min(workers, key=lambda each: each.pid).kill()
    wait_until(
        lambda: len(processes.gunicorn(server.pid)[1] - workers) == 1,
        30.0,
        "another web worker",
    )


def kill_member(server: Server) -> None:
    """Kill the process that keeps the server in the fleet; another one is started."""
    (before,) = server.services("member")
    before.kill()
    wait_until(
        lambda: server.services("member") not in ([], [before]), 30.0, "another member"
    )


def kill_store(redis: Redis) -> None:
    """Kill the store with its data, and start it again."""
    redis.stop()
    redis.start()


def kills(fleet: Fleet) -> list[Callable[[], None]]:
    """Return what kills each part of a fleet, but for hosts and whole servers."""
    redis, linked = fleet
    found: list[Callable[[], None]] = [partial(kill_store, redis)]
    for each in linked:
        # The oldest of two each time, so both.
        found += 2 * [partial(kill_worker, each.server)]
        found += [partial(kill_member, each.server), each.nodes.cut_all]
        found += [each.store.cut_all]
    return found


@pytest.mark.timeout(60 + 20 * TIMES)
def test_no_step_is_lost_or_doubled(tmp_path: Path) -> None:
    flags = ("--workers", "2", "--max-instances", "64", *IMPORT)
    with linked_fleet("one", "two", "three", args=flags) as fleet:
        _walk_while_parts_are_killed(fleet, tmp_path)


def _walk_while_parts_are_killed(fleet: Fleet, folder: Path) -> None:
    redis, linked = fleet
    servers = [each.server for each in linked]
    stop, killed = threading.Event(), 0
    todo = kills(fleet)
    with (
        round_robin(folder, servers) as port,
        FaultyNetwork(port, probability=FAULTS, seed=1) as network,
        ThreadPoolExecutor(CLIENTS) as pool,
    ):
        walks = [
            # A part of the streams goes over the bad network, too.
            Walk(
                network.url,
                number,
                streams=number % 2 == 0,
                node="three" if number % 4 == 0 else "",
            )
            for number in range(CLIENTS)
        ]
        ends = [pool.submit(walk.run, stop) for walk in walks]
        try:
            # A store that loses its data in between may have a create executed twice.
            while not all(each.steps for each in walks):
                if wait(ends, 0.05, FIRST_EXCEPTION).done:
                    break
            for kill in itertools.cycle(todo):
                if killed >= len(todo) and min(w.steps for w in walks) >= STEPS:
                    break
                kill()
                killed += 1
                if wait(ends, PAUSE_SECONDS, FIRST_EXCEPTION).done:
                    break
        finally:
            stop.set()
        errors = [
            error for end in ends if isinstance(error := end.exception(), Exception)
        ]
        counts = network.finish()
    steps = [walk.steps for walk in walks]
    print(f"{sum(steps)} steps, {killed} kills, {dict(counts)}")
    if errors:
        raise ExceptionGroup(f"{len(errors)} clients went astray", errors)
    wait_until_known(redis, servers)
    assert Api(servers[0]).instances() == {}
    assert min(steps) >= STEPS
