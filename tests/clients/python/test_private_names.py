"""Private attributes are those of the client's class, and never the environment's."""

from collections.abc import Iterator
from typing import Any

import gymnasium
import pytest

from gym_http_client import RealTimeEnv, RemoteEnv, RemoteVectorEnv, through_wire
from gym_http_client.pettingzoo import RemoteAECEnv, RemoteParallelEnv
from tests.support.server import Server

WORDS = r"'_max_episode_steps' is private.*expected a public.*max_episode_steps=1000"


class Noted(RemoteEnv):
    """A subclass as users write them."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._before = 1
        super().__init__(*args, **kwargs)
        self._after = 2

    def step(self, action: Any) -> Any:
        self._after += 1
        self._later = action
        return super().step(action)


@pytest.fixture(
    params=["env", "attached", "vector", "shards", "clock", "aec", "parallel", "local"]
)
def remote(request: pytest.FixtureRequest, server: Server) -> Iterator[Any]:
    url, made = server.url, []
    match request.param:
        case "env":
            made += [RemoteEnv(url, "MountainCar-v0")]
        case "attached":
            made += [RemoteEnv(url, "MountainCar-v0")]
            made += [RemoteEnv.attach(url, made[0].instance_id)]
        case "vector":
            made += [RemoteVectorEnv(url, "MountainCar-v0", num_envs=2)]
        case "shards":
            made += [RemoteVectorEnv(url, "MountainCar-v0", num_envs=2, hosts=2)]
        case "clock":
            clock = {"mode": "elastic", "hz": 99, "default_action": 1}
            made += [RealTimeEnv(url, "MountainCar-v0", clock)]
        case "aec":
            made += [RemoteAECEnv(url, "pettingzoo/classic.tictactoe_v3")]
        case "parallel":
            made += [RemoteParallelEnv(url, "pettingzoo/classic.rps_v2")]
        case "local":
            made += [through_wire(gymnasium.make("MountainCar-v0"))]
    yield made[-1]
    for each in reversed(made):
        each.close()


def test_a_private_attribute_of_the_environment_cannot_be_set(remote: Any) -> None:
    for unknown in range(2):
        with pytest.raises(AttributeError, match=WORDS):
            remote._max_episode_steps = 1000
        assert not hasattr(remote, "_max_episode_steps")
        if isinstance(remote, gymnasium.Env):
            for force in (True, False):
                with pytest.raises(AttributeError, match=WORDS):
                    remote.set_wrapper_attr("_max_episode_steps", 2, force=force)
            assert not remote.has_wrapper_attr("_max_episode_steps")
        # Its own ones are all there when it is made: the second round is the same.
        if not unknown:
            remote.reset(seed=1)


def test_a_subclass_has_private_attributes_of_any_name(server: Server) -> None:
    with Noted(server.url, "CartPole-v1") as env:
        env.reset(seed=1)
        env.step(1)
        assert (env._before, env._after, env._later) == (1, 3, 1)
        assert env.set_wrapper_attr("_mine", 4)
        assert env._mine == 4
        env.gravity = 5.0
        assert "gravity" not in vars(env)
        assert env.gravity == 5.0
