"""Compares the steps per second of a `RemoteParallelEnv` with those of a local one."""

from __future__ import annotations

import importlib
import itertools
import warnings
from typing import Any, ClassVar

from benchmarks.measuring import Plan
from benchmarks.pinning import Mode
from benchmarks.race import Rival, race
from benchmarks.report import Row
from benchmarks.servers import no_server
from gym_http_client.pettingzoo import RemoteParallelEnv

__all__ = ["agents_multiwalker", "agents_rps"]

_DRAWN = 256


class _RPSAgent:
    """Moves both players of rock-paper-scissors."""

    name = "classic.rps_v2"
    kwargs: ClassVar[dict[str, Any]] = {"max_cycles": 100}

    def __init__(self, url: str, seed: int) -> None:
        env = self._env = self._made(url)
        self._first_seed: int | None = seed
        env.reset(seed=seed)
        spaces = {agent: env.action_space(agent) for agent in env.agents}
        for space in spaces.values():
            space.seed(seed)
        drawn = [
            {agent: space.sample() for agent, space in spaces.items()}
            for _ in range(_DRAWN)
        ]
        self._actions = itertools.cycle(drawn)

    def _made(self, url: str) -> Any:
        return RemoteParallelEnv(url, f"pettingzoo/{self.name}", **self.kwargs)

    def reset(self) -> None:
        """Begin an episode."""
        self._env.reset(seed=self._first_seed)
        self._first_seed = None

    def step(self, action: int) -> bool:
        """Take a step of all agents, with actions that were drawn before."""
        actions = next(self._actions)
        env = self._env
        env.step({agent: actions[agent] for agent in env.agents})
        return not env.agents

    def close(self) -> None:
        """End the instance."""
        self._env.close()


class _LocalRPSAgent(_RPSAgent):
    """Moves them in its own process."""

    def _made(self, url: str) -> Any:
        with warnings.catch_warnings():
            # It would rather have its own `make` called.
            warnings.simplefilter("ignore", DeprecationWarning)
            module = importlib.import_module(f"pettingzoo.{self.name}")
            return module.parallel_env(**self.kwargs)


class _MultiwalkerAgent(_RPSAgent):
    """Moves three walkers."""

    name = "sisl.multiwalker_v9"
    kwargs: ClassVar[dict[str, Any]] = {}


class _LocalMultiwalkerAgent(_LocalRPSAgent):
    """Moves them in its own process."""

    name = "sisl.multiwalker_v9"
    kwargs: ClassVar[dict[str, Any]] = {}


def agents_rps(plan: Plan) -> list[Row]:
    """Measure a game whose step takes a fraction of a round trip."""
    return _agents(plan, "agents_rps", _RPSAgent, _LocalRPSAgent)


def agents_multiwalker(plan: Plan) -> list[Row]:
    """Measure a simulation in Box2D."""
    return _agents(
        plan, "agents_multiwalker", _MultiwalkerAgent, _LocalMultiwalkerAgent
    )


def _agents(
    plan: Plan, name: str, ours: type[_RPSAgent], theirs: type[_RPSAgent]
) -> list[Row]:
    rival = Rival("local PettingZoo", theirs, no_server)
    return [
        each
        for mode in (Mode.SAME, Mode.SPLIT)
        for each in race(plan.halved(), name, mode, ours, 1, rival)
    ]
