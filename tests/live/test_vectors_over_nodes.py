"""One vector whose environments are on several servers of a fleet."""

import contextlib
import os
import signal
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import psutil
import pytest
from gymnasium.vector import AutoresetMode

from gym_http_client import RemoteVectorEnv, ServerError
from tests.support.api import Api, Instance
from tests.support.fleet import fleet
from tests.support.identity import assert_identical
from tests.support.local_reference import assert_same_vector_steps
from tests.support.server import Server
from tests.support.status_page import host_of
from tests.support.wait import wait_until

pytestmark = [pytest.mark.live, pytest.mark.toolchain]

IMPORT = ("--import", "tests.support.envs.toys")


@pytest.fixture(scope="module")
def servers() -> Iterator[list[Server]]:
    """Two servers of a fleet."""
    with fleet("one", "two", args=IMPORT) as (_, servers):
        yield servers


@contextlib.contextmanager
def made(
    server: Server, env_id: str, num_envs: int, **options: Any
) -> Iterator[RemoteVectorEnv]:
    env = RemoteVectorEnv(
        server.url, env_id, num_envs=num_envs, vectorization_mode="sync", **options
    )
    with contextlib.closing(env):
        yield env


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("env_id", ["CartPole-v1", "Taxi-v4", "Blackjack-v1"])
def test_it_equals_one_local_vector(
    servers: list[Server], env_id: str, mode: AutoresetMode
) -> None:
    options = {"vector_kwargs": {"autoreset_mode": mode}}
    local = gymnasium.make_vec(env_id, 7, vectorization_mode="sync", **options)
    with made(servers[0], env_id, 7, nodes=2, **options) as env:
        assert env.num_envs == 7
        assert {each[:3] for each in env.instance_id.split(",")} == numbers(servers)
        assert (env.action_space, env.observation_space) == (
            local.action_space,
            local.observation_space,
        )
        assert_identical(env.reset(seed=3), local.reset(seed=3))
        local.action_space.seed(3)
        for _ in range(60):
            actions = local.action_space.sample()
            expected = local.step(actions)
            assert_identical(env.step(actions), expected)
            ended = expected[2] | expected[3]
            if mode is AutoresetMode.DISABLED and ended.any():
                options = {"reset_mask": ended}
                assert_identical(
                    env.reset(options={**options}), local.reset(options=options)
                )
        for ours, theirs in zip(env.np_random, local.np_random, strict=True):
            assert ours.random() == theirs.random()
        assert_identical(env.step(actions), local.step(actions))
        env.set_attr("x", list(range(7)))
        assert env.get_attr("x") == tuple(range(7))
        assert env.call_some([6, 0, 3], "get_wrapper_attr", "x") == [6, 0, 3]
    local.close()
    assert all(not Api(each).instances() for each in servers)


def numbers(servers: list[Server]) -> set[str]:
    """Return the numbers of nodes, from IDs that they issue."""
    found = set()
    for name in ("one", "two"):
        instance = Api(servers[0]).create(node=name)
        found.add(instance.id[:3])
        instance.close()
    return found


def test_steps_may_be_pending(servers: list[Server]) -> None:
    local = gymnasium.make_vec("CartPole-v1", 4, vectorization_mode="sync")
    with made(servers[1], "CartPole-v1", 4, nodes=("two", "one")) as env:
        assert_identical(env.reset(seed=1), local.reset(seed=1))
        actions = [np.array(each) for each in ([0, 1, 0, 1], [1, 1, 0, 0])]
        for each in actions:
            env.step_async(each)
        for each in actions:
            assert_identical(env.step_wait(), local.step(each))
        with pytest.raises(ValueError, match="there are 3 actions: expected 4"):
            env.step(np.array([0, 1, 0]))
        assert_identical(env.step(actions[0]), local.step(actions[0]))
    local.close()


def test_it_is_made_as_a_whole_or_not_at_all(servers: list[Server]) -> None:
    url = servers[0].url
    with pytest.raises(ServerError, match="did you mean 'two'"):
        RemoteVectorEnv(url, "CartPole-v1", num_envs=4, nodes=("one", "tow"))
    assert Api(servers[0]).instances() == {}
    with pytest.raises(ValueError, match="at most: this fleet has 2 nodes"):
        RemoteVectorEnv(url, "CartPole-v1", num_envs=4, nodes=3)
    for name in ("node", "record"):
        with pytest.raises(TypeError, match=f"since {name} is for one server"):
            RemoteVectorEnv(url, "CartPole-v1", nodes=2, **{name: "one"})
    with pytest.raises(ValueError, match="nodes is 5: expected 1 to 4"):
        RemoteVectorEnv(url, "CartPole-v1", num_envs=4, nodes=5)


def notes_of_a_lost_part(env: RemoteVectorEnv, servers: list[Server]) -> list[str]:
    """Kill the second part's host, and return the notes of the next step's error."""
    env.reset(seed=1)
    second = env.instance_id.split(",")[1]
    pid = host_of(Instance(Api(servers[1]), second))
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not psutil.pid_exists(pid), 5.0, "the host's end")
    with pytest.raises(ServerError) as raised:
        env.step(np.zeros(4, int))
    return raised.value.__notes__


def test_a_lost_part_is_named_and_made_anew(servers: list[Server]) -> None:
    local = gymnasium.make_vec("CartPole-v1", 4, vectorization_mode="sync")
    with made(servers[0], "CartPole-v1", 4, nodes=("one", "two"), replace=True) as env:
        assert notes_of_a_lost_part(env, servers) == [
            "node two, environments 2 to 3",
            "reset makes these environments anew",
        ]
        assert_identical(env.reset(seed=5), local.reset(seed=5))
        assert_same_vector_steps(env, local, 30)
    local.close()


def test_the_error_of_a_lost_part_names_the_option(servers: list[Server]) -> None:
    with made(servers[0], "CartPole-v1", 4, nodes=("one", "two")) as env:
        assert notes_of_a_lost_part(env, servers) == [
            "node two, environments 2 to 3",
            "with replace=True, reset would make these environments anew",
        ]


def test_a_server_alone_has_no_nodes(server: Server) -> None:
    with pytest.raises(ValueError, match="is in no fleet"):
        RemoteVectorEnv(server.url, "CartPole-v1", num_envs=4, nodes=2)
