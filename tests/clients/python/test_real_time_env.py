"""Environments with a clock, from Python, over streams, HTTP and ZeroMQ."""

import itertools
import pickle
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest

from gym_http_client import (
    Client,
    NotRealTime,
    Paused,
    RealTimeEnv,
    RemoteEnv,
    Retries,
    WorldEnded,
)
from gym_http_client import Server as Place
from tests.support.api import Api
from tests.support.faults.http_faults import FaultyNetwork
from tests.support.identity import assert_identical
from tests.support.peers.zmq_peers import zmq_url
from tests.support.server import ROOT, Server

ELASTIC = {"mode": "elastic", "hz": 100}
# Episodes last longer than a test.
RUNNING = {"mode": "free_running", "hz": 100, "default_action": [0.0]}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server("--zmq", "tcp://127.0.0.1:0") as started:
        yield started


@pytest.fixture(params=["stream", "rest", "zeromq"])
def place(request: pytest.FixtureRequest, server: Server) -> Place:
    if request.param == "zeromq":
        return Place(zmq_url(server))
    return Place(server.url, streams=request.param == "stream")


@pytest.fixture
def make(place: Place, server: Server) -> Iterator[Callable[..., RealTimeEnv]]:
    made = []

    def make(env_id: str, realtime: dict[str, Any], **options: Any) -> RealTimeEnv:
        made.append(RealTimeEnv(place, env_id, realtime, **options))
        return made[-1]

    yield make
    for env in made:
        env.close()
    assert not Api(server).instances()


def test_elastic_steps_are_those_of_a_local_environment_one_action_later(
    make: Callable[..., RealTimeEnv],
) -> None:
    env, local = make("Pendulum-v1", ELASTIC), gymnasium.make("Pendulum-v1")
    observation, info = env.reset(seed=42)
    assert_identical(observation, local.reset(seed=42)[0])
    assert info["realtime"]["episode"] == 1
    actions = [np.array([value], np.float32) for value in (0.0, 1.0, -1.5, 0.5)]
    for before, action in itertools.pairwise(actions):
        *result, info = env.step(action)
        assert_identical(result, list(local.step(before))[:4])
        timing = info["realtime"]
        assert_identical(timing["action"]["value"], before)
        assert timing["now_ns"] >= timing["capture_ns"] + timing["age_ns"] > 0
        assert timing["update"] == timing["tick"] + 1
    answer = env.timing()
    # The last time step may have ended meanwhile.
    assert answer["ticks"] - len(actions) in (-1, 0)
    assert answer["settings"]["hz"] == 100


def test_a_free_running_world_loses_no_reward(
    make: Callable[..., RealTimeEnv],
) -> None:
    env = make("Pendulum-v1", RUNNING | {"rewards": {"channels": ["cost"]}})
    env.reset(seed=1)
    ticks = 0
    for _ in range(10):
        _, reward, terminated, truncated, info = env.step(np.array([0.5], np.float32))
        assert not terminated
        assert not truncated
        assert reward == pytest.approx(info["rewards"][0])
        assert info["rewards"].dtype == np.float64
        # Each tick since the last answer is in this one, or was left out.
        timing = info["realtime"]
        ticks += 1 + timing["merged"] + timing["skipped"]
        assert timing["tick"] == ticks
    assert_conserved(env)


def test_an_agent_answers_updates(make: Callable[..., RealTimeEnv]) -> None:
    env = make("Pendulum-v1", RUNNING)
    _, info = env.reset(seed=1)
    seen = [info["realtime"]["update"]]
    with env.updates() as updates:
        for observation, _, _, _, info in updates:
            assert observation.shape == (3,)
            seen.append(info["realtime"]["update"])
            answer = env.act(np.array([seen[-1] / 1000], np.float32))
            assert answer["sequence"] == len(seen) - 1
            if len(seen) > 10:
                break
    assert seen == sorted(set(seen))
    assert updates.lost == 0
    counts = env.timing()
    assert counts["reaction_ns"]["count"] >= 10
    assert counts["actions"]["received"] == 10
    assert_conserved(env)


def test_every_update_is_delivered_in_order(make: Callable[..., RealTimeEnv]) -> None:
    env = make("Pendulum-v1", RUNNING)
    _, info = env.reset(seed=1)
    first = info["realtime"]["update"]
    with env.updates(deliver="all", most=3) as updates:
        numbers = [next(updates).info["realtime"]["update"] for _ in range(20)]
    assert numbers == list(range(first + 1, first + 21))


