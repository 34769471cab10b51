"""`RemoteVecEnv` and the examples with the real Stable-Baselines3: ``make sb3``.

Not part of ``make test``, since PyTorch is large.
"""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import (
    DummyVecEnv,
    VecFrameStack,
    VecMonitor,
    VecNormalize,
)

from gym_http_client.sb3 import RemoteVecEnv
from tests.support.server import ROOT, Server

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

COUNT = 4
# One of each kind of observation, with random numbers in resets and in steps.
ENV_IDS = (
    "CartPole-v1",
    "FrozenLake-v1",
    "Pendulum-v1",
    "LunarLander-v3",
    "Blackjack-v1",
)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


def local(env_id: str, **options: Any) -> DummyVecEnv:
    """Make the local counterpart."""
    return DummyVecEnv([lambda: gymnasium.make(env_id, **options)] * COUNT)


def assert_same(one: Any, other: Any) -> None:
    """Compare observations or infos, with their dtypes."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        # Gymnasium's vectors put the numbers of a key into one array: the 1 of a reset
        # makes that of FrozenLake an array of integers, without the thirds of steps.
        for name in one.keys() - {"prob"}:
            assert_same(one[name], other[name])
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for each, counterpart in zip(one, other, strict=True):
            assert_same(each, counterpart)
    else:
        np.testing.assert_array_equal(one, other)
        if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
            assert one.dtype == other.dtype


@pytest.mark.parametrize("env_id", ENV_IDS)
def test_it_returns_what_dummy_vec_env_returns(server: Server, env_id: str) -> None:
    options = {"max_episode_steps": 20}
    ours, theirs = (
        RemoteVecEnv(server.url, env_id, COUNT, **options),
        local(env_id, **options),
    )
    ours.action_space.seed(1)
    ours.seed(5)
    theirs.seed(5)
    assert_same(ours.reset(), theirs.reset())
    assert_same(ours.reset_infos, theirs.reset_infos)
    for _ in range(60):
        actions = np.array([ours.action_space.sample() for _ in range(COUNT)])
        for each, counterpart in zip(
            ours.step(actions), theirs.step(actions), strict=True
        ):
            assert_same(each, counterpart)
        assert_same(ours.reset_infos, theirs.reset_infos)
    ours.close()
    theirs.close()


def test_attributes_methods_and_pictures(server: Server) -> None:
    options = {"render_mode": "rgb_array"}
    ours = RemoteVecEnv(server.url, "CartPole-v1", COUNT, **options)
    theirs = local("CartPole-v1", **options)
    for each in (ours, theirs):
        each.seed(1)
        each.reset()
        assert each.get_attr("gravity", [0, 2]) == [9.8, 9.8]
        assert each.env_method("has_wrapper_attr", "gravity", indices=1) == [True]
        assert each.env_is_wrapped(Monitor) == [False] * COUNT
        assert each.has_attr("gravity")
        assert not each.has_attr("no_such_attribute")
    assert ours.render_mode == "rgb_array"
    np.testing.assert_array_equal(ours.render(), theirs.render())
    ours.set_attr("gravity", 1.62, [3])
    assert ours.get_attr("gravity") == [9.8, 9.8, 9.8, 1.62]
    ours.close()
    theirs.close()


def test_wrappers_of_sb3_go_around_it(server: Server) -> None:
    env = VecFrameStack(
        VecNormalize(VecMonitor(RemoteVecEnv(server.url, "CartPole-v1", COUNT))), 3
    )
    observations = env.reset()
    assert observations.shape == (COUNT, 12)
    returns = []
    for _ in range(60):
        _, _, _, infos = env.step(np.ones(COUNT, int))
        returns += [info["episode"]["r"] for info in infos if "episode" in info]
    assert len(returns) > COUNT
    env.close()


def test_ppo_learns_the_same_weights(server: Server) -> None:
    torch.set_num_threads(1)
    weights = []
    for env in (RemoteVecEnv(server.url, "CartPole-v1", COUNT), local("CartPole-v1")):
        agent = PPO("MlpPolicy", env, n_steps=64, seed=3, device="cpu")
        agent.learn(1024)
        weights.append(agent.policy.state_dict())
        env.close()
    ours, theirs = weights
    assert ours.keys() == theirs.keys()
    for name in ours:
        assert torch.equal(ours[name], theirs[name]), name


def test_the_readme_line_trains(server: Server) -> None:
    agent = PPO(
        "MlpPolicy", RemoteVecEnv(server.url, "CartPole-v1", num_envs=16), n_steps=64
    )
    agent.learn(2048)
    agent.get_env().close()
    evaluated = make_vec_env("CartPole-v1", 2)
    mean, _ = evaluate_policy(agent, evaluated, n_eval_episodes=2)
    assert mean > 0


def run(server: Server, folder: Path, *words: str, **variables: str) -> str:
    """Run an example and return what it prints."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / words[0]), *words[1:], server.url],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    return done.stdout


def test_first_agent(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It learns, shows its progress, and opens what it drew; the time is a note."""
    browser = tmp_path / "browser"
    browser.write_text('#!/bin/sh\necho "$1" >> "$0.log"\n')
    browser.chmod(0o700)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    began = time.monotonic()
    printed = run(server, tmp_path, "first_agent.py", BROWSER=str(browser))
    with capsys.disabled():
        print(f"\nfirst_agent.py: {time.monotonic() - began:.0f} s")
    assert re.search(r" 2,048 of 50,000 steps  return +\d\d ", printed)
    # A random agent gets about 22.
    assert float(re.findall(r"return of 20 episodes: (\S+)", printed)[0]) > 400
    folder = tmp_path / "first-agent"
    page = folder / "index.html"
    assert (tmp_path / "browser.log").read_text() == f"{page.as_uri()}\n"
    shown = set(re.findall(r'src="(.+?)"', page.read_text()))
    assert shown == {"curve.png", "film.gif"}
    found = {path.name for path in folder.iterdir()}
    assert found - shown == {"agent.zip", "monitor.csv", "index.html", ".gitignore"}
    assert '"env_id": "CartPole-v1"' in (folder / "monitor.csv").read_text()
    words = ["git", "status", "--porcelain", "--untracked-files=all"]
    seen = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True).stdout
    assert "first-agent" not in seen


def test_ppo_in_one_file_learns(server: Server, tmp_path: Path) -> None:
    printed = run(server, tmp_path, "ppo.py", "--steps", "61440")
    # A random agent gets about 22.
    assert float(printed.rsplit(" ", 1)[1]) > 60


def test_check_env(server: Server, tmp_path: Path) -> None:
    assert "differently" not in run(server, tmp_path, "sb3_check_env.py")


def test_single_environments_learn_the_same_weights(
    server: Server, tmp_path: Path
) -> None:
    assert "the same bits" in run(server, tmp_path, "sb3_ppo.py", "--steps", "1024")


def test_the_notebook(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook = json.loads((ROOT / "examples" / "first_agent.ipynb").read_text())
    cells = [
        "".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"
    ]
    program = "\n\n".join(cells).replace("http://127.0.0.1:5000", server.url)
    program = program.replace("50_000", "4096").replace(
        "from IPython.display import Image as Film", "Film = len"
    )
    assert server.url in program
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={"MPLBACKEND": "agg", "PATH": "/usr/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "return: " in done.stdout
