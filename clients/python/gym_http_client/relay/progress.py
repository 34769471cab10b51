"""Prints how a training goes on."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from gym_http_client.errors import ServerError

__all__ = ["Progress"]


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
