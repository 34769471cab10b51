"""Lands on the moon with a few rules, at the pace of a person who watches.

python lander.py http://127.0.0.1:5000

Open the server's page meanwhile. Only the client is needed. The rules are those of
`heuristic` in Gymnasium's module of the environment, with other numbers.
"""

from __future__ import annotations

import argparse
import time

from gym_http_client import RemoteEnv

NOTHING, LEFT, MAIN, RIGHT = range(4)


def steer(observation: list[float]) -> int:
    """Choose an engine: level off first, then slow down."""
    x, y, vx, vy, angle, spin, *legs = observation
    if any(legs):
        return MAIN if vy < -0.1 else NOTHING
    # Lean towards the pad, and against the speed.
    wanted = max(-0.4, min(0.4, 0.5 * x + vx))
    turn = 0.5 * (wanted - angle) - spin
    lift = 0.5 * (0.55 * abs(x) - y) - 0.5 * vy
    if lift > abs(turn) and lift > 0.05:
        return MAIN
    return RIGHT if turn < -0.05 else LEFT if turn > 0.05 else NOTHING


def main() -> None:
    """Land as often as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="the server's")
    parser.add_argument("--episodes", type=int, default=10)
    parser.add_argument("--hz", type=float, default=50.0, help="steps a second")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    options = {"render_mode": "rgb_array", "label": "lander.py"}
    with RemoteEnv(given.url, "LunarLander-v3", **options) as env:
        for number in range(given.episodes):
            observation, _ = env.reset(seed=given.seed + number)
            total, over, due = 0.0, False, time.monotonic()
            while not over:
                action = steer(observation.tolist())
                observation, reward, terminated, truncated, _ = env.step(action)
                total, over = total + float(reward), terminated or truncated
                due += 1 / given.hz
                time.sleep(max(0.0, due - time.monotonic()))
            print(f"landing {number + 1}: {total:6.1f}", flush=True)


if __name__ == "__main__":
    main()
