"""Counts the resources that a server holds when no instance is left."""

import os
from dataclasses import dataclass

import psutil

from tests.support import api as calls
from tests.support.api import Api
from tests.support.processes import gunicorn
from tests.support.server import Server
from tests.support.wait import wait_until

STEADY_SECONDS = 150.0


@dataclass(frozen=True)
class Census:
    """A server's resources; web workers, which the soak kills, count as processes only.

    Attributes:
        descriptors: The number that launcher, supervisor and gunicorn have open, but
            those for spare hosts.
        processes: The number of processes below the launcher, without those that come
            and go.
        folders: Names in the run directory.
        shared_memory: Names in ``/dev/shm``.
        supervisor_bytes: The supervisor's private memory, in bytes.
    """

    descriptors: dict[str, int]
    processes: int
    folders: frozenset[str]
    shared_memory: frozenset[str]
    supervisor_bytes: int


def steady_census(server: Server) -> Census:
    """Wait until no instance is left and the counts stand still; return them."""
    api = Api(server)
    wait_until(
        lambda: calls.ok(api.get("/v1/"))["instances"] == 0,
        STEADY_SECONDS,
        "the last instance to end",
    )
    history: list[Census] = []

    def steady() -> bool:
        history.append(_count(server))
        last = history[-20:]
        return len(last) == 20 and all(
            (each.descriptors, each.processes, each.folders)
            == (last[0].descriptors, last[0].processes, last[0].folders)
            for each in last
        )

    wait_until(steady, STEADY_SECONDS, "the server to settle")
    return history[-1]


def _count(server: Server) -> Census:
    launcher = psutil.Process(server.pid)
    arbiter, _ = gunicorn(server.pid)
    parts = {"launcher": launcher, "gunicorn": arbiter}
    (run,) = os.listdir(server.run_dir)
    return Census(
        descriptors={
            "supervisor": server.supervisor_descriptors(),
            **{name: each.num_fds() for name, each in parts.items()},
        },
        processes=len(server.members()),
        folders=frozenset(os.listdir(server.run_dir / run)),
        shared_memory=frozenset(os.listdir("/dev/shm")),
        supervisor_bytes=server.supervisor.memory_full_info().uss,
    )
