"""Attributes that cannot be sent, and the render mode, behave as Python expects."""

from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest

from gym_http_client import (
    AttributeNotSent,
    RemoteEnv,
    RemoteVectorEnv,
    ServerError,
    through_wire,
)
from gym_http_client.envs.vec_env import VecEnvCore
from gym_http_client.gym3 import Gym3Env
from tests.support.api import Api
from tests.support.envs import toys
from tests.support.server import Server
from tests.support.wait import wait_until

pytestmark = pytest.mark.filterwarnings("ignore:.*:UserWarning")


@pytest.fixture
def closing() -> Iterator[Callable[[Any], Any]]:
    """Return a function that registers an environment to close after the test."""
    made: list[Any] = []

    def add(env: Any) -> Any:
        made.append(env)
        return env

    yield add
    while made:
        made.pop().close()


def test_a_missing_attribute_leaves_no_line_in_the_servers_log(
    make_server: Callable[..., Server], closing: Callable[[Any], Any]
) -> None:
    server = make_server("--workers", "1")
    env = closing(RemoteEnv(server.url, "CartPole-v1"))
    vector, spread = (
        closing(RemoteVectorEnv(server.url, "FrozenLake-v1", num_envs=2, hosts=hosts))
        for hosts in (1, 2)
    )
    assert not hasattr(env, "nonsense")
    assert getattr(env, "nonsense", 5) == 5
    assert not env.has_wrapper_attr("nonsense")
    for each in (vector, spread):
        assert not hasattr(each, "nonsense")
        for call in (
            lambda each=each: each.get_attr("nonsense"),
            lambda each=each: each.call("nonsense"),
            lambda each=each: each.call("get_wrapper_attr", "nonsense"),
            lambda each=each: each.call_some([0], "nonsense"),
        ):
            with pytest.raises(AttributeError, match="nonsense"):
                call()
    # An error of an environment follows them in the log.
    env.reset()
    with pytest.raises(AssertionError):
        env.step(7)
    wait_until(lambda: "AssertionError" in server.stderr, 10.0, "the line")
    assert "nonsense" not in server.stderr
    printed = [
        Api(server).get(f"/v1/envs/{each.instance_id}/log/").text
        for each in (env, vector, spread)
    ]
    assert not any("nonsense" in each for each in printed)


@pytest.mark.parametrize("way", ["server", "in process"])
def test_a_class_is_not_taken_for_a_method(
    toy_server: Server, closing: Callable[[Any], Any], way: str
) -> None:
    """As `actions` of MiniGrid, whose members users read."""
    if way == "server":
        env = closing(RemoteEnv(toy_server.url, "toys/Echo-v0"))
    else:
        env = closing(through_wire(toys.Echo()))
    assert env.has_wrapper_attr("kinds")
    with pytest.raises(AttributeNotSent, match=r"toys\.Kinds, and classes cannot"):
        _ = env.unwrapped.kinds.LEFT


def test_what_cannot_be_sent_names_the_side_that_it_needs(
    toy_server: Server, closing: Callable[[Any], Any]
) -> None:
    """As the grid of MiniGrid, which some of its wrappers read."""
    env = closing(RemoteEnv(toy_server.url, "toys/Echo-v0"))
    with pytest.raises(AttributeNotSent, match="wrapper, has to run on the server"):
        _ = env.unwrapped.kinds
    with pytest.raises(ServerError, match=r"cannot be sent: set") as refused:
        env.unwrapped.visited()
    (note,) = refused.value.__notes__
    assert note.startswith("visited was called, and its result cannot be sent")
    assert note.endswith("has to run on the server")


def test_a_vector_refuses_a_clock(server: Server) -> None:
    with pytest.raises(TypeError, match=r"realtime is .*, and vectors have no clock"):
        RemoteVectorEnv(server.url, "CartPole-v1", num_envs=2, realtime={"hz": 5})
    assert not Api(server).instances()


@pytest.mark.parametrize("way", ["server", "in process"])
@pytest.mark.parametrize(
    ("env_id", "name"),
    [("ALE/Pong-v5", "ale"), ("HalfCheetah-v5", "data"), ("CartPole-v1", "env")],
)
def test_an_attribute_that_cannot_travel(
    server: Server, closing: Callable[[Any], Any], way: str, env_id: str, name: str
) -> None:
    import ale_py

    gymnasium.register_envs(ale_py)
    local = closing(gymnasium.make(env_id))
    if way == "server":
        remote = closing(RemoteEnv(server.url, env_id))
    else:
        remote = closing(through_wire(gymnasium.make(env_id)))
    assert not hasattr(remote, name)
    assert getattr(remote, name, 5) == 5
    with pytest.raises(
        AttributeError, match=f"{name} exists.*cannot be sent"
    ) as answer:
        getattr(remote, name)
    assert isinstance(answer.value, AttributeNotSent)
    assert isinstance(answer.value, ServerError)
    assert (answer.value.status_code, answer.value.code) == (501, "unsupported-value")
    for each in (name, "step", "spec", "np_random", "nonsense", "no name", "_private"):
        if each != "_private":
            assert remote.has_wrapper_attr(each) == local.has_wrapper_attr(each), each
    with pytest.raises(AttributeError, match="nonsense"):
        remote.get_wrapper_attr("nonsense")


