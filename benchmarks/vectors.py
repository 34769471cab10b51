"""Compares the steps per second of a remote vector with Gymnasium's own vectors."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium
from gymnasium.vector import AutoresetMode, VectorEnv

from benchmarks.gauges import rate
from benchmarks.measuring import Plan
from benchmarks.pinning import Mode
from benchmarks.race import Rival, ServerMaker, race
from benchmarks.report import Row
from benchmarks.servers import no_server, our_server
from gym_http_client.bench.agents import VECTOR_ENVS, VectorAgent
from gym_http_client.envs.remote_vector_env import RemoteVectorEnv
from gym_http_client.envs.server import Server

__all__ = [
    "LOCAL_NATIVE",
    "HeavyAsyncAgent",
    "HeavySyncAgent",
    "NativeAgent",
    "SpreadAgent",
    "SyncAgent",
    "native64_same",
    "native64_same_local",
    "vector64_async",
    "vector64_async_heavy",
    "vector64_ends",
    "vector64_hosts2",
    "vector64_same",
    "vector64_split",
]

_HEAVY_ID = "BipedalWalker-v3"


class SpreadAgent(VectorAgent):
    """Steps slow environments, in two processes."""

    env_id = _HEAVY_ID
    hosts = 2


class SyncAgent(VectorAgent):
    """Steps Gymnasium's vector in its own process."""

    mode = "sync"

    def _made(self, url: str) -> VectorEnv[Any, Any, Any]:
        return gymnasium.make_vec(
            self.env_id,
            num_envs=VECTOR_ENVS,
            vectorization_mode=self.mode,
            vector_kwargs={"autoreset_mode": self.autoreset or AutoresetMode.NEXT_STEP},
        )


class _AsyncAgent(SyncAgent):
    """Steps Gymnasium's vector with a process for each environment."""

    mode = "async"


class NativeAgent(VectorAgent):
    """Steps the vector that CartPole's own package makes of NumPy arrays."""

    def _made(self, url: str) -> VectorEnv[Any, Any, Any]:
        return RemoteVectorEnv(
            Server(url),
            self.env_id,
            num_envs=VECTOR_ENVS,
            vectorization_mode="vector_entry_point",
        )


class _LocalNativeAgent(VectorAgent):
    """The same in its own process."""

    def _made(self, url: str) -> VectorEnv[Any, Any, Any]:
        return gymnasium.make_vec(
            self.env_id,
            num_envs=VECTOR_ENVS,
            vectorization_mode="vector_entry_point",
        )


LOCAL_NATIVE = Rival("local native vector", _LocalNativeAgent, no_server)


class EndsAgent(VectorAgent):
    """Resets environments in the step in which their episodes end."""

    autoreset = AutoresetMode.SAME_STEP


class _LocalEndsAgent(SyncAgent):
    """The same with Gymnasium's vector in its own process."""

    autoreset = AutoresetMode.SAME_STEP


class HeavySyncAgent(SyncAgent):
    """The same with slow environments."""

    env_id = _HEAVY_ID


class HeavyAsyncAgent(_AsyncAgent):
    """The same with slow environments."""

    env_id = _HEAVY_ID


def vector64_same(plan: Plan) -> list[Row]:
    """Measure light environments, all on one core."""
    return _vector(plan, "vector64_same", Mode.SAME, VectorAgent, SyncAgent)


def vector64_split(plan: Plan) -> list[Row]:
    """Measure light environments on a core other than their client's."""
    return _vector(plan, "vector64_split", Mode.SPLIT, VectorAgent, SyncAgent)


def vector64_ends(plan: Plan) -> list[Row]:
    """Measure light environments, of which some end their episodes in every step."""
    return _vector(plan, "vector64_ends", Mode.SAME, EndsAgent, _LocalEndsAgent)


def native64_same(plan: Plan) -> list[Row]:
    """Measure a vector of NumPy arrays, all on one core."""
    return _native(plan, "native64_same", our_server)


def native64_same_local(plan: Plan) -> list[Row]:
    """Measure the same over a Unix socket."""
    over_unix = partial(our_server, over_unix_socket=True)
    return _native(plan, "native64_same_local", over_unix)


def _native(plan: Plan, name: str, server: ServerMaker) -> list[Row]:
    return race(
        plan.halved(),
        name,
        Mode.SAME,
        NativeAgent,
        1,
        LOCAL_NATIVE,
        gauge=rate("steps/s", VECTOR_ENVS),
        server=server,
    )


def vector64_hosts2(plan: Plan) -> list[Row]:
    """Measure heavy environments that two processes share."""
    return _vector(plan, "vector64_hosts2", Mode.FREE, SpreadAgent, HeavySyncAgent)


def vector64_async(plan: Plan) -> list[Row]:
    """Compare light environments with a process for each."""
    return _vector(plan, "vector64_async", Mode.SAME, VectorAgent, _AsyncAgent)


def vector64_async_heavy(plan: Plan) -> list[Row]:
    """Compare heavy environments with a process for each."""
    name = "vector64_async_heavy"
    return _vector(plan, name, Mode.FREE, SpreadAgent, HeavyAsyncAgent)


def _vector(
    plan: Plan,
    name: str,
    mode: Mode,
    ours: type[VectorAgent],
    theirs: type[SyncAgent],
) -> list[Row]:
    rival = Rival(f"local {theirs.mode} vector", theirs, no_server)
    # Steps of milliseconds are too few for a 99th percentile.
    often = mode is not Mode.FREE and theirs.mode == "sync"
    gauge = rate("steps/s", VECTOR_ENVS, percentiles=often)
    return race(plan.halved(), name, mode, ours, 1, rival, gauge=gauge)
