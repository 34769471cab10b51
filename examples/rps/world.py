"""Provides rock-paper-scissors to a server, each player to another program.

It needs PettingZoo and the client, ``pip install pettingzoo pygame-ce
./clients/python``.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from pettingzoo.classic.rps.rps import parallel_env

from gym_http_client import serve_agents


def saved_policy(path: Path):
    """Return a function that plays for absent players as a file says."""
    policy = json.loads(path.read_text())["policy"]
    dice = np.random.default_rng(0)

    def act(world, agent):
        return int(dice.choice(3, p=policy))

    return act


def main() -> None:
    """Provide worlds until the program is stopped."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", nargs="?", default="http://127.0.0.1:5000")
    parser.add_argument("--worlds", type=int, default=1)
    parser.add_argument("--policy", type=Path, help="plays for a player who is absent")
    args = parser.parse_args()
    serve_agents(
        lambda: parallel_env(max_cycles=100),
        args.url,
        name="rps",
        n=args.worlds,
        absent=saved_policy(args.policy) if args.policy else None,
    )


if __name__ == "__main__":
    main()
