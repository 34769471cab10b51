"""Double DQN on CartPole: rollout workers that never wait, and a trainer with a replay.

python double_dqn.py worker w1 http://127.0.0.1:5000
python double_dqn.py trainer --plot dqn.png http://127.0.0.1:5000

The workers act with the weights that they have, and fetch newer ones between episodes.
So the trainer learns from samples that older versions made: their lag. It needs as many
updates as there are transitions, and the limiter of the run holds workers back that are
faster. The trainer evaluates each version, and ends with the first one whose 20
evaluations have a mean return of 195.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import NDArray

from gym_http_client.relay import (
    RelayCalls,
    Replay,
    RolloutWorker,
    Trainer,
    play_weights,
)

RUN = "cartpole-dqn"
ENOUGH = 195.0
EVALUATIONS = 20
HIDDEN = 128
DRAWN = 64
RATE = 5e-4
DISCOUNT = 0.99
CAPACITY = 20_000
MIN_SIZE = 200
#: What position, speed, angle and angular speed are multiplied by, to be of one size.
SCALES = np.array([0.5, 0.5, 5.0, 0.5], np.float32)
#: By how much of the distance the target follows the weights in each update.
FOLLOWED = 0.005
#: Updates from one version of the weights, and its evaluation, to the next.
PUBLISHED = 100
#: Updates until only one action in 20 is a random one.
EXPLORED = 2000
LEAST_EXPLORATION = 0.05
#: The run's limiter: each transition is drawn DRAWN times. Workers wait when more than
#: 300 transitions were not: the trainer would learn from samples that are too old.
LIMITS = {
    "limiter": {
        "samples_per_insert": DRAWN,
        "min_size": MIN_SIZE,
        "error_buffer": [0, DRAWN * 300],
    }
}

Weights = dict[str, NDArray[Any]]


def first_weights(generator: np.random.Generator) -> Weights:
    """Return the weights of a network with two hidden layers."""
    sizes = (4, HIDDEN, HIDDEN, 2)
    weights: Weights = {}
    for layer in range(3):
        shape = sizes[layer : layer + 2]
        spread = np.sqrt(2 / shape[0]) if layer < 2 else 0.01
        drawn = generator.standard_normal(shape) * spread
        weights[f"w{layer}"] = drawn.astype(np.float32)
        weights[f"b{layer}"] = np.zeros(shape[1], np.float32)
    return weights


def layers(weights: Mapping[str, Any], observations: Any) -> list[NDArray[Any]]:
    """Return the values of all layers: inputs, two hidden ones, and action values."""
    values = [observations * SCALES]
    for layer in range(3):
        sums = values[-1] @ weights[f"w{layer}"] + weights[f"b{layer}"]
        values.append(np.maximum(sums, 0) if layer < 2 else sums)
    return values


def policy(
    weights: Mapping[str, Any] | None, observation: Any, generator: np.random.Generator
) -> int:
    """Choose the best action, or sometimes a random one; always before version 1."""
    if weights is None or generator.random() < weights["exploration"]:
        return int(generator.integers(2))
    return int(layers(weights, observation)[-1].argmax())


class Learner:
    """The network, its target and the optimizer Adam.

    Args:
        seed: Seed of the first weights.
    """

    def __init__(self, seed: int) -> None:
        self.updates = 0
        self.weights = first_weights(np.random.default_rng(seed))
        self.target = dict(self.weights)
        self._means = {name: np.zeros_like(w) for name, w in self.weights.items()}
        self._squares = dict(self._means)

    def state(self) -> Weights:
        """Return everything from which training goes on after a restart."""
        state: Weights = {"updates": np.array(self.updates)}
        for prefix, arrays in self._parts():
            state |= {f"{prefix}.{name}": array for name, array in arrays.items()}
        return state

    def restore(self, state: Weights) -> None:
        """Go on from a state."""
        self.updates = int(state["updates"])
        for prefix, arrays in self._parts():
            for name in arrays:
                arrays[name] = state[f"{prefix}.{name}"]

    def published(self) -> Weights:
        """Return what workers need."""
        explored = max(LEAST_EXPLORATION, 1 - self.updates / EXPLORED)
        return {**self.weights, "exploration": np.array(explored)}

    def update(self, drawn: Weights) -> float:
        """Learn from transitions, and return the mean error."""
        self.updates += 1
        rows = np.arange(len(drawn["actions"]))
        following = drawn["next_observations"]
        best = layers(self.weights, following)[-1].argmax(1)
        future = layers(self.target, following)[-1][rows, best]
        # A truncated episode would have gone on: only termination ends the returns.
        wanted = drawn["rewards"] + DISCOUNT * future * ~drawn["terminated"]
        values = layers(self.weights, drawn["observations"])
        errors = values[-1][rows, drawn["actions"]] - wanted
        slopes = np.zeros_like(values[-1])
        slopes[rows, drawn["actions"]] = np.clip(errors, -1, 1) / len(rows)
        for layer in (2, 1, 0):
            gradients = (values[layer].T @ slopes, slopes.sum(0))
            if layer:
                slopes = (slopes @ self.weights[f"w{layer}"].T) * (values[layer] > 0)
            for kind, gradient in zip("wb", gradients, strict=True):
                self._step(f"{kind}{layer}", gradient)
        for name, target in self.target.items():
            self.target[name] = target + FOLLOWED * (self.weights[name] - target)
        return float(np.abs(errors).mean())

    def _step(self, name: str, gradient: NDArray[Any]) -> None:
        mean = 0.9 * self._means[name] + 0.1 * gradient
        square = 0.999 * self._squares[name] + 0.001 * gradient**2
        self._means[name], self._squares[name] = mean, square
        mean = mean / (1 - 0.9**self.updates)
        square = square / (1 - 0.999**self.updates)
        self.weights[name] = self.weights[name] - RATE * mean / (np.sqrt(square) + 1e-8)

    def _parts(self) -> list[tuple[str, Weights]]:
        return [
            ("weights", self.weights),
            ("target", self.target),
            ("means", self._means),
            ("squares", self._squares),
        ]


def default_spool(options: argparse.Namespace) -> Path:
    """Return a folder for this worker, run and server: a spool belongs to one run."""
    whose = zlib.crc32(f"{options.url} {options.run}".encode())
    return Path(tempfile.gettempdir()) / f"dqn-{options.name}-{whose:08x}"


def work(options: argparse.Namespace) -> None:
    """Play episodes with the newest weights until the program is ended."""
    with RolloutWorker(
        options.url,
        options.run,
        worker=options.name,
        env=gymnasium.make("CartPole-v1"),
        policy=policy,
        spool=options.spool or default_spool(options),
        token=options.token,
        seed=options.seed,
        # Little, so that a worker waits for a slower trainer instead of going on with
        # old weights.
        part_steps=50,
        spool_bytes=8 * 1024,
        flush_timeout=2.0,
    ) as worker:
        worker.run()


def train(options: argparse.Namespace) -> bool:
    """Train until a version is good enough, and return whether one is."""
    replay = Replay(CAPACITY, seed=options.seed)
    learner = Learner(options.seed)
    history: list[Point] = []
    with (
        Trainer(
            options.url, options.run, token=options.token, replay=replay
        ) as trainer,
        RelayCalls(options.url, options.run, token=options.token) as calls,
    ):
        for point in versions(trainer, calls, replay, learner):
            history.append(point)
            print(point, flush=True)
            if point.mean_return >= ENOUGH or point.updates >= options.updates:
                break
    if options.plot:
        plot(history, options.plot)
    return history[-1].mean_return >= ENOUGH


def versions(
    trainer: Trainer, calls: RelayCalls, replay: Replay, learner: Learner
) -> Iterator[Point]:
    """Learn from the batches of the run, and yield each version that is published."""
    state = trainer.resume()
    if state is not None:
        learner.restore(state)
    trainer.publish(learner.published(), state=learner.state())
    lags: list[int] = []
    for batch in trainer:
        replay.add(batch)
        lags.append(batch.lag)
        while replay.ready(DRAWN):
            error = learner.update(replay.draw(DRAWN))
            if learner.updates % PUBLISHED:
                continue
            version = trainer.publish(learner.published(), state=learner.state())
            trainer.record(learner.updates, error=error)
            mean = evaluate(calls, version, learner.weights)
            yield Point(learner.updates, mean, float(np.mean(lags or [0])))
            lags.clear()


class Point(NamedTuple):
    """A version's evaluation, and how old the samples since the previous one were."""

    updates: int
    mean_return: float
    mean_lag: float

    def __str__(self) -> str:
        return (
            f"{self.updates} updates: mean return {self.mean_return:.1f} of "
            f"{EVALUATIONS} evaluations, mean lag {self.mean_lag:.1f} versions"
        )


