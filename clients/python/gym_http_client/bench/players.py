"""Players: processes that step one agent each, at the same time."""

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

# Seconds within which all players have received the start time.
_NOTICE_SECONDS = 0.05
_WARM_UP_STEPS = 100
# With slow steps, the warm-up ends after this time.
_WARM_UP_SECONDS = 1.0
_STOP_SECONDS = 15.0
# Errors of a connection that the first process has closed.
_CLOSED = (EOFError, BrokenPipeError, ConnectionResetError)


class PlayerFailed(Exception):
    """A player failed; the text has the reason."""


class Round(NamedTuple):
    """The results of all players in one round.

    Attributes:
        rate: Steps per second of all players together. Resets take time, but are not
            counted as steps.
        durations: Duration of each step in seconds.
    """

    rate: float
    durations: list[float]

    def percentile(self, percent: float) -> float:
        """Return a percentile of the steps' durations, in seconds."""
        ordered = sorted(self.durations)
        return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


class Players:
    """Runs the client processes of one server.

    Each process closes its instance when its connection to this process ends.

    Args:
        kind: Class of the agents.
        url: The server's address.
        count: Number of processes.
        cores: Cores on which they run; ``None`` leaves the choice to the system.
    """

    def __init__(
        self,
        kind: type[Agent],
        url: str,
        count: int,
        cores: Collection[int] | None = None,
    ) -> None:
        self._tasks = [(kind, url, seed, cores) for seed in range(count)]
        self._connections: list[Connection] = []
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
        """Close all instances and end all processes."""
        for connection in self._connections:
            connection.close()
        for process in self._processes:
            process.join(_STOP_SECONDS)
            if process.is_alive():
                process.kill()

    def play(self, seconds: float) -> Round:
        """Step all agents as fast as possible, and return the results.

        Raises:
            PlayerFailed: A player failed.
        """
        begin = time.monotonic() + _NOTICE_SECONDS
        for connection in self._connections:
            connection.send((begin, begin + seconds))
        durations = [each for part in self._received() for each in part]
        if not durations:
            raise PlayerFailed(f"not one step was over within {seconds:g} s")
        return Round(len(durations) / seconds, durations)

    def _start(self) -> None:
        context: Any = multiprocessing.get_context("spawn")
        if "forkserver" in multiprocessing.get_all_start_methods():
            # Processes that fork from one that has imported everything start fast.
            context = multiprocessing.get_context("forkserver")
            context.set_forkserver_preload(["gym_http_client.bench.agents"])
        for task in self._tasks:
            ours, theirs = context.Pipe()
            # Not daemons: these must not start processes, and an agent may need some.
            # All end when their connection does.
            process = context.Process(target=_play, args=(*task, theirs))
            process.start()
            theirs.close()
            self._connections.append(ours)
            self._processes.append(process)

    def _received(self) -> list[list[float]]:
        """Receive one message from each process."""
        words = []
        for connection in self._connections:
            try:
                word = connection.recv()
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
    connection: Any,
) -> None:
    # These signals may reach all processes; the first process ends the others.
    for number in (
        signal.SIGINT,
        signal.SIGTERM,
        getattr(signal, "SIGHUP", signal.SIGTERM),
    ):
        signal.signal(number, signal.SIG_IGN)
    if cores is not None:
        os.sched_setaffinity(0, cores)
    try:
        agent = kind(url, seed)
        try:
            _answer(agent, connection)
        finally:
            agent.close()
    except _CLOSED:
        pass
    except Exception as error:
        with contextlib.suppress(*_CLOSED):
            connection.send(str(error) or type(error).__name__)


def _answer(agent: Agent, connection: Any) -> None:
    agent.reset()
    end = time.monotonic() + _WARM_UP_SECONDS
    for number in range(_WARM_UP_STEPS):
        if agent.step(number % 2):
            agent.reset()
        if time.monotonic() > end:
            break
    connection.send([])
    while True:
        connection.send(_steps(agent, *connection.recv()))


def _steps(agent: Agent, begin: float, end: float) -> list[float]:
    """Step until the end; return the seconds of each step that was over by then."""
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
