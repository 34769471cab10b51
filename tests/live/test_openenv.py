"""OpenEnv's clients use environments, each over a connection with an instance."""

from collections.abc import Iterator

import pytest

from tests.support.api import Api
from tests.support.peers.openenv import OpenEnvClient
from tests.support.server import Server
from tests.support.wait import wait_until


@pytest.fixture
def client(toy_server: Server) -> Iterator[OpenEnvClient]:
    """A connection to a CartPole."""
    with OpenEnvClient.connect(toy_server) as client:
        assert client.response.status == 101, client.response
        yield client


@pytest.fixture
def toys(toy_server: Server) -> Api:
    return Api(toy_server)


def test_reset_step_state_and_close(client: OpenEnvClient, toys: Api) -> None:
    assert toys.instances() == {}
    begun = client.reset(seed=42)
    instance_id = begun["metadata"]["instance_id"]
    assert toys.instances() == {instance_id: "CartPole-v1"}
    other = toys.create()
    first = other.reset(seed=42)
    assert begun == {
        "observation": {**first, "terminated": False, "truncated": False},
        "reward": None,
        "done": False,
        "metadata": {"instance_id": instance_id},
    }
    for action in (0, 1, 1):
        after = other.step(action)
        reward, done = after.pop("reward"), after.pop("done")
        assert client.step(action) == {
            "observation": after,
            "reward": reward,
            "done": done,
            "metadata": {"instance_id": instance_id},
        }
    other.close()
    assert client.state() == {
        "env_id": "CartPole-v1",
        "episode_id": f"{instance_id}-1",
        "instance_id": instance_id,
        "step_count": 3,
    }
    client.send_frame(1, b'{"type": "close"}')
    assert client.read_close() == (1000, "")
    wait_until(lambda: toys.instances() == {}, 10.0, "the end of the instance")