def evaluate(calls: RelayCalls, version: int, weights: Weights) -> float:
    """Play without exploration, record the episodes, and return their mean return."""
    env = gymnasium.make("CartPole-v1")
    greedy = {**weights, "exploration": np.array(0.0)}
    played = play_weights(env, policy, greedy, episodes=EVALUATIONS)
    calls.put_records(
        {
            "type": "episode",
            "mode": "evaluation",
            "return": each.value,
            "length": each.length,
            "version": version,
        }
        for each in played
    )
    return float(np.mean([each.value for each in played]))


def plot(history: list[Point], path: str) -> None:
    """Draw the mean return and the mean lag over the updates."""
    from matplotlib.figure import Figure

    updates, returns, lags = zip(*history, strict=True)
    figure = Figure(figsize=(7, 4), layout="constrained")
    left = figure.add_subplot(xlabel="updates", ylabel="mean return of 20 evaluations")
    left.plot(updates, returns, "o-", color="tab:blue", label="return")
    left.axhline(ENOUGH, color="tab:gray", linestyle=":")
    right = left.twinx()
    right.set_ylabel("mean lag in versions")
    right.plot(updates, lags, "s--", color="tab:orange", label="lag")
    figure.legend(loc="outside upper center", ncols=2)
    figure.savefig(path)


def main() -> int:
    """Run the program that the command line names, and return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    programs = parser.add_subparsers(dest="program", required=True)
    for name in ("create", "worker", "trainer"):
        program = programs.add_parser(name)
        if name == "worker":
            program.add_argument("name")
            program.add_argument("--spool", help="folder of unsent episodes")
        program.add_argument("url", nargs="?", default="http://127.0.0.1:5000")
        program.add_argument("--run", default=RUN)
        program.add_argument("--token")
        program.add_argument("--seed", type=int, default=1)
        if name == "trainer":
            program.add_argument("--updates", type=int, default=20_000)
            program.add_argument("--plot", help="file for a plot of return and lag")
    options = parser.parse_args()
    if options.program == "trainer":
        return 0 if train(options) else 1
    if options.program == "worker":
        work(options)
        return 0
    with RelayCalls(options.url, options.run, token=options.token) as calls:
        for role, token in (calls.create(limits=LIMITS)["tokens"] or {}).items():
            print(f"{role}: {token}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
