"""Compares two nodes of a fleet with a server alone: steps, creates, and vectors."""

from __future__ import annotations

import concurrent.futures
import contextlib
import importlib.util
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from gymnasium.vector import VectorEnv

from benchmarks.gauges import MICROSECONDS
from benchmarks.host_start import creation_seconds
from benchmarks.measuring import Plan, in_turn, median
from benchmarks.pinning import Cores, Mode, available, places
from benchmarks.race import Rival, race
from benchmarks.report import Row, row
from benchmarks.servers import Server, our_server
from gym_http_client.bench.agents import (
    VECTOR_ENVS,
    Agent,
    LeanAgent,
    StreamAgent,
    VectorAgent,
)
from gym_http_client.bench.players import Players
from gym_http_client.envs.remote_vector_env import RemoteVectorEnv
from gym_http_client.http.error_mapping import expect_object
from gym_http_client.http.requester import Requester

__all__ = ["QUESTIONS"]

_STORE = "redis-server"
_ALONE = "server alone"
_KNOWN_SECONDS = 20.0
#: So many times as many rounds, each a quarter as long, show a difference of 5%.
_MORE = 12


def _own_rest(plan: Plan, name: str) -> list[Row]:
    return _race(plan, name, LeanAgent, partial(_nodes, through_first=False))


def _other_rest(plan: Plan, name: str) -> list[Row]:
    return _race(plan, name, LeanAgent, _nodes)


def _stream(plan: Plan, name: str) -> list[Row]:
    # The medians of seven rounds differ by more than its target does from 1.
    many = replace(plan, rounds=_MORE * plan.rounds, seconds=plan.seconds / 4)
    return _race(many, name, StreamAgent, _nodes)


def _relayed(plan: Plan, name: str) -> list[Row]:
    return _race(plan, name, StreamAgent, partial(_nodes, named=False))


def _create(plan: Plan, name: str) -> list[Row]:
    """Measure creates on the better of two nodes, through one of them."""
    plan.say(f"{name}: starting")
    cores = available()
    with _nodes(cores, full=False) as fleet, our_server(cores) as alone:
        ours, theirs = in_turn(
            plan, lambda: creation_seconds(fleet), lambda: creation_seconds(alone)
        )
    return [
        row(name, Mode.FREE, median(ours) * 1000, "ms", _ALONE, median(theirs) * 1000)
    ]


class _BothNodesAgent(VectorAgent):
    """Steps one vector over two nodes."""

    env_id = "HalfCheetah-v5"

    def _made(self, url: str) -> VectorEnv[Any, Any, Any]:
        return RemoteVectorEnv(url, self.env_id, num_envs=VECTOR_ENVS, nodes=2)


class _FirstNodeAgent(VectorAgent):
    """Steps half as many environments on the first node alone."""

    env_id = _BothNodesAgent.env_id
    node = 0

    def _made(self, url: str) -> VectorEnv[Any, Any, Any]:
        name = sorted(each["node"] for each in _known(url))[self.node]
        half = VECTOR_ENVS // 2
        return RemoteVectorEnv(url, self.env_id, num_envs=half, node=name)


class _SecondNodeAgent(_FirstNodeAgent):
    """The same on the second node."""

    node = 1


def _vector(plan: Plan, name: str) -> list[Row]:
    """Measure a step of a vector of 64 over two nodes, half of it on each.

    The baseline is a step of a vector of 32 on one node, while another process steps
    one on the other node: on each side both nodes work at the same time, on the same
    cores. It is the mean duration on the node where that is longer.
    """
    if importlib.util.find_spec("mujoco") is None:
        plan.say(f"{name}: left out, since mujoco is not installed")
        return []
    rows = (_vector_on(plan, name, mode) for mode in (Mode.SAME, Mode.FREE))
    return [each for each in rows if each is not None]


