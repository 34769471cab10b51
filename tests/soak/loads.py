"""The kinds of load; each compares its results with a local environment."""

from __future__ import annotations

import importlib
import os
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import gymnasium
import numpy as np

from gym_http_client import (
    Client,
    RealTimeEnv,
    RemoteEnv,
    RemoteVectorEnv,
    ServerError,
)
from gym_http_client import Server as Address
from tests.support.identity import assert_identical
from tests.support.peers.provider_process import provided_env
from tests.support.server import Server

# Imported before threads do it at once, which breaks.
importlib.import_module("gymnasium.envs.classic_control")
importlib.import_module("gymnasium.envs.toy_text")

ENV_IDS = ("CartPole-v1", "Taxi-v4", "Pendulum-v1")
STEPS = 200
NUM_ENVS = 8
#: Ticks per second of an environment with a clock, and how many steps an agent takes.
HZ, CLOCK_STEPS = 50, 40
RECOVERY_SECONDS = 60.0
#: Bytes that one of many instances may use, proportional memory of all processes.
MAX_SHARE = 30 << 20


#: Seconds that single steps took, by the way that they went.
latencies: dict[str, list[float]] = {"rest": [], "stream": []}


def many_instances(server: Server) -> None:
    """Have 500 instances at a time, and step each of them."""
    address = Address(server.url, streams=False)
    with ThreadPoolExecutor(4) as pool:
        envs = list(pool.map(lambda _: RemoteEnv(address, "CartPole-v1"), range(500)))
        try:
            answers = list(pool.map(lambda env: (env.reset(seed=0), env.step(1)), envs))
            shares = [each.memory_full_info().pss for each in server.members()]
        finally:
            list(pool.map(lambda env: env.close(), envs))
    with gymnasium.make("CartPole-v1") as local:
        expected = (local.reset(seed=0), local.step(1))
    for answer in answers:
        assert_identical(answer, expected)
    share = sum(shares) / len(envs)
    assert share <= MAX_SHARE, f"an instance takes {share:.0f} bytes of memory"


def old_client(server: Server) -> None:
    """Create, reset, step and close as clients of gym-http-api do."""
    client = Client(server.url)
    instance = client.env_create("CartPole-v1")
    for _ in range(3):
        client.env_reset(instance)
        done = False
        while not done:
            _, _, done, _ = client.env_step(instance, 1)
    client.env_close(instance)


def rest(server: Server) -> None:
    """Step an environment by a request each."""
    _step_single(Address(server.url, streams=False), "rest")


def stream(server: Server) -> None:
    """Step an environment over a stream."""
    _step_single(Address(server.url), "stream")


def _step_single(address: Address, way: str) -> None:
    env_id = random.choice(ENV_IDS)
    with (
        closing(RemoteEnv(address, env_id)) as remote,
        gymnasium.make(env_id) as local,
    ):
        _compare(remote, local, latencies[way])


def vector(server: Server) -> None:
    """Step a vector that is spread over two processes."""
    remote = RemoteVectorEnv(
        *(server.url, "CartPole-v1"),
        num_envs=NUM_ENVS,
        hosts=2,
        vectorization_mode="sync",
    )
    local = gymnasium.make_vec("CartPole-v1", NUM_ENVS, vectorization_mode="sync")
    with closing(remote), closing(local):
        _compare(remote, local)


def shared_vector(server: Server) -> None:
    """Step a vector of Gymnasium's own, which uses shared memory."""
    remote = RemoteVectorEnv(
        server.url, "CartPole-v1", num_envs=2, vectorization_mode="async"
    )
    with closing(remote):
        remote.reset(seed=0)
        for _ in range(STEPS):
            remote.step(np.ones(2, np.int64))


def external(server: Server) -> None:
    """Step an environment that another process provides."""
    name = f"soak-{os.getpid()}"
    with provided_env(server.url, "CartPole-v1", name=name, n=2):
        env_id = f"external/{name}"
        for _ in range(10):
            with (
                closing(_create_external(server.url, env_id)) as remote,
                gymnasium.make("CartPole-v1") as local,
            ):
                _compare(remote, local)


def clock(server: Server) -> None:
    """Act and step in a world that does not wait; no tick or action is uncounted."""
    realtime = {"mode": "free_running", "hz": HZ}
    # No episode ends, so that the clock runs until it is paused.
    endless = {"max_episode_steps": 10**9}
    with closing(RealTimeEnv(server.url, "Pendulum-v1", realtime, **endless)) as env:
        env.reset(seed=7)
        for _ in range(CLOCK_STEPS):
            env.act(np.float32([0.5]))
            env.step(np.float32([-0.5]))
        env.pause()
        counts = env.timing()
        with env.updates(after=counts["updates"]["made"] - 1) as updates:
            last = next(updates).info["realtime"]
    actions = counts["actions"]
    names = ("applied", "superseded", "expired", "rejected", "waiting")
    assert actions["received"] == sum(actions[name] for name in names), actions
    assert actions["received"] == 2 * CLOCK_STEPS, actions
    periods = (last["capture_ns"] - last["late_ns"]) / 1e9 * HZ
    ticks = counts["ticks"] + counts["skipped"]
    assert abs(ticks - periods) <= 1, f"{ticks} ticks in {periods:.3f} periods"


def _create_external(url: str, env_id: str) -> RemoteEnv:
    # A create that waits while the broker is killed is refused, and not tried again.
    deadline = time.monotonic() + RECOVERY_SECONDS
    while True:
        try:
            return RemoteEnv(url, env_id, wait_s=10)
        except ServerError as error:
            if error.code != "external-away" or time.monotonic() > deadline:
                raise


def _compare(remote: Any, local: Any, took: list[float] | None = None) -> None:
    assert_identical(remote.reset(seed=7), local.reset(seed=7))
    local.action_space.seed(7)
    for _ in range(STEPS):
        action = local.action_space.sample()
        began = time.perf_counter()
        gotten = remote.step(action)
        if took is not None:
            took.append(time.perf_counter() - began)
        expected = local.step(action)
        # Infos may have members that only one of them sets; the rest is equal.
        assert_identical(gotten[:4], expected[:4])
        if np.ndim(expected[2]) == 0 and (expected[2] or expected[3]):
            assert_identical(remote.reset(), local.reset())


LOADS: dict[str, Callable[[Server], None]] = {
    "old_client": old_client,
    "rest": rest,
    "stream": stream,
    "vector": vector,
    "shared_vector": shared_vector,
    "external": external,
    "clock": clock,
}
