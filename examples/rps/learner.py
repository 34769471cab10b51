"""Learns rock-paper-scissors as one of its players, by regret matching.

It needs only the client: ``pip install ./clients/python``.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from gym_http_client import RemoteEnv

NAMES = ("rock", "paper", "scissors")


def payoff(own, other):
    """Return the reward of an action, or of each in an array, against another."""
    return np.array([0, 1, -1])[(own - other) % 3]


class Learner:
    """Plays actions in proportion to how much it regrets not having played them."""

    def __init__(self, seed: int) -> None:
        self.dice = np.random.default_rng(seed)
        self.regrets = np.zeros(3)
        self.total = np.zeros(3)

    def act(self) -> int:
        """Return an action."""
        wanted = np.maximum(self.regrets, 0)
        policy = wanted / wanted.sum() if wanted.any() else np.full(3, 1 / 3)
        self.total += policy
        return int(self.dice.choice(3, p=policy))

    def learn(self, own: int, other: int) -> None:
        """Learn from the actions of both players."""
        self.regrets += payoff(np.arange(3), other) - payoff(own, other)

    @property
    def policy(self) -> np.ndarray:
        """The mean of what it has played, which is what it has learned."""
        return self.total / self.total.sum()


def play(env: RemoteEnv, learner: Learner) -> float:
    """Play an episode; return the mean reward."""
    env.reset()
    rewards, ended = [], False
    while not ended:
        action = learner.act()
        other, reward, terminated, truncated, info = env.step(action)
        ended = terminated or truncated
        # The other player may have left before the action was taken.
        if "cut" not in info:
            learner.learn(action, int(other))
            rewards.append(reward)
    return float(np.mean(rewards)) if rewards else 0.0


def main() -> None:
    """Learn, and print what was learned."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", nargs="?", default="http://127.0.0.1:5000")
    parser.add_argument("--seat", default="external/rps.player_0")
    parser.add_argument("--episodes", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save", type=Path, help="file for the learned policy")
    args = parser.parse_args()
    learner = Learner(args.seed)
    with RemoteEnv(args.url, args.seat, wait_s=20) as env:
        rewards = [play(env, learner) for _ in range(args.episodes)]
    half = len(rewards) // 2
    print(
        f"mean reward {np.mean(rewards[:half]):.2f}, then {np.mean(rewards[half:]):.2f}"
    )
    print(*(f"{name} {p:.2f}" for name, p in zip(NAMES, learner.policy, strict=True)))
    if args.save:
        args.save.write_text(json.dumps({"policy": learner.policy.tolist()}))


if __name__ == "__main__":
    main()
