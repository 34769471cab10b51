"""``gym-http-server export`` writes recordings for Minari, as JSON and as GIFs."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import minari
import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from gym_http_client import RemoteEnv, RemoteVectorEnv, recordings
from gym_http_server.commands import cli
from tests.support.api import Api, Instance, no_content
from tests.support.server import Server

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]

TOKEN = "a-token-for-exports"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server("--token", TOKEN, token=TOKEN) as running:
        yield running


def export(*words: str, status: int = 0, **more: str) -> str:
    """Run the command here, which saves its start; return its output or complaint."""
    variables = {"GHS_TOKEN": TOKEN, **more}
    done = CliRunner().invoke(cli.main, ["export", *words], env=variables)
    assert isinstance(done.exception, SystemExit | None), done.exception
    assert done.exit_code == status, done.output
    return done.stderr if status else done.stdout


def export_apart(*words: str) -> str:
    """Run the command as users do; return its output."""
    done = subprocess.run(
        [sys.executable, "-m", "gym_http_server", "export", *words],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, "GHS_TOKEN": TOKEN},
        timeout=60,
    )
    return done.stdout


def record(server: Server, directory: str, env_id: str, **more: Any) -> Instance:
    made = Api(server).create(env_id, **more)
    monitor = {"directory": directory, "steps": True}
    no_content(made.post("monitor/start/", monitor))
    return made


def play(server: Server, made: Instance, seeds: list[int], steps: int) -> None:
    """Play episodes through the Python client, which ends the instance."""
    url = server.url.replace("//", f"//:{TOKEN}@")
    with RemoteEnv.attach(url, made.id) as env:
        for seed in seeds:
            walk(env, seed, steps)


def walk(env: Any, seed: int, steps: int) -> list[tuple[Any, ...]]:
    """Reset and step an environment; return the reset's observation, and each step."""
    env.action_space.seed(seed)
    rows = [env.reset(seed=seed)]
    for _ in range(steps):
        action = env.action_space.sample()
        rows.append((action, *env.step(action)))
        if rows[-1][3] or rows[-1][4]:
            break
    return rows


def same(one: Any, other: Any) -> None:
    """Compare what Minari returns with a list of values, dtypes included."""
    if isinstance(one, dict):
        assert one.keys() == other[0].keys()
        for key, part in one.items():
            same(part, [each[key] for each in other])
    elif isinstance(one, tuple):
        for number, part in enumerate(one):
            same(part, [each[number] for each in other])
    else:
        expected = np.asarray(other)
        assert np.array_equal(one, expected)
        assert np.asarray(one).dtype == expected.dtype


@pytest.mark.parametrize(
    "env_id", ["CartPole-v1", "Pendulum-v1", "FrozenLake-v1", "Blackjack-v1"]
)
def test_datasets_equal_local_episodes(
    server: Server, tmp_path: Path, env_id: str
) -> None:
    directory = f"minari/{env_id}"
    made = record(server, directory, env_id)
    play(server, made, [3, 4], 12)
    source = server.data_dir / directory
    path = {"MINARI_DATASETS_PATH": str(tmp_path)}
    said = export("minari", str(source), "--id", "lent/random-v0", **path)
    assert str(tmp_path) in said
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
        dataset = minari.load_dataset("lent/random-v0")
    with gymnasium.make(env_id) as env:
        assert dataset.observation_space == env.observation_space
        assert dataset.action_space == env.action_space
        assert dataset.env_spec is not None
        assert dataset.env_spec.id == env_id
        assert dataset.total_episodes == 2
        episodes = list(dataset.iterate_episodes())
        for seed, episode in zip([3, 4], episodes, strict=True):
            first, *rows = walk(env, seed, 12)
            actions, seen, rewards, ends, cuts, _ = map(list, zip(*rows, strict=True))
            same(episode.observations, [first[0], *seen])
            same(episode.actions, actions)
            same(episode.rewards, rewards)
            assert list(episode.terminations) == ends
            # Minari marks an episode that goes on as truncated.
            assert list(episode.truncations) == [*cuts[:-1], cuts[-1] or not ends[-1]]


