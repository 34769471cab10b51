"""Recorded instances of all kinds are resumed after `kill -9` of every process.

CHAOS_TIMES=15 kills a server with an instance of each kind fifteen times: 210 moments.
"""

import contextlib
import os
import random
import threading
from typing import Any

import ale_py
import gymnasium
import psutil
import pytest

import gym_http_client
from gym_http_client import (
    RemoteEnv,
    RemoteVectorEnv,
    ServerError,
    ServerUnreachable,
    recordings,
    resume,
)
from gym_http_wire.step_records import Kind
from tests.support.identity import assert_identical
from tests.support.server import Server
from tests.support.wait import wait_until

gymnasium.register_envs(ale_py)
TIMES = int(os.environ.get("CHAOS_TIMES", "1"))
KINDS = (
    *("ALE/Pong-v5", "Acrobot-v1", "BipedalWalker-v3", "Blackjack-v1", "CarRacing-v3"),
    *("CartPole-v1", "CliffWalkingSlippery-v1", "FrozenLake-v1", "HalfCheetah-v5"),
    *("LunarLander-v3", "MountainCarContinuous-v0", "Pendulum-v1", "Taxi-v4"),
)
VECTOR = "vector"
FEW = ("Blackjack-v1", "CartPole-v1", "HalfCheetah-v5", "LunarLander-v3", VECTOR)
MOST_STEPS = 60
FURTHER_STEPS = 8
_VECTOR_OF = {"num_envs": 3, "vectorization_mode": "sync"}

pytestmark = [
    pytest.mark.live,
    pytest.mark.filterwarnings("ignore:.*:UserWarning", "ignore::DeprecationWarning"),
]


def make_local(kind: str) -> Any:
    if kind == VECTOR:
        return gymnasium.make_vec("CartPole-v1", **_VECTOR_OF)
    return gymnasium.make(kind)


def make_remote(server: gym_http_client.Server, kind: str, record: str) -> Any:
    if kind == VECTOR:
        return RemoteVectorEnv(
            server, "CartPole-v1", hosts=2, record=record, **_VECTOR_OF
        )
    return RemoteEnv(server, kind, record=record)


class Walk(threading.Thread):
    """A client that steps a recorded instance until the server is gone.

    Attributes:
        calls: What was called, in order: a seed of a reset, or an action in a tuple.
        answered: Calls that were answered.
        failure: What ended the walk, unless the server did.
    """

    def __init__(self, server: Server, kind: str, name: str, seed: int | None) -> None:
        super().__init__()
        self.kind, self.name, self.seed = kind, name, seed
        self.calls: list[Any] = []
        self.answered = 0
        self.failure: Exception | None = None
        retries = gym_http_client.Retries(total=0.0)
        self._server = gym_http_client.Server(server.url, retries=retries)
        self._random = random.Random(name)
        self.env = make_remote(self._server, kind, name)
        self.env.action_space.seed(self._random.randrange(1000))

    def run(self) -> None:
        """Step until the server is gone."""
        try:
            self._call(self.seed)
            while True:
                *_, terminated, truncated, _ = self._call((self.draw(),))
                if self.kind != VECTOR and (terminated or truncated):
                    self._call(None)
        except (ServerUnreachable, ServerError):
            pass
        except Exception as error:
            self.failure = error

    def draw(self) -> Any:
        """Draw an action."""
        return self.env.action_space.sample()

    def _call(self, given: Any) -> Any:
        self.calls.append(given)
        result = perform(self.env, given)
        self.answered += 1
        return result


def perform(env: Any, given: Any) -> Any:
    if isinstance(given, tuple):
        return env.step(given[0])
    return env.reset(seed=given)


def shown(last: dict[str, Any]) -> tuple[Any, ...]:
    """Return the results of a last reset or step, as the call returned them."""
    names = ["observation", "info"]
    if last["op"] == "step":
        names[1:1] = ["reward", "terminated", "truncated"]
    return tuple(last[name] for name in names)


def assert_resumed(server: Server, walk: Walk) -> None:
    """Resume a walk, and compare it with a local environment, also in further steps."""
    recorded = list(recordings.read(server.data_dir / walk.name))
    first = next(each for each in recorded if each.kind == Kind.RESET)
    seed = first.value["seed"]
    assert ("drawn" in first.value) == (walk.seed is None)
    assert walk.seed in (None, seed)
    env = resume(server.url, walk.name)
    local = make_local(walk.kind)
    try:
        count = sum(each.kind in (Kind.RESET, Kind.STEP) for each in recorded)
        assert count in (walk.answered, walk.answered + 1), walk.name
        done = [seed, *walk.calls[1:count]]
        for given in done:
            result = perform(local, given)
        assert_identical(shown(env.last), result)
        for _ in range(FURTHER_STEPS):
            given = (walk.draw(),)
            result = perform(local, given)
            assert_identical(perform(env, given), result)
            if walk.kind != VECTOR and (result[2] or result[3]):
                assert_identical(perform(env, None), perform(local, None))
    finally:
        env.close()
        local.close()


@pytest.mark.parametrize("number", range(TIMES))
def test_all_kinds_are_resumed_after_all_processes_were_killed(number: int) -> None:
    chance = random.Random(number)
    with Server() as server:
        walks = [
            Walk(server, kind, f"{index}", None if (index + number) % 2 else 7 + number)
            for index, kind in enumerate((*KINDS, VECTOR) if TIMES > 1 else FEW)
        ]
        for walk in walks:
            walk.start()
        least = chance.randrange(1, MOST_STEPS)
        wait_until(lambda: all(walk.answered >= least for walk in walks), 60.0)
        # The other processes die with the command, before the next one starts.
        for process in server.environments():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        server.kill_and_restart()
        for walk in walks:
            walk.join()
            walk.env.close()
            assert walk.failure is None
        for walk in walks:
            assert_resumed(server, walk)
