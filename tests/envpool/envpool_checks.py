"""Environments of the real EnvPool equal a local pool: ``make envpool``.

Not part of ``make test``, since EnvPool needs 800 MiB. There, a stand-in takes its
place (`tests/live/test_envpool.py`), whose habits are compared here.
"""

import importlib
import importlib.util
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.support import api as calls
from tests.support.api import Api
from tests.support.drivers import CLIENTS, needs
from tests.support.pools import compare_single, compare_vectors
from tests.support.server import ROOT, Server

if importlib.util.find_spec("envpool") is None:
    raise SystemExit("EnvPool is not installed: run these checks with make envpool")

pytestmark = [
    pytest.mark.live,
    pytest.mark.timeout(600),
    # EnvPool's bounds are float64.
    pytest.mark.filterwarnings("ignore:.*precision lowered by casting"),
]

# A few of each family: of actions, observations and infos there is each kind.
TASKS = (
    "CartPole-v1",
    "Pendulum-v1",
    "phys2d/CartPole-v0",
    "FrozenLake-v1",
    "Blackjack-v1",
    "Pong-v5",
    "Breakout-v5",
    "HalfCheetah-v4",
    "Humanoid-v5",
    "CartpoleBalance-v1",
    "LunarLander-v3",
    "CarRacing-v3",
    "MiniGrid-Empty-5x5-v0",
    "Highway-v0",
    "BinPack-v2",
    "FetchReach-v4",
    "Play2048-v1",
)
SHORT = {"CartPole-v1", "FrozenLake-v1", "Blackjack-v1", "LunarLander-v3"}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as started:
        yield started


@pytest.fixture(scope="module")
def envpool() -> ModuleType:
    return importlib.import_module("envpool")


@pytest.mark.parametrize("task_id", TASKS)
def test_a_vector_is_a_pool_to_the_bit(
    envpool: ModuleType, server: Server, task_id: str
) -> None:
    ended = compare_vectors(envpool, server.url, task_id, 6, 120)
    assert ended or task_id not in SHORT


@pytest.mark.parametrize("task_id", TASKS)
def test_a_single_environment_is_a_pool_of_one(
    envpool: ModuleType, server: Server, task_id: str
) -> None:
    ended = compare_single(envpool, server.url, task_id, 120)
    assert ended or task_id not in SHORT


def test_the_registry_lists_all_and_what_is_missing(
    envpool: ModuleType, server: Server
) -> None:
    listed = calls.ok(Api(server).get("/v1/registry/"))["envs"]
    rows = {row["env_id"]: row for row in listed}
    ids = {f"envpool/{task_id}" for task_id in envpool.list_all_envs()}
    assert {env_id for env_id in rows if env_id.startswith("envpool/")} == ids
    assert rows["envpool/HalfCheetah-v4"]["available"]
    assert rows["envpool/HalfCheetah-v4"]["max_episode_steps"] == 1000
    assert "several players" in rows["envpool/Go9x9-v1"]["reason"]


def test_several_players_are_refused(server: Server) -> None:
    request = {"env_id": "envpool/Go9x9-v1", "num_envs": 2}
    answer = Api(server).post("/v1/envs/", request)
    calls.error(answer, 501, "unsupported-space")


@pytest.mark.parametrize(
    ("task_id", "wrong"),
    [
        ("MiniGrid-Empty-5x5-v0", [99, 0]),
        ("CartPole-v1", [0]),
        ("HalfCheetah-v4", [[0.0] * 6]),
    ],
)
def test_actions_that_would_abort_envpool_are_refused(
    server: Server, task_id: str, wrong: Any
) -> None:
    instance = Api(server).create(f"envpool/{task_id}", num_envs=2)
    instance.reset()
    answer = instance.post("step/", {"action": wrong})
    calls.error(answer, 400, "invalid-action")
    calls.ok(instance.get(""))
    calls.no_content(instance.close())


def test_lua_steps_ataris(server: Server) -> None:
    needs("lua5.4")
    folder = CLIENTS / "lua"
    path = {"LUA_PATH": f"{folder}/?.lua;{folder}/?/init.lua;;"}
    command = ["lua5.4", "examples/vector.lua", server.url, "envpool/Pong-v5", "16"]
    done = subprocess.run(
        [*command, "5"],
        cwd=folder,
        env=os.environ | path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout.startswith("80 steps of 16 envpool/Pong-v5"), done.stderr


HABITS = """
import sys
import numpy as np
import envpool

task_id, action = sys.argv[1], np.full(3, int(sys.argv[2]))

def pool(**given):
    return envpool.make_gymnasium(task_id, num_envs=3, **given)

def equal(one, other):
    return one.reset()[0].tobytes() == other.reset()[0].tobytes()

print("the default seed is 42", equal(pool(), pool(seed=42)))
print("seeds count up", equal(pool(seed=4), pool(seed=[4, 5, 6])))
one = pool(seed=4, max_episode_steps=2)
print("spaces are single", one.observation_space.shape == one.reset()[0].shape[1:])
some, info = one.reset(np.array([1], np.int32))
print("some are reset alone", len(some), info["env_id"].tolist())
print("infos", *list(info)[:2], list(info["players"]), info["elapsed_step"].dtype)
for _ in range(3):
    observed, rewards, terminated, truncated, info = one.step(action)
    print(info["elapsed_step"].tolist(), terminated.tolist(), truncated.tolist())
    print(rewards.dtype, terminated.dtype, truncated.dtype)
print("a reset has no reward", rewards.tolist())
"""


def test_the_stand_in_has_the_habits_of_envpool() -> None:
    printed = []
    for command, path in (
        (["CartPole-v1", "0"], {}),
        (["Walk-v1", "2"], {"PYTHONPATH": str(ROOT / "tests/support/standins")}),
    ):
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", HABITS, *command],
            env=os.environ | path,
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout)
    assert printed[0] == printed[1]
    assert "False" not in printed[0].splitlines()[0]


def test_a_pool_ends_its_threads(server: Server) -> None:
    """A second seed makes a new pool, which must not leave the first one behind."""
    instance = Api(server).create("envpool/CartPole-v1", num_envs=8)
    counts = set()
    for seed in range(4):
        instance.reset(seed=seed)
        (host,) = server.environments()
        counts.add(host.num_threads())
    assert len(counts) == 1
    calls.no_content(instance.close())


def test_the_warning_of_a_local_reset_with_a_seed(envpool: ModuleType) -> None:
    """What EnvPool ignores locally, the server does: a seed in a reset."""
    pool = envpool.make_gymnasium("CartPole-v1", num_envs=2, seed=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        first, _ = pool.reset(seed=2)
    assert any("seed" in str(each.message) for each in caught)
    again = envpool.make_gymnasium("CartPole-v1", num_envs=2, seed=1).reset()[0]
    np.testing.assert_array_equal(first, again)
