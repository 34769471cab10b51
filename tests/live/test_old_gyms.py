"""Environments of other Pythons and of gym equal those of Gymnasium in this one.

The server starts `gym_serve_stdio.py` with their Python.
"""

import contextlib
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from gym_http_client import RemoteEnv, RemoteVectorEnv
from gym_http_server.external.provider import PATH
from tests.support.api import Api, error, ok
from tests.support.old_pythons import python_with_gym
from tests.support.server import Server

# The first test installs packages.
pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

#: Pythons, each with the gym that it has.
GYMS = {"3.6": "0.21.0", "3.7": "0.21.0", "3.10": "0.26.2"}
MODULE = """
print("printed by a module of the environment")
import gym
import numpy as np

class Game(gym.Env):
    metadata = {"render.modes": ["rgb_array"], "render_modes": ["rgb_array"]}
    observation_space = gym.spaces.Dict(
        {
            "place": gym.spaces.Box(-9, 9, (2,), np.float32),
            "phase": gym.spaces.Discrete(3),
        }
    )
    action_space = gym.spaces.Tuple(
        (gym.spaces.Discrete(2), gym.spaces.Box(-1, 1, (2,), np.float64))
    )

    def __init__(self, render_mode=None, start=0.0):
        self.start = start

    def _observation(self):
        # As many old environments: of another dtype, and not an array.
        return {"place": [self.start, np.float64(0.5)], "phase": 2}

    def reset(self, **kwargs):
        observation = self._observation()
        return observation if gym.__version__ < "0.26" else (observation, {})

    def step(self, action):
        number, push = action
        assert isinstance(push, np.ndarray) and push.dtype == np.float64, push
        if number:
            raise ValueError("a wall is there")
        info = {"seen": np.arange(3), "who": Game, 4: float("nan")}
        start = self._observation(), np.float32(0.5)
        if gym.__version__ < "0.26":
            return (*start, True, {**info, "TimeLimit.truncated": True})
        return (*start, False, True, info)

    def render(self, mode="rgb_array"):
        return np.full((4, 6, 3), 7, np.uint8)

class Made:
    make = Game
"""


def name_of(version: str) -> str:
    """Return the name under which the module's servers have a Python."""
    return f"old{version.replace('.', '')}"


def flags_of(flag: str, more: str = "") -> list[str]:
    """Return the flags of a server with each Python that is installed here."""
    flags = []
    for version in GYMS:
        with contextlib.suppress(pytest.skip.Exception):
            python = python_with_gym(version)
            flags += [flag, f"{name_of(version)}={python}{more}"]
    return flags


@pytest.fixture(scope="module")
def commands() -> Iterator[Server]:
    """A server that starts each of the Pythons by a command."""
    with Server(*flags_of("--env-command", f" {PATH}")) as started:
        yield started


@pytest.fixture(scope="module")
def pythons() -> Iterator[Server]:
    """A server that has each of the Pythons with all of its environments."""
    with Server(*flags_of("--env-python")) as started:
        yield started


def seed_as_gym_021(env: gymnasium.Env[Any, Any], seed: int) -> None:
    """Seed an environment as gym 0.21 does: by a `RandomState` of the seed's hash."""
    digest = hashlib.sha512(str(seed).encode()).digest()
    words = np.frombuffer(digest[:8], "<u4").tolist()
    env.unwrapped.np_random = np.random.RandomState(words)  # type: ignore[assignment]


def reset(env: gymnasium.Env[Any, Any], version: str, seed: int | None) -> Any:
    if GYMS[version] == "0.21.0" and seed is not None:
        seed_as_gym_021(env, seed)
        seed = None
    return env.reset(seed=seed)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("version", GYMS)
