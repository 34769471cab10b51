"""Learns on a ring at 500 Hz, with and without the last action in the observation.

::

    python examples/realtime/learn.py [--url URL] [--steps N] [--plot FILE]

In real time, an action is in force only after the next observation was captured. So an
agent that sees the place alone does not know where it is going. With its last action
in the observation, the same agent learns to stay at the goal.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Hashable
from pathlib import Path

import numpy as np

from gym_http_client import RealTimeEnv
from gym_http_client.myrtle.agents import QTable
from gym_http_client.own_server import own_server

HERE = Path(__file__).resolve().parent
HZ = 500
STAY = 1


def learn(url: str, steps: int, seed: int, *, history: bool) -> list[float]:
    """Learn in one episode, and return the rewards of its steps.

    Args:
        url: The server.
        steps: Number of time steps.
        seed: Seed of the agent.
        history: Whether observations have the last action.
    """
    clock = {
        "mode": "elastic",
        "hz": HZ,
        "default_action": STAY,
        "history": {"length": 1, "in_observation": history},
    }
    random = np.random.default_rng(seed)
    table = QTable(3, random, epsilon=0.1, rate=0.5, discount=0.9)
    env = RealTimeEnv(url, "Ring-v0", realtime=clock)
    try:
        observation, _ = env.reset(seed=seed)
        reward, rewards = 0.0, []
        for _ in range(steps):
            action = table.step(state_of(observation), reward)
            observation, reward, _, _, _ = env.step(action)
            rewards.append(reward)
        told = env.timing()
        print(f"  {told['timeouts']} of {steps} time steps began too late")
    finally:
        env.close()
    return rewards


def state_of(observation: object) -> Hashable:
    """Return an observation as integers."""
    return tuple(int(each) for each in np.ravel(observation))


def main() -> None:
    """Learn twice, and compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--url", help="a server with --import examples/realtime/ring.py"
    )
    parser.add_argument("--steps", type=int, default=2500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plot", type=Path, metavar="FILE")
    options = parser.parse_args()
    curves = {}
    with contextlib.ExitStack() as stack:
        url = options.url
        if url is None:
            ring = str(HERE / "ring.py")
            url = stack.enter_context(own_server("--import", ring))
        for label, history in (("with", True), ("without", False)):
            print(f"{label} the last action:")
            rewards = learn(url, options.steps, options.seed, history=history)
            curves[f"{label} the last action"] = rewards
            print(f"  mean reward {np.mean(rewards):.2f}", flush=True)
    with_action, without = (float(np.mean(each)) for each in curves.values())
    print(f"{with_action / max(without, 1e-9):.1f} times as much")
    if options.plot is not None:
        # Imported late: it needs Matplotlib.
        from gym_http_client.myrtle.plot import draw_curves

        draw_curves(curves, options.plot, title=f"A ring of ten places at {HZ} Hz")
        print(f"drawn in {options.plot}")


if __name__ == "__main__":
    main()
