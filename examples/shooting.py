"""Flies LunarLander by random shooting: tries plans in branches, and takes the best.

pip install ./clients/python
python shooting.py http://127.0.0.1:5000
"""

from __future__ import annotations

import argparse

import numpy as np

from gym_http_client import RemoteEnv

ENV_ID = "LunarLander-v3"
LENGTH, TAKEN = 40, 8


def play(env: RemoteEnv, seed: int, count: int) -> float:
    """Play an episode with that many plans at a time, and return its return."""
    env.reset(seed=seed)
    draw = np.random.default_rng(seed).integers
    total, ended = 0.0, False
    while not ended:
        # A single action changes little, so each is repeated.
        plans = np.repeat(draw(4, size=(count, LENGTH // TAKEN)), TAKEN, axis=1)
        branches = env.branches(plans.tolist(), reseed=True)
        best = max(range(count), key=lambda each: sum(branches[each]["rewards"]))
        for action in plans[best][:TAKEN].tolist():
            _, reward, terminated, truncated, _ = env.step(action)
            total += float(reward)
            if terminated or truncated:
                ended = True
                break
    return total


def play_randomly(env: RemoteEnv, seed: int) -> float:
    """Play an episode with random actions, and return its return."""
    env.reset(seed=seed)
    env.action_space.seed(seed)
    total, ended = 0.0, False
    while not ended:
        _, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        total += float(reward)
        ended = terminated or truncated
    return total


def main() -> None:
    """Compare shooting with random play."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="address of the server")
    parser.add_argument("--episodes", type=int, default=3)
    parser.add_argument("--plans", type=int, default=48, help="plans at a time")
    args = parser.parse_args()
    with RemoteEnv(args.url, ENV_ID) as env:
        chance, planned = [], []
        for seed in range(args.episodes):
            chance.append(play_randomly(env, seed))
            planned.append(play(env, seed, args.plans))
            print(f"episode {seed}: random {chance[-1]:.0f}, planned {planned[-1]:.0f}")
    print(f"{np.mean(planned) - np.mean(chance):.0f} better than random play")


if __name__ == "__main__":
    main()
