"""Measures how long the creation of an instance takes."""

from __future__ import annotations

import json
import time
from pathlib import Path

from benchmarks.fresh import BASELINE, fresh_process
from benchmarks.measuring import Plan, in_turn, median
from benchmarks.pinning import Mode, available
from benchmarks.report import Row, row
from benchmarks.servers import Server, our_server
from gym_http_client.bench.agents import ENV_ID, LeanAgent
from gym_http_server.access.identities import EVERYONE
from gym_http_server.rundir.directory import RunDir
from gym_http_server.web.backends.supervisor_client import SupervisorClient
from gym_http_wire.messages import Op

__all__ = ["creation_seconds", "host_start"]

_HOSTS = 20
_FRESH = 3


def host_start(plan: Plan) -> list[Row]:
    """Measure a POST, and the part of it that supervisor and host take."""
    plan.say("host_start_ms: starting")
    with our_server(available()) as server:
        creation_seconds(server)
        ours, fresh = in_turn(
            plan,
            lambda: (creation_seconds(server), _by_supervisor(server)),
            lambda: (_fresh(), 0.0),
        )
    theirs = median([seconds for seconds, _ in fresh]) * 1000
    names = ("host_start_ms", "host_start_supervisor_ms")
    return [
        row(name, Mode.FREE, median(times) * 1000, "ms", BASELINE, theirs)
        for name, times in zip(names, zip(*ours, strict=True), strict=True)
    ]


def creation_seconds(server: Server) -> float:
    """Return the median of the seconds that a client waits for a new instance."""
    times = []
    for seed in range(_HOSTS):
        began = time.monotonic()
        agent = LeanAgent(server.url, seed)
        times.append(time.monotonic() - began)
        agent.close()
    return median(times)


def _by_supervisor(server: Server) -> float:
    """Return the seconds from the supervisor's request until the host is ready."""
    (run,) = Path(server.folder, "run").iterdir()
    supervisor = SupervisorClient(RunDir(str(run)))
    body = json.dumps({"env_id": ENV_ID}).encode()
    times = []
    for _ in range(_HOSTS):
        began = time.monotonic()
        made = supervisor.create(body, caller=EVERYONE)
        times.append(time.monotonic() - began)
        supervisor.call(Op.END, json.loads(made.body)["instance_id"])
    return median(times)


def _fresh() -> float:
    times = []
    for _ in range(_FRESH):
        began = time.monotonic()
        with fresh_process():
            times.append(time.monotonic() - began)
    return median(times)
