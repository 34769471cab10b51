"""The questions that benchmarks answer, each by its name."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.host_memory import host_memory
from benchmarks.host_start import host_start
from benchmarks.measuring import Plan
from benchmarks.remote_env import remote_env_rest
from benchmarks.report import Row
from benchmarks.rest import rest_1, rest_4, rest_16

__all__ = ["QUESTIONS"]

QUESTIONS: dict[str, Callable[[Plan], list[Row]]] = {
    "rest_1": rest_1,
    "rest_4": rest_4,
    "rest_16": rest_16,
    "remote_env_rest": remote_env_rest,
    "host_start_ms": host_start,
    "host_pss_mib": host_memory,
}
