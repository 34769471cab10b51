"""Shards that die, stop or fail at any moment of a step, and what clients get then."""

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import psutil
import pytest

from gym_http_client import RemoteVectorEnv, ServerError
from tests.support.server import Server
from tests.support.wait import wait_until

COUNT, HOSTS = 6, 3
#: Rounds of each fault in one test.
ROUNDS = 8
#: A step takes less than a millisecond.
LATEST_S = 0.01


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server with a short deadline of steps."""
    limits = ("--step-deadline", "1")
    with Server("--import", "tests.support.envs.hostile", *limits) as started:
        yield started


@pytest.fixture
def make(
    server: Server,
) -> Iterator[Callable[[str], tuple[RemoteVectorEnv, list[int]]]]:
    """Return a factory of vectors over several processes, with their IDs."""
    made: list[RemoteVectorEnv] = []

    def create(vice: str) -> tuple[RemoteVectorEnv, list[int]]:
        vector = RemoteVectorEnv(
            server.url,
            f"hostile/{vice}-v0",
            num_envs=COUNT,
            hosts=HOSTS,
            vectorization_mode="sync",
        )
        made.append(vector)
        _, info = vector.reset()
        return vector, info["pid"].tolist()[:: COUNT // HOSTS]

    yield create
    for vector in made:
        vector.close()


def step_until_it_fails(vector: RemoteVectorEnv) -> ServerError:
    """Take steps, check that each counts once, and return the error at the end."""
    count = 0
    while True:
        try:
            observation, *_ = vector.step(np.zeros(COUNT, np.int64))
        except ServerError as error:
            return error
        count += 1
        assert observation.tolist() == [count] * COUNT


def gone(pids: list[int]) -> None:
    """Wait until processes have ended."""
    wait_until(lambda: not any(map(psutil.pid_exists, pids)), 5.0, "the processes' end")


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGSEGV])
def test_deaths_at_any_moment(
    make: Callable[[str], tuple[RemoteVectorEnv, list[int]]], signum: signal.Signals
) -> None:
    for number in range(ROUNDS):
        vector, pids = make("Harmless")
        victim = pids[1 + number % (HOSTS - 1)]
        delay_s = random.Random(number).random() * LATEST_S
        killer = threading.Timer(delay_s, os.kill, [victim, signum])
        killer.start()
        error = step_until_it_fails(vector)
        killer.join()
        assert (error.status_code, error.code) == (502, "env-crashed"), error
        assert signum.name in error.message
        gone(pids)
        with pytest.raises(ServerError) as caught:
            vector.reset()
        assert caught.value.status_code == 410


def test_stops_at_any_moment(
    make: Callable[[str], tuple[RemoteVectorEnv, list[int]]],
) -> None:
    for number in range(2):
        vector, pids = make("Harmless")
        victim = pids[1 + number % (HOSTS - 1)]
        delay_s = random.Random(number).random() * LATEST_S
        stopper = threading.Timer(delay_s, os.kill, [victim, signal.SIGSTOP])
        stopper.start()
        began = time.monotonic()
        error = step_until_it_fails(vector)
        stopper.join()
        assert (error.status_code, error.code) == (504, "step-deadline"), error
        assert time.monotonic() - began < 8
        gone(pids)


def test_a_short_stop_delays_a_step(
    make: Callable[[str], tuple[RemoteVectorEnv, list[int]]],
) -> None:
    vector, pids = make("Harmless")
    for number in range(1, ROUNDS):
        victim = pids[number % HOSTS]
        os.kill(victim, signal.SIGSTOP)
        later = threading.Timer(0.02, os.kill, [victim, signal.SIGCONT])
        later.start()
        observation, *_ = vector.step(np.zeros(COUNT, np.int64))
        later.join()
        assert observation.tolist() == [number] * COUNT


def test_exceptions_of_any_environment(
    make: Callable[[str], tuple[RemoteVectorEnv, list[int]]],
) -> None:
    vector, pids = make("RaiseKeyError")
    for number in range(ROUNDS * COUNT):
        before = number % 3
        for count in range(1, before + 1):
            observation, *_ = vector.step(np.zeros(COUNT, np.int64))
            assert observation.tolist() == [count] * COUNT
        raising = np.zeros(COUNT, np.int64)
        raising[[number % COUNT, number * 5 % COUNT]] = 1
        with pytest.raises(KeyError):
            vector.step(raising)
        # A shard takes no step behind its exception, and all other shards take one.
        expected = []
        for shard in raising.reshape(HOSTS, -1):
            first = int(np.flatnonzero([*shard, 1])[0])
            expected += [before + (index <= first) for index in range(len(shard))]
        assert list(vector.get_attr("steps")) == expected
        vector.reset()
    assert all(map(psutil.pid_exists, pids))


@pytest.mark.parametrize("vice", ["Segfault", "KillSelf", "Exit0"])
def test_crashes_of_any_environment(
    make: Callable[[str], tuple[RemoteVectorEnv, list[int]]], vice: str
) -> None:
    for number in range(COUNT):
        vector, pids = make(vice)
        action = np.zeros(COUNT, np.int64)
        for count in range(1, number % 3 + 1):
            observation, *_ = vector.step(action)
            assert observation.tolist() == [count] * COUNT
        action[number] = 1
        with pytest.raises(ServerError) as caught:
            vector.step(action)
        assert (caught.value.status_code, caught.value.code) == (502, "env-crashed")
        gone(pids)
