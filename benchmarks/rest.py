"""Measures the steps per second of thin clients over HTTP and JSON."""

from __future__ import annotations

from benchmarks.measuring import Plan
from benchmarks.pinning import Mode
from benchmarks.race import Rival, race
from benchmarks.report import Row
from benchmarks.servers import our_server
from gym_http_client.bench.agents import ClientAgent, LeanAgent, RemoteEnvAgent

__all__ = ["client_rest", "rest_1", "rest_4", "rest_16"]

_REMOTE_ENV = Rival("RemoteEnv without streams", RemoteEnvAgent, our_server)


def rest_1(plan: Plan) -> list[Row]:
    """Measure one client."""
    return [
        each
        for mode in (Mode.SAME, Mode.SPLIT)
        for each in race(plan, "rest_1", mode, LeanAgent, 1)
    ]


def rest_4(plan: Plan) -> list[Row]:
    """Measure four clients."""
    return race(plan, "rest_4", Mode.FREE, LeanAgent, 4)


def rest_16(plan: Plan) -> list[Row]:
    """Measure sixteen clients."""
    return race(plan, "rest_16", Mode.FREE, LeanAgent, 16)


def client_rest(plan: Plan) -> list[Row]:
    """Measure one `Client` beside one `RemoteEnv` without streams."""
    return race(plan.halved(), "client_rest", Mode.SAME, ClientAgent, 1, _REMOTE_ENV)
