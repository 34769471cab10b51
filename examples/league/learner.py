"""Learns connect four in a seat of the league, and saves itself to the pool.

It needs only the client, ``pip install ./clients/python``, and for ``--plot``
Matplotlib.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from policy import Policy

from gym_http_client import RemoteEnv


def play(
    env: RemoteEnv, policy: Policy, dice: np.random.Generator, rate: float
) -> float:
    """Play a game and learn from it, by temporal differences; return the result."""
    observation, _ = env.reset()
    before, ended, reward = None, False, 0.0
    while not ended:
        board = observation["observation"]
        action = policy.act(board, dice)
        seen = policy.moves(board)[action]
        if before is not None:
            learn(policy, before, policy.value(seen), rate)
        before = seen
        observation, reward, terminated, truncated, _ = env.step(action)
        ended = terminated or truncated
    learn(policy, before, float(reward), rate)
    return float(reward)


def learn(policy: Policy, seen: np.ndarray, target: float, rate: float) -> None:
    """Move the value of a position towards a target."""
    value = policy.value(seen)
    policy.weights += rate * (target - value) * (1 - value**2) * seen


def draw_curve(path: Path, wins: list[float], games: int) -> None:
    """Draw the curve of wins."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3), layout="constrained")
    axes = figure.subplots()
    axes.plot(games * np.arange(1, len(wins) + 1), wins)
    axes.set(xlabel="games", ylabel="won against the pool", ylim=(0, 1))
    figure.savefig(path)


def main() -> None:
    """Learn, and print the share of games won against the pool."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", nargs="?", default="http://127.0.0.1:5000")
    parser.add_argument("--pool", type=Path, default=Path("pool"))
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--games", type=int, default=50, help="games of each round")
    parser.add_argument("--rate", type=float, default=0.05, help="of learning")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plot", type=Path, help="file for the curve of wins")
    args = parser.parse_args()
    dice, policy, wins = np.random.default_rng(args.seed), Policy(), []
    for number in range(1, args.rounds + 1):
        results = []
        # Policies from the pool play in the seat that is free.
        for seat in ("external/league.player_0", "external/league.player_1"):
            with RemoteEnv(args.url, seat, wait_s=20) as env:
                games = range(args.games // 2)
                results += [play(env, policy, dice, args.rate) for _ in games]
        wins.append(float(np.mean(np.array(results) > 0)))
        print(f"round {number}: won {wins[-1]:.0%}", flush=True)
        # The pool of later rounds has this policy, too.
        name = f"{args.seed}-{number:04}"
        part = args.pool / f"{name}.part"
        part.write_text(json.dumps(policy.weights.tolist()))
        part.rename(args.pool / f"{name}.json")
    if args.plot:
        draw_curve(args.plot, wins, args.games)


if __name__ == "__main__":
    main()
