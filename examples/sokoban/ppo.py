"""Trains PPO on levels of one crate in a page, through a server, until it solves them.

pip install stable-baselines3
python ppo.py --levels 2 http://127.0.0.1:5000

Exits with 1 if it still does not after as many steps as it may take.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from typing import Any

import gymnasium
import numpy as np
import torch
from stable_baselines3 import PPO

from gym_http_client import RemoteEnv

TILES = 7
AT_ONCE = 2048
#: A level needs at most 18 steps; a lost agent begins again soon.
LONGEST = 30


class Levels(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Plays levels in turn, and shows which tile is on each field, and not its number.

    Args:
        env: The game.
        levels: How many levels, from 0 on.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], levels: int) -> None:
        super().__init__(env)
        shape = (TILES * int(np.prod(env.observation_space.shape or ())),)
        self.observation_space = gymnasium.spaces.Box(0, 1, shape, np.float32)
        self._turns = itertools.cycle(range(levels))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin the next level, or that of the options."""
        options = options or {"level": next(self._turns)}
        observation, info = self.env.reset(seed=seed, options=options)
        return _shown(observation), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Go."""
        observation, *rest = self.env.step(int(action))
        return _shown(observation), *rest


def _shown(tiles: Any) -> Any:
    return np.eye(TILES, dtype=np.float32)[np.ravel(tiles)].ravel()


def solution(agent: PPO, env: Levels, level: int) -> list[int] | None:
    """Return the actions by which an agent solves a level; None if it does not."""
    observation, _ = env.reset(options={"level": level})
    actions = []
    for _ in range(LONGEST):
        action = int(agent.predict(observation, deterministic=True)[0])
        actions.append(action)
        observation, _, terminated, truncated, _ = env.step(action)
        if terminated:
            return actions
        if truncated:
            break
    return None


def train(env: Levels, levels: int, most: int, seed: int) -> list[list[int]] | None:
    """Train until all levels are solved; return how, or None if they are not."""
    agent = PPO(
        "MlpPolicy",
        env,
        n_steps=1024,
        batch_size=256,
        n_epochs=6,
        learning_rate=1e-3,
        gamma=0.97,
        # Most ways lead into a corner: it has to go on trying others.
        ent_coef=0.05,
        seed=seed,
        device="cpu",
    )
    began = time.monotonic()
    while agent.num_timesteps < most:
        agent.learn(AT_ONCE, reset_num_timesteps=False)
        solutions = [solution(agent, env, level) for level in range(levels)]
        solved = [each for each in solutions if each is not None]
        seconds = time.monotonic() - began
        print(
            f"{agent.num_timesteps} steps in {seconds:.0f} s: "
            f"{len(solved)} of {levels} levels solved",
            flush=True,
        )
        if len(solved) == levels:
            return solved
        # The levels were played to the end meanwhile: it begins anew.
        agent.set_env(env)
    return None


def main() -> int:
    """Train, print the solutions, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", nargs="?", default="http://127.0.0.1:5000")
    parser.add_argument("--levels", type=int, default=2)
    parser.add_argument("--steps", type=int, default=300_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    game = RemoteEnv(
        options.url,
        "external/sokoban",
        max_episode_steps=LONGEST,
        wait_s=30,
        fast=True,
    )
    with Levels(game, options.levels) as env:
        solutions = train(env, options.levels, options.steps, options.seed)
    for level, actions in enumerate(solutions or []):
        print(f"level {level}: {len(actions)} steps")
    return 0 if solutions else 1


if __name__ == "__main__":
    sys.exit(main())
