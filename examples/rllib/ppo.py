"""Trains PPO of RLlib on remote vectors: each env runner steps one, over a stream.

python ppo.py --envs 16 http://127.0.0.1:5000

RLlib needs an older Gymnasium than the server, so it runs in an environment of its own,
with the client alone. No environment runs in Ray. A token is in GHS_TOKEN.

The exit status is 1 if the agent has not learned enough.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from typing import Any

import gymnasium
from ray.rllib.algorithms.ppo import PPOConfig
from ray.tune import register_env

from gym_http_client import RemoteEnv, RemoteVectorEnv


def make(context: Mapping[str, Any]) -> Any:
    """Make the environments of an env runner.

    Args:
        context: What ``env_config`` has, and ``num_envs`` where RLlib makes a vector.
    """
    url, env_id = context["url"], context["env_id"]
    if "num_envs" in context:
        options = {"nodes": context["nodes"]} if context["nodes"] else {}
        return RemoteVectorEnv(url, env_id, num_envs=context["num_envs"], **options)
    return RemoteEnv(url, env_id)


def main() -> int:
    """Train, print the mean return of each iteration, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("url", nargs="?", default="http://127.0.0.1:5000")
    parser.add_argument("--env-id", default="CartPole-v1")
    parser.add_argument("--envs", type=int, default=16, help="of each env runner")
    parser.add_argument("--runners", type=int, default=1)
    parser.add_argument("--nodes", type=int, default=0, help="of a fleet, per vector")
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--enough", type=float, default=100.0)
    options = parser.parse_args()

    register_env("remote", make)
    where = {"url": options.url, "env_id": options.env_id, "nodes": options.nodes}
    config = (
        PPOConfig()
        .environment(env="remote", env_config=where)
        .env_runners(
            num_env_runners=options.runners,
            num_envs_per_env_runner=options.envs,
            gym_env_vectorize_mode=gymnasium.VectorizeMode.VECTOR_ENTRY_POINT,
        )
        .training(lr=3e-4, train_batch_size_per_learner=4000, num_epochs=10)
        .debugging(seed=1)
    )
    algorithm = config.build_algo()
    best = 0.0
    try:
        for number in range(1, options.iterations + 1):
            began = time.monotonic()
            result = algorithm.train()["env_runners"]
            mean = result["episode_return_mean"]
            steps = int(result["num_env_steps_sampled_lifetime"])
            seconds = time.monotonic() - began
            best = max(best, mean)
            print(
                f"iteration {number}: {steps} steps, {seconds:.1f} s, "
                f"mean return {mean:.1f}",
                flush=True,
            )
    finally:
        algorithm.stop()
    print("learned" if best >= options.enough else "not learned")
    return 0 if best >= options.enough else 1


if __name__ == "__main__":
    sys.exit(main())
