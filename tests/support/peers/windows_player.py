"""Plays, provides and serves as a rollout worker, on a Python like that of Windows.

``python -m tests.support.peers.windows_player URL FOLDER`` imports all modules of the
client, and prints a line for each thing that it has done.
"""

import asyncio  # noqa: F401 - other packages import these later
import concurrent.futures.process  # noqa: F401
import contextlib
import importlib
import multiprocessing.util  # noqa: F401
import pkgutil
import sys
import threading
from typing import Any

import gymnasium
import minari  # noqa: F401
import numpy as np
import pytest
import tensorboardX  # noqa: F401
import zmq.utils.monitor  # noqa: F401

from tests.support.faults import without_linux
from tests.support.identity import assert_identical

#: Programs, and what needs large packages that are extras.
_EXCEPT = ("gym_http_client.myrtle.plot", "gym_http_client.sb3")


def import_all() -> None:
    """Import all modules of the client's packages."""
    for name in ("gym_http_wire", "gym_http_core", "gym_http_client"):
        package = importlib.import_module(name)
        for each in pkgutil.walk_packages(package.__path__, f"{name}."):
            if not each.name.endswith("__main__") and not each.name.startswith(_EXCEPT):
                importlib.import_module(each.name)
    for name in ("bench", "jitter", "myrtle.__main__", "__main__"):
        importlib.import_module(f"gym_http_client.{name}")
    print("imported")


def play(url: str) -> None:
    """Play beside a local environment, over streams and over HTTP, and in vectors."""
    from gym_http_client import RealTimeEnv, RemoteEnv, RemoteVectorEnv, Server
    from gym_http_client.myrtle import bench

    for streams in (True, False):
        remote = RemoteEnv(Server(url, streams=streams), "CartPole-v1")
        with gymnasium.make("CartPole-v1") as local, remote:
            for seed in (3, 4):
                assert_identical(remote.reset(seed=seed), local.reset(seed=seed))
                for action in (0, 1, 1, 0, 1, 0):
                    assert_identical(remote.step(action), local.step(action))
    options: dict[str, Any] = {"num_envs": 2, "vectorization_mode": "sync"}
    options["render_mode"] = "rgb_array"
    vector = RemoteVectorEnv(Server(url, streams=False), "CartPole-v1", **options)
    with contextlib.closing(vector):
        observation, _ = vector.reset(seed=3)
        assert observation.shape == (2, 4)
        vector.step(np.array([0, 1]))
        # More than a megabyte, for which large memory is taken.
        for _ in range(3):
            assert [each.shape for each in vector.render()] == [(400, 600, 3)] * 2
    with RealTimeEnv(url, "world/pendulum", {"hz": 100}) as clocked:
        clocked.reset(seed=1)
        assert clocked.step(np.zeros(13))[0].shape == (2,)
    with pytest.raises(OSError, match="run the trial on Linux or macOS, or in WSL"):
        bench.run("random", "world/pendulum", record=False, url=url)
    print("played")


def provide(url: str) -> None:
    """Provide an environment by each transport, and play it."""
    from gym_http_client import RemoteEnv, serve_env

    for transport in ("websocket", "http"):
        stop = threading.Event()
        thread = threading.Thread(
            target=serve_env,
            args=(lambda: gymnasium.make("CartPole-v1"), url),
            kwargs={"name": f"win-{transport}", "transport": transport, "stop": stop},
        )
        thread.start()
        try:
            env = RemoteEnv(url, f"external/win-{transport}", wait_s=20)
            with env, gymnasium.make("CartPole-v1") as local:
                assert_identical(env.reset(seed=5)[0], local.reset(seed=5)[0])
                assert_identical(env.step(1)[:4], local.step(1)[:4])
        finally:
            stop.set()
            thread.join(20)
        assert not thread.is_alive()
    print("provided")


def _policy(weights: Any, observation: Any, rng: Any) -> Any:
    return rng.uniform(-2, 2, 1).astype(np.float32)


def work(url: str, folder: str) -> None:
    """Collect samples twice with one spool, and consume them."""
    from gym_http_client.relay import RelayCalls, RolloutWorker, SpoolError, Trainer

    with RelayCalls(url, "windows") as calls:
        calls.create()
    options: dict[str, Any] = {"spool": folder, "policy": _policy, "progress": None}
    # Files of the spool are written, read, kept for later and removed meanwhile.
    options |= {"spool_bytes": 1 << 20, "part_steps": 20}
    for episodes in (2, 3):
        env = gymnasium.make("Pendulum-v1")
        with RolloutWorker(url, "windows", env=env, **options) as worker:
            worker.run(episodes=episodes)
            with pytest.raises(SpoolError, match="is in use by process"):
                RolloutWorker(url, "windows", env=env, **options)
    with Trainer(url, "windows") as trainer:
        steps = 0
        for batch in trainer:
            steps += batch.count
            trainer.publish({"gain": np.zeros(1)})
            if steps == 1000:
                break
    print("worked")


def main() -> None:
    """Do all of it."""
    url, folder = sys.argv[1:]
    without_linux.remove_all()
    import_all()
    play(url)
    provide(url)
    work(url, folder)


if __name__ == "__main__":
    main()
