"""Two environments: a walk along a line, and a reach across a plane."""

import os
from collections import namedtuple
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces

FIELDS = {
    "num_envs": 1,
    "batch_size": 0,
    "num_threads": 0,
    "max_num_players": 1,
    "seed": 42,
    "max_episode_steps": 100,
    "reward_threshold": None,
    "render_mode": None,
    "stride": 1,
}
Config = namedtuple("Config", FIELDS, defaults=FIELDS.values())


class Pool:
    """Environments that step together, with EnvPool's habits."""

    action_type: ClassVar[type]

    def __init__(self, config: Any) -> None:
        self.config = config._asdict()
        action = ("env_id", "players.env_id", "action")
        self.spec = SimpleNamespace(action_array_spec=dict.fromkeys(action))
        count = config.num_envs
        seeds = config.seed
        if not isinstance(seeds, list):
            seeds = [seeds + number for number in range(count)]
        # EnvPool's integers have 32 bits.
        self._randoms = [np.random.default_rng(int(np.int32(each))) for each in seeds]
        self._places = np.zeros((count, 2))
        self._steps = np.zeros(count, np.int32)
        self._done = np.ones(count, bool)

    def reset(self, env_id: Any = None) -> Any:
        """Reset some environments, and return those alone."""
        if env_id is None:
            env_id = np.arange(len(self._randoms), dtype=np.int32)
        for number in env_id:
            self._begin(number)
        return self._observed(env_id), self._info(env_id)

    def _begin(self, number: int) -> None:
        self._places[number] = self._randoms[number].uniform(-1, 1, 2)
        self._steps[number], self._done[number] = 0, False

    def step(self, action: Any) -> Any:
        """Step all environments; reset those whose episodes have ended."""
        action = action.astype(self.action_type)
        count = len(self._randoms)
        if len(action) < count:
            os.abort()
        limit = self.config["max_episode_steps"]
        rewards = np.zeros(count, np.float32)
        truncations = np.zeros(count, bool)
        for number in range(count):
            if self._done[number]:
                self._begin(number)
                continue
            self._places[number] += self._move(action[number]) * self.config["stride"]
            self._steps[number] += 1
            rewards[number] = self._places[number].sum()
            truncations[number] = self._steps[number] >= limit
            self._done[number] = truncations[number] or abs(self._places[number, 0]) > 3
        everyone = np.arange(count, dtype=np.int32)
        terminations = self._done & ~truncations
        observed, info = self._observed(everyone), self._info(everyone)
        return observed, rewards, terminations, truncations, info

    def _move(self, action: Any) -> Any:
        raise NotImplementedError

    def _observed(self, numbers: Any) -> Any:
        raise NotImplementedError

    def _info(self, numbers: Any) -> dict[str, Any]:
        return {
            "env_id": numbers.copy(),
            "players": {"env_id": numbers.copy()},
            "place": self._places[numbers].copy(),
            "elapsed_step": self._steps[numbers].copy(),
        }

    def render(self, env_ids: Any) -> Any:
        frames = np.zeros((len(env_ids), 4, 4, 3), np.uint8)
        frames[:, 0, 0, 0] = env_ids
        return frames


class Walk(Pool):
    """A walk: a Discrete action, a Box observed."""

    action_type = np.int32
    action_space = spaces.Discrete(3, start=1)
    observation_space = spaces.Box(-10, 10, (2,), np.float32)

    def _move(self, action: Any) -> Any:
        return np.array([(-1, 0, 1)[action - 1], 0])

    def _observed(self, numbers: Any) -> Any:
        return self._places[numbers].astype(np.float32)


class Reach(Pool):
    """A reach: a Box action, a Dict observed, whose bounds are EnvPool's mistake."""

    action_type = np.float64
    action_space = spaces.Box(-1, 1, (2,), np.float64)
    _PLACE = spaces.Box(
        np.finfo(np.float64).tiny, np.finfo(np.float64).max, (2,), np.float64
    )
    observation_space = spaces.Dict(
        {"number": spaces.Discrete(100), "at": spaces.Dict({"place": _PLACE})}
    )

    def _move(self, action: Any) -> Any:
        return action

    def _observed(self, numbers: Any) -> Any:
        place = self._places[numbers].copy()
        return {"number": numbers.copy(), "at": {"place": place}}


WalkEnvSpec = SimpleNamespace(gen_config=Config, pool=Walk)
ReachEnvSpec = SimpleNamespace(gen_config=Config, pool=Reach)
