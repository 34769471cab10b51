"""Round trips to an environment elsewhere, beside Tango's architecture."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import zmq

from benchmarks import far_env
from benchmarks.measuring import Plan
from benchmarks.pinning import Cores, Mode, pinned
from benchmarks.race import Rival, race
from benchmarks.report import Row
from benchmarks.servers import Server, our_server, program
from benchmarks.streams import InnerAgent
from gym_http_client import handles
from gym_http_client.remote_env import RemoteEnv

__all__ = ["ElsewhereAgent", "TangoAgent", "external", "ours", "tangos"]

_CONNECT_SECONDS = 20.0


class ElsewhereAgent(InnerAgent):
    """Steps the environment elsewhere over a stream."""

    def __init__(self, url: str, seed: int) -> None:
        self._env = RemoteEnv(
            handles.Server(url), f"external/{far_env.NAME}", wait_s=_CONNECT_SECONDS
        )
        self._first_seed = seed


class TangoAgent:
    """Asks Tango's gateway by ZeroMQ, as its environment for agents does."""

    def __init__(self, url: str, seed: int) -> None:
        door = parse_qs(urlsplit(url).query)["agents"][0]
        self._context = zmq.Context()
        self._line = self._context.socket(zmq.REQ)
        self._line.connect(f"tcp://127.0.0.1:{door}")

    def reset(self) -> None:
        """Begin an episode."""
        self._ask({"type": "reset", "seed": None, "options": None})

    def step(self, action: int) -> bool:
        """Take a step."""
        told = self._ask({"type": "action", "action": str(action)})
        np.array(told["observation"], np.uint8)
        return bool(told["terminated"] or told["truncated"])

    def close(self) -> None:
        """Tell that the agent goes."""
        self._ask({"type": "close"})
        self._context.destroy(linger=0)

    def _ask(self, message: dict[str, Any]) -> Any:
        self._line.send_json(message)
        return self._line.recv_json()


def external(plan: Plan) -> list[Row]:
    """Measure steps whose environment is at the other end of a WebSocket."""
    rival = Rival("Tango's gateway", TangoAgent, tangos)
    return [
        each
        for mode in (Mode.SAME, Mode.FREE)
        for each in race(plan, "external", mode, ElsewhereAgent, 1, rival, server=ours)
    ]


@contextlib.contextmanager
def ours(cores: Cores) -> Iterator[Server]:
    """Run our server, and the environment beside it."""
    with our_server(cores) as server, _far(cores, server):
        yield server


@contextlib.contextmanager
def tangos(cores: Cores) -> Iterator[Server]:
    """Run Tango's gateway, and the environment beside it."""
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
