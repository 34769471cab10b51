"""REINFORCE on CartPole: two rollout workers and a trainer, in three programs.

python reinforce.py worker w1 http://127.0.0.1:5000
python reinforce.py worker w2 http://127.0.0.1:5000
python reinforce.py trainer http://127.0.0.1:5000
python reinforce.py alone

All are synchronous: each worker plays one episode with each version of the weights, and
the trainer makes the next version of one episode of each worker. So the result does not
depend on timing. Any of the programs, and the server, may be killed and started anew.
"alone" is the same loop in one process, with the same weights to the last bit.
"""

from __future__ import annotations

import argparse
import hashlib
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from gym_http_client.relay import (
    RolloutWorker,
    Trainer,
    play_episode,
    play_weights,
    save_weights,
)

RUN = "cartpole-reinforce"
WORKERS = ("w1", "w2")
RATE = 3.0
DISCOUNT = 0.99

Arrays = Mapping[str, NDArray[Any]]


def policy(weights: Arrays, observation: Any, generator: np.random.Generator) -> int:
    """Push to the right with the probability of a logistic model."""
    score = weights["slope"] @ observation + weights["bias"][0]
    return int(generator.random() < 1 / (1 + np.exp(-score)))


def careful(weights: Arrays, observation: Any, _: np.random.Generator) -> int:
    """Push to the side that is more probable."""
    return int(weights["slope"] @ observation + weights["bias"][0] > 0)


def first_weights() -> dict[str, NDArray[Any]]:
    """Return the weights with which training begins."""
    return {"slope": np.zeros(4), "bias": np.zeros(1)}


def improved(weights: Arrays, episodes: list[Arrays]) -> dict[str, NDArray[Any]]:
    """Return the weights after one step along the gradient of the expected return."""
    observations = np.concatenate([each["observations"][:-1] for each in episodes])
    actions = np.concatenate([each["actions"] for each in episodes])
    returns = np.concatenate([to_go(each["rewards"]) for each in episodes])
    scores = observations.astype(np.float64) @ weights["slope"] + weights["bias"]
    advantages = (returns - returns.mean()) / (returns.std() + 1e-8)
    errors = (actions - 1 / (1 + np.exp(-scores))) * advantages
    return {
        "slope": weights["slope"] + RATE * (errors @ observations) / len(errors),
        "bias": weights["bias"] + RATE * errors.mean(keepdims=True),
    }


def to_go(rewards: NDArray[Any]) -> NDArray[np.float64]:
    """Return the discounted sum of the rewards from each step on."""
    sums = np.zeros(len(rewards))
    total = 0.0
    for step in reversed(range(len(rewards))):
        total = float(rewards[step]) + DISCOUNT * total
        sums[step] = total
    return sums


def default_spool(options: argparse.Namespace) -> Path:
    """Return a folder for this worker, run and server: a spool belongs to one run."""
    whose = zlib.crc32(f"{options.url} {options.run}".encode())
    return Path(tempfile.gettempdir()) / f"spool-{options.name}-{whose:08x}"


def work(options: argparse.Namespace) -> None:
    """Play one episode with each version of the weights."""
    with RolloutWorker(
        options.url,
        options.run,
        worker=options.name,
        env=gymnasium.make("CartPole-v1"),
        policy=policy,
        spool=options.spool or default_spool(options),
        token=options.token,
        seed=options.seed,
        synchronous=True,
    ) as worker:
        # Without those that were played before a restart.
        worker.run(options.updates - worker.episodes)


def train(options: argparse.Namespace) -> dict[str, NDArray[Any]]:
    """Make each version of the weights of one episode of each worker."""
    with Trainer(options.url, options.run, token=options.token) as trainer:
        state = trainer.resume()
        if state is None:
            state = {**first_weights(), "updates": np.zeros(1, np.int64)}
        weights = {"slope": state["slope"], "bias": state["bias"]}
        updates = int(state["updates"][0])
        if not updates:
            trainer.publish(weights, state=state)
        episodes: dict[str, Any] = {}
        batches = iter(trainer)
        while updates < options.updates:
            batch = next(batches)
            episodes[batch.worker] = batch.columns
            if len(episodes) == len(WORKERS):
                weights = improved(weights, [episodes[each] for each in WORKERS])
                updates += 1
                trainer.publish(
                    weights, state={**weights, "updates": np.array([updates])}
                )
                episodes = {}
    return weights


def train_alone(options: argparse.Namespace) -> dict[str, NDArray[Any]]:
    """Do the same in one process, without a server."""
    env = gymnasium.make("CartPole-v1")
    weights = first_weights()
    for number in range(1, options.updates + 1):
        episodes = [
            play_episode(
                env, policy, weights, seed=options.seed, worker=each, number=number
            )
            for each in WORKERS
        ]
        weights = improved(weights, episodes)
    return weights


def show(weights: dict[str, NDArray[Any]]) -> None:
    """Print how well the weights play, and their digest."""
    env = gymnasium.make("CartPole-v1")
    played = play_weights(env, careful, weights, episodes=20)
    digest = hashlib.sha256(save_weights(weights)).hexdigest()
    print(f"mean return of 20 episodes: {np.mean([each.value for each in played]):.1f}")
    print(f"SHA-256 of the weights: {digest}")


def main() -> None:
    """Run the program that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    programs = parser.add_subparsers(dest="program", required=True)
    for name in ("worker", "trainer", "alone"):
        program = programs.add_parser(name)
        if name == "worker":
            program.add_argument("name", choices=WORKERS)
            program.add_argument("--spool", help="folder of unsent episodes")
        if name != "alone":
            program.add_argument("url", nargs="?", default="http://127.0.0.1:5000")
            program.add_argument("--run", default=RUN)
            program.add_argument("--token")
        program.add_argument("--updates", type=int, default=100)
        program.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.program == "worker":
        work(options)
    else:
        show(train(options) if options.program == "trainer" else train_alone(options))


if __name__ == "__main__":
    main()
