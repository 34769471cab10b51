"""Balances a pendulum in real time: an agent that answers updates, beside its clock.

pip install ./clients/python
python pendulum.py --hz 50 http://127.0.0.1:5000
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from numpy.typing import NDArray

from gym_http_client import RealTimeEnv

EPISODE_STEPS = 200


def torque(observation: NDArray[np.float32]) -> NDArray[np.float32]:
    """Swing the rod up by its energy, and hold it upright."""
    cosine, sine, velocity = map(float, observation)
    angle = math.atan2(sine, cosine)
    energy = velocity**2 / 2 + 15.0 * (cosine - 1.0)
    wanted = -math.copysign(2.0, velocity * energy)
    if abs(angle) < 0.5:
        wanted = -12.0 * angle - 3.0 * velocity
    return np.clip(np.array([wanted], np.float32), -2.0, 2.0)


def play(url: str, hz: float) -> None:
    """Play one episode, and print what the clock has counted."""
    clock = {"mode": "free_running", "hz": hz}
    with RealTimeEnv(url, "Pendulum-v1", clock, max_episode_steps=EPISODE_STEPS) as env:
        env.reset(seed=1)
        total = 0.0
        for observation, reward, _, truncated, _ in env.updates():
            total += float(reward)
            if truncated:
                break
            env.act(torque(observation), valid_s=0.5)
        told = env.timing()
    print(f"return {total:.1f}")
    actions, lateness = told["actions"], told["lateness_ns"]
    print(f"{told['ticks']} ticks, {told['skipped']} skipped")
    print(f"{actions['applied']} of {actions['received']} actions applied")
    print(f"late by {lateness['p50'] / 1e6:.3f} ms (median)")
    print(f"reacted in {told['reaction_ns']['p50'] / 1e6:.3f} ms (median)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--hz", type=float, default=50.0)
    given = parser.parse_args()
    play(given.url, given.hz)