def _vector_on(plan: Plan, name: str, mode: Mode) -> Row | None:
    placed = places(mode)
    if placed is None:
        return None
    plan.say(f"{name}, {mode}: starting")
    with contextlib.ExitStack() as stack:
        fleet = stack.enter_context(_nodes(placed.servers, full=False))
        both, *alone = (
            stack.enter_context(Players(kind, fleet.url, 1, placed.clients))
            for kind in (_BothNodesAgent, _FirstNodeAgent, _SecondNodeAgent)
        )
        ours, theirs = in_turn(
            plan, lambda: _slower(plan, [both]), lambda: _slower(plan, alone)
        )
    figures = median(ours), median(theirs)
    return row(name, mode, figures[0], "us", "slower node alone", figures[1])


def _slower(plan: Plan, players: list[Players]) -> float:
    """Return the longest mean step, of players that step at the same time."""
    with concurrent.futures.ThreadPoolExecutor(len(players)) as pool:
        rounds = list(pool.map(lambda each: each.play(plan.seconds), players))
    slower = max(map(MICROSECONDS.figure, rounds))
    plan.say(f"  players {len(players):4} {slower:10.1f} us")
    return slower


def _race(
    plan: Plan,
    name: str,
    kind: type[Agent],
    nodes: Callable[[Cores], contextlib.AbstractContextManager[Server]],
) -> list[Row]:
    alone = Rival(_ALONE, kind, our_server)
    return race(plan.halved(), name, Mode.SAME, kind, 1, alone, server=nodes)


@contextlib.contextmanager
def _nodes(
    cores: Cores, *, full: bool = True, named: bool = True, through_first: bool = True
) -> Iterator[Server]:
    """Run two nodes, and yield the one that clients call.

    Args:
        cores: Cores on which they run.
        full: Whether the first one has no room, so that the second one has instances.
        named: Whether the second one has ``--node-url``, for streams without a relay.
        through_first: Whether clients call the first one.
    """
    port = _free_port()
    url = f"http://127.0.0.1:{port}"
    with _store() as joins, contextlib.ExitStack() as stack:
        slots = ("--max-instances", "1") if full else ()
        first = stack.enter_context(our_server(cores, *joins, *slots))
        if full:
            stack.callback(LeanAgent(first.url, 0).close)
        reached = ("--port", str(port), "--node-url", url) if named else ()
        second = stack.enter_context(our_server(cores, *joins, *reached))
        _wait_until_known(first.url)
        yield first if through_first else second


def _wait_until_known(url: str) -> None:
    until = time.monotonic() + _KNOWN_SECONDS
    while len(_known(url)) != 2:
        if time.monotonic() > until:
            raise RuntimeError("the two nodes do not find each other")
        time.sleep(0.1)


def _known(url: str) -> list[dict[str, Any]]:
    """Return the nodes that a server knows."""
    with contextlib.closing(Requester(url)) as link:
        nodes: list[dict[str, Any]]
        nodes = expect_object(link.request("GET", "/v1/"), url)["nodes"]
        return nodes


@contextlib.contextmanager
def _store() -> Iterator[tuple[str, ...]]:
    """Run a store, and yield the flags of the nodes that use it."""
    port = _free_port()
    command = [_STORE, "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        token = Path(folder, "token")
        token.write_text("the-token-of-the-benchmarks\n")
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
        try:
            store = f"redis://127.0.0.1:{port}/0"
            yield "--fleet", store, "--fleet-token-file", str(token)
        finally:
            process.terminate()
            process.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


def _asked(
    measure: Callable[[Plan, str], list[Row]], name: str, plan: Plan
) -> list[Row]:
    if shutil.which(_STORE) is None:
        plan.say(f"{name}: left out, since {_STORE} is not installed")
        return []
    return measure(plan, name)


QUESTIONS = {
    name: partial(_asked, measure, name)
    for name, measure in {
        "fleet_own_rest": _own_rest,
        "fleet_other_rest": _other_rest,
        "fleet_stream": _stream,
        "fleet_relayed": _relayed,
        "fleet_create_ms": _create,
        "fleet_vector": _vector,
    }.items()
}
