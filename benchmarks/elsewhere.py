"""Round trips to an environment elsewhere, beside Tango's architecture."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import gymnasium
import numpy as np
import zmq

from benchmarks import far_env
from benchmarks.measuring import Plan
from benchmarks.pinning import Cores, Mode, pinned
from benchmarks.race import Rival, race
from benchmarks.report import Row
from benchmarks.servers import Server, our_server, program
from gym_http_client import handles
from gym_http_client.bench.agents import StreamAgent
from gym_http_client.remote_env import RemoteEnv

__all__ = ["external"]

_CONNECT_SECONDS = 20.0


class _ElsewhereAgent(StreamAgent):
    """Steps the environment elsewhere over a stream."""

    def __init__(self, url: str, seed: int) -> None:
        self._env = RemoteEnv(
            handles.Server(url), f"external/{far_env.NAME}", wait_s=_CONNECT_SECONDS
        )
        self._first_seed = seed


class _TangoEnv(gymnasium.Env[Any, Any]):
    """Asks as Tango's own environment does, by ZeroMQ's REQ."""

    def __init__(self, door: str) -> None:
        self.observation_space = gymnasium.spaces.Box(
            0, 4, (far_env.SIDE, far_env.SIDE), np.uint8
        )
        self.action_space = gymnasium.spaces.Discrete(4)
        self._context = zmq.Context()
        self._line = self._context.socket(zmq.REQ)
        self._line.connect(door)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        told = self._ask({"type": "reset", "seed": seed, "options": options})
        return np.array(told["observation"], np.uint8), told["info"]

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take a step."""
        told = self._ask({"type": "action", "action": str(action)})
        return (
            np.array(told["observation"], np.uint8),
            told["reward"],
            told["terminated"],
            told["truncated"],
            told["info"],
        )

    def close(self) -> None:
        """Tell that the agent goes."""
        self._ask({"type": "close"})
        self._context.destroy(linger=0)

    def _ask(self, message: dict[str, Any]) -> Any:
        self._line.send_json(message)
        return self._line.recv_json()


class _TangoAgent:
    """Steps the environment elsewhere through Tango's gateway."""

    def __init__(self, url: str, seed: int) -> None:
        door = parse_qs(urlsplit(url).query)["agents"][0]
        self._env = _TangoEnv(f"tcp://127.0.0.1:{door}")

    def reset(self) -> None:
        """Begin an episode."""
        self._env.reset()

    def step(self, action: int) -> bool:
        """Take a step."""
        _, _, terminated, truncated, _ = self._env.step(action)
        return terminated or truncated

    def close(self) -> None:
        """End the environment."""
        self._env.close()


def external(plan: Plan) -> list[Row]:
    """Measure steps whose environment is at the other end of a WebSocket."""
    rival = Rival("Tango's gateway", _TangoAgent, _tango)
    return [
        each
        for mode in (Mode.SAME, Mode.FREE)
        for each in race(
            plan, "external", mode, _ElsewhereAgent, 1, rival, server=_ours
        )
    ]


@contextlib.contextmanager
def _ours(cores: Cores) -> Iterator[Server]:
    with our_server(cores) as server, _far(cores, server):
        yield server


@contextlib.contextmanager
def _tango(cores: Cores) -> Iterator[Server]:
    with program(cores, "benchmarks.tango") as server, _far(cores, server):
        yield server


@contextlib.contextmanager
def _far(cores: Cores, server: Server) -> Iterator[None]:
    """Run the environment: the same program for both, beside the server."""
    address = urlsplit(server.url).netloc + far_env.PATH
    with pinned(cores):
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.far_env", address]
        )
    try:
        yield
    finally:
        process.kill()
        process.wait()