def test_cart_pole_is_equal_over_1000_steps(commands: Server, version: str) -> None:
    python_with_gym(version)
    local = gymnasium.make("CartPole-v1", max_episode_steps=40)
    ends = set()
    actions = np.random.default_rng(5)
    env_id = f"external/{name_of(version)}/CartPole-v1"
    with RemoteEnv(commands.url, env_id, max_episode_steps=40) as env:
        seed: int | None = 11
        for step in range(1000):
            if seed is not None or step == 0:
                observation, info = env.reset(seed=seed)
                expected, _ = reset(local, version, seed)
                assert observation.dtype == expected.dtype
                assert observation.tobytes() == expected.tobytes()
                assert info == {}
            # Mostly balanced, so that some episodes reach the limit.
            leans = observation[2] + 0.3 * observation[3] > 0
            action = int(leans if step % 300 < 200 else actions.integers(2))
            observation, *rest = env.step(action)
            expected, *expected_rest = local.step(action)
            assert observation.tobytes() == expected.tobytes(), step
            assert rest == expected_rest
            ends.add(tuple(rest[1:3]))
            seed = step if rest[1] or rest[2] else None
    local.close()
    assert ends == {(False, False), (True, False), (False, True)}


@pytest.mark.parametrize("version", GYMS)
def test_the_limit_of_its_own_wrapper_truncates(commands: Server, version: str) -> None:
    python_with_gym(version)
    env_id = f"external/{name_of(version)}/MountainCar-v0"
    with RemoteEnv(commands.url, env_id) as env:
        env.reset(seed=1)
        for _ in range(199):
            assert env.step(1)[2:4] == (False, False)
        *_, terminated, truncated, info = env.step(1)
        assert (terminated, truncated) == (False, True)
        assert "TimeLimit.truncated" not in info


@pytest.mark.parametrize("version", GYMS)
def test_values_of_a_factory_arrive_without_loss(
    make_server: Callable[..., Server], version: str, tmp_path: Path
) -> None:
    (tmp_path / "old_game.py").write_text(MODULE)
    python = python_with_gym(version)
    # The module is beside the copy, as people have it in an image.
    copy = tmp_path / "gym_serve_stdio.py"
    copy.write_bytes(Path(PATH).read_bytes())
    server = make_server("--env-command", f"old={python} {copy} old_game:Made.make")
    with RemoteEnv(server.url, "external/old", start=2, render_mode="rgb_array") as env:
        assert env.observation_space == gymnasium.spaces.Dict(
            place=gymnasium.spaces.Box(-9, 9, (2,), np.float32),
            phase=gymnasium.spaces.Discrete(3),
        )
        observation, _ = env.reset()
        assert env.observation_space.contains(observation)
        assert observation["place"].tolist() == [2, 0.5]
        _, reward, terminated, truncated, info = env.step((0, [0.5, -0.5]))
        assert type(reward) is np.float32
        assert (reward, terminated, truncated) == (0.5, False, True)
        assert info["seen"].tolist() == [0, 1, 2]
        assert info["seen"].dtype == np.int64
        assert np.isnan(info[4])
        assert "Game" in info["who"].repr
        frame = env.render()
        assert isinstance(frame, np.ndarray)
        assert (frame.shape, frame.dtype, frame.max()) == ((4, 6, 3), np.uint8, 7)
        with pytest.raises(ValueError, match="a wall is there"):
            env.step((1, [0.5, -0.5]))


def test_an_id_that_it_does_not_have_is_named(commands: Server) -> None:
    python_with_gym("3.7")
    body = {"env_id": f"external/{name_of('3.7')}/NoSuchThing-v0"}
    answer = error(Api(commands).post("/v1/envs/", body), 503, "external-away")
    assert "NoSuchThing" in answer["message"]


def test_a_vector_and_no_network_in_the_sandbox(
    make_server: Callable[..., Server],
) -> None:
    python = python_with_gym("3.10")
    server = make_server(
        *("--env-command", f"old={python} {PATH}", "--sandbox", "on"),
        *("--network", "none"),
        # Environments see few of the many entries of /tmp.
        parent="/var/tmp",
    )
    env = RemoteVectorEnv(server.url, "external/old/CartPole-v1", num_envs=3)
    local = gymnasium.make_vec("CartPole-v1", 3, "sync")
    assert env.reset(seed=3)[0].tobytes() == local.reset(seed=3)[0].tobytes()
    assert (
        env.step([0, 1, 0])[0].tobytes() == local.step(np.array([0, 1, 0]))[0].tobytes()
    )
    env.close()
    local.close()


