"""Newest weights: a thread that fetches them, so that no environment waits for it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from gym_http_client.errors import ServerError
from gym_http_client.http.retries import Retries
from gym_http_client.relay.calls import Blob, RelayCalls
from gym_http_client.relay.sender import Stopped, end_waiting, endless
from gym_http_client.relay.weights import Arrays, load_weights

__all__ = ["NewestWeights", "Weights"]

# Shorter than the waits of proxies.
_WAIT_S = 25.0
# Pause after an answer without weights that came at once.
_PAUSE = 1.0
_CHECK = 0.2
_logger = logging.getLogger("gym_http_client")


class Weights(NamedTuple):
    """Weights of the policy.

    Attributes:
        version: Their version; 0 before any were published.
        arrays: The arrays by name, or None.
    """

    version: int
    arrays: Arrays | None


class NewestWeights:
    """Fetches each new version of the weights on a thread.

    Args:
        connect: Creates the calls of the run with the retries given.
        retries: How requests are retried; all tries together have no time limit.
        first: The newest weights at the start, or None.

    Raises:
        BadWeights: The weights cannot be decoded.
    """

    def __init__(
        self,
        connect: Callable[[Retries], RelayCalls],
        first: Blob | None,
        retries: Retries | None = None,
    ) -> None:
        self._known = _known(first)
        self._newest = _decoded(first)
        self._error: Exception | None = None
        self._stop = threading.Event()
        self._changed = threading.Condition()
        self._calls = connect(endless(retries or Retries(), self._sleep))
        self._thread = threading.Thread(target=self._run, name="weights", daemon=True)

    def start(self) -> None:
        """Begin to fetch."""
        self._thread.start()

    def get(self) -> Weights:
        """Return the newest weights.

        Raises:
            ServerError: The server refuses to return weights.
            BadWeights: The newest weights cannot be decoded.
        """
        with self._changed:
            if self._error is not None:
                raise self._error
            return self._newest

    def after(
        self, version: int, time_limit: float, stopped: Callable[[], bool]
    ) -> Weights | None:
        """Wait for weights of a later version.

        Args:
            version: The known version.
            time_limit: Seconds to wait at most.
            stopped: Whether to end the wait early.

        Returns:
            The weights; None if the wait was ended.

        Raises:
            TimeoutError: There was no later version in time.
        """
        end = time.monotonic() + time_limit
        with self._changed:
            while (found := self.get()).version <= version:
                left = end - time.monotonic()
                if stopped():
                    return None
                if left <= 0:
                    raise TimeoutError(
                        f"no weights after version {version} within {time_limit:g} s: "
                        "does the trainer still run?"
                    )
                self._changed.wait(min(left, _CHECK))
            return found

    def close(self) -> None:
        """End the thread."""
        self._stop.set()
        end_waiting(self._thread, self._calls)

    def _sleep(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise Stopped

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._fetch()
        except Stopped:
            pass
        except Exception as error:
            if not self._stop.is_set():
                with self._changed:
                    self._error = error
                    self._changed.notify_all()

    def _fetch(self) -> None:
        etag, version = self._known
        began = time.monotonic()
        try:
            found = self._calls.weights(known=etag, wait_s=_WAIT_S)
        except ServerError as error:
            if error.status_code is not None:
                raise
            _logger.warning("%s", error)
            found = None
        if found is None:
            if time.monotonic() - began < _PAUSE:
                self._sleep(_PAUSE)
            return
        if found.version <= version:
            # An answer that was late.
            self._sleep(_PAUSE)
            return
        decoded = _decoded(found)
        with self._changed:
            self._known, self._newest = _known(found), decoded
            self._changed.notify_all()


def _known(blob: Blob | None) -> tuple[str | None, int]:
    return (None, 0) if blob is None else (blob.etag, blob.version)


def _decoded(blob: Blob | None) -> Weights:
    if blob is None:
        return Weights(0, None)
    return Weights(blob.version, load_weights(blob.data))
