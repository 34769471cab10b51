"""Learns to solve levels of a page's game, with a table.

    python train.py [--levels N] [--env-id external/sokoban] [URL]

The agent remembers what each action did in each position, and reckons from that what
each is worth. What it has not tried yet it takes for good, so it tries what is near.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from gym_http_client import RemoteEnv

ACTIONS = range(4)
DISCOUNT = 0.97
#: What an action is taken to be worth that was never tried: as much as any could be.
HOPE = 11.0
SWEEPS = 40
Position = bytes


class Table:
    """What is known of one level."""

    def __init__(self) -> None:
        self._known: dict[Position, dict[int, tuple[float, Position | None]]] = {}
        self._worth: dict[Position, float] = {}

    def choose(self, position: Position) -> int:
        """Return the best action."""
        return max(ACTIONS, key=lambda action: self._value(position, action))

    def learn(
        self, position: Position, action: int, reward: float, then: Position | None
    ) -> None:
        """Remember what an action did; ``then`` is None where the episode ended."""
        known = self._known.setdefault(position, {})
        if action not in known:
            known[action] = (reward, then)
            self._reckon()

    def _value(self, position: Position, action: int) -> float:
        outcome = self._known.get(position, {}).get(action)
        if outcome is None:
            return HOPE
        reward, then = outcome
        return reward + (DISCOUNT * self._worth.get(then, HOPE) if then else 0.0)

    def _reckon(self) -> None:
        # The newest first: what was just learned matters to where it came from.
        for _ in range(SWEEPS):
            change = 0.0
            for position in reversed(self._known):
                worth = max(self._value(position, action) for action in ACTIONS)
                change = max(change, abs(worth - self._worth.get(position, HOPE)))
                self._worth[position] = worth
            if change < 0.01:
                break


def play(env: Any, table: Table, level: int) -> tuple[bool, int]:
    """Play a level once; return whether it was solved, and in how many steps."""
    observation, _ = env.reset(options={"level": level})
    steps = 0
    while True:
        position = observation.tobytes()
        action = table.choose(position)
        observation, reward, terminated, truncated, _ = env.step(action)
        steps += 1
        then = None if terminated else observation.tobytes()
        table.learn(position, action, reward, then)
        if terminated or truncated:
            return bool(terminated), steps


def solve(env: Any, level: int, episodes: int = 60) -> tuple[int, int]:
    """Learn a level until it is solved twice alike.

    Returns:
        The steps of the solution, and all that it took to find it.

    Raises:
        RuntimeError: It is not found.
    """
    table, total, before = Table(), 0, 0
    for _ in range(episodes):
        solved, steps = play(env, table, level)
        total += steps
        if solved and steps == before:
            return steps, total
        before = steps if solved else 0
    raise RuntimeError(f"level {level} is not solved after {episodes} episodes")


def main() -> None:
    """Solve the first levels, and print the time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url", nargs="?", default="http://127.0.0.1:5000")
    parser.add_argument("--env-id", default="external/sokoban")
    parser.add_argument("--levels", type=int, default=5)
    args = parser.parse_args()
    began = time.monotonic()
    with RemoteEnv(args.url, args.env_id, wait_s=10, fast=True) as env:
        for level in range(args.levels):
            steps, total = solve(env, level)
            print(f"level {level}: solved in {steps} steps, learned in {total}")
    print(f"{args.levels} levels in {time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    main()
