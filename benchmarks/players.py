"""Players: processes that each step one agent, all at the same time, when told to."""

from __future__ import annotations

import multiprocessing
import os
import time
from multiprocessing.connection import Connection
from types import TracebackType
from typing import NamedTuple, Self

from benchmarks.agents import Agent
from benchmarks.pinning import Cores

__all__ = ["Players", "Round"]

# So long after the word all have heard it.
_NOTICE_SECONDS = 0.05
_WARM_UP_STEPS = 100
_STOP_SECONDS = 15.0


class Round(NamedTuple):
    """What the players of a server did in one round.

    Attributes:
        rate: Steps a second, all players together. Resets take their part of the
            time and are not counted.
        durations: Seconds that each step took.
    """

    rate: float
    durations: list[float]


class Players:
    """Client processes of one server.

    Args:
        kind: What each of them steps.
        url: The server's address.
        count: How many there are.
        cores: Where they run.
    """

    def __init__(self, kind: type[Agent], url: str, count: int, cores: Cores) -> None:
        # Processes that fork from one that has imported everything start fast.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["benchmarks.agents"])
        self._lines: list[Connection] = []
        self._processes = []
        for seed in range(count):
            ours, theirs = context.Pipe()
            task = (kind, url, seed, cores, theirs)
            process = context.Process(target=_play, args=task, daemon=True)
            process.start()
            theirs.close()
            self._lines.append(ours)
            self._processes.append(process)

    def __enter__(self) -> Self:
        for line in self._lines:
            line.recv()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for line in self._lines:
            line.close()
        for process in self._processes:
            process.join(_STOP_SECONDS)

    def play(self, seconds: float) -> Round:
        """Have all of them step as fast as they can."""
        begin = time.monotonic() + _NOTICE_SECONDS
        for line in self._lines:
            line.send((begin, begin + seconds))
        durations = [each for line in self._lines for each in line.recv()]
        return Round(len(durations) / seconds, durations)


def _play(
    kind: type[Agent], url: str, seed: int, cores: Cores, line: Connection
) -> None:
    os.sched_setaffinity(0, cores)
    agent = kind(url, seed)
    agent.reset()
    for number in range(_WARM_UP_STEPS):
        if agent.step(number % 2):
            agent.reset()
    line.send("ready")
    try:
        while True:
            line.send(_steps(agent, *line.recv()))
    except EOFError:
        agent.close()


def _steps(agent: Agent, begin: float, end: float) -> list[float]:
    """Step until the end and return the seconds of each step that was over by then."""
    clock = time.monotonic
    time.sleep(max(0.0, begin - clock()))
    durations: list[float] = []
    action = 0
    while (before := clock()) < end:
        over = agent.step(action)
        after = clock()
        if after <= end:
            durations.append(after - before)
        if over:
            agent.reset()
        action = 1 - action
    return durations
