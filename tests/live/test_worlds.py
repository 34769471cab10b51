"""Worlds and interfaces as env IDs of the shipped server."""

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from gym_http_client import RealTimeEnv
from tests.support.api import Api, error, no_content, ok
from tests.support.envs import worlds
from tests.support.server import Server
from tests.support.wait import wait_until

pytestmark = pytest.mark.live

HERE = worlds.__name__


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server("--allow-module", HERE) as started:
        yield started


def test_a_world_with_a_rate_needs_no_settings(server: Server) -> None:
    world = Api(server).create("world/pendulum", seed=3)
    world.reset()
    answer = world.step([0.0] * 12 + [1.0])
    assert len(answer["observation"]) == 2
    assert answer["rewards"] == [answer["reward"]]
    settings = ok(world.get("realtime/"))["settings"]
    assert (settings["mode"], settings["hz"]) == ("free_running", 30.0)
    no_content(world.close())


def test_null_stands_for_a_channel_that_says_nothing(server: Server) -> None:
    clock = {"hz": 100}
    world = Api(server).create(f"world/{HERE}:Counter", realtime=clock)
    world.reset()
    found = [world.step([1.0, 2.0]) for _ in range(6)]
    # A step merges the ticks since the last one.
    assert {tuple(each["rewards"]) for each in found} & {(1.0, None), (1.0, 2.0)}
    for each in found:
        assert each["reward"] == sum(value or 0.0 for value in each["rewards"])
    no_content(world.close())


@pytest.mark.parametrize(
    ("body", "status", "code", "words"),
    [
        ({"env_id": "world/pendulun"}, 400, "unknown-env", "did you mean 'pendulum'"),
        ({"env_id": f"interface/{HERE}:Drone"}, 400, "bad-parameter", "realtime"),
        ({"env_id": f"world/{HERE}:Echo"}, 400, "bad-parameter", "realtime"),
        ({"env_id": f"world/{HERE}:Aimless"}, 400, "unknown-env", "has no reset, step"),
        ({"env_id": "world/subprocess:Popen"}, 403, "env-refused", "not allowed here"),
        (
            {"env_id": "world/bandit", "kwargs": {"episode_steps": 0}},
            400,
            "bad-parameter",
            "episode_steps is 0: expected 1 or more",
        ),
        (
            {"env_id": "world/bandit", "num_envs": 2},
            400,
            "bad-parameter",
            "num_envs is 2",
        ),
        (
            {"env_id": "world/bandit", "wrappers": [{"name": "TimeLimit"}]},
            400,
            "bad-parameter",
            "wrappers is ['TimeLimit']: expected null",
        ),
    ],
)
def test_impossible_worlds_are_refused(
    server: Server, body: dict[str, Any], status: int, code: str, words: str
) -> None:
    problem = error(Api(server).post("/v1/envs/", body), status, code)
    assert words in problem["message"]


@pytest.fixture
def env(server: Server) -> Iterator[Callable[..., RealTimeEnv]]:
    made: list[RealTimeEnv] = []

    def make(name: str, clock: Any, **kwargs: Any) -> RealTimeEnv:
        made.append(RealTimeEnv(server.url, name, realtime=clock, **kwargs))
        return made[-1]

    yield make
    for each in made:
        each.close()


MakeEnv = Callable[..., RealTimeEnv]


def test_an_interface_of_rtgym_keeps_its_time_steps(env: MakeEnv) -> None:
    clock = {"preset": "rtgym", "period_s": 0.02}
    drone = env(f"interface/{HERE}:Drone", clock, height=2.0)
    observation, _ = drone.reset(seed=1)
    # As in rtgym: two observations, and the last action.
    assert len(observation) == 3
    assert drone.observation_space.contains(observation)
    action = np.array([0.25], np.float32)
    places = []
    for _ in range(4):
        (place, mirrored, last), reward, *_ = drone.step(action)
        assert mirrored == -place
        assert last == action
        assert reward == -place[0]
        places.append(float(place[0]))
    # The default action is in force first, and each action one time step later.
    assert places == [2.5, 2.75, 3.0, 3.25]


