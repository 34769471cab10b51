"""The client's calls for many steps and many instances."""

import gc
from collections.abc import Iterator

import gymnasium
import numpy as np
import pytest

from gym_http_client import Client, ServerError
from tests.support.plain import plain
from tests.support.server import Server


@pytest.fixture(autouse=True)
def errors_are_collected(nothing_left_behind: None) -> Iterator[None]:
    """Free the errors: they hold their answers, which hold their connections."""
    yield
    gc.collect()


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client(server.url) as client:
        yield client


@pytest.fixture
def cartpole(client: Client) -> Iterator[str]:
    instance_id = client.env_create("CartPole-v1")
    yield instance_id
    client.env_close(instance_id)


@pytest.mark.parametrize("actions", [[0, 1, 1], (0, 1, 1), np.array([0, 1, 1])])
def test_many_steps(actions: list[int], client: Client, cartpole: str) -> None:
    client.reset(cartpole, seed=5)
    answer = client.step_many(cartpole, actions)
    with gymnasium.make("CartPole-v1") as local:
        local.reset(seed=5)
        rows = [local.step(int(action)) for action in actions]
    assert answer["observations"] == [plain(row[0]) for row in rows]
    assert (answer["steps"], answer["stopped"]) == (3, None)


def test_a_bad_action_among_many(client: Client, cartpole: str) -> None:
    client.reset(cartpole)
    with pytest.raises(ServerError) as caught:
        client.step_many(cartpole, [0, 9])
    assert caught.value.body["index"] == 1
    assert client.env_describe(cartpole)["steps"] == 0


def test_rollouts(client: Client, cartpole: str) -> None:
    answer = client.rollout(cartpole, episodes=2, seed=3, max_steps=50)
    assert len(answer["episodes"]) == 2
    answer = client.rollout(cartpole, actions=[np.array([0, 1]), (1,)])
    assert [each["actions"] for each in answer["episodes"]] == [[0, 1], [1]]


def test_many_instances(client: Client, cartpole: str) -> None:
    lake = client.env_create("FrozenLake-v1")
    try:
        for each in (cartpole, lake):
            client.reset(each)
        answer = client.batch_step({cartpole: 1, lake: np.int64(0)}, first=1)
        done = {each["instance_id"]: each["key"] for each in answer["results"]}
        keys = {each["instance_id"]: each["key"] for each in answer["pending"]} | done
        assert set(keys) == {cartpole, lake}
        answer = client.batch_step({cartpole: 1, lake: 0}, keys=keys)
        assert answer["pending"] == []
        assert [each["status"] for each in answer["results"]] == [200, 200]
        assert all(each["replayed"] for each in answer["results"])
        for each in (cartpole, lake):
            assert client.env_describe(each)["steps"] == 1
    finally:
        client.env_close(lake)
