"""Plays connect four in free seats, with policies from a pool (fictitious self-play).

It needs PettingZoo and the client, ``pip install pettingzoo pygame-ce
./clients/python``.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from pettingzoo.classic.connect_four.connect_four import env as connect_four
from policy import Policy

from gym_http_client import serve_agents


class Pool:
    """A folder of saved policies, one of which plays each game of an absent player."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder = folder
        self._dice = np.random.default_rng(seed)
        self._playing: dict[int, Policy] = {}

    def act(self, world, agent) -> int:
        """Return the action of an absent player; another policy begins each game."""
        board = world.observe(agent)["observation"]
        if board.sum() < 2 or id(world) not in self._playing:
            self._playing[id(world)] = self._draw()
        return self._playing[id(world)].act(board, self._dice)

    def _draw(self) -> Policy:
        paths = sorted(self._folder.glob("*.json"))
        if not paths:
            # It plays at random.
            return Policy(temperature=1e6)
        path = paths[self._dice.integers(len(paths))]
        return Policy(json.loads(path.read_text()))


def main() -> None:
    """Provide worlds until the program is stopped."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", nargs="?", default="http://127.0.0.1:5000")
    parser.add_argument("--pool", type=Path, default=Path("pool"))
    parser.add_argument("--worlds", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    args.pool.mkdir(exist_ok=True)
    pool = Pool(args.pool, args.seed)
    serve_agents(connect_four, args.url, name="league", n=args.worlds, absent=pool.act)


if __name__ == "__main__":
    main()
