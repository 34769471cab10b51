"""The routing table: any agent drives any external environment over any transport."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gymnasium
import pytest

from gym_http_client import RemoteEnv
from gym_http_client import Server as Place
from tests.support.api import Api, ok
from tests.support.identity import assert_identical
from tests.support.peers.provider_process import provided_env
from tests.support.peers.tango import CELLS, STEPPED, TangoAgent, TangoPage
from tests.support.peers.zmq_peers import zmq_url
from tests.support.server import Server
from tests.support.wait import wait_until

STEPS = 40
_TCP = re.compile(r"connect at (tcp://\S+)")
_POOL = ThreadPoolExecutor(2)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server with every way in."""
    flags = ["--external-tcp", "0", "--zmq", "tcp://127.0.0.1:0"]
    # A killed environment on HTTP is removed once it was silent for too long.
    flags += ["--external-grace", "1", "--external-heartbeat", "0.5"]
    with Server(*flags) as server:
        yield server


@pytest.fixture(autouse=True)
def nothing_left(server: Server) -> Iterator[None]:
    yield
    api = Api(server)
    wait_until(lambda: not ok(api.get("/v1/registry/?search=external/"))["envs"], 20)


def provider_options(server: Server, transport: str) -> dict[str, Any]:
    """Return how an environment connects."""
    if transport == "tcp":
        match = wait_until(lambda: _TCP.search(server.stdout))
        return {"url": match[1]}
    if transport == "zeromq":
        return {"url": "zmq+" + zmq_url(server)}
    return {"url": server.url, "transport": transport}


def driver(server: Server, transport: str) -> Place:
    """Return how an agent connects."""
    if transport == "zeromq":
        return Place(zmq_url(server))
    return Place(server.url, streams=transport == "stream")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("env_side", ["websocket", "tcp", "zeromq", "http"])
@pytest.mark.parametrize("agent_side", ["rest", "stream", "zeromq"])
def test_each_cell(server: Server, agent_side: str, env_side: str) -> None:
    local = gymnasium.make("Blackjack-v1")
    with provided_env(env_id="Blackjack-v1", **provider_options(server, env_side)):
        there = driver(server, agent_side)
        with RemoteEnv(there, "external/provided", wait_s=20) as env:
            assert env.observation_space == local.observation_space
            assert env.action_space == local.action_space
            assert_identical(env.reset(seed=5), local.reset(seed=5))
            # Only steps open streams, so the check comes now.
            assert env.transport == agent_side
            local.action_space.seed(3)
            for _ in range(STEPS):
                action = local.action_space.sample()
                step, expected = env.step(action), local.step(action)
                assert_identical(step, expected)
                if expected[2] or expected[3]:
                    assert_identical(env.reset(), local.reset())
    local.close()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("env_side", ["websocket", "tcp", "zeromq", "http"])
def test_an_agent_of_tangos(server: Server, env_side: str) -> None:
    local = gymnasium.make("FrozenLake-v1")
    with (
        provided_env(
            env_id="FrozenLake-v1", name="tango", **provider_options(server, env_side)
        ),
        TangoAgent(server) as agent,
    ):
        answer = wait_until(lambda: free(agent.reset(seed=5)), 20)
        observation, info = local.reset(seed=5)
        assert answer == {"observation": observation, "info": info}
        local.action_space.seed(3)
        for _ in range(STEPS):
            action = local.action_space.sample()
            observation, reward, terminated, truncated, info = local.step(action)
            assert agent.act(str(action)) == {
                "observation": observation,
                "reward": reward,
                "terminated": terminated,
                "truncated": truncated,
                "info": info,
            }
            if terminated or truncated:
                observation, info = local.reset()
                assert agent.reset() == {"observation": observation, "info": info}
        assert agent.close() == {"info": "closed"}
    local.close()


def free(answer: Any) -> Any:
    return None if "error" in answer else answer


@pytest.mark.parametrize("agent_side", ["rest", "stream", "zeromq"])
def test_a_page_of_tangos(server: Server, agent_side: str) -> None:
    with TangoPage(server) as page:
        drive = _POOL.submit(episode, driver(server, agent_side))
        request = {"type": "reset", "seed": 3, "options": None}
        page.answer(request, {"observation": CELLS, "info": {}})
        for action in "0123":
            page.answer({"type": "action", "action": action}, STEPPED)
        page.answer({"type": "close"}, {"info": "closed"})
        assert drive.result(20) == 4.0


def episode(there: Place) -> float:
    with RemoteEnv(there, "external/tango", wait_s=20) as env:
        observation, _ = env.reset(seed=3)
        assert env.observation_space.contains(observation)
        assert observation.tolist() == CELLS
        return sum(float(env.step(action)[1]) for action in range(4))
