"""Trains SAC on Pendulum in real time: the pendulum does not wait while SAC learns.

::

    python examples/realtime/sac.py [--url URL] [--steps N] [--without-history]

It needs Stable-Baselines3. The world takes 20 time steps a second, and in each of them
SAC acts and learns once, so 5000 steps take about four minutes.
"""

from __future__ import annotations

import argparse
import contextlib

import gymnasium
import numpy as np
import torch
from stable_baselines3 import SAC
from stable_baselines3.common.callbacks import BaseCallback

from gym_http_client import RealTimeEnv
from gym_http_client.own_server import own_server

HZ = 20
EPISODE = 200


class PrintReturns(BaseCallback):
    """Prints the return of each episode, and collects them."""

    def __init__(self) -> None:
        super().__init__()
        self.returns: list[float] = []

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if "episode" in info:
                self.returns.append(info["episode"]["r"])
                count = len(self.returns)
                print(f"  episode {count}: return {self.returns[-1]:.0f}", flush=True)
        return True


def main() -> None:
    """Train, and print the returns."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--url", help="a server; by default one of its own")
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--without-history",
        action="store_true",
        help="leave the last action out of observations",
    )
    options = parser.parse_args()
    # More threads would take the processor from the world.
    torch.set_num_threads(1)
    history = {"length": 1, "in_observation": not options.without_history}
    clock = {"mode": "elastic", "hz": HZ, "history": history}
    with contextlib.ExitStack() as stack:
        url = options.url or stack.enter_context(own_server())
        world = RealTimeEnv(
            url, "Pendulum-v1", realtime=clock, max_episode_steps=EPISODE
        )
        stack.callback(world.close)
        env = gymnasium.wrappers.FlattenObservation(world)
        agent = SAC("MlpPolicy", env, learning_starts=400, seed=options.seed)
        printing = PrintReturns()
        agent.learn(options.steps, callback=printing)
        timing = world.timing()
    first, last = (
        np.mean(each) for each in (printing.returns[:2], printing.returns[-5:])
    )
    print(f"mean return {first:.0f} at first, {last:.0f} at last")
    print(f"{timing['timeouts']} of {timing['ticks']} time steps began too late")


if __name__ == "__main__":
    main()