def test_environments_of_a_vector_have_their_own_episodes(
    server: Server, tmp_path: Path
) -> None:
    made = record(server, "minari/vector", "Pendulum-v1", num_envs=2)
    url = server.url.replace("//", f"//:{TOKEN}@")
    envs = RemoteVectorEnv.attach(url, made.id)
    envs.reset(seed=5)
    for _ in range(6):
        envs.step(np.full((2, 1), 0.5, np.float32))
    envs.close()
    source = f"{server.url}/v1/recordings/minari/vector/"
    path = {"MINARI_DATASETS_PATH": str(tmp_path)}
    words = ("minari", source, "--id", "both-v0", "--infos")
    export(*words, **path)
    assert "exists already" in export(*words, status=1, **path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
        dataset = minari.load_dataset("both-v0")
    local = gymnasium.make("Pendulum-v1")
    for number, episode in enumerate(dataset.iterate_episodes()):
        rows = [local.reset(seed=5 + number)[0]]
        rows += [local.step(np.full(1, 0.5, np.float32))[0] for _ in range(6)]
        same(episode.observations, rows)
    assert dataset.total_episodes == 2
    local.close()


def test_lines_have_each_reset_and_step(server: Server, tmp_path: Path) -> None:
    made = record(server, "lines", "FrozenLake-v1")
    play(server, made, [7], 5)
    with gymnasium.make("FrozenLake-v1") as env:
        first, *rows = walk(env, 7, 5)
    source = f"{server.url}/v1/recordings/lines/"
    lines = [json.loads(each) for each in export_apart("jsonl", source).splitlines()]
    reset = {"episode": 0, "env": None, "step": 0, "seed": 7, "options": None}
    assert lines[0] == {**reset, "observation": first[0], "info": first[1]}
    for number, (line, row) in enumerate(zip(lines[1:], rows, strict=True), 1):
        action, observation, reward, terminated, truncated, info = row
        assert line == {
            "episode": 0,
            "env": None,
            "step": number,
            "action": int(action),
            "observation": observation,
            "reward": reward,
            "info": info,
            "terminated": terminated,
            "truncated": truncated,
        }
    file = tmp_path / "lines.jsonl"
    assert f"wrote {len(lines)} lines" in export("jsonl", source, str(file))
    assert [json.loads(each) for each in file.read_text().splitlines()] == lines


def test_animations_have_the_pictures(server: Server, tmp_path: Path) -> None:
    made = record(server, "pixels", "ALE/Breakout-v5")
    play(server, made, [1], 4)
    out = tmp_path / "pixels.gif"
    source = server.data_dir / "pixels"
    assert "wrote 5 pictures" in export("gif", str(source), str(out), "--fps", "10")
    with Image.open(out) as image:
        (recorded,) = recordings.read(source).episodes()
        assert image.size == (160, 210)
        shown = np.asarray(image.convert("RGB"))
        assert np.abs(shown - recorded.observations[0].astype(int)).mean() < 2
    assert "expected 0 to 0" in export(
        *("gif", str(source), str(out), "--episode", "1"), status=1
    )
    carts = Api(server).create("CartPole-v1", render_mode="rgb_array")
    video = {"directory": "film", "video": {"size": 64}}
    no_content(carts.post("monitor/start/", video))
    play(server, carts, [2], 20)
    out = tmp_path / "film.gif"
    name = "film/files/episode-000000.mp4"
    export("gif", f"{server.url}/v1/recordings/{name}", str(out))
    with Image.open(out) as image:
        assert image.format == "GIF"
        assert image.size[0] == 64


def test_complaints_name_what_is_missing(server: Server, tmp_path: Path) -> None:
    empty = ("jsonl", str(tmp_path))
    assert "has no steps.gym" in export(*empty, status=1)
    gif = export("gif", str(tmp_path), str(tmp_path / "out.gif"), status=1)
    assert "DIRECTORY/files/episode-000000.mp4" in gif
    (tmp_path / "film.mp4").touch()
    out = str(tmp_path / "absent" / "film.gif")
    nowhere = export("gif", str(tmp_path / "film.mp4"), out, status=1)
    assert f"No such file or directory: {out!r}" in nowhere
    second = ("gif", str(tmp_path / "film.mp4"), out, "--episode", "0")
    assert "--episode is 0, and" in export(*second, status=1)
    absent = export("jsonl", str(tmp_path / "taxi"), status=1)
    assert f"there is no recording '{tmp_path}/taxi' here" in absent
    assert "or the address of a recording, as http://127.0.0.1:5000/v1/rec" in absent
    unknown = ("jsonl", f"{server.url}/v1/recordings/nothing/")
    assert "nothing" in export(*unknown, status=1)
    wrong = ("jsonl", f"{server.url}/v1/recordings/lines/", "--token", "wrong")
    assert "token" in export(*wrong, status=1)