def test_an_attribute_of_a_vector_that_cannot_travel(
    server: Server, closing: Callable[[Any], Any]
) -> None:
    vector = closing(
        RemoteVectorEnv(
            server.url, "HalfCheetah-v5", num_envs=2, vectorization_mode="sync"
        )
    )
    assert not hasattr(vector, "envs")
    assert getattr(vector, "envs", None) is None
    with pytest.raises(AttributeError, match="envs exists"):
        _ = vector.envs
    with pytest.raises(AttributeError, match="data exists"):
        vector.get_attr("data")
    assert vector.call("has_wrapper_attr", "data") == (True, True)


def test_the_render_mode_cannot_be_changed(
    server: Server, closing: Callable[[Any], Any]
) -> None:
    env = closing(RemoteEnv(server.url, "CartPole-v1", render_mode="rgb_array"))
    vector = closing(RemoteVectorEnv(server.url, "CartPole-v1", num_envs=2))
    words = r"render_mode is .* and cannot be changed: expected when"
    for each in (env, vector):
        with pytest.raises(AttributeError, match=words):
            each.render_mode = "human"
    with pytest.raises(AttributeError, match=words):
        env.set_wrapper_attr("render_mode", "human")
    assert (env.render_mode, vector.render_mode) == ("rgb_array", None)


@pytest.mark.parametrize("hosts", [1, 2])
def test_gym3_reads_another_attribute_of_each(
    server: Server, closing: Callable[[Any], Any], hosts: int
) -> None:
    options: dict[str, Any] = {"num_envs": 3, "vectorization_mode": "sync"}
    remote = RemoteVectorEnv(server.url, "CartPole-v1", hosts=hosts, **options)
    seen = []
    for vector in (remote, gymnasium.make_vec("CartPole-v1", **options)):
        env = closing(Gym3Env(vector))
        vector.set_attr("length", [1.0, 2.0, 3.0])
        names = ["gravity", "length", "length"]
        seen.append(
            [
                env.callmethod("get_wrapper_attr", names),
                env.callmethod("get_wrapper_attr", name=names),
                env.callmethod("get_wrapper_attr", ["length"] * 3),
                env.callmethod("has_wrapper_attr", ["length", "nonsense", "step"]),
            ]
        )
        with pytest.raises(AttributeError, match="nonsense"):
            env.callmethod("get_wrapper_attr", ["length", "nonsense", "length"])
    assert seen[0] == seen[1]
    assert seen[0][0] == [9.8, 2.0, 3.0]


def test_a_change_of_an_attribute_in_place_is_an_error(
    server: Server, closing: Callable[[Any], Any]
) -> None:
    """The environment would not see it, since the attribute is a copy."""
    options: dict[str, Any] = {"num_envs": 2, "vectorization_mode": "sync"}
    options["autoreset_mode"] = "same_step"
    env = closing(RemoteEnv(server.url, "CartPole-v1"))
    vector, shards = (
        closing(RemoteVectorEnv(server.url, "CartPole-v1", hosts=hosts, **options))
        for hosts in (1, 2)
    )
    local = closing(through_wire(gymnasium.make("CartPole-v1")))
    observations = [each.reset(seed=1)[0] for each in (env, vector, shards, local)]
    parts = {"deep": [(np.zeros(2), {"deeper": np.zeros(2)})]}
    for single in (env, local):
        single.parts = parts
    for state in (
        env.unwrapped.state,
        env.get_wrapper_attr("state"),
        env.parts["deep"][0][0],
        env.parts["deep"][0][1]["deeper"],
        local.unwrapped.state,
        local.parts["deep"][0][0],
        vector.get_attr("state")[1],
        shards.get_attr("state")[1],
        VecEnvCore(vector).get_attr("state", [1])[0],
    ):
        with pytest.raises(ValueError, match="read-only"):
            state[0] = 2.3
    # Copies, observations and the whole value are writeable.
    for observation in observations:
        observation[...] = 0
    state = env.unwrapped.state.copy()
    state[0] = 2.3
    env.unwrapped.state = state
    assert env.step(1)[0][0] > 2.29
