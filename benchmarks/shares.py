"""Measures each process's CPU time in a round trip to an external environment."""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

import psutil

from benchmarks import external_programs
from benchmarks.external_envs import AgentCommand, ours, tangos
from benchmarks.external_programs import StepFigures
from benchmarks.measuring import Plan
from benchmarks.pinning import Cores, Mode, pinned, places
from benchmarks.processes import processor_ns, with_descendants
from benchmarks.servers import Server
from benchmarks.timings import Part

__all__ = ["external"]

# Additional time, so that no process ends within the measured time.
_END_SECONDS = 1.0


def external(plan: Plan) -> list[Part]:
    """Measure each process's CPU time per round trip, on one core: ours and Tango's."""
    return [
        *_shares(plan, "ours", "the server", external_programs.stream_agent, ours),
        *_shares(plan, "Tango's", "the gateway", external_programs.tango_agent, tangos),
    ]


def _shares(
    plan: Plan,
    whose: str,
    between: str,
    agent: AgentCommand,
    server: Callable[[Cores], AbstractContextManager[Server]],
) -> list[Part]:
    placed = places(Mode.SAME)
    assert placed
    with pinned(placed.clients), server(placed.servers) as running:
        rounds = [_turn(plan, agent, running) for _ in range(plan.rounds)]
    names = ("the agent", between, "the environment")
    medians = [statistics.median(each) for each in zip(*rounds, strict=True)]
    plan.say(f"  {whose:18} {sum(medians):10.1f} us")
    parts = [
        Part(f"{whose}: {name}", value, "us")
        for name, value in zip(names, medians, strict=True)
    ]
    return [*parts, Part(f"{whose}: all of these", sum(medians), "us")]


def _turn(plan: Plan, agent: AgentCommand, running: Server) -> list[float]:
    """Return each share's user and system CPU time per round trip, in us."""
    words = agent(running, plan.seconds + _END_SECONDS)
    below = psutil.Process().children()
    (environment,) = (each.pid for each in below if "environment" in each.name())
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as stepping:
        assert stepping.stdout
        # Do not measure the start.
        stepping.stdout.readline()
        shares = [[stepping.pid], with_descendants(running.pid), [environment]]
        before = [processor_ns(each) for each in shares]
        time.sleep(plan.seconds)
        used = [
            sum(now - then[pid] for pid, now in processor_ns(then).items())
            for then in before
        ]
        rate = StepFigures.of(stepping.stdout.read()).rate
    return [each / 1e3 / (rate * plan.seconds) for each in used]
