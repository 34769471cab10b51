"""`RemoteEnv` over ZeroMQ does all that it does over HTTP."""

import pickle
import time
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env

from gym_http_client import RemoteEnv, RemoteVectorEnv, Retries, ServerError
from gym_http_client import Server as Place
from tests.support.api import Api
from tests.support.identity import assert_identical
from tests.support.local_reference import (
    assert_same_description,
    assert_same_episodes,
    assert_same_vector_steps,
)
from tests.support.peers.zmq_peers import gateway, zmq_url
from tests.support.server import Server
from tests.support.wait import wait_until

TOKEN = "a-token-of-the-tests"
ZMQ = ["--zmq", "tcp://127.0.0.1:0"]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server that accepts agents over ZeroMQ."""
    with Server(*ZMQ, "--import", "tests.support.envs.toys") as server:
        yield server


@pytest.mark.filterwarnings("ignore")
def test_gymnasium_finds_nothing_wrong(server: Server) -> None:
    env = gymnasium.make(
        "gym_http/ZeroMQ-v0", url=zmq_url(server), env_id="CartPole-v1"
    )
    check_env(env.unwrapped, skip_render_check=True)
    env.close()
    assert not Api(server).instances()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("env_id", ["CartPole-v1", "Taxi-v4", "Blackjack-v1"])
def test_it_is_equal_to_the_same_made_here(server: Server, env_id: str) -> None:
    local = gymnasium.make(env_id)
    with RemoteEnv(zmq_url(server), env_id) as env:
        assert env.transport == "zeromq"
        assert_same_description(env, local)
        assert_same_episodes(env, local)
        assert_identical(env.np_random.random(3), local.np_random.random(3))
        assert_identical(env.reset(), local.reset())
    local.close()
    assert not Api(server).instances()


def test_attributes_generators_and_pictures(server: Server) -> None:
    local = gymnasium.make("CartPole-v1", render_mode="rgb_array")
    url = zmq_url(server)
    with RemoteEnv(url, "CartPole-v1", render_mode="rgb_array") as env:
        assert env.get_wrapper_attr("length") == 0.5
        env.set_wrapper_attr("length", 0.75)
        assert env.get_wrapper_attr("length") == 0.75
        local.unwrapped.length = 0.75  # type: ignore[attr-defined]
        with pytest.raises(AttributeError):
            env.get_wrapper_attr("nothing_of_the_kind")
        env.reset(seed=1)
        local.reset(seed=1)
        assert_identical(env.render(), local.render())
        assert env.np_random_seed == local.np_random_seed
        with pytest.raises(AssertionError):
            env.step(5)
    local.close()


def test_a_failed_create_raises_as_locally(server: Server) -> None:
    with pytest.raises(gymnasium.error.Error):
        RemoteEnv(zmq_url(server), "NoSuch-v0")
    once = Place(zmq_url(server), retries=Retries(total=0))
    with pytest.raises(ServerError) as caught:
        RemoteEnv(once, "external/nobody")
    assert (caught.value.status_code, caught.value.code) == (503, "external-away")


def test_a_vector(server: Server) -> None:
    local = gymnasium.make_vec("CartPole-v1", 4, "sync")
    env = gymnasium.make_vec(
        "gym_http/ZeroMQ-v0",
        4,
        url=zmq_url(server),
        env_id="CartPole-v1",
        server_mode="sync",
    )
    assert_same_vector_steps(env, local)
    env.close()
    local.close()
    assert not Api(server).instances()


def test_another_goes_on(server: Server) -> None:
    env = RemoteEnv(zmq_url(server), "CartPole-v1")
    env.reset(seed=1)
    other = RemoteEnv.attach(zmq_url(server), env.instance_id)
    other.step(0)
    # Over any transport.
    third = RemoteEnv.attach(server.url, env.instance_id)
    third.step(1)
    other.close()
    env.close()
    third.close()
    assert not Api(server).instances()
    with pytest.raises(ServerError) as caught:
        RemoteEnv.attach(zmq_url(server), env.instance_id)
    assert caught.value.code == "unknown-instance"


def test_a_pickled_one_is_made_anew(server: Server) -> None:
    with (
        RemoteEnv(zmq_url(server), "CartPole-v1") as env,
        pickle.loads(pickle.dumps(env)) as other,
    ):
        assert other.instance_id != env.instance_id
        assert_identical(other.reset(seed=1), env.reset(seed=1))


def test_several_pending_steps(server: Server) -> None:
    env = RemoteVectorEnv(
        zmq_url(server), "CartPole-v1", num_envs=2, vectorization_mode="sync"
    )
    local = gymnasium.make_vec("CartPole-v1", 2, "sync")
    local.action_space.seed(3)
    actions = [local.action_space.sample() for _ in range(40)]
    env.reset(seed=1)
    local.reset(seed=1)
    for action in actions:
        env.step_async(action)
    for action in actions:
        assert_identical(env.step_wait(), local.step(action))
    env.close()
    local.close()


def test_it_outlives_the_gateway(make_server: Callable[..., Server]) -> None:
    server = make_server(*ZMQ)
    local = gymnasium.make("CartPole-v1")
    with RemoteEnv(zmq_url(server), "CartPole-v1") as env:
        assert_identical(env.reset(seed=5), local.reset(seed=5))
        for _ in range(3):
            gateway(server).kill()
            for _ in range(3):
                assert_identical(env.step(0), local.step(0))
    local.close()
    assert not Api(server).instances()


def test_the_end_of_an_instance_is_reported(server: Server) -> None:
    env = RemoteEnv(zmq_url(server), "CartPole-v1")
    env.reset()
    Api(server).post(f"/v1/envs/{env.instance_id}/close/")
    with pytest.raises(ServerError) as caught:
        env.step(0)
    # The server decides whether the call was in flight by then.
    assert caught.value.code in ("unknown-instance", "instance-ended")
    env.close()


def test_the_token(make_server: Callable[..., Server], monkeypatch: Any) -> None:
    server = make_server(*ZMQ, "--token", TOKEN, token=TOKEN)
    with pytest.raises(ServerError) as caught:
        RemoteEnv(zmq_url(server), "CartPole-v1")
    assert caught.value.code == "unauthorized"
    url = zmq_url(server).replace("tcp://", f"tcp://:{TOKEN}@")
    with RemoteEnv(url, "CartPole-v1") as env:
        env.reset()
        assert TOKEN not in repr(env)
    with pytest.raises(ValueError, match="GHS_TOKEN"):
        gymnasium.make("gym_http/ZeroMQ-v0", url=url, env_id="CartPole-v1")
    monkeypatch.setenv("GHS_TOKEN", TOKEN)
    env = gymnasium.make(
        "gym_http/ZeroMQ-v0", url=zmq_url(server), env_id="CartPole-v1"
    )
    env.close()
    wait_until(lambda: not Api(server).instances())


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:5000", "tcp://127.0.0.1", "tcp://127.0.0.1:5/path", "no"]
)
def test_invalid_addresses_are_reported(url: str) -> None:
    with pytest.raises(ValueError, match="looks like tcp://"):
        gymnasium.make("gym_http/ZeroMQ-v0", url=url, env_id="CartPole-v1")


def test_without_a_server_it_ends_soon() -> None:
    server = Place("tcp://127.0.0.1:9", retries=Retries(first_contact=0.2))
    with pytest.raises(ServerError, match=r"tcp://127\.0\.0\.1:9 can be opened"):
        RemoteEnv(server, "CartPole-v1")


def test_an_action_over_the_limit_fails_at_once_and_names_the_limit(
    make_server: Callable[..., Server],
) -> None:
    flags = ("--import", "tests.support.envs.toys", "--max-body", "65536")
    server = make_server(*ZMQ, *flags)
    env = RemoteEnv(zmq_url(server), "toys/Heavy-v0")
    env.reset(seed=0)
    began = time.monotonic()
    with pytest.raises(ServerError, match="more than the 65536") as caught:
        env.step(env.action_space.sample())
    assert time.monotonic() - began < 10.0
    assert (caught.value.status_code, caught.value.code) == (413, "body-too-large")
    assert env.reset(seed=0)
    env.close()
