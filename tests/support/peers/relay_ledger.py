"""Programs of an asynchronous training that only keeps accounts of its batches.

``python -m tests.support.peers.relay_ledger worker URL RUN NAME SPOOL EPISODES`` and
``... trainer URL RUN WORKERS EPISODES``. The trainer's state is the list of the batches
that it has received; it ends, and prints the list as JSON, when it has all episodes.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import gymnasium
import numpy as np

from gym_http_client.relay import RolloutWorker, Trainer

#: So that kills hit episodes, too.
PAUSE_S = 0.005


class Slow(gymnasium.Env[Any, Any]):
    """Episodes of one to eight steps, each of which takes a moment."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float64)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self) -> None:
        self._left = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        self._left = int(self.np_random.integers(1, 9))
        return np.zeros(1), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take a step."""
        time.sleep(PAUSE_S)
        self._left -= 1
        return np.full(1, self._left), 1.0, not self._left, False, {}


def work(url: str, run: str, name: str, spool: str, episodes: int) -> None:
    """Play episodes."""
    with RolloutWorker(
        *(url, run),
        worker=name,
        env=Slow(),
        policy=lambda weights, observation, generator: int(generator.integers(2)),
        spool=spool,
        seed=1,
    ) as worker:
        worker.run(episodes - worker.episodes)


def train(url: str, run: str, workers: int, episodes: int) -> None:
    """Receive all episodes of all workers, and publish after every third batch."""
    with Trainer(url, run) as trainer:
        state = trainer.resume() or {"ledger": np.zeros(1, "U1")}
        ledger: list[Any] = json.loads(str(state["ledger"][0]) or "[]")
        if not trainer.version:
            trainer.publish({"size": 0})
        batches = iter(trainer)
        while len(ledger) < workers * episodes:
            batch = next(batches)
            head = batch.head
            ledger.append(
                [
                    *(head.worker, head.session, head.number, head.policy),
                    *(head.position, head.dropped, int(batch.columns["episode"])),
                ]
            )
            if len(ledger) % 3 == 0 or len(ledger) == workers * episodes:
                trainer.publish(
                    {"size": len(ledger)}, state={"ledger": [json.dumps(ledger)]}
                )
    print(json.dumps(ledger))


if __name__ == "__main__":
    program, url, run, *words = sys.argv[1:]
    if program == "worker":
        work(url, run, words[0], words[1], int(words[2]))
    else:
        train(url, run, int(words[0]), int(words[1]))
