"""Measures the memory of an instance, with ten instances running."""

from __future__ import annotations

import contextlib

from benchmarks.fresh import BASELINE, fresh_process
from benchmarks.measuring import Plan, median
from benchmarks.pinning import Mode, available
from benchmarks.processes import find_hosts, pss_mib
from benchmarks.report import Row, row
from benchmarks.servers import our_server
from gym_http_client.bench.agents import LeanAgent

__all__ = ["fresh_mib", "host_memory"]

_HOSTS = 10
# Some memory is shared only until a process writes to it.
_STEPS = 1000


def host_memory(plan: Plan) -> list[Row]:
    """Compare the proportional set size of hosts and of as many fresh processes."""
    plan.say("host_pss_mib: starting")
    ours, theirs = median(_hosts()), median(fresh_mib())
    return [row("host_pss_mib", Mode.FREE, ours, "MiB", BASELINE, theirs)]


def _hosts() -> list[float]:
    with our_server(available()) as server, contextlib.ExitStack() as stack:
        for seed in range(_HOSTS):
            agent = LeanAgent(server.url, seed)
            stack.callback(agent.close)
            agent.reset()
            for number in range(_STEPS):
                if agent.step(number % 2):
                    agent.reset()
        hosts = find_hosts(server.pid)
        assert len(hosts) == _HOSTS
        return [pss_mib(pid) for pid in hosts]


def fresh_mib() -> list[float]:
    """Return the proportional set sizes of fresh processes that have stepped."""
    with contextlib.ExitStack() as stack:
        every = [stack.enter_context(fresh_process(_STEPS)) for _ in range(_HOSTS)]
        for each in every:
            each.step()
        return [pss_mib(each.pid) for each in every]
