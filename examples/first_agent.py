"""Trains PPO of Stable-Baselines3 on CartPole, evaluates it, draws a curve and a film.

pip install stable-baselines3 matplotlib ./clients/python
python first_agent.py --steps 50000 http://127.0.0.1:5000
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from PIL import Image
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.results_plotter import load_results
from stable_baselines3.common.vec_env import VecMonitor

from gym_http_client import RemoteEnv
from gym_http_client.sb3 import RemoteVecEnv

ENV_ID = "CartPole-v1"


def train(url: str, steps: int, folder: Path) -> PPO:
    """Train on 16 environments at once, and write each episode's return to a file."""
    env = VecMonitor(
        RemoteVecEnv(url, ENV_ID, num_envs=16), str(folder / "monitor.csv")
    )
    agent = PPO("MlpPolicy", env, n_steps=128, seed=1, device="cpu")
    agent.learn(steps)
    env.close()
    return agent


def draw_curve(folder: Path) -> None:
    """Draw the returns of the training's episodes, averaged over 50."""
    episodes = load_results(str(folder))
    plt.figure(figsize=(6, 3.5))
    plt.plot(episodes["l"].cumsum(), episodes["r"].rolling(50, min_periods=1).mean())
    plt.xlabel("steps")
    plt.ylabel("return, mean of 50 episodes")
    plt.tight_layout()
    plt.savefig(folder / "curve.png")


def film(agent: PPO, url: str, path: Path) -> float:
    """Play one episode, write it as a GIF file, and return its return."""
    frames: list[Any] = []
    total, over = 0.0, False
    with RemoteEnv(url, ENV_ID, render_mode="rgb_array") as env:
        observation, _ = env.reset(seed=3)
        while not over:
            frames.append(Image.fromarray(env.render()))
            action, _ = agent.predict(observation, deterministic=True)
            observation, reward, terminated, truncated, _ = env.step(int(action))
            total, over = total + float(reward), terminated or truncated
    frames[0].save(path, save_all=True, append_images=frames[1::2], duration=40, loop=0)
    return total


def main() -> None:
    """Train, evaluate, draw, film."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="the server's")
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--folder", type=Path, default=Path("first-agent"))
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)

    agent = train(given.url, given.steps, given.folder)
    agent.save(given.folder / "agent.zip")
    evaluated = VecMonitor(RemoteVecEnv(given.url, ENV_ID, num_envs=5))
    mean, deviation = evaluate_policy(agent, evaluated, n_eval_episodes=20)
    evaluated.close()
    print(f"return of 20 episodes: {mean:.1f} ± {deviation:.1f}")
    draw_curve(given.folder)
    total = film(agent, given.url, given.folder / "film.gif")
    print(f"filmed an episode with a return of {total:.0f}: {given.folder}/film.gif")


if __name__ == "__main__":
    main()
