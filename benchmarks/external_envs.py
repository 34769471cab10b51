"""Compares round trips to an external environment with Tango's architecture."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import zmq

from benchmarks import external_programs
from benchmarks.external_programs import StepFigures
from benchmarks.measuring import Plan, in_turn, median
from benchmarks.pinning import Cores, Mode, pinned, places
from benchmarks.race import Rival, race
from benchmarks.report import Row, row
from benchmarks.servers import Server, our_server, program
from benchmarks.streams import InnerAgent
from gym_http_client.envs import server as remote_server
from gym_http_client.envs.remote_env import RemoteEnv

__all__ = ["ExternalAgent", "external", "external_python", "ours", "tangos"]

_BASELINE = "Tango's gateway"
_CONNECT_SECONDS = 20.0
_AGENT_SECONDS = 60.0
#: Returns the command of an agent that steps for a number of seconds.
AgentCommand = Callable[[Server, float], list[str]]


class ExternalAgent(InnerAgent):
    """Steps the external environment over a stream."""

    def __init__(self, url: str, seed: int) -> None:
        server = remote_server.Server(url)
        self._env = RemoteEnv(server, external_programs.ENV_ID, wait_s=_CONNECT_SECONDS)
        self._first_seed = seed


class _TangoAgent:
    """Sends requests to Tango's gateway over ZeroMQ, as Tango's agents do."""

    def __init__(self, url: str, seed: int) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.REQ)
        self._socket.connect(external_programs.gateway_address(url))

    def reset(self) -> None:
        """Begin an episode."""
        self._request({"type": "reset", "seed": None, "options": None})

    def step(self, action: int) -> bool:
        """Take a step."""
        answer = self._request({"type": "action", "action": str(action)})
        np.array(answer["observation"], np.uint8)
        return bool(answer["terminated"] or answer["truncated"])

    def close(self) -> None:
        """Send a close request, and disconnect."""
        self._request({"type": "close"})
        self._context.destroy(linger=0)

    def _request(self, message: dict[str, Any]) -> Any:
        self._socket.send_json(message)
        return self._socket.recv_json()


def external(plan: Plan) -> list[Row]:
    """Measure steps with an agent and an environment in C++, which take little time."""
    return [each for mode in (Mode.SAME, Mode.FREE) for each in _external(plan, mode)]


def _external(plan: Plan, mode: Mode) -> list[Row]:
    placed = places(mode)
    assert placed
    plan.say(f"external, {mode}: starting")

    def measure(agent: AgentCommand, server: Server, name: str) -> StepFigures:
        words = agent(server, plan.seconds)
        with pinned(placed.clients):
            printed = subprocess.check_output(words, text=True, timeout=_AGENT_SECONDS)
        figures = StepFigures.of(printed)
        plan.say(f"  {name:12} {figures.rate:10.1f} steps/s")
        return figures

    with ours(placed.servers) as server, tangos(placed.servers) as gateway:
        our_rounds, their_rounds = in_turn(
            plan,
            lambda: measure(external_programs.stream_agent, server, "ours"),
            lambda: measure(external_programs.tango_agent, gateway, _BASELINE),
        )
    return [
        row(name, mode, median(us), unit, _BASELINE, median(them))
        for name, unit, us, them in zip(
            ("external", "external_p50", "external_p99"),
            ("steps/s", "us", "us"),
            zip(*our_rounds, strict=True),
            zip(*their_rounds, strict=True),
            strict=True,
        )
    ]


def external_python(plan: Plan) -> list[Row]:
    """Measure the same with agents in Python: `RemoteEnv`'s requests, and pyzmq."""
    rival = Rival(_BASELINE, _TangoAgent, tangos)
    return [
        each
        for mode in (Mode.SAME, Mode.FREE)
        for each in race(
            plan, "external_python", mode, ExternalAgent, 1, rival, server=ours
        )
    ]


@contextlib.contextmanager
def ours(cores: Cores) -> Iterator[Server]:
    """Run our server and the external environment."""
    with our_server(cores) as server, external_programs.environment(cores, server):
        yield server


@contextlib.contextmanager
def tangos(cores: Cores) -> Iterator[Server]:
    """Run Tango's gateway and the external environment."""
    gateway = program(cores, "benchmarks.tango")
    with gateway as server, external_programs.environment(cores, server):
        yield server
