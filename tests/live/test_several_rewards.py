"""Rewards of several components are served as they are, and counted one by one."""

import contextlib
import json
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest

from gym_http_client import RemoteEnv, RemoteVectorEnv
from gym_http_client import Server as Address
from gym_http_client.envs.vec_env import VecEnvCore
from tests.support.api import Api, Instance, no_content, ok
from tests.support.envs import several_rewards
from tests.support.envs.several_rewards import LENGTH
from tests.support.local_reference import assert_same_episodes, assert_same_vector_steps
from tests.support.server import Server
from tests.support.websocket import TEXT, WebSocket

pytestmark = pytest.mark.live

ENV_ID = "several/Rewards-v0"
# 1.25, -2.5, 3.75 and so on, times 1, 2 and 3.
RETURNS = {1: 7.5, 2: [7.5, -15.0], 4: [7.5, -15.0, 22.5, -30.0]}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server("--import", several_rewards.__name__) as started:
        yield started


@pytest.fixture
def create(server: Server) -> Iterator[Callable[..., Instance]]:
    with contextlib.ExitStack() as made:

        def make(components: int, **options: Any) -> Instance:
            kwargs = {"components": components, **options.pop("kwargs", {})}
            instance = Api(server).create(ENV_ID, kwargs=kwargs, **options)
            made.callback(instance.close)
            return instance

        yield make


def plain_rewards(components: int, count: int = LENGTH) -> list[Any]:
    """Return the rewards of an episode as plain JSON has them."""
    rewards = [
        several_rewards.reward(number, components).tolist()
        for number in range(1, count + 1)
    ]
    return [each[0] for each in rewards] if components == 1 else rewards


@pytest.mark.parametrize("components", RETURNS)
def test_plain_json_has_a_float_for_one_component_and_a_list_for_several(
    create: Callable[..., Instance], components: int
) -> None:
    instance = create(components)
    instance.reset()
    rewards = [instance.step(0)["reward"] for _ in range(LENGTH)]
    assert rewards == plain_rewards(components)
    assert type(rewards[0]) is (float if components == 1 else list)
    instance.reset()
    several = ok(instance.post("step/", {"actions": [0] * 9}))
    assert several["rewards"] == rewards
    (episode,) = ok(instance.post("rollout/", {"actions": [[0] * 9]}))["episodes"]
    assert episode["rewards"] == rewards
    assert episode["return"] == RETURNS[components]


def test_flags_in_arrays_end_an_episode(create: Callable[..., Instance]) -> None:
    instance = create(1, kwargs={"flags": True})
    instance.reset()
    several = ok(instance.post("step/", {"actions": [0] * 9}))
    assert several["terminated"] == several["done"] == [False, False, True]
    (episode,) = ok(instance.get("episodes/"))["episodes"]
    assert (episode["return"], episode["end"]) == (RETURNS[1], "terminated")


@pytest.mark.parametrize("components", RETURNS)
@pytest.mark.parametrize("streams", [True, False])
def test_lossless_forms_keep_the_shape(
    server: Server, components: int, streams: bool
) -> None:
    address = Address(server.url, streams=streams)
    local = gymnasium.make(ENV_ID, components=components)
    with contextlib.closing(RemoteEnv(address, ENV_ID, components=components)) as env:
        assert_same_episodes(env, local, 4 * LENGTH)


@pytest.mark.parametrize("mode", ["async", "vector_entry_point"])
@pytest.mark.parametrize("components", [1, 2])
def test_vectors_return_what_local_ones_do(
    server: Server, mode: Any, components: int
) -> None:
    options: dict[str, Any] = {"components": components, "num_envs": 3}
    options["vectorization_mode"] = mode
    if mode == "async":
        # The local vector would leave descriptors of its memory.
        options["vector_kwargs"] = {"shared_memory": False}
    local = gymnasium.make_vec(ENV_ID, **options)
    env = RemoteVectorEnv(server.url, ENV_ID, **options)
    with contextlib.closing(local), contextlib.closing(env):
        assert_same_vector_steps(env, local, 4 * LENGTH)
        episodes = ok(Instance(Api(server), env.instance_id).get("episodes/"))
    assert len(episodes["episodes"]) == 9
    for each in episodes["episodes"]:
        assert (each["return"], each["length"]) == (RETURNS[components], LENGTH)


@pytest.mark.parametrize("hosts", [1, 2])
def test_a_sync_vector_refuses_them_as_a_local_one_does(
    server: Server, hosts: int
) -> None:
    local = gymnasium.make_vec(ENV_ID, num_envs=2, vectorization_mode="sync")
    local.reset()
    with pytest.raises(ValueError, match="sequence") as expected:
        local.step(np.zeros(2, np.int64))
    options: dict[str, Any] = {"num_envs": 2, "autoreset_mode": "same_step"}
    env = RemoteVectorEnv(
        server.url, ENV_ID, vectorization_mode="sync", hosts=hosts, **options
    )
    with contextlib.closing(env):
        core = VecEnvCore(env)
        core.reset([None] * 2, [{}] * 2)
        core.step_async(np.zeros(2, np.int64))
        with pytest.raises(ValueError, match="sequence") as raised:
            core.step_wait()
        assert raised.value.args == expected.value.args


@pytest.mark.parametrize("components", RETURNS)
def test_bookkeeping_has_a_sum_for_each_component(
    server: Server, create: Callable[..., Instance], components: int
) -> None:
    instance = create(components, label=f"with {components}")
    directory = f"several-{components}"
    no_content(instance.post("monitor/start/", {"directory": directory}))
    instance.reset()
    for _ in range(LENGTH):
        instance.step(0)
    with Address(server.url).show(instance.id) as states:
        shown = next(states).state
    expected = RETURNS[components]
    assert shown["return"] == expected
    assert shown["reward"] == np.atleast_1d(plain_rewards(components)[-1]).tolist()
    (episode,) = ok(instance.get("episodes/"))["episodes"]
    (monitored,) = ok(instance.get("monitor/"))["episodes"]
    assert episode["return"] == monitored["return"] == expected
    no_content(instance.post("monitor/close/"))
    (line,) = (server.data_dir / directory / "episodes.jsonl").read_text().splitlines()
    assert json.loads(line)["return"] == expected
    (row,) = ok(Api(server).get(f"/v1/instances/?search=with%20{components}"))[
        "instances"
    ]
    # The list has one number.
    assert row["last_return"] == (expected if components == 1 else None)
    assert row["last_length"] == LENGTH


def test_the_environment_is_called_once_for_each_step(
    create: Callable[..., Instance],
) -> None:
    instance = create(2)
    no_content(instance.post("monitor/start/", {"directory": "once"}))
    with WebSocket.to(instance, sec_websocket_protocol=TEXT) as socket:
        socket.call(op="reset")
        seen = [socket.call(op="step", action=0)["body"] for _ in range(LENGTH)]
    assert [each["observation"] for each in seen] == [1, 2, 3]
    assert [each["reward"] for each in seen] == plain_rewards(2)
