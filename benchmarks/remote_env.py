"""Measures the steps per second of a program that uses `RemoteEnv` as a local one."""

from __future__ import annotations

from benchmarks.measuring import Plan
from benchmarks.pinning import Mode
from benchmarks.race import race
from benchmarks.report import Row
from gym_http_client.bench.agents import RemoteEnvAgent

__all__ = ["remote_env_rest"]


def remote_env_rest(plan: Plan) -> list[Row]:
    """Measure one `RemoteEnv`."""
    return [
        each
        for mode in (Mode.SAME, Mode.SPLIT)
        for each in race(plan, "remote_env_rest", mode, RemoteEnvAgent, 1)
    ]
