"""Trains PPO remotely and locally with the same seed, and compares the weights.

python sb3_ppo.py --steps 2048 http://127.0.0.1:5000

The exit status is 1 if a single bit of the weights differs.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import gymnasium
import torch
from stable_baselines3 import PPO

from gym_http_client import RemoteEnv

Weights = dict[str, torch.Tensor]


def train(env: gymnasium.Env[Any, Any], steps: int, seed: int) -> Weights:
    """Train an agent, and return its weights."""
    began = time.monotonic()
    agent = PPO("MlpPolicy", env, n_steps=512, seed=seed, device="cpu")
    agent.learn(steps)
    env.close()
    seconds = time.monotonic() - began
    print(f"{agent.num_timesteps} steps in {seconds:.1f} s", flush=True)
    return dict(agent.policy.state_dict())


def differing(one: Weights, other: Weights) -> list[str]:
    """List the tensors that are not the same to the bit."""
    return [
        name
        for name in sorted(one.keys() | other.keys())
        if name not in one
        or name not in other
        or one[name].dtype != other[name].dtype
        or one[name].numpy().tobytes() != other[name].numpy().tobytes()
    ]


def main() -> int:
    """Train, compare, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", nargs="?", default="http://127.0.0.1:5000")
    parser.add_argument("--env-id", default="CartPole-v1")
    parser.add_argument("--steps", type=int, default=2048)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    # The split of sums among threads affects their last bits.
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)

    print("remotely: ", end="", flush=True)
    remote_env = RemoteEnv(options.url, options.env_id)
    remote = train(remote_env, options.steps, options.seed)
    print("locally:  ", end="", flush=True)
    local_env = gymnasium.make(options.env_id)
    local = train(local_env, options.steps, options.seed)

    different = differing(remote, local)
    numbers = sum(tensor.numel() for tensor in local.values())
    what = f"{len(local)} tensors of {numbers} numbers"
    print(f"{what}: {len(different)} differ" if different else f"{what}: the same bits")
    for name in different:
        print(f"  {name}")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
