"""Measures the parts of a step separately, to explain the slower figures.

A step runs in one process without switches, then in two. The difference is the cost of
process switches and of cold caches after them.
"""

from __future__ import annotations

import contextlib
import itertools
import statistics
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from benchmarks.measuring import Plan
from benchmarks.neighbours import StillAgent
from benchmarks.one_process import bouncing, one_process
from benchmarks.ping_pong import BALL, PingPongAgent, remote_end
from benchmarks.pinning import Cores, Mode, Places, pinned, places
from benchmarks.servers import no_server, our_server
from benchmarks.shares import external
from benchmarks.streams import InnerAgent
from benchmarks.timings import Part, local, median_us, stages, within
from benchmarks.vectors import HeavyAsyncAgent, HeavySyncAgent, SpreadAgent, SyncAgent
from gym_http_client.bench.agents import ENV_ID, VECTOR_ENVS, Agent, VectorAgent
from gym_http_client.bench.players import Players

__all__ = ["QUESTIONS"]

_US, _MS = "us", "ms"
_BOUNCES = 5000


class _Toy(gymnasium.Env[Any, Any]):
    """An environment that does nothing, so that only the exchange takes time."""

    action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (4,), np.float32)
    _nothing = np.zeros(4, np.float32)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Return constant results."""
        return self._nothing, 1.0, False, False, {}


def stream_same(plan: Plan) -> list[Part]:
    """Measure the parts of a step over a stream, on one core."""
    placed = _placed(Mode.SAME)
    actions = itertools.cycle((0, 1))
    with pinned(placed.clients), bouncing(BALL) as bounce:
        taken = stages(plan, gymnasium.make(ENV_ID), actions)
        inside = within(plan, gymnasium.make(ENV_ID), actions)
        alone = local(plan, gymnasium.make(ENV_ID), actions)
        after = local(plan, gymnasium.make(ENV_ID), actions, before=bounce)
        with one_process(_Toy()) as other:
            exchanged = local(
                plan,
                gymnasium.make(ENV_ID),
                actions,
                before=lambda: other.step(0),
            )
        bounce_us = median_us(bounce() for _ in range(_BOUNCES))
    apart = _played(plan, InnerAgent, placed, our_server)
    ping_pong = _played(plan, PingPongAgent, placed, remote_end)
    whole = sum(each.value for each in taken)
    return [
        *taken,
        Part("all of these: a step in one process", whole, _US),
        Part("of the host's part, the environment's own `step`", inside, _US),
        Part("that of a local environment, again and again", alone, _US),
        Part("that of a local one, after a ping-pong each time", after, _US),
        Part("that of a local one, after another's exchange each time", exchanged, _US),
        Part("a ping-pong in one process: its system calls", bounce_us, _US),
        Part("a ping-pong between two processes", ping_pong, _US),
        Part("a step between two processes", apart, _US),
        Part("what a ping-pong takes more in two", ping_pong - bounce_us, _US),
        Part("what a step takes more in two", apart - whole, _US),
    ]


def stream_split(plan: Plan) -> list[Part]:
    """Measure the parts of a step across cores, with and without busy polling."""
    placed = _placed(Mode.SPLIT)
    still = _played(plan, StillAgent, placed, _still_server)
    return [
        Part(
            "a blocking ping-pong across cores",
            _played(plan, PingPongAgent, placed, remote_end),
            _US,
        ),
        Part("a step when both ends sleep at once", still, _US),
        Part(
            "a step when both ends look first",
            _played(plan, InnerAgent, placed, our_server),
            _US,
        ),
    ]


def vector64(plan: Plan) -> list[Part]:
    """Measure the parts of a step of 64 light environments."""
    same, split = _placed(Mode.SAME), _placed(Mode.SPLIT)
    actions = [np.random.default_rng(0).integers(0, 2, VECTOR_ENVS) for _ in range(64)]

    def made() -> Any:
        return gymnasium.make_vec(
            ENV_ID, num_envs=VECTOR_ENVS, vectorization_mode="sync"
        )

    with pinned(same.clients):
        taken = stages(plan, made(), itertools.cycle(actions))
        inside = within(plan, made(), itertools.cycle(actions))
        alone = local(plan, made(), itertools.cycle(actions))
    whole = sum(each.value for each in taken)
    return [
        *taken,
        Part("all of these: a step in one process", whole, _US),
        Part("of the host's part, the vector's own `step`", inside, _US),
        Part("that of a local vector, again and again", alone, _US),
        Part(
            "that of a local vector, in a process that does nothing else",
            _played(plan, SyncAgent, same, no_server),
            _US,
        ),
        Part(
            "a step between two processes on one core",
            _played(plan, VectorAgent, same, our_server),
            _US,
        ),
        Part(
            "a step between two processes on two cores",
            _played(plan, VectorAgent, split, our_server),
            _US,
        ),
    ]


def vector64_async_heavy(plan: Plan) -> list[Part]:
    """Measure the parts of a step of 64 heavy environments, on all cores."""
    placed = _placed(Mode.FREE)
    alone = _played(plan, HeavySyncAgent, placed, no_server) / 1000
    ours = _played(plan, SpreadAgent, placed, our_server) / 1000
    theirs = _played(plan, HeavyAsyncAgent, placed, no_server) / 1000
    with Players(HeavyAsyncAgent, "", 1, placed.clients):
        beside = _played(plan, SpreadAgent, placed, our_server) / 1000
    cores = len(placed.clients)
    return [
        Part("`SyncVectorEnv`", alone, _MS),
        Part(f"that by {cores} cores: what is not to be undercut", alone / cores, _MS),
        Part("`AsyncVectorEnv`", theirs, _MS),
        Part("ours, in two hosts", ours, _MS),
        Part("ours, beside the idle processes of `AsyncVectorEnv`", beside, _MS),
    ]


#: Profiles by the name of the figure that they explain.
QUESTIONS: dict[str, Callable[[Plan], list[Part]]] = {
    "stream_same": stream_same,
    "stream_split": stream_split,
    "vector64": vector64,
    "vector64_async_heavy": vector64_async_heavy,
    "external": external,
}


def _still_server(cores: Cores) -> contextlib.AbstractContextManager[Any]:
    return our_server(cores, "--spin-us", "0")


def _placed(mode: Mode) -> Places:
    placed = places(mode)
    if placed is None:
        raise SystemExit(f"{mode} needs a second core")
    return placed


def _played(
    plan: Plan,
    kind: type[Agent],
    placed: Places,
    server: Callable[[Cores], contextlib.AbstractContextManager[Any]],
) -> float:
    """Return the median duration of a step in microseconds: the median of all turns."""
    with (
        server(placed.servers) as ours,
        Players(kind, ours.url, 1, placed.clients) as players,
    ):
        rounds = [players.play(plan.seconds) for _ in range(plan.rounds)]
    duration = statistics.median(each.percentile(50) for each in rounds) * 1e6
    plan.say(f"  {kind.__name__:18} {duration:10.1f} us")
    return duration
