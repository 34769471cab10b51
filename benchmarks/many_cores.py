"""Measures what the server makes of all the cores that there are.

The mode of these rows is the number of cores, so that runs of different machines stand
beside each other. ``many_cores`` answers all of these questions, within four minutes on
16 cores.
"""

from __future__ import annotations

import importlib.util
import os
import platform
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import batch_space

from benchmarks.gauges import STEPS, Gauge, rate
from benchmarks.measuring import Plan
from benchmarks.pinning import Mode, available
from benchmarks.race import Rival, ServerMaker, race
from benchmarks.report import Row
from benchmarks.servers import no_server, our_server
from benchmarks.thousands import cores_instances
from benchmarks.vectors import LOCAL_NATIVE, NativeAgent
from gym_http_client.bench.agents import (
    ENV_ID,
    VECTOR_ENVS,
    Agent,
    LeanAgent,
    StreamAgent,
    VectorAgent,
)
from gym_http_client.bench.players import PlayerFailed

__all__ = ["QUESTIONS"]

#: Rounds and their seconds, at most, so that all questions fit into four minutes.
_ROUNDS, _SECONDS = 3, 1.0
_CLIENTS = (1, 16, 48)
_MOST_HOSTS = 16
_WORKERS = "two web workers"


class _CheetahAgent(VectorAgent):
    """Steps MuJoCo's HalfCheetah, over a process for each core."""

    env_id = "HalfCheetah-v5"
    hosts = max(2, min(_MOST_HOSTS, len(available())))


class _BreakoutAgent(_CheetahAgent):
    """Steps Atari's Breakout, over a process for each core."""

    env_id = "ALE/Breakout-v5"


class _AsyncAgent(VectorAgent):
    """Steps Gymnasium's vector with a process for each environment."""

    mode = "async"

    def _made(self, url: str) -> VectorEnv[Any, Any, Any]:
        if self.env_id.startswith("ALE/"):
            import ale_py

            gymnasium.register_envs(ale_py)
        return gymnasium.make_vec(
            self.env_id, num_envs=VECTOR_ENVS, vectorization_mode=self.mode
        )


class _AsyncCheetahAgent(_AsyncAgent):
    """The same of HalfCheetah."""

    env_id = _CheetahAgent.env_id


class _AsyncBreakoutAgent(_AsyncAgent):
    """The same of Breakout."""

    env_id = _BreakoutAgent.env_id


class _EnvPoolAgent(NativeAgent):
    """Steps EnvPool's HalfCheetah, which steps in threads."""

    env_id = "envpool/HalfCheetah-v4"


class _LocalEnvPoolAgent(VectorAgent):
    """The same in the client's own process, with as many threads as cores."""

    env_id = "HalfCheetah-v4"

    def _made(self, url: str) -> VectorEnv[Any, Any, Any]:
        envpool: Any = importlib.import_module("envpool")
        pool = envpool.make_gymnasium(
            self.env_id, num_envs=VECTOR_ENVS, num_threads=len(available())
        )
        # Its action space is that of one environment, and it resets without a seed.
        made: Any = SimpleNamespace(
            action_space=batch_space(pool.action_space, VECTOR_ENVS),
            reset=lambda **_: pool.reset(),
            step=pool.step,
            close=pool.close,
        )
        return made  # type: ignore[no-any-return]


class _LocalAgent:
    """Steps a CartPole in the client's own process."""

    def __init__(self, url: str, seed: int) -> None:
        self._env = gymnasium.make(ENV_ID)

    def reset(self) -> None:
        """Begin an episode."""
        self._env.reset()

    def step(self, action: int) -> bool:
        """Take a step."""
        _, _, terminated, truncated, _ = self._env.step(action)
        return terminated or truncated

    def close(self) -> None:
        """Close it."""
        self._env.close()


def _vector(
    name: str, ours: type[VectorAgent], rival: Rival, module: str
) -> Callable[[Plan], list[Row]]:
    gauge = rate("steps/s", VECTOR_ENVS, percentiles=False)
    return partial(_measured, name, ours, 1, rival, gauge=gauge, module=module)


def _clients(
    name: str, ours: type[Agent], rival: Rival
) -> dict[str, Callable[[Plan], list[Row]]]:
    """Return a question for each number of clients."""
    gauge = STEPS._replace(percentiles=False)
    return {
        f"{name}_{count}": partial(
            _measured, f"{name}_{count}", ours, count, rival, gauge=gauge
        )
        for count in _CLIENTS
    }


def _measured(
    name: str,
    ours: type[Agent],
    count: int,
    rival: Rival,
    plan: Plan,
    *,
    gauge: Gauge,
    module: str = "",
) -> list[Row]:
    """Return a row whose mode is the number of cores.

    It is left out if a module is not installed, or if one side cannot do it.
    """
    if module and importlib.util.find_spec(module) is None:
        plan.say(f"{name}: left out, since {module} is not installed")
        return []
    server: ServerMaker = partial(_server, count=count)
    try:
        rows = race(
            _short(plan),
            name,
            Mode.FREE,
            ours,
            count,
            rival,
            gauge=gauge,
            server=server,
        )
    except PlayerFailed as failed:
        plan.say(f"{name}: left out: {failed}")
        return []
    return [replace(each, mode=f"{len(available())} cores") for each in rows]


def _server(cores: Any, *flags: str, count: int) -> Any:
    # Some more than there are players.
    return our_server(cores, "--max-instances", str(count + 8), *flags)


def _short(plan: Plan) -> Plan:
    return replace(
        plan, rounds=min(_ROUNDS, plan.rounds), seconds=min(_SECONDS, plan.seconds)
    )


def _two_workers(cores: Any) -> Any:
    return _server(cores, "--workers", "2", count=max(_CLIENTS))


def many_cores(plan: Plan) -> list[Row]:
    """Answer all of these questions."""
    plan.say(_machine())
    return [
        row
        for name, question in QUESTIONS.items()
        if name != "many_cores"
        for row in question(_short(plan))
    ]


def _machine() -> str:
    """Return the machine in words, for the table of a run."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    named = (line.partition(":")[2] for line in lines if line.startswith("model name"))
    size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    kernel = platform.release()
    return f"{next(named, '?').strip()}, {size:.0f} GiB, Linux {kernel}"


QUESTIONS: dict[str, Callable[[Plan], list[Row]]] = {
    "many_cores": many_cores,
    "cores_cheetah64": _vector(
        "cores_cheetah64",
        _CheetahAgent,
        Rival("local async vector", _AsyncCheetahAgent, no_server),
        "mujoco",
    ),
    "cores_breakout64": _vector(
        "cores_breakout64",
        _BreakoutAgent,
        Rival("local async vector", _AsyncBreakoutAgent, no_server),
        "ale_py",
    ),
    "cores_native64": _vector(
        "cores_native64",
        NativeAgent,
        LOCAL_NATIVE,
        "gymnasium",
    ),
    "cores_envpool64": _vector(
        "cores_envpool64",
        _EnvPoolAgent,
        Rival("local EnvPool", _LocalEnvPoolAgent, no_server),
        "envpool",
    ),
    **_clients("cores_rest", LeanAgent, Rival(_WORKERS, LeanAgent, _two_workers)),
    **_clients("cores_stream", StreamAgent, Rival("local env", _LocalAgent, no_server)),
    "cores_instances": cores_instances,
}
