"""Trains an agent on many CartPoles, remotely and locally, and compares the weights.

python vector_training.py --num-envs 64 http://127.0.0.1:5000

The agent is linear and learns by the cross-entropy method. Each environment plays an
episode with a different candidate. The best candidates are kept, and the next ones are
drawn around them. Only Gymnasium and NumPy are needed.

The exit status is 1 if the agent has not learned enough, or if a single bit differs.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from gym_http_client import RemoteVectorEnv

ENV_ID = "CartPole-v1"
# The return from which Gymnasium considers CartPole-v1 solved.
ENOUGH = 475.0
ELITE = 0.2
# Keeps candidates different when the best ones are almost equal.
LEAST_SPREAD = 0.02

Floats = NDArray[np.float64]


class Learned(NamedTuple):
    """The result of a training.

    Attributes:
        weights: The agent's weights, float64 (4,): one for each number of an
            observation.
        returns: Mean return of each generation's candidates; the last one is of the
            agent.
        steps: Steps of all environments together.
    """

    weights: Floats
    returns: list[float]
    steps: int


def play(
    env: VectorEnv[Any, Any, Any], weights: Floats, seed: int
) -> tuple[Floats, int]:
    """Play an episode in each environment.

    Args:
        env: The environments.
        weights: Weights of each environment's agent, float64 (num_envs, 4).
        seed: Seed of the first environment; the next ones get the following integers.

    Returns:
        The return of each, float64 (num_envs,), and the number of steps together.
    """
    observations, _ = env.reset(seed=seed)
    returns = np.zeros(env.num_envs)
    alive = np.ones(env.num_envs, np.bool_)
    steps = 0
    while alive.any():
        scores = (weights * observations).sum(1)
        observations, rewards, terminated, truncated, _ = env.step(
            (scores > 0).astype(np.int64)
        )
        returns += rewards * alive
        # The vector continues with the next episode, which does not count here.
        alive &= ~(terminated | truncated)
        steps += env.num_envs
    return returns, steps


def train(env: VectorEnv[Any, Any, Any], generations: int, seed: int) -> Learned:
    """Improve the candidates over generations, and evaluate the resulting agent.

    Args:
        env: The environments, one for each candidate.
        generations: Number of generations.
        seed: Seed of the environments and of the candidates.
    """
    generator = np.random.default_rng(seed)
    size = len(env.single_observation_space.sample())
    mean, spread = np.zeros(size), np.ones(size)
    kept = max(1, round(env.num_envs * ELITE))
    returns: list[float] = []
    steps = 0
    for number in range(generations + 1):
        if number == generations:
            candidates = np.tile(mean, (env.num_envs, 1))
        else:
            candidates = generator.normal(mean, spread, (env.num_envs, size))
        got, taken = play(env, candidates, seed + number * env.num_envs)
        returns.append(float(got.mean()))
        steps += taken
        best = candidates[np.argsort(-got, kind="stable")[:kept]]
        mean, spread = best.mean(0), best.std(0) + LEAST_SPREAD
    return Learned(mean, returns, steps)


def trained(where: str, env: VectorEnv[Any, Any, Any], options: Any) -> Learned:
    """Train, print the results, and close the environments."""
    began = time.monotonic()
    try:
        learned = train(env, options.generations, options.seed)
    finally:
        env.close()
    seconds = time.monotonic() - began
    print(
        f"{where} {learned.steps} steps in {seconds:.1f} s, "
        f"mean return {learned.returns[0]:.1f} to {learned.returns[-1]:.1f}",
        flush=True,
    )
    return learned


def main() -> int:
    """Train, compare, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("url", nargs="?", default="http://127.0.0.1:5000")
    parser.add_argument("--num-envs", type=int, default=64)
    parser.add_argument("--generations", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    made = {"num_envs": options.num_envs, "vectorization_mode": "sync"}
    remote = trained("remotely:", RemoteVectorEnv(options.url, ENV_ID, **made), options)
    local = trained("locally: ", gymnasium.make_vec(ENV_ID, **made), options)

    same = (
        remote.weights.tobytes() == local.weights.tobytes()
        and remote.returns == local.returns
    )
    enough = remote.returns[-1] >= ENOUGH
    print("learned" if enough else f"not learned: expected a return of {ENOUGH:g}")
    what = f"{local.weights.size} weights and {len(local.returns)} returns"
    print(f"{what}: {'the same bits' if same else 'they differ'}")
    return 0 if same and enough else 1


if __name__ == "__main__":
    sys.exit(main())
