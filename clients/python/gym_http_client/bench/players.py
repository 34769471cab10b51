"""Players: processes that each step one agent, all at the same time."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
from collections.abc import Collection
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Any, NamedTuple, Self

from gym_http_client.bench.agents import Agent

__all__ = ["PlayerFailed", "Players", "Round"]

# Seconds within which all players receive a message.
_NOTICE_SECONDS = 0.05
_WARM_UP_STEPS = 100
# Some steps take so long that fewer will do.
_WARM_UP_SECONDS = 1.0
_STOP_SECONDS = 15.0
# Errors of a connection that the first process has closed.
_CLOSED = (EOFError, BrokenPipeError, ConnectionResetError)


class PlayerFailed(Exception):
    """A player cannot go on; the text has the reason."""


class Round(NamedTuple):
    """What the players of a server did in one round.

    Attributes:
        rate: Steps a second, all players together. Resets take their part of the
            time and are not counted.
        durations: Seconds that each step took.
    """

    rate: float
    durations: list[float]

    def percentile(self, percent: float) -> float:
        """Return the duration that so many percent of the steps do not exceed."""
        ordered = sorted(self.durations)
        return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


class Players:
    """Client processes of one server.

    Each closes its instance when its connection to this process ends.

    Args:
        kind: The agent that each of them steps.
        url: The server's address.
        count: How many there are.
        cores: Where they run; ``None`` leaves that to the system.
    """

    def __init__(
        self,
        kind: type[Agent],
        url: str,
        count: int,
        cores: Collection[int] | None = None,
    ) -> None:
        self._tasks = [(kind, url, seed, cores) for seed in range(count)]
        self._lines: list[Connection] = []
        self._processes: list[BaseProcess] = []

    def __enter__(self) -> Self:
        try:
            self._start()
            self._received()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Have all of them close their instances and end."""
        for line in self._lines:
            line.close()
        for process in self._processes:
            process.join(_STOP_SECONDS)
            if process.is_alive():
                process.kill()

    def play(self, seconds: float) -> Round:
        """Have all of them step as fast as they can.

        Raises:
            PlayerFailed: One of them cannot.
        """
        begin = time.monotonic() + _NOTICE_SECONDS
        for line in self._lines:
            line.send((begin, begin + seconds))
        durations = [each for told in self._received() for each in told]
        if not durations:
            raise PlayerFailed(f"not one step was over within {seconds:g} s")
        return Round(len(durations) / seconds, durations)

    def _start(self) -> None:
        # Processes that fork from one that has imported everything start fast.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["gym_http_client.bench.agents"])
        for task in self._tasks:
            ours, theirs = context.Pipe()
            # No daemons, which may start no processes: an agent may want some. All end
            # when their line does.
            process = context.Process(target=_play, args=(*task, theirs))
            process.start()
            theirs.close()
            self._lines.append(ours)
            self._processes.append(process)

    def _received(self) -> list[list[float]]:
        """Receive one message from each."""
        words = []
        for line in self._lines:
            try:
                word = line.recv()
            except EOFError:
                word = "a player ended without a word"
            if isinstance(word, str):
                raise PlayerFailed(word)
            words.append(word)
        return words


def _play(
    kind: type[Agent],
    url: str,
    seed: int,
    cores: Collection[int] | None,
    line: Any,
) -> None:
    # These may reach all processes; the first one tells the others to end.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if cores is not None:
        os.sched_setaffinity(0, cores)
    try:
        agent = kind(url, seed)
        try:
            _answer(agent, line)
        finally:
            agent.close()
    except _CLOSED:
        pass
    except Exception as error:
        with contextlib.suppress(*_CLOSED):
            line.send(str(error) or type(error).__name__)


def _answer(agent: Agent, line: Any) -> None:
    agent.reset()
    end = time.monotonic() + _WARM_UP_SECONDS
    for number in range(_WARM_UP_STEPS):
        if agent.step(number % 2):
            agent.reset()
        if time.monotonic() > end:
            break
    line.send([])
    while True:
        line.send(_steps(agent, *line.recv()))


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
