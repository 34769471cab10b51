"""Trains PPO of Stable-Baselines3 on CartPole, evaluates it, draws a curve and a film.

pip install torch --index-url https://download.pytorch.org/whl/cpu
pip install './clients/python[sb3]' matplotlib
python first_agent.py http://127.0.0.1:5000
"""

from __future__ import annotations

import argparse
import os
import sys
import webbrowser
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from PIL import Image
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecMonitor

from gym_http_client import RemoteEnv
from gym_http_client.sb3 import RemoteVecEnv

ENV_ID = "CartPole-v1"
PAGE = """<!doctype html>
<meta charset="utf-8">
<title>Your first agent</title>
<h1>CartPole: return {mean:.0f}</h1>
<p><img src="curve.png" alt="Learning curve"> <img src="film.gif" alt="One episode">
"""


class Progress(BaseCallback):  # type: ignore[misc]
    """Prints the mean return after each rollout."""

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        returns = [episode["r"] for episode in self.model.ep_info_buffer]
        mean = float(np.mean(returns)) if returns else 0.0
        of = f"{self.num_timesteps:7,} of {self.locals['total_timesteps']:,} steps"
        print(f"{of}  return {mean:5.0f}  {'█' * int(mean / 20)}", flush=True)


def train(url: str, steps: int, folder: Path) -> PPO:
    """Train on 16 environments at once, and write each episode's return to a file."""
    env = VecMonitor(
        RemoteVecEnv(url, ENV_ID, num_envs=16), str(folder / "monitor.csv")
    )
    agent = PPO("MlpPolicy", env, n_steps=128, seed=1, device="cpu")
    agent.learn(steps, Progress())
    env.close()
    return agent


def draw_curve(folder: Path) -> None:
    """Draw the returns of the training's episodes, averaged over 50."""
    returns, lengths, _ = np.loadtxt(
        folder / "monitor.csv", delimiter=",", skiprows=2, unpack=True
    )
    plt.figure(figsize=(6, 4))
    mean = np.convolve(returns, np.ones(50) / 50, "valid")
    plt.plot(lengths.cumsum()[49:], mean)
    plt.xlabel("steps")
    plt.ylabel("return, mean of 50 episodes")
    plt.tight_layout()
    plt.savefig(folder / "curve.png")


def film(agent: PPO, url: str, path: Path) -> None:
    """Play one episode, and write it as a GIF file."""
    frames: list[Any] = []
    over = False
    with RemoteEnv(url, ENV_ID, render_mode="rgb_array") as env:
        observation, _ = env.reset(seed=3)
        while not over:
            frames.append(Image.fromarray(env.render()))
            action, _ = agent.predict(observation, deterministic=True)
            observation, _, terminated, truncated, _ = env.step(int(action))
            over = terminated or truncated
    frames[0].save(path, save_all=True, append_images=frames[1::2], duration=40, loop=0)


def show(page: Path) -> None:
    """Open the page where there is a screen; print where it is anyway."""
    print(f"the curve and a film: {page}")
    screens = {"BROWSER", "DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys()
    # Without a screen, Linux would open a browser in this terminal.
    if screens or not sys.platform.startswith("linux"):
        webbrowser.open(page.resolve().as_uri())


def main() -> None:
    """Train, evaluate, draw, film."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="the server's")
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--folder", type=Path, default=Path("first-agent"))
    given = parser.parse_args()
    folder: Path = given.folder
    folder.mkdir(parents=True, exist_ok=True)
    # Git does not list what is made here.
    (folder / ".gitignore").write_text("*\n")
    # The network is small: more threads would only wait for each other.
    torch.set_num_threads(1)

    agent = train(given.url, given.steps, folder)
    agent.save(folder / "agent.zip")
    evaluated = VecMonitor(RemoteVecEnv(given.url, ENV_ID, num_envs=5))
    mean, deviation = evaluate_policy(agent, evaluated, n_eval_episodes=20)
    evaluated.close()
    print(f"return of 20 episodes: {mean:.1f} ± {deviation:.1f}")
    draw_curve(folder)
    film(agent, given.url, folder / "film.gif")
    (folder / "index.html").write_text(PAGE.format(mean=mean), encoding="utf-8")
    show(folder / "index.html")


if __name__ == "__main__":
    main()