def test_a_chunk_is_one_action_a_tick(make: Callable[..., RealTimeEnv]) -> None:
    env = make("Pendulum-v1", RUNNING)
    env.reset(seed=1)
    actions = np.linspace(-1, 1, 5, dtype=np.float32).reshape(5, 1)
    with env.updates(deliver="all") as updates:
        at = env.timing()["ticks"] + 50
        assert env.act(actions=actions, at=at)["queued"] == 5
        applied = {}
        for update in updates:
            timing = update.info["realtime"]
            if at <= timing["tick"] < at + 5:
                applied[timing["tick"]] = timing["action"]["value"]
            if timing["tick"] >= at + 4:
                break
    # A busy machine skips ticks; the others have their actions.
    for tick, value in applied.items():
        assert_identical(value, actions[tick - at])
    assert_conserved(env)


def test_a_higher_priority_takes_over(make: Callable[..., RealTimeEnv]) -> None:
    env = make("Pendulum-v1", RUNNING)
    env.reset(seed=1)
    person, policy = np.array([2.0], np.float32), np.array([-1.0], np.float32)
    with env.updates(deliver="all") as updates:
        env.act(person, priority=10)
        env.act(policy)
        timing = next(
            update.info["realtime"]
            for update in updates
            if update.info["realtime"]["action"]["number"] > 0
        )
    assert timing["action"]["priority"] == 10
    assert_identical(timing["action"]["value"], person)


def test_a_sign_of_life_is_no_action(make: Callable[..., RealTimeEnv]) -> None:
    env = make("Pendulum-v1", RUNNING)
    env.reset(seed=1)
    assert env.act()["queued"] == 0
    assert env.timing()["actions"]["received"] == 0


def test_a_silent_channel_is_nan(make: Callable[..., RealTimeEnv]) -> None:
    env = make("world/intermittent-bandit", {"mode": "free_running", "hz": 200})
    env.reset(seed=1)
    silent = 0
    for _ in range(40):
        # Each of the channels says nothing in one of ten ticks.
        _, reward, _, _, info = env.step(np.eye(5)[3])
        rewards = info["rewards"]
        assert (rewards.dtype, rewards.shape) == (np.float64, (5,))
        silent += int(np.isnan(rewards).sum())
        assert reward == np.nansum(rewards)
    assert silent > 0


@pytest.mark.parametrize("streams", [True, False], ids=["stream", "rest"])
def test_actions_and_updates_survive_a_bad_network(
    server: Server, streams: bool
) -> None:
    retries = Retries(first=0.005, longest=0.1)
    with FaultyNetwork(server.port, probability=0.1, seed=2, holds=False) as chaos:
        bad = Place(chaos.url, streams=streams, retries=retries)
        with RealTimeEnv(bad, "Pendulum-v1", RUNNING | {"buffer": 1024}) as env:
            env.reset(seed=1)
            numbers = []
            with env.updates(deliver="all") as updates:
                for update in itertools.islice(updates, 40):
                    numbers.append(update.info["realtime"]["update"])
                    env.act(np.array([0.5], np.float32))
            assert env.timing()["actions"]["received"] == 40
            assert_conserved(env)
        assert chaos.counts().total() > chaos.counts()["exchanges"]
    assert numbers == list(range(2, 42))
    assert updates.lost == 0


def test_a_silent_agent_is_told_so(make: Callable[..., RealTimeEnv]) -> None:
    env = make("Pendulum-v1", RUNNING | {"agent_timeout_s": 0.05})
    env.reset(seed=1)
    lost = next(
        update.info["realtime"]["agent_lost"]
        for update in env.updates(deliver="all")
        if "agent_lost" in update.info["realtime"]
    )
    assert lost["silent_ns"] >= 50_000_000
    assert lost["then"] == "default"


def test_a_paused_clock_refuses_steps(make: Callable[..., RealTimeEnv]) -> None:
    env = make("Pendulum-v1", ELASTIC)
    env.reset(seed=1)
    assert env.pause()["state"] == "paused"
    with pytest.raises(Paused, match="resume"):
        env.step(np.array([0.0], np.float32))
    with pytest.raises(Paused):
        env.act(np.array([0.0], np.float32))
    assert env.resume()["state"] == "running"
    env.step(np.array([0.0], np.float32))
    env.pause()
    env.reset()
    assert env.timing()["state"] == "running"


