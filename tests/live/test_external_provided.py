"""Environments that another process provides equal the same local environments."""

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

from gym_http_client import RemoteEnv, RemoteVectorEnv, ServerError
from tests.support.api import Api
from tests.support.broker import listed_env, tcp_url
from tests.support.faults.disconnecting_proxy import DisconnectingProxy
from tests.support.identity import assert_identical
from tests.support.local_reference import assert_same_description, assert_same_episodes
from tests.support.peers.external_env import ExternalEnv
from tests.support.peers.provider_process import STEP_LOG, provided_env
from tests.support.peers.zmq_peers import zmq_url as zmq_place
from tests.support.server import Server
from tests.support.wait import wait_until

WAYS = ["websocket", "tcp", "zmq"]
DIALECTS = ["binary", "typed"]
BOTH = [(way, dialect) for way in WAYS for dialect in DIALECTS]
SPOKEN = [each for each in BOTH if each != ("tcp", "typed")]
# How often a provider's process is killed.
LIVES = 5
ENV_IDS = ["CartPole-v1", "FrozenLake-v1", "Taxi-v4", "Blackjack-v1", "Pendulum-v1"]


def pairwise(values: Sequence[Any]) -> list[tuple[Any, str, str]]:
    """Combine the first value with each way and dialect, each other one with one."""
    others = itertools.cycle(SPOKEN)
    return [
        *((values[0], way, dialect) for way, dialect in SPOKEN),
        *((value, *next(others)) for value in values[1:]),
    ]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server with a broker, a port for plain TCP, and a gateway."""
    ports = ("--external-tcp", "0", "--zmq", "tcp://127.0.0.1:0")
    with Server("--external-grace", "1", *ports) as server:
        ExternalEnv.to(Api(server)).drop()
        yield server


def url_of(server: Server, way: str) -> str:
    """Return the URL that providers connect to."""
    if way == "zmq":
        return f"zmq+{zmq_place(server)}"
    return tcp_url(server) if way == "tcp" else server.url


def free(server: Server) -> int:
    """Count the connections that can be taken."""
    answer = listed_env(Api(server), "provided")
    return answer["free"] if answer else 0


@pytest.fixture(autouse=True)
def empty_broker(server: Server) -> Iterator[None]:
    """Wait until the broker holds no connections of earlier tests."""
    yield
    wait_until(lambda: free(server) == 0)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("way", "dialect"), BOTH)
def test_gymnasium_finds_nothing_wrong(server: Server, way: str, dialect: str) -> None:
    with (
        provided_env(url_of(server, way), "CartPole-v1", dialect=dialect),
        RemoteEnv(server.url, "external/provided", wait_s=20) as env,
    ):
        # Its spec makes a second one, for which no connection is free.
        check_env(env, skip_render_check=True, skip_close_check=True)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("env_id", "way", "dialect"), pairwise(ENV_IDS))
def test_it_is_equal_to_the_same_made_here(
    server: Server, env_id: str, way: str, dialect: str
) -> None:
    local = gymnasium.make(env_id)
    with (
        provided_env(url_of(server, way), env_id, dialect=dialect),
        RemoteEnv(server.url, "external/provided", wait_s=20) as env,
    ):
        assert_same_description(env, local)
        assert_same_episodes(env, local)
        assert_identical(env.np_random.random(3), local.np_random.random(3))
        assert_identical(env.reset(), local.reset())
        for seed in (None, 4):
            kept = [env.np_random, local.np_random]
            for _ in range(3):
                assert kept[0].random() == kept[1].random()
                assert_identical(env.reset(seed=seed), local.reset(seed=seed))
            assert kept[0].spawn(1)[0].random() == kept[1].spawn(1)[0].random()
            env.np_random = np.random.Generator(np.random.SFC64(4))
            local.np_random = np.random.Generator(np.random.SFC64(4))
            assert env.np_random_seed == local.np_random_seed == -1
            assert_identical(env.reset(), local.reset())
    local.close()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("mode", "way", "dialect"), pairwise(list(AutoresetMode)))
def test_a_vector_of_8_is_equal_to_the_same_made_here(
    server: Server, mode: AutoresetMode, way: str, dialect: str
) -> None:
    local = gymnasium.make_vec(
        "CartPole-v1", 8, "sync", vector_kwargs={"autoreset_mode": mode}
    )
    local.action_space.seed(3)
    with provided_env(url_of(server, way), "CartPole-v1", n=8, dialect=dialect):
        env = RemoteVectorEnv(
            server.url, "external/provided", num_envs=8, autoreset_mode=mode, wait_s=20
        )
        assert env.observation_space == local.observation_space
        assert_identical(env.reset(seed=5), local.reset(seed=5))
        for _ in range(60):
            action = local.action_space.sample()
            step, expected = env.step(action), local.step(action)
            assert_identical(step, expected)
            done = np.logical_or(expected[2], expected[3])
            if mode == AutoresetMode.DISABLED and done.any():
                mask: Any = {"reset_mask": done}
                assert_identical(
                    env.reset(options=dict(mask)), local.reset(options=mask)
                )
        env.close()
    local.close()


def test_its_exceptions_are_raised_at_the_agent(server: Server) -> None:
    with (
        provided_env(server.url, "CartPole-v1"),
        RemoteEnv(server.url, "external/provided", wait_s=20) as env,
    ):
        with pytest.raises(gymnasium.error.ResetNeeded):
            env.step(0)
        env.reset()
        with pytest.raises(AssertionError):
            env.step(5)
        # After an error, every external environment needs a reset.
        with pytest.raises(gymnasium.error.ResetNeeded):
            env.step(0)
        env.reset()
        env.step(0)
        with pytest.raises(AttributeError):
            env.get_wrapper_attr("nothing_of_the_kind")


def test_attributes_go_both_ways(server: Server) -> None:
    with (
        provided_env(server.url, "CartPole-v1"),
        RemoteEnv(server.url, "external/provided", wait_s=20) as env,
    ):
        assert env.get_wrapper_attr("length") == 0.5
        env.set_wrapper_attr("length", 0.75)
        assert env.get_wrapper_attr("length") == 0.75


def test_kwargs_and_render_modes_reach_the_factory(server: Server) -> None:
    local = gymnasium.make("FrozenLake-v1", is_slippery=False, render_mode="ansi")
    local.reset(seed=1)
    with (
        provided_env(server.url, "FrozenLake-v1"),
        RemoteEnv(
            server.url,
            "external/provided",
            wait_s=20,
            render_mode="ansi",
            is_slippery=False,
        ) as env,
    ):
        env.reset(seed=1)
        for action in (2, 2, 1):
            assert_identical(env.step(action), local.step(action))
        assert env.render() == local.render()
    local.close()


def test_another_agent_finds_it_fresh(server: Server) -> None:
    with provided_env(server.url, "CartPole-v1"):
        with RemoteEnv(server.url, "external/provided", wait_s=20) as env:
            env.set_wrapper_attr("length", 0.75)
        with RemoteEnv(server.url, "external/provided", wait_s=20) as env:
            assert env.get_wrapper_attr("length") == 0.5


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("way", ["websocket", "zmq"])
def test_its_process_is_killed_and_started_again(
    server: Server, tmp_path: Path, way: str
) -> None:
    """An agent sees the documented error, and every step counts once."""
    notes = tmp_path / "steps"
    url, env_id = url_of(server, way), f"{STEP_LOG}{notes}"
    taken: list[str] = []
    with contextlib.ExitStack() as lives:
        process = lives.enter_context(provided_env(url, env_id))
        for life in range(LIVES):
            env = RemoteEnv(server.url, "external/provided", wait_s=20)
            env.reset()
            for count in range(1, 4):
                action = 10 * life + count
                assert env.step(action)[0] == count
                taken.append(str(action))
            process.kill()
            # The next one is there before the agent of this one knows.
            process = lives.enter_context(provided_env(url, env_id))
            with pytest.raises(ServerError) as caught:
                env.step(9999)
            assert caught.value.code == "instance-ended"
            env.close()
    assert notes.read_text().split() == taken


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("way", ["websocket", "zmq"])
def test_its_connection_is_cut_again_and_again(
    server: Server, tmp_path: Path, way: str, dialect: str
) -> None:
    """An agent notices nothing, and no step is doubled or lost."""
    notes = tmp_path / "steps"
    scheme, port = url_of(server, way).rsplit(":", 1)
    with DisconnectingProxy(int(port)) as cutter:
        url = f"{scheme}:{cutter.port}"
        with provided_env(url, f"{STEP_LOG}{notes}", dialect=dialect):
            env = RemoteEnv(server.url, "external/provided", wait_s=20)
            env.reset()
            for count in range(1, 61):
                if count % 3 == 0:
                    # Before the request, or before its answer.
                    cutter.cut_after(count % 2)
                assert env.step(count)[0] == count
            assert cutter.cuts >= 20
            env.close()
    assert notes.read_text().split() == [str(count) for count in range(1, 61)]
