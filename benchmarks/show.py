"""Measures what a watcher that is shown an instance costs the agent that steps it.

``python -m benchmarks.show URL INSTANCE_ID`` is such a watcher: it reads until it is
ended.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from benchmarks.measuring import Plan, in_turn, median
from benchmarks.pinning import Mode, pinned, places
from benchmarks.report import Row, row
from benchmarks.servers import our_server
from gym_http_client.bench.agents import StreamAgent
from gym_http_client.bench.players import Players
from gym_http_client.calls.client import Client
from gym_http_client.envs.remote_env import RemoteEnv
from gym_http_client.envs.server import Server

__all__ = ["show_breakout", "show_cartpole", "show_halfcheetah"]

_BASELINE = "no watcher"
# A frame that takes 150 ms is drawn every 1.5 s, so a turn has to be longer.
_LONGER = 5
_DRAWN = 256


class _DrawnAgent(StreamAgent):
    """Steps an environment that renders, with actions drawn at random."""

    def __init__(self, url: str, seed: int) -> None:
        self._env = RemoteEnv(Server(url), self.env_id, render_mode="rgb_array")
        self._first_seed = seed
        space = self._env.action_space
        space.seed(seed)
        drawn = [space.sample() for _ in range(_DRAWN)]
        self._actions: Iterator[Any] = itertools.cycle(drawn)

    def step(self, action: int) -> bool:
        """Take a step, with the next of the drawn actions."""
        *_, terminated, truncated, _ = self._env.step(next(self._actions))
        return bool(terminated or truncated)


class _Breakout(_DrawnAgent):
    env_id = "ALE/Breakout-v5"


class _HalfCheetah(_DrawnAgent):
    env_id = "HalfCheetah-v5"


def show_cartpole(plan: Plan) -> list[Row]:
    """Measure an environment that is drawn in 2 ms, and steps in microseconds."""
    return _shown(plan, "show_cartpole", _DrawnAgent)


def show_breakout(plan: Plan) -> list[Row]:
    """Measure an environment whose frame is there already."""
    return _shown(plan, "show_breakout", _Breakout)


def show_halfcheetah(plan: Plan) -> list[Row]:
    """Measure an environment that is drawn by software in 150 ms."""
    return _shown(plan, "show_halfcheetah", _HalfCheetah)


def _shown(plan: Plan, name: str, agent: type[_DrawnAgent]) -> list[Row]:
    plan.say(f"{name}: starting")
    plan = replace(plan, seconds=plan.seconds * _LONGER)
    placed = places(Mode.SPLIT) or places(Mode.SAME)
    assert placed
    with (
        our_server(placed.servers) as server,
        Players(agent, server.url, 1, placed.clients) as players,
    ):
        (instance_id,) = Client(server.url).env_list_all()
        watching = functools.partial(_watched, server.url, instance_id, placed.clients)

        def watched() -> float:
            with watching():
                return alone()

        def alone() -> float:
            rate = players.play(plan.seconds).rate
            plan.say(f"  {rate:10.1f} steps/s")
            return rate

        ours, theirs = in_turn(plan, watched, alone)
    return [row(name, Mode.SPLIT, median(ours), "steps/s", _BASELINE, median(theirs))]


@contextlib.contextmanager
def _watched(url: str, instance_id: str, cores: frozenset[int]) -> Iterator[None]:
    """Run a watcher in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.show", url, instance_id]
    with pinned(cores):
        watcher = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert watcher.stdout
    try:
        # Do not measure its start.
        assert watcher.stdout.readline()
        yield
        assert watcher.poll() is None, "the watcher has ended"
    finally:
        watcher.kill()
        watcher.wait()
        watcher.stdout.close()


def _watch(url: str, instance_id: str) -> None:
    with Server(url).show(instance_id) as states:
        for shown in states:
            if shown.state["show"] == 1:
                print("watching", flush=True)


if __name__ == "__main__":
    _watch(*sys.argv[1:])
