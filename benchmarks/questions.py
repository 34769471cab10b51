"""The benchmarks by name."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks import clients, fleet, many_cores
from benchmarks.batches import rollout_http
from benchmarks.commands import command
from benchmarks.external_envs import external, external_python
from benchmarks.host_memory import host_memory
from benchmarks.host_start import host_start
from benchmarks.measuring import Plan
from benchmarks.neighbours import spin_neighbour, spin_neighbour_idle
from benchmarks.observing import observe_500, record_steps
from benchmarks.openenv import openenv, openenv_server
from benchmarks.pixels import pixels64, pixels64_local
from benchmarks.realtime import realtime, realtime_cpu
from benchmarks.relay import relay_1k, relay_5m, relay_100k
from benchmarks.remote_env import remote_env_rest
from benchmarks.report import Row
from benchmarks.rest import client_rest, rest_1, rest_4, rest_16
from benchmarks.resuming import resume_20000
from benchmarks.several_agents import agents_multiwalker, agents_rps
from benchmarks.show import show_breakout, show_cartpole, show_halfcheetah
from benchmarks.streams import remote_env_same, stream_same, stream_split
from benchmarks.thousands import instances_10000
from benchmarks.vectors import (
    native64_same,
    native64_same_local,
    vector64_async,
    vector64_async_heavy,
    vector64_ends,
    vector64_hosts2,
    vector64_same,
    vector64_split,
)

__all__ = ["QUESTIONS"]

QUESTIONS: dict[str, Callable[[Plan], list[Row]]] = {
    "rest_1": rest_1,
    "rest_4": rest_4,
    "rest_16": rest_16,
    "remote_env_rest": remote_env_rest,
    "client_rest": client_rest,
    "rollout_http": rollout_http,
    "stream_same": stream_same,
    "stream_split": stream_split,
    "remote_env_same": remote_env_same,
    "vector64_same": vector64_same,
    "vector64_split": vector64_split,
    "vector64_ends": vector64_ends,
    "vector64_hosts2": vector64_hosts2,
    "vector64_async": vector64_async,
    "native64_same": native64_same,
    "native64_same_local": native64_same_local,
    "vector64_async_heavy": vector64_async_heavy,
    "openenv": openenv,
    "openenv_server": openenv_server,
    "agents_rps": agents_rps,
    "agents_multiwalker": agents_multiwalker,
    "pixels64": pixels64,
    "pixels64_local": pixels64_local,
    "external": external,
    "external_python": external_python,
    "command": command,
    "spin_neighbour": spin_neighbour,
    "spin_neighbour_idle": spin_neighbour_idle,
    "host_start_ms": host_start,
    "host_pss_mib": host_memory,
    "show_cartpole": show_cartpole,
    "show_breakout": show_breakout,
    "show_halfcheetah": show_halfcheetah,
    "record_steps": record_steps,
    "resume_20000": resume_20000,
    "observe_500": observe_500,
    "realtime": realtime,
    "realtime_cpu": realtime_cpu,
    "relay_1k": relay_1k,
    "relay_100k": relay_100k,
    "relay_5m": relay_5m,
    **clients.QUESTIONS,
    **fleet.QUESTIONS,
    **many_cores.QUESTIONS,
    "instances_10000": instances_10000,
}
