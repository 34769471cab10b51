"""Spaces that an environment changes reach every client, by each way."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from gymnasium.vector.utils import batch_space

from gym_http_client import Client, RemoteEnv, RemoteVectorEnv, through_wire
from gym_http_client import Server as Place
from tests.support.api import Api
from tests.support.envs import corridors  # noqa: F401
from tests.support.server import Server

ENV_ID = "corridor/Changing-v0"

pytestmark = pytest.mark.filterwarnings("ignore:.*:UserWarning")
Open = Callable[..., Any]


@pytest.fixture(scope="module")
def corridor_server() -> Iterator[Server]:
    flags = ("--workers", "2", "--import", "tests.support.envs.corridors")
    with Server(*flags) as started:
        yield started


@pytest.fixture(scope="module")
def strict_server() -> Iterator[Server]:
    flags = ("--strict-actions", "--import", "tests.support.envs.corridors")
    with Server(*flags) as started:
        yield started


@pytest.fixture(params=["stream", "rest", "in process"])
def opened(request: pytest.FixtureRequest, corridor_server: Server) -> Iterator[Open]:
    """Return a function that makes an environment, remote or behind the wire."""
    made: list[Any] = []

    def make(env_id: str = ENV_ID) -> Any:
        if request.param == "in process":
            made.append(through_wire(gymnasium.make(env_id)))
        else:
            place = Place(corridor_server.url, streams=request.param == "stream")
            made.append(RemoteEnv(place, env_id))
        return made[-1]

    yield make
    for env in made:
        env.close()


def test_a_reset_that_changes_them(opened: Open) -> None:
    env = opened()
    actions, observations = env.action_space, env.observation_space
    actions.seed(4)
    env.reset()
    assert env.action_space is actions
    observation, _ = env.reset(options={"actions": 7})
    assert env.action_space == Discrete(7)
    assert env.observation_space is observations
    assert {int(env.action_space.sample()) for _ in range(200)} == set(range(7))
    assert env.step(6)[1] == 6.0
    actions = env.action_space
    observation, _ = env.reset(options={"size": 3})
    assert env.action_space is actions
    assert env.observation_space == Box(-1, 1, (3,))
    assert env.observation_space.contains(observation)
    env.reset(options={"actions": 2})
    assert env.action_space == Discrete(2)


def test_a_method_and_a_step_that_change_them(opened: Open) -> None:
    env = opened()
    wrapped = gymnasium.wrappers.TransformReward(env, lambda reward: reward)
    env.reset()
    env.unwrapped.set_actions(10)
    assert wrapped.action_space == Discrete(10)
    env.step(8)
    assert wrapped.action_space == Discrete(10)
    env.step(9)
    assert wrapped.action_space == Discrete(5, start=1)
    assert env.step(wrapped.action_space.sample())


def test_an_attribute_that_is_set(opened: Open) -> None:
    env = opened("corridor/Computing-v0")
    env.reset()
    assert env.action_space == Discrete(2)
    env.count = 8
    assert env.action_space == Discrete(8)


def test_a_space_that_is_computed(opened: Open) -> None:
    env = opened("corridor/Computing-v0")
    env.reset()
    for count in range(2, 9):
        assert env.action_space == Discrete(count)
        env.step(count - 1)


def test_a_vector_that_changes_them(corridor_server: Server) -> None:
    made = RemoteVectorEnv(corridor_server.url, ENV_ID, num_envs=3)
    with contextlib.closing(made) as envs:
        envs.reset()
        assert envs.single_action_space == Discrete(2)
        envs.set_actions(6)
        assert envs.single_action_space == Discrete(6)
        assert envs.action_space == batch_space(Discrete(6), 3)
        envs.step(np.array([0, 7, 1]))
        assert envs.single_action_space == Discrete(9)
        for highest in (3, 4):
            envs.step_async(np.array([0, 0, highest]))
        for _ in range(2):
            envs.step_wait()
        assert envs.action_space == batch_space(Discrete(6), 3)


def test_others_notice_it(corridor_server: Server) -> None:
    with RemoteEnv(corridor_server.url, ENV_ID) as env:
        env.reset()
        other = RemoteEnv.attach(corridor_server.url, env.instance_id)
        env.reset(options={"actions": 6})
        late = RemoteEnv.attach(corridor_server.url, env.instance_id)
        assert late.action_space == Discrete(6)
        other.step(0)
        assert other.action_space == Discrete(6)


def test_answers_have_a_version_only_after_a_change(corridor_server: Server) -> None:
    api = Api(corridor_server)
    instance = api.create(ENV_ID)
    path = f"/v1/envs/{instance.id}/"
    seed = {"options": {"actions": 2}}
    for answer in (instance.reset(), instance.step(0), instance.reset(**seed)):
        assert "spaces_version" not in answer
    assert "spaces_version" not in instance.get("").json()
    assert instance.reset(options={"actions": 4})["spaces_version"] == 1
    assert instance.step(3)["spaces_version"] == 1
    assert instance.get("").json()["spaces_version"] == 1
    space = api.get(path + "action_space/").json()["info"]
    assert space == {"name": "Discrete", "n": 4}
    called = api.post(path + "attributes/set_actions/call/", {"args": [10]}).json()
    assert called == {"value": None, "spaces_version": 2}
    steps = api.post(path + "step/", {"actions": [3, 9]}).json()
    assert (steps["steps"], steps["spaces_version"]) == (2, 3)
    # Its reset assigns a space that begins at 0, and its actions are of that one.
    rollout = api.post(path + "rollout/", {"episodes": 1, "max_steps": 99}).json()
    assert rollout["spaces_version"] == 4
    (episode,) = rollout["episodes"]
    assert set(episode["actions"]) == set(range(5))
    instance.close()


def test_plain_actions_are_read_as_those_of_the_new_space(
    strict_server: Server,
) -> None:
    instance = Api(strict_server).create(ENV_ID)
    instance.reset()
    instance.reset(options={"actions": 4})
    assert instance.step(3)["reward"] == 3.0
    instance.reset(options={"actions": 2})
    assert instance.post("step/", {"action": 3}).json()["code"] == "invalid-action"
    instance.close()


def test_a_sample_of_the_server_is_never_of_an_old_space(
    corridor_server: Server,
) -> None:
    with Client(corridor_server.url) as client:
        instance_id = client.env_create(ENV_ID)
        client.env_reset(instance_id)
        Api(corridor_server).post(
            f"/v1/envs/{instance_id}/reset/", {"options": {"actions": 50}}
        )
        drawn = {client.env_action_space_sample(instance_id) for _ in range(60)}
        assert max(drawn) > 1
        client.env_close(instance_id)