def test_an_interface_gets_the_default_action_last(
    env: MakeEnv, server: Server, tmp_path: Path
) -> None:
    path = tmp_path / "sent"
    clock = {"mode": "elastic", "hz": 50}
    drone = env(f"interface/{HERE}:Noting", clock, path=str(path))
    drone.reset()
    drone.step(np.array([-1.0], np.float32))
    drone.close()
    wait_until(lambda: path.read_text().splitlines()[-1:] == ["0.5"], 20.0)
    assert "-1" in path.read_text().splitlines()


@pytest.mark.parametrize("mode", ["elastic", "free_running"])
def test_max_episode_steps_truncates_the_episodes_of_an_interface(
    env: MakeEnv, mode: str
) -> None:
    clock = {"mode": mode, "hz": 100}
    drone = env(f"interface/{HERE}:Drone", clock, max_episode_steps=3)
    action = np.array([0.5], np.float32)
    for _ in range(2):
        drone.reset()
        taken = [drone.step(action)[2:]]
        while not taken[-1][1]:
            taken.append(drone.step(action)[2:])
        # Free-running steps may stand for several ticks.
        ticks = sum(1 + each[2]["realtime"]["merged"] for each in taken)
        assert ticks == 3
        assert not any(each[0] for each in taken)
    # As rtgym's: an episode that terminates is not truncated.
    high = env(f"interface/{HERE}:Drone", clock, height=60.0, max_episode_steps=1)
    high.reset()
    assert high.step(action)[2:4] == (True, False)


def test_worlds_with_episodes_of_their_own_take_no_max_episode_steps(
    server: Server,
) -> None:
    body = {
        "env_id": f"world/{HERE}:Echo",
        "realtime": {"preset": "myrtle"},
        "max_episode_steps": 5,
    }
    problem = error(Api(server).post("/v1/envs/", body), 400, "bad-parameter")
    assert "max_episode_steps is 5: expected null" in problem["message"]
    assert "ends its episodes itself" in problem["message"]


def world_processes(server: Server) -> list[psutil.Process]:
    """Return the processes of worlds that keep their own time."""
    found = []
    for each in psutil.Process(server.pid).children(recursive=True):
        # Hosts may be started and end meanwhile.
        with contextlib.suppress(psutil.Error, OSError):
            if " ".join(each.cmdline()).startswith("gym: world of "):
                found.append(each)
    return found


def test_a_running_world_ends_with_its_instance(env: MakeEnv, server: Server) -> None:
    world = env(f"world/{HERE}:Ticking", {"mode": "free_running", "hz": 50})
    world.reset(seed=1)
    observation, *_ = world.step(np.zeros(1))
    wait_until(lambda: world.step(np.zeros(1))[0][0] > observation[0], 20.0)
    (child,) = world_processes(server)
    world.close()
    wait_until(lambda: not child.is_running(), 20.0, "the world's process to end")


def step_on(world: RealTimeEnv, action: float = 1.0) -> None:
    """Step for some time."""
    for _ in range(500):
        world.step(np.array([action]))


def test_the_exception_of_a_running_world_reaches_the_agent(env: MakeEnv) -> None:
    world = env(f"world/{HERE}:Echo", {"mode": "free_running", "hz": 50})
    world.reset()
    with pytest.raises(RuntimeError, match="ValueError: an action that it cannot take"):
        step_on(world, 11.0)
    assert world.reset()[0].tolist() == [0.0, -1.0]


def test_a_running_world_that_is_killed_is_reported(
    env: MakeEnv, server: Server
) -> None:
    world = env(f"world/{HERE}:Ticking", {"mode": "free_running", "hz": 50})
    world.reset()
    (child,) = world_processes(server)
    os.kill(child.pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match="process of the world has ended: signal 9"):
        step_on(world)
    world.reset()
