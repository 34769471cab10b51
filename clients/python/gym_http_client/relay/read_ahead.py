"""Reads batches of a run in a background thread, within a bound of bytes."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from dataclasses import replace

from gym_http_client.errors import ServerError
from gym_http_client.http.retries import Retries
from gym_http_client.relay.batches import Batch, batches_of
from gym_http_client.relay.calls import RelayCalls

__all__ = ["ReadAhead"]

# Bytes of one answer at most, unless its first batch is larger.
_PART = 4 << 20
# Seconds that the server waits for the next batch, before the request is sent again.
_WAIT_S = 20.0
# Seconds between two attempts to end a request that waits.
_CLOSING_PAUSE = 0.05
# A request through a proxy cannot be ended, and its thread is left to itself.
_CLOSING_SECONDS = 5.0
_logger = logging.getLogger("gym_http_client")


class _Closed(Exception):
    """The thread is to end, and does not retry a request."""


class ReadAhead:
    """The batches after a position, which a thread reads before they are used.

    Args:
        url: The server's address.
        run: Name of the run.
        token: As for `RelayCalls`.
        reader: Name of the reader.
        after: Position of the last known batch.
        max_bytes: Bytes of batches that are read before they are used.
        retries: How requests are retried.

    Attributes:
        missed: Number of batches that the server had removed before they were read.
    """

    def __init__(
        self,
        url: str,
        run: str,
        *,
        token: str | None,
        reader: str,
        after: int,
        max_bytes: int,
        retries: Retries,
    ) -> None:
        self.missed = 0
        self._reader = reader
        self._after = after
        self._max_bytes = max_bytes
        # Each with the bytes that become free with it: batches share their bundle.
        self._batches: deque[tuple[Batch, int]] = deque()
        self._bytes = 0
        self._error: BaseException | None = None
        self._closed = threading.Event()
        self._changed = threading.Condition()
        retries = replace(
            retries, sleep=self._pause, first_contact=max(retries.total, 0.0)
        )
        self._calls = RelayCalls(url, run, token=token, retries=retries)
        self._thread = threading.Thread(
            target=self._run, name=f"read-ahead of {run}", daemon=True
        )
        self._thread.start()

    def __len__(self) -> int:
        return len(self._batches)

    def take(self, timeout: float | None) -> Batch | None:
        """Remove and return the next batch; None if there is none in time.

        Args:
            timeout: Seconds to wait at most; None for no limit.

        Raises:
            ServerError: The thread could not read on.
        """
        end = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while not self._batches:
                if self._error is not None:
                    raise self._error
                left = None if end is None else end - time.monotonic()
                if left is not None and left <= 0:
                    return None
                self._changed.wait(left)
            batch, freed = self._batches.popleft()
            self._bytes -= freed
            self._changed.notify_all()
            return batch

    def close(self) -> None:
        """End the thread, and the request in which it may wait."""
        self._closed.set()
        with self._changed:
            self._changed.notify_all()
        end = time.monotonic() + _CLOSING_SECONDS
        while self._thread.is_alive() and time.monotonic() < end:
            # The thread may just have sent another request.
            self._calls.abandon()
            self._thread.join(_CLOSING_PAUSE)
        if not self._thread.is_alive():
            self._calls.close()

    def _run(self) -> None:
        try:
            while self._has_room():
                self._read()
        except _Closed:
            pass
        except BaseException as error:
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _has_room(self) -> bool:
        """Wait until more may be read; return False if the reading is to end."""
        with self._changed:
            while self._bytes >= self._max_bytes and not self._closed.is_set():
                self._changed.wait()
        return not self._closed.is_set()

    def _read(self) -> None:
        try:
            bundle = self._calls.view_samples(
                self._after, max_bytes=_PART, wait_s=_WAIT_S, reader=self._reader
            )
        except ServerError as error:
            first = error.body.get("first") if isinstance(error.body, dict) else None
            if error.code != "samples-gone" or not isinstance(first, int):
                raise
            self._skip_to(first)
            return
        if bundle is None:
            return
        *others, last = batches_of(bundle)
        with self._changed:
            self._batches += [(batch, 0) for batch in others]
            self._batches.append((last, len(bundle)))
            self._bytes += len(bundle)
            self._changed.notify_all()
        self._after = last.position

    def _skip_to(self, first: int) -> None:
        missed = first - 1 - self._after
        self.missed += missed
        self._after = first - 1
        _logger.warning(
            "run %s: the server had removed %d batches before reader %s read them; "
            "reading continues at position %d",
            self._calls.run,
            missed,
            self._reader,
            first,
        )

    def _pause(self, seconds: float) -> None:
        if self._closed.wait(seconds):
            raise _Closed
