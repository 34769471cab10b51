"""Prints how a training goes on, for trainers and for workers."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from gym_http_client.errors import ServerError
from gym_http_client.relay.episodes import return_words
from gym_http_client.relay.spool import Spool

__all__ = ["Progress", "WorkerProgress"]

#: Episodes whose mean return a worker prints.
RECENT = 20


class Progress:
    """Prints a line about a training from time to time.

    Args:
        run: Name of the run.
        seconds: Seconds between lines; None prints nothing.
        status: Returns the state of the run, or raises ServerError soon.
    """

    def __init__(
        self, run: str, seconds: float | None, status: Callable[[], dict[str, Any]]
    ) -> None:
        self._run = run
        self._seconds = seconds
        self._status = status
        self._began = self._shown = time.monotonic()
        self._batches = self._transitions = 0
        # Since the last line.
        self._new_batches = self._new_transitions = self._new_lags = 0

    def received(self, count: int, lag: int) -> None:
        """Count a batch.

        Args:
            count: Number of its transitions.
            lag: Number of versions that were newer than its policy.
        """
        self._new_batches += 1
        self._new_transitions += count
        self._new_lags += lag

    def show(self, version: int, waiting: int) -> None:
        """Print a line, if it is time.

        Args:
            version: Version of the newest weights.
            waiting: Number of batches that were read ahead.
        """
        now = time.monotonic()
        if self._seconds is None or now < self._shown + self._seconds:
            return
        self._batches += self._new_batches
        self._transitions += self._new_transitions
        rate = self._new_transitions / (now - self._shown)
        lag = self._new_lags / max(1, self._new_batches)
        print(
            f"{self._run}: {now - self._began:.0f} s, version {version}, "
            f"{self._batches} batches, {self._transitions} transitions "
            f"({rate:.0f}/s), lag {lag:.1f}, {waiting} read ahead. {self.workers()}",
            flush=True,
        )
        self._shown = now
        self._new_batches = self._new_transitions = self._new_lags = 0

    def workers(self) -> str:
        """Describe the workers, as the server knows them."""
        try:
            workers = self._status()["workers"]
        except ServerError:
            return "The server does not answer"
        if not workers:
            return "No worker has sent anything yet"
        return "Workers: " + ", ".join(map(_described, workers))


def _described(worker: dict[str, Any]) -> str:
    mean = worker.get("mean_return")
    text = f"{worker['worker']} {worker['state']}"
    return text if mean is None else f"{text} (return {mean:.1f})"


class WorkerProgress:
    """Prints a line about a worker from time to time.

    Args:
        seconds: Seconds between lines; None prints nothing.
        spool: Returns the spool of the worker, which may open it anew.
    """

    def __init__(self, seconds: float | None, spool: Callable[[], Spool]) -> None:
        self._seconds = seconds
        self._spool = spool
        self._shown = time.monotonic()
        self._returns: deque[Any] = deque(maxlen=RECENT)
        self._steps = 0
        self._version = 0
        self._waits = False

    def episode(self, total: Any, length: int, version: int) -> None:
        """Count an episode, and print a line if it is time."""
        self._returns.append(total)
        self._steps += length
        self._version = version
        now = time.monotonic()
        if self._seconds is not None and now >= self._shown + self._seconds:
            self.show()

    def show(self) -> None:
        """Print a line, if there were episodes since the last."""
        if self._seconds is None or not self._steps:
            return
        now = time.monotonic()
        rate = self._steps / max(now - self._shown, 1e-3)
        spool = self._spool()
        episode = spool.progress.get("episodes", 0)
        text = (
            f"{spool.run}, worker {spool.worker}: episode {episode}, "
            f"return {return_words(np.mean(self._returns, axis=0))} (mean of "
            f"{len(self._returns)}), version {self._version}, {rate:.0f} steps/s, "
            f"{spool.waiting} batches wait"
        )
        if spool.dropped:
            text += f", {spool.dropped} dropped ({spool.refused} refused)"
        if spool.stale:
            text += f", {spool.stale} stale"
        print(text, flush=True)
        self._shown, self._steps = now, 0

    def wait(self, url: str, seconds: float) -> None:
        """Print once that the worker waits for the server."""
        if self._seconds is None or self._waits:
            return
        self._waits = True
        spool = self._spool()
        print(
            f"{spool.run}, worker {spool.worker}: waiting for the server at {url}, "
            f"{seconds:g} s at most",
            flush=True,
        )