def test_the_rate_can_be_changed(make: Callable[..., RealTimeEnv]) -> None:
    env = make("Pendulum-v1", ELASTIC)
    env.reset(seed=1)
    assert env.set_timing(hz=50)["settings"]["hz"] == 50
    with pytest.raises(Exception, match="buffer is fixed"):
        env.set_timing(buffer=3)
    events = env.trace(last=5)["traceEvents"]
    assert events


def test_iteration_ends_with_the_world(make: Callable[..., RealTimeEnv]) -> None:
    clock = RUNNING | {"episodes": 2, "on_done": "reset"}
    env = make("Pendulum-v1", clock, max_episode_steps=3)
    env.reset(seed=1)
    timings = [update.info["realtime"] for update in env.updates(deliver="all")]
    assert timings[-1]["last"] is True
    assert not any("last" in timing for timing in timings[:-1])
    assert [each["episode"] for each in timings] == [1, 1, 1, 2, 2, 2, 2]
    assert list(env.updates()) == []
    with pytest.raises(WorldEnded):
        env.reset(seed=1)
    with pytest.raises(WorldEnded):
        env.act([0.0])


def test_another_environment_has_no_clock(place: Place, server: Server) -> None:
    with RemoteEnv(place, "CartPole-v1") as other:
        with pytest.raises(NotRealTime, match="realtime"):
            RealTimeEnv.attach(place, other.instance_id)
        # It was not ended.
        other.reset()
    assert not Api(server).instances()


def test_a_second_object_uses_the_same_clock(
    make: Callable[..., RealTimeEnv], place: Place
) -> None:
    env = make("Pendulum-v1", RUNNING)
    env.reset(seed=1)
    other = RealTimeEnv.attach(place, env.instance_id)
    assert other.act(np.array([1.0], np.float32))["sequence"] == 1
    assert env.act(np.array([1.0], np.float32))["sequence"] == 1
    assert next(other.updates()).info["realtime"]["episode"] == 1
    other.close()


def test_it_is_registered_and_can_be_pickled(server: Server) -> None:
    clock = {"mode": "elastic", "hz": 100, "default_action": np.int64(1)}
    env: Any = gymnasium.make(
        "gym_http/RealTime-v0", url=server.url, env_id="CartPole-v1", realtime=clock
    )
    assert isinstance(env.unwrapped, RealTimeEnv)
    env.reset(seed=1)
    assert env.step(1)[4]["realtime"]["action"]["value"] == 1
    again = pickle.loads(pickle.dumps(env.unwrapped))
    again.reset(seed=1)
    assert again.timing()["settings"]["default_action"] == 1
    again.close()
    env.close()
    assert not Api(server).instances()


def test_the_methods_of_a_client(server: Server) -> None:
    with Client(server.url) as client:
        instance = client.env_create("Pendulum-v1", realtime=RUNNING)
        _, info = client.reset(instance, seed=1)
        assert info["realtime"]["episode"] == 1
        assert client.step(instance, [0.5])[4]["realtime"]["tick"] > 0
        assert [client.env_act(instance, [0.5])["sequence"] for _ in "ab"] == [1, 2]
        answer = client.env_updates(instance, 0, deliver="all", most=2)
        assert [each["realtime"]["update"] for each in answer["updates"]] == [1, 2]
        assert client.env_set_realtime(instance, hz=20)["settings"]["hz"] == 20
        assert client.env_pause(instance)["state"] == "paused"
        assert client.env_resume(instance)["state"] == "running"
        assert client.env_trace(instance, last=3, format="json")["events"]
        assert client.env_realtime(instance)["actions"]["received"] == 3
        client.env_close(instance)
        plain = client.env_create("CartPole-v1")
        with pytest.raises(NotRealTime):
            client.env_act(plain, 0)
        client.env_close(plain)


def test_the_example_balances_a_pendulum(server: Server) -> None:
    command = [sys.executable, str(ROOT / "examples" / "realtime" / "pendulum.py")]
    printed = subprocess.run(
        [*command, "--hz", "200", server.url],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    found = re.search(r"^return (-[\d.]+)$", printed, re.MULTILINE)
    assert found
    # It stands upright from the beginning; a fallen rod costs up to 3,000.
    assert float(found[1]) > -500, printed
    counts = re.search(r"(\d+) of (\d+) actions applied", printed)
    assert counts
    assert 0 < int(counts[1]) <= int(counts[2]) < 200


def assert_conserved(env: RealTimeEnv) -> None:
    """Every received action is accounted for."""
    counts = env.timing()["actions"]
    received = counts.pop("received")
    assert received == sum(counts.values())
