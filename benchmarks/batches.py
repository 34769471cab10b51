"""Measures steps per second over HTTP with a hundred steps in each request."""

from __future__ import annotations

from typing import Any

import gymnasium

from benchmarks.gauges import rate
from benchmarks.measuring import Plan
from benchmarks.pinning import Mode
from benchmarks.race import Rival, race
from benchmarks.report import Row
from benchmarks.servers import no_server
from gym_http_client.bench.agents import ENV_ID, LeanAgent

__all__ = ["piloted", "rollout_http"]

_BATCH = 100
_EPISODE = 500
# The seed of an episode that `piloted` survives.
_SEED = 1


def piloted() -> list[list[int]]:
    """Return batches of actions that make up a whole episode of 500 steps."""
    env = gymnasium.make(ENV_ID)
    observation, _ = env.reset(seed=_SEED)
    actions = []
    over = False
    while not over:
        # Push the cart in the direction in which the pole falls.
        actions.append(int(observation[2] + observation[3] > 0))
        observation, _, terminated, truncated, _ = env.step(actions[-1])
        over = terminated or truncated
    assert len(actions) == _EPISODE
    return [actions[at : at + _BATCH] for at in range(0, _EPISODE, _BATCH)]


class _BatchAgent(LeanAgent):
    """Sends a hundred actions in each request, and parses the results as JSON."""

    def __init__(self, url: str, seed: int) -> None:
        super().__init__(url, seed)
        self._batches = piloted()
        self._next = 0

    def reset(self) -> None:
        """Restart the episode."""
        self._post(self._path + "reset/", {"seed": _SEED})
        self._next = 0

    def step(self, action: int) -> bool:
        """Take a hundred steps."""
        answer = self._post(
            self._path + "step/", {"actions": self._batches[self._next]}
        )
        assert answer["steps"] == _BATCH
        self._next += 1
        return bool(answer["done"][-1])


class _LocalAgent:
    """Takes the same steps in an environment in its own process."""

    def __init__(self, url: str, seed: int) -> None:
        self._env: gymnasium.Env[Any, Any] = gymnasium.make(ENV_ID)
        self._batches = piloted()
        self._next = 0

    def reset(self) -> None:
        """Restart the episode."""
        self._env.reset(seed=_SEED)
        self._next = 0

    def step(self, action: int) -> bool:
        """Take a hundred steps."""
        over = False
        for each in self._batches[self._next]:
            _, _, terminated, truncated, _ = self._env.step(each)
            over = terminated or truncated
        self._next += 1
        return over

    def close(self) -> None:
        """Close the environment."""
        self._env.close()


def rollout_http(plan: Plan) -> list[Row]:
    """Measure one client."""
    return race(
        plan.halved(),
        "rollout_http",
        Mode.SAME,
        _BatchAgent,
        1,
        Rival("local env", _LocalAgent, no_server),
        gauge=rate("steps/s", _BATCH, percentiles=False),
    )
