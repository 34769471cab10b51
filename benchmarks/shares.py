"""Whose time a round trip to an environment elsewhere takes: each process's share."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

import psutil

from benchmarks.elsewhere import ElsewhereAgent, TangoAgent, ours, tangos
from benchmarks.measuring import Plan
from benchmarks.pinning import Cores, Mode, pinned, places
from benchmarks.servers import Server
from benchmarks.timings import Part
from gym_http_client.bench.agents import Agent

__all__ = ["external"]

_WARMING = 300


def external(plan: Plan) -> list[Part]:
    """Take a round trip apart by processes, on one core: ours and Tango's."""
    return [
        *_shares(plan, "ours", "the host", ElsewhereAgent, ours),
        *_shares(plan, "Tango's", "the gateway", TangoAgent, tangos),
    ]


def _shares(
    plan: Plan,
    whose: str,
    between: str,
    kind: type[Agent],
    server: Callable[[Cores], AbstractContextManager[Server]],
) -> list[Part]:
    placed = places(Mode.SAME)
    assert placed
    with pinned(placed.clients), server(placed.servers) as running:
        agent = kind(running.url, 1)
        try:
            told = [_turn(plan, agent, running) for _ in range(plan.rounds)]
        finally:
            agent.close()
    names = ("the agent", between, "the environment")
    medians = [statistics.median(each) for each in zip(*told, strict=True)]
    plan.say(f"  {whose:18} {sum(medians):10.1f} us")
    parts = [
        Part(f"{whose}: {name}", value, "us")
        for name, value in zip(names, medians, strict=True)
    ]
    return [*parts, Part(f"{whose}: all of these", sum(medians), "us")]


def _turn(plan: Plan, agent: Agent, running: Server) -> list[float]:
    """Give the microseconds that each took of a round trip, the system's as well."""
    agent.reset()
    for _ in range(_WARMING):
        agent.step(0)
    agent.reset()
    us, server = psutil.Process(), psutil.Process(running.pid)
    far = [each for each in us.children() if "benchmarks.far_env" in each.cmdline()]
    shares = [[us], [server, *server.children(recursive=True)], far]
    before = [sum(map(_used, each)) for each in shares]
    until, steps = time.monotonic() + plan.seconds, 0
    while time.monotonic() < until:
        if agent.step(steps % 2):
            agent.reset()
        steps += 1
    after = [sum(map(_used, each)) for each in shares]
    return [(now - then) / steps * 1e6 for then, now in zip(before, after, strict=True)]


def _used(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
