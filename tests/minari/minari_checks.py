"""Exported datasets equal those of `minari.DataCollector`: ``make minari``.

Not part of ``make test``, since Minari collects with JAX, which is large.
"""

import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ale_py
import gymnasium
import minari
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from gym_http_client import RemoteEnv, RemoteVectorEnv
from tests.support.api import Api, Instance, no_content, ok
from tests.support.drivers import Program
from tests.support.reference_runs import ReferenceRun
from tests.support.server import Server

pytestmark = [
    pytest.mark.live,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore:.* is set to None"),
    # Of the folders of collectors.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

gymnasium.register_envs(ale_py)
ENV_IDS = (
    "CartPole-v1",
    "Acrobot-v1",
    "Pendulum-v1",
    "MountainCarContinuous-v0",
    "FrozenLake-v1",
    "Taxi-v4",
    "CliffWalking-v1",
    "Blackjack-v1",
    "LunarLander-v3",
    "ALE/Breakout-v5",
)
SEEDS = (3, 4, 5)
STEPS = 40
TRANSPORTS = "rest", "stream"


def _itself(env: minari.DataCollector) -> minari.DataCollector:
    return env


class Unseeded(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Drops the seeds that `DataCollector` makes up for resets without one."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        small = seed if seed is not None and seed < 1000 else None
        return self.env.reset(seed=small, options=options)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as running:
        yield running


@pytest.fixture(autouse=True)
def datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set and return the folder where Minari keeps datasets."""
    folder = tmp_path / "datasets"
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(folder))
    return folder


def export(server: Server, directory: str) -> minari.MinariDataset:
    """Export a recording by the command; return the dataset."""
    source = str(server.data_dir / directory)
    words = ["export", "minari", source, "--id", "exported-v0"]
    subprocess.run(
        [sys.executable, "-m", "gym_http_server", *words],
        check=True,
        env=dict(os.environ),
        timeout=120,
    )
    return minari.load_dataset("exported-v0")


def actions_of(env_id: str, seed: int) -> list[Any]:
    env = gymnasium.make(env_id)
    env.action_space.seed(seed)
    actions = [env.action_space.sample() for _ in range(STEPS)]
    env.close()
    return actions


def same(one: Any, other: Any) -> None:
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        pairs = [(one[key], other[key]) for key in one]
    elif isinstance(one, tuple):
        pairs = list(zip(one, other, strict=True))
    else:
        assert np.asarray(one).dtype == np.asarray(other).dtype
        assert np.array_equal(one, other)
        return
    for pair in pairs:
        same(*pair)


def same_episodes(one: Any, other: Any) -> None:
    for name in ("observations", "actions", "rewards", "terminations", "truncations"):
        same(getattr(one, name), getattr(other, name))


def over_http(server: Server, made: Instance, env_id: str) -> None:
    """Step by JSON, one step a request and many."""
    for seed in SEEDS:
        actions = [np.asarray(each).tolist() for each in actions_of(env_id, seed)]
        made.reset(seed=seed)
        for number, action in enumerate(actions):
            if number == STEPS // 2:
                ok(made.post("step/", {"actions": actions[number:]}))
                break
            if made.step(action)["done"]:
                break


def over_a_stream(server: Server, made: Instance, env_id: str) -> None:
    env = RemoteEnv.attach(server.url, made.id)
    play(env, env_id)
    env.close()


def over_curl(server: Server, made: Instance, env_id: str) -> None:
    """Send each request by the command curl."""

    def post(rest: str, body: dict[str, Any]) -> Any:
        words = ["curl", "--silent", "--fail", "--json", json.dumps(body)]
        said = subprocess.check_output([*words, server.url + made.path(rest)])
        return json.loads(said)

    for seed in SEEDS:
        post("reset/", {"seed": seed})
        for action in actions_of(env_id, seed):
            if post("step/", {"action": np.asarray(action).tolist()})["done"]:
                break


def play(env: Any, env_id: str) -> None:
    for seed in SEEDS:
        env.reset(seed=seed)
        for action in actions_of(env_id, seed):
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                break


@pytest.mark.parametrize("drive", [over_http, over_a_stream, over_curl])
@pytest.mark.parametrize("env_id", ENV_IDS)
def test_a_dataset_equals_that_of_the_collector(
    server: Server, env_id: str, drive: Callable[..., None]
) -> None:
    directory = f"{drive.__name__}/{env_id}"
    made = Api(server).create(env_id)
    no_content(made.post("monitor/start/", {"directory": directory, "steps": True}))
    drive(server, made, env_id)
    if made.id in Api(server).instances():
        made.close()
    found = export(server, directory)
    collector = minari.DataCollector(gymnasium.make(env_id), jpeg_encoding=False)
    play(collector, env_id)
    same_datasets(found, collector.create_dataset("collected-v0"))
    seeds = [each["seed"] for each in found.storage.get_episode_metadata(range(3))]
    assert seeds == list(SEEDS)
    collector.close()


def same_datasets(found: minari.MinariDataset, wanted: minari.MinariDataset) -> None:
    assert found.total_steps == wanted.total_steps
    assert found.observation_space == wanted.observation_space
    assert found.action_space == wanted.action_space
    assert found.env_spec.id == wanted.env_spec.id
    pairs = zip(found.iterate_episodes(), wanted.iterate_episodes(), strict=True)
    for one, other in pairs:
        same_episodes(one, other)


@pytest.mark.parametrize("name", ["lua5.4", "luajit", "cpp", "js"])
@pytest.mark.parametrize("env_id", ENV_IDS)
def test_other_clients_record_what_the_collector_does(
    server: Server,
    env_id: str,
    name: str,
    driver: Callable[[str], Program],
    tmp_path: Path,
) -> None:
    walked = ReferenceRun(env_id, SEEDS[0], 3 * STEPS)
    transport = TRANSPORTS[ENV_IDS.index(env_id) % 2]
    directory = f"{name}/{env_id}"
    made = Api(server).create(env_id)
    no_content(made.post("monitor/start/", {"directory": directory, "steps": True}))
    args = walked.args(server.url, transport, tmp_path, made.id)
    walked.compare(driver(name).output(*args))
    made.close()
    env = Unseeded(gymnasium.make(env_id))
    collector = minari.DataCollector(env, jpeg_encoding=False)
    collector.action_space.seed(SEEDS[0])
    collector.reset(seed=SEEDS[0])
    for _ in range(3 * STEPS):
        *_, terminated, truncated, _ = collector.step(collector.action_space.sample())
        if terminated or truncated:
            collector.reset()
    wanted = collector.create_dataset("collected-v0")
    same_datasets(export(server, directory), wanted)
    collector.close()


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_environments_of_a_vector_equal_collectors(
    server: Server, mode: AutoresetMode
) -> None:
    count, rounds = 3, 60
    made = Api(server).create(
        "CartPole-v1",
        num_envs=count,
        vectorization_mode="sync",
        autoreset_mode=mode.name.lower(),
    )
    directory = f"vectors/{mode.name}"
    no_content(made.post("monitor/start/", {"directory": directory, "steps": True}))
    collectors = [
        minari.DataCollector(Unseeded(gymnasium.make("CartPole-v1")))
        for _ in range(count)
    ]
    local = SyncVectorEnv(
        [functools.partial(_itself, each) for each in collectors], autoreset_mode=mode
    )
    remote = RemoteVectorEnv.attach(server.url, made.id)
    for envs in (remote, local):
        over = np.zeros(count, np.bool_)
        rng = np.random.default_rng(1)
        envs.reset(seed=7)
        for _ in range(rounds):
            if mode is AutoresetMode.DISABLED and over.any():
                envs.reset(options={"reset_mask": over})
            _, _, terminated, truncated, _ = envs.step(rng.integers(0, 2, count))
            over = terminated | truncated
    remote.close()
    found = list(export(server, directory).iterate_episodes())
    assert len(found) > count
    for number, collector in enumerate(collectors):
        wanted = collector.create_dataset(f"collected-{number}-v0")
        for other in wanted.iterate_episodes():
            matches = [each for each in found if alike(each, other)]
            assert matches, (number, other)
            found.remove(matches[0])
        collector.close()
    assert not found


def alike(one: Any, other: Any) -> bool:
    try:
        same_episodes(one, other)
    except AssertionError:
        return False
    return True
