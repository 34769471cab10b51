"""EnvPool's environments, with a stand-in for EnvPool.

``make envpool`` has the real one. What is expected is what the stand-in returns when it
is called in the test's process.
"""

import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from gym_http_client import RemoteEnv, RemoteVectorEnv, ServerError
from tests.support import api as calls
from tests.support.api import Api
from tests.support.drivers import CLIENTS, needs
from tests.support.pools import (
    assert_same,
    assert_same_pools,
    compare_single,
    compare_vectors,
    without_masks,
)
from tests.support.server import ROOT, Server

STANDINS = ROOT / "tests" / "support" / "standins"
TASKS = ("Walk-v1", "area/Walk-v1", "Reach-v1")
COUNT = 5
Vector = Callable[..., RemoteVectorEnv]


@pytest.fixture(scope="module")
def envpool() -> Iterator[ModuleType]:
    """The stand-in, as a module of this process."""
    sys.path.insert(0, str(STANDINS))
    yield importlib.import_module("envpool")
    sys.path.remove(str(STANDINS))
    for name in [name for name in sys.modules if name.split(".")[0] == "envpool"]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def pools() -> Iterator[Server]:
    """A server with the stand-in."""
    with Server(python_path=(STANDINS,)) as started:
        yield started


@pytest.fixture
def vector(pools: Server) -> Iterator[Vector]:
    """Return a factory of remote vectors, closed after the test."""
    made: list[RemoteVectorEnv] = []

    def make(task_id: str = "Walk-v1", **options: Any) -> RemoteVectorEnv:
        options = {"num_envs": COUNT, **options}
        made.append(RemoteVectorEnv(pools.url, f"envpool/{task_id}", **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize("task_id", TASKS)
def test_a_vector_is_a_pool_to_the_bit(
    envpool: ModuleType, pools: Server, task_id: str
) -> None:
    assert compare_vectors(envpool, pools.url, task_id, COUNT, 60) > 0


@pytest.mark.parametrize("task_id", TASKS)
def test_a_single_environment_is_a_pool_of_one(
    envpool: ModuleType, pools: Server, task_id: str
) -> None:
    assert compare_single(envpool, pools.url, task_id, 60) > 0


def test_arguments_reach_envpool(envpool: ModuleType, vector: Vector) -> None:
    remote = vector(stride=2, num_threads=2, max_episode_steps=3)
    remote.reset(seed=7)
    arguments = {"num_envs": COUNT, "stride": 2, "max_episode_steps": 3, "seed": 7}
    pool = envpool.make_gymnasium("Walk-v1", **arguments)
    pool.reset()
    assert assert_same_pools(remote, pool, 20) > 0
    assert remote.spec is not None
    assert remote.spec.max_episode_steps == 3


def test_limits_of_episodes(pools: Server, vector: Vector) -> None:
    """A vector and a single environment have the limit, which the spec shows."""
    for steps, shown in ((None, 7), (4, 4), (-1, None)):
        remote = vector(max_episode_steps=steps)
        single = RemoteEnv(pools.url, "envpool/Walk-v1", max_episode_steps=steps)
        for env, action in ((remote, np.full(COUNT, 2)), (single, 2)):
            assert env.spec is not None
            assert env.spec.max_episode_steps == shown
            env.reset(seed=1)
            # An action of 2 is no move.
            ends = [bool(np.all(env.step(action)[3])) for _ in range(shown or 9)]
            assert ends == [False] * (len(ends) - 1) + [shown is not None]
        single.close()


def test_seeds(envpool: ModuleType, vector: Vector) -> None:
    """An integer counts up; a list has one for each; a second one begins anew."""
    remote = vector()
    for seed in (3, [9, 1, 9, 0, 2**31 - 1], 3, 2**31 - COUNT):
        observations, _ = remote.reset(seed=seed)
        pool = envpool.make_gymnasium("Walk-v1", num_envs=COUNT, seed=seed)
        assert_same(observations, pool.reset()[0])
        each = seed if isinstance(seed, list) else [seed + n for n in range(COUNT)]
        assert list(remote.np_random_seed) == each
        # Without a seed, the generators go on.
        assert_same(remote.reset()[0], pool.reset()[0])


def test_the_seed_of_the_create_is_that_of_the_first_reset(
    envpool: ModuleType, pools: Server
) -> None:
    instance = Api(pools).create("envpool/Walk-v1", num_envs=COUNT, seed=3)
    pool = envpool.make_gymnasium("Walk-v1", num_envs=COUNT, seed=3)
    for _ in range(2):
        expected = pool.reset()[0]
        observed = np.array(instance.reset()["observation"], np.float32)
        np.testing.assert_array_equal(observed, expected)
    instance.close()


def test_without_a_seed_each_vector_has_another(
    envpool: ModuleType, vector: Vector
) -> None:
    ours = [vector().reset()[0] for _ in range(2)]
    theirs = envpool.make_gymnasium("Walk-v1", num_envs=COUNT).reset()[0]
    assert len({each.tobytes() for each in (*ours, theirs)}) == 3


def test_some_environments_are_reset(envpool: ModuleType, vector: Vector) -> None:
    for task_id in ("Walk-v1", "Reach-v1"):
        remote = vector(task_id)
        remote.reset(seed=7)
        pool = envpool.make_gymnasium(task_id, num_envs=COUNT, seed=7)
        pool.reset()
        assert_same_pools(remote, pool, 3)
        remote.action_space.seed(1)
        actions = remote.action_space.sample()
        before, *_ = remote.step(actions)
        pool.step(actions)
        mask = np.array([False, True, False, False, True])
        observations, info = remote.reset(options={"reset_mask": mask})
        some, local = pool.reset(np.flatnonzero(mask).astype(np.int32))
        for found, old, new in (
            (_leaf(observations), _leaf(before), _leaf(some)),
            (_leaf(without_masks(info, mask)["place"]), None, local["place"]),
        ):
            assert_same(found[mask], new)
            assert_same(found[~mask], np.zeros((3, 2)) if old is None else old[~mask])
        # All go on as they do locally.
        assert assert_same_pools(remote, pool, 20) > 0


def _leaf(observations: Any) -> Any:
    if isinstance(observations, dict):
        return observations["at"]["place"]
    return observations


def test_bounds_are_those_that_observations_have(vector: Vector) -> None:
    """EnvPool has the least positive float for the least one."""
    space: Any = vector("Reach-v1").single_observation_space
    limits = np.finfo(np.float64)
    place = space["at"]["place"]
    assert (place.low == limits.min).all()
    assert (place.high == limits.max).all()


def test_frames(pools: Server, vector: Vector) -> None:
    remote = vector(render_mode="rgb_array")
    remote.reset()
    frames = remote.render()
    assert [frame[0, 0, 0] for frame in frames] == list(range(COUNT))
    with pytest.raises(ServerError, match="envpool/Walk-v1 has"):
        vector(render_mode="ansi")


def test_the_end_of_an_episode_needs_a_reset(pools: Server) -> None:
    """EnvPool would begin another in silence."""
    instance = Api(pools).create("envpool/Walk-v1", max_episode_steps=1)
    calls.error(instance.post("step/", {"action": 2}), 409, "reset-needed")
    instance.reset()
    assert instance.step(2)["truncated"]
    problem = calls.error(instance.post("step/", {"action": 2}), 409, "reset-needed")
    assert "the episode has ended" in problem["message"]
    instance.reset()
    assert instance.step(2)["truncated"]
    calls.no_content(instance.close())


def test_gymnasiums_vectors_of_single_ones(pools: Server, vector: Vector) -> None:
    """They have the modes and wrappers that EnvPool's own have not, and processes."""
    arguments = {"vectorization_mode": "sync", "autoreset_mode": "same_step"}
    for hosts in (1, 2):
        remote = vector(hosts=hosts, wrappers=["RecordEpisodeStatistics"], **arguments)
        assert remote.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
        remote.reset(seed=1)
        for _ in range(7):
            *_, truncations, info = remote.step(np.full(COUNT, 2))
        assert truncations.all()
        assert set(info["final_info"]) > {"episode", "place"}


WRONG: tuple[tuple[dict[str, Any], int, str, str], ...] = (
    ({"autoreset_mode": "same_step"}, 400, "bad-parameter", "'next_step'"),
    ({"wrappers": ["ClipReward"]}, 400, "bad-parameter", '"vectorization_mode": "sync'),
    ({"vector_kwargs": {"copy": False}}, 400, "bad-parameter", '"hosts": "auto"'),
    ({"hosts": 2}, 400, "bad-parameter", "makes its vectors itself"),
    ({"kwargs": {"batch_size": 2}}, 400, "bad-parameter", "kwargs has 'batch_size'"),
    ({"kwargs": {"seed": 2}}, 400, "bad-parameter", "seed is beside kwargs"),
    ({"kwargs": {"num_threads": -1}}, 400, "bad-parameter", "integer from 0 to 5"),
    ({"kwargs": {"num_threads": 6}}, 400, "bad-parameter", "integer from 0 to 5"),
    ({"kwargs": {"strid": 2}}, 400, "bad-parameter", "strid"),
    ({"seed": 2**31 - 4}, 400, "bad-parameter", "from 0 to 2147483643"),
    ({"env_id": "envpool/Duel-v1"}, 501, "unsupported-space", "several players"),
    ({"env_id": "envpool/Away-v0"}, 501, "dependency-missing", "libaway"),
    ({"env_id": "envpool/Wlk-v1"}, 400, "unknown-env", "'envpool/Walk-v1'"),
    ({"env_id": "envpool/qqqqqqqqqqqq"}, 400, "unknown-env", "the registry lists all"),
)


@pytest.mark.parametrize(("given", "status", "code", "words"), WRONG)
def test_requests_that_envpool_cannot_serve(
    pools: Server, given: dict[str, Any], status: int, code: str, words: str
) -> None:
    request = {"env_id": "envpool/Walk-v1", "num_envs": COUNT, **given}
    problem = calls.error(Api(pools).post("/v1/envs/", request), status, code)
    assert words in problem["message"]


def test_the_mode_that_a_pool_has_may_be_named(vector: Vector) -> None:
    for mode in ("next_step", AutoresetMode.NEXT_STEP):
        remote = vector(autoreset_mode=mode)
        assert remote.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP


WRONG_ACTIONS: tuple[tuple[str, Any], ...] = (
    ("Walk-v1", np.full(COUNT - 1, 2)),
    ("Walk-v1", np.full(COUNT + 1, 2)),
    ("Walk-v1", np.full((COUNT, 1), 2)),
    ("Walk-v1", np.full(COUNT, 2.0)),
    ("Walk-v1", np.array([2, 2, 2, 2, 4])),
    ("Walk-v1", np.array([2, 2, 2, 2, 0])),
    ("Walk-v1", np.full(COUNT, 2**40)),
    ("Walk-v1", np.array(["2"] * COUNT)),
    ("Walk-v1", [2, [2], 2, 2, 2]),
    ("Walk-v1", None),
    ("Reach-v1", np.zeros((COUNT, 3))),
    ("Reach-v1", np.zeros((COUNT - 1, 2))),
    ("Reach-v1", np.zeros((COUNT, 2), np.complex128)),
)


@pytest.mark.parametrize(("task_id", "actions"), WRONG_ACTIONS)
def test_wrong_actions_are_refused_before_any_step(
    envpool: ModuleType, vector: Vector, task_id: str, actions: Any
) -> None:
    remote = vector(task_id)
    remote.reset(seed=7)
    with pytest.raises(gymnasium.error.InvalidAction, match="the actions"):
        remote.step(actions)
    pool = envpool.make_gymnasium(task_id, num_envs=COUNT, seed=7)
    pool.reset()
    assert_same_pools(remote, pool, 3)


@pytest.mark.parametrize("actions", [[2] * 4, [2, 2, 2, 2, 9], [2, 2, 2, 2, "x"], 2])
def test_wrong_actions_in_plain_json(pools: Server, actions: Any) -> None:
    instance = Api(pools).create("envpool/Walk-v1", num_envs=COUNT)
    instance.reset(seed=7)
    answer = instance.post("step/", {"action": actions})
    calls.error(answer, 400, "invalid-action")
    assert instance.step([2] * COUNT)["info"]["elapsed_step"] == [1] * COUNT
    instance.close()


@pytest.mark.parametrize(
    ("reset", "words"),
    [
        ({"seed": 2**31 - 4}, "seed is 2147483644"),
        ({"seed": [1, 2, 3, 4, None]}, "or a list of 5"),
        ({"options": {"speed": 2}}, "options has ['speed']"),
        ({"options": {"reset_mask": [False] * 5}}, "reset_mask is all false"),
        ({"options": {"reset_mask": [True] * 5}, "seed": 3}, "with a reset_mask"),
    ],
)
def test_wrong_resets(pools: Server, reset: dict[str, Any], words: str) -> None:
    instance = Api(pools).create("envpool/Walk-v1", num_envs=COUNT)
    instance.reset(seed=7)
    problem = calls.error(instance.post("reset/", reset), 400, "bad-parameter")
    assert words in problem["message"]
    assert instance.step([2] * COUNT)["info"]["elapsed_step"] == [1] * COUNT
    instance.close()


def test_a_vector_needs_a_reset_first(pools: Server) -> None:
    instance = Api(pools).create("envpool/Walk-v1", num_envs=COUNT)
    answer = instance.post("step/", {"action": [2] * COUNT})
    calls.error(answer, 409, "reset-needed")
    mask = {"options": {"reset_mask": [True] * COUNT}}
    calls.error(instance.post("reset/", mask), 409, "reset-needed")
    instance.close()


def test_generators_in_cpp_are_no_attribute(pools: Server, vector: Vector) -> None:
    remote = vector()
    with pytest.raises(AttributeError, match="in C\\+\\+"):
        _ = remote.np_random
    single = RemoteEnv(pools.url, "envpool/Walk-v1")
    with pytest.raises(AttributeError):
        _ = single.np_random
    single.close()


def test_the_description_says_how_it_steps(pools: Server) -> None:
    instance = Api(pools).create("envpool/Walk-v1", num_envs=COUNT, hosts="auto")
    about = instance.get("").json()
    assert (about["vectorization_mode"], about["hosts"]) == ("vector_entry_point", 1)
    assert "envpool/Walk-v1 makes its vectors itself" in about["other_mode"]
    assert about["env_id"] == "envpool/Walk-v1"
    instance.close()


def test_the_registry_lists_what_envpool_lists(pools: Server) -> None:
    listed = {each["env_id"]: each for each in _registry(pools)}
    assert {each for each in listed if each.startswith("envpool/")} == {
        f"envpool/{task_id}" for task_id in (*TASKS, "Duel-v1", "Away-v0")
    }
    assert listed["envpool/Walk-v1"]["available"]
    assert listed["envpool/Walk-v1"]["max_episode_steps"] == 7
    assert "several players" in listed["envpool/Duel-v1"]["reason"]
    assert "libaway" in listed["envpool/Away-v0"]["reason"]
    assert listed["CartPole-v1"]["available"]


def _registry(server: Server) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = calls.ok(Api(server).get("/v1/registry/"))["envs"]
    assert found == sorted(found, key=lambda each: str(each["env_id"]))
    return found


def test_patterns_of_allowed_environments(make_server: Callable[..., Server]) -> None:
    server = make_server("--allow-env", "envpool/W*", python_path=(STANDINS,))
    Api(server).create("envpool/Walk-v1").close()
    answer = Api(server).post("/v1/envs/", {"env_id": "envpool/Reach-v1"})
    calls.error(answer, 403, "env-refused")


def test_without_envpool_the_extra_is_named(server: Server) -> None:
    request = {"env_id": "envpool/HalfCheetah-v4", "num_envs": 8}
    for given in (request, {"env_id": "envpool/Nothing-v0"}):
        answer = Api(server).post("/v1/envs/", given)
        problem = calls.error(answer, 501, "dependency-missing")
        assert "pip install 'gymnasium-http-server[envpool]'" in problem["message"]
    with pytest.raises(gymnasium.error.DependencyNotInstalled, match="envpool"):
        RemoteVectorEnv(server.url, "envpool/HalfCheetah-v4", num_envs=8)
    assert not [row for row in _registry(server) if row["env_id"][:8] == "envpool/"]


@pytest.mark.toolchain
@pytest.mark.parametrize("interpreter", ["lua5.1", "lua5.4", "luajit"])
def test_lua_steps_a_pool(envpool: ModuleType, pools: Server, interpreter: str) -> None:
    needs(interpreter)
    folder = CLIENTS / "lua"
    path = {"LUA_PATH": f"{folder}/?.lua;{folder}/?/init.lua;;"}
    command = [interpreter, "examples/vector.lua", pools.url, "envpool/Walk-v1", "32"]
    done = subprocess.run(
        [*command, "10"],
        cwd=folder,
        env=os.environ | path,
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr
    pool = envpool.make_gymnasium("Walk-v1", num_envs=32, seed=1)
    pool.reset()
    rewards = sum(float(pool.step(np.ones(32, int))[1].sum()) for _ in range(10))
    assert done.stdout == f"320 steps of 32 envpool/Walk-v1, rewards {rewards:.3f}\n"
