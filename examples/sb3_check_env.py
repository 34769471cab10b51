"""Checks remote and local environments with Stable-Baselines3's checker.

python sb3_check_env.py http://127.0.0.1:5000

It prints a row for each environment. The exit status is 1 if the verdicts or warnings
of a remote and a local environment differ.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any, NamedTuple

import gymnasium
from stable_baselines3.common.env_checker import check_env

from gym_http_client import RemoteEnv

ENV_IDS = (
    "Acrobot-v1",
    "BipedalWalker-v3",
    "Blackjack-v1",
    "CartPole-v1",
    "CliffWalking-v1",
    "FrozenLake-v1",
    "LunarLander-v3",
    "MountainCar-v0",
    "MountainCarContinuous-v0",
    "Pendulum-v1",
    "Taxi-v4",
)


class Opinion(NamedTuple):
    """The checker's verdict and its warnings."""

    verdict: str
    warnings: list[str]


def check(env: gymnasium.Env[Any, Any]) -> Opinion:
    """Check an environment, and close it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            # Skip rendering: its check closes the environment, and then steps it.
            check_env(env, skip_render_check=True)
            verdict = "passes"
        except Exception as error:
            verdict = f"{type(error).__name__}: {error}"
        finally:
            env.close()
    warned = [f"{each.category.__name__}: {each.message}" for each in caught]
    return Opinion(verdict, warned)


def compare(url: str, env_id: str) -> bool:
    """Compare the opinions on both environments, print a row, return if they agree."""
    # Disable Gymnasium's own checker, which warns in the environment's process.
    remote = check(RemoteEnv(url, env_id, disable_env_checker=True))
    local = check(gymnasium.make(env_id, disable_env_checker=True))
    same = remote == local
    answer = "same" if same else "OTHER"
    print(f"{env_id:25} {answer:8} {len(local.warnings):8}  {local.verdict}")
    if not same:
        print(f"  locally:  {local}\n  remotely: {remote}")
    return same


def main() -> int:
    """Compare all environments, and return the exit status."""
    url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:5000"
    print(f"{'environment':25} {'remotely':8} {'warnings':8}  verdict")
    different = [env_id for env_id in ENV_IDS if not compare(url, env_id)]
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