def test_a_python_alone_has_all_of_its_environments(
    make_server: Callable[..., Server],
) -> None:
    server = make_server(
        *("--env-python", f"old={python_with_gym('3.7')}"),
        *("--env-python", "gone=/no/such/python"),
        *("--env-python", f"bare={sys.executable}:os:no_such_function"),
    )
    rows = ok(Api(server).get("/v1/registry/?search=external/"))["envs"]
    listed = {row["env_id"]: row for row in rows}
    cart = listed["external/old/CartPole-v0"]
    assert cart["available"]
    assert cart["entry_point"] == "gym.envs.classic_control:CartPoleEnv"
    assert cart["max_episode_steps"] == 200
    assert cart["external"]["command"] == "old"
    ant = listed["external/old/Ant-v2"]
    assert not ant["available"]
    assert "mujoco_py" in ant["reason"]
    assert "external/old" not in listed
    assert "No such file or directory" in listed["external/gone"]["reason"]
    assert listed["external/bare"]["available"]
    # Gymnasium has no longer this one.
    with RemoteEnv(server.url, "external/old/CartPole-v0") as env:
        assert env.reset(seed=1)[0].shape == (4,)
    answer = Api(server).post("/v1/envs/", {"env_id": "external/bare"})
    assert "no_such_function" in error(answer, 503, "external-away")["message"]


def test_a_function_of_a_python_makes_the_environment(
    make_server: Callable[..., Server], tmp_path: Path
) -> None:
    (tmp_path / "old_game.py").write_text(MODULE)
    python = python_with_gym("3.7")
    server = make_server(
        *("--env-python", f"old={python}:old_game:Made.make"),
        env={"PYTHONPATH": str(tmp_path)},
    )
    with RemoteEnv(server.url, "external/old", start=3) as env:
        assert env.reset()[0]["place"].tolist() == [3, 0.5]


@pytest.mark.parametrize("version", GYMS)
def test_people_see_which_python_it_is(pythons: Server, version: str) -> None:
    python_with_gym(version)
    env_id = f"external/{name_of(version)}/CartPole-v1"
    instance = Api(pythons).create(env_id)
    program = ok(instance.get(""))["versions"]["program"]
    expected = rf"Python {version}\.\d+, gym {GYMS[version]}"
    assert re.fullmatch(expected, program)
    (row,) = ok(Api(pythons).get("/v1/instances/"))["instances"]
    assert row["program"] == program
    command = [sys.executable, "-m", "gym_http_server", "ls", pythons.url]
    wide = {**os.environ, "COLUMNS": "200"}
    done = subprocess.run(command, capture_output=True, check=True, env=wide)
    assert f"{env_id}  {program}  " in done.stdout.decode()
    instance.close()


# Between them, 3.7 has the gym of 3.6. Of checks that look into no step, one gym is
# enough: each instance starts a Python.
@pytest.mark.parametrize(
    ("version", "more"),
    [("3.6", ("legacy", "keys", "streams", "batches", "vectors")), ("3.10", ())],
)
def test_validate_finds_nothing_wrong(
    make_server: Callable[..., Server], version: str, more: tuple[str, ...]
) -> None:
    # Alone, since it asks again and again for all that the server has.
    server = make_server("--env-python", f"old={python_with_gym(version)}")
    names = ("newer", "commands", *more)
    only = [word for name in names for word in ("--only", name)]
    command = [sys.executable, "-m", "gym_http_server", "validate", server.url]
    command += ["--json", "--env", "external/old/CartPole-v1", *only]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250)
    report = json.loads(done.stdout)
    assert done.returncode == 0, report
    passed = {check["id"] for check in report["checks"] if check["result"] == "passed"}
    assert {"commands.steps", "commands.vector", "commands.name-taken"} <= passed
