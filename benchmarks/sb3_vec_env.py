"""``python -m benchmarks.sb3_vec_env``: compares `RemoteVecEnv` with ``DummyVecEnv``.

It takes random actions, in alternating rounds. It needs Stable-Baselines3: see
``make sb3``.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import gymnasium
import numpy as np
from stable_baselines3.common.vec_env import DummyVecEnv

from benchmarks.pinning import available
from benchmarks.servers import our_server
from gym_http_client.sb3 import RemoteVecEnv


def pace(env: Any, count: int, seconds: float) -> float:
    """Return the steps per second of an environment."""
    actions = np.random.default_rng(0).integers(2, size=(64, count))
    began, taken = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        for row in actions:
            env.step(row)
        taken += len(actions) * count
    return taken / (time.perf_counter() - began)


def main() -> None:
    """Measure, and print medians and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--num-envs", type=int, default=16)
    given = parser.parse_args()
    env_id, count = "CartPole-v1", given.num_envs
    with our_server(available()) as server:
        remote = RemoteVecEnv(server.url, env_id, count)
        local = DummyVecEnv([lambda: gymnasium.make(env_id)] * count)
        found: dict[str, list[float]] = {"RemoteVecEnv": [], "DummyVecEnv": []}
        for env in (remote, local):
            env.reset()
        for _ in range(given.rounds):
            found["RemoteVecEnv"].append(pace(remote, count, given.seconds))
            found["DummyVecEnv"].append(pace(local, count, given.seconds))
        remote.close()
    medians = {name: statistics.median(paces) for name, paces in found.items()}
    for name, median in medians.items():
        print(f"{name:<14}{median:>10,.0f} steps/s")
    ratio = medians["RemoteVecEnv"] / medians["DummyVecEnv"]
    print(f"{env_id}, {count} environments: {ratio:.2f} of the local speed")


if __name__ == "__main__":
    main()
