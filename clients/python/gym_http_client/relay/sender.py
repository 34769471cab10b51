"""Sender: a thread that sends what a spool has, so that no environment waits for it."""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gym_http_client.errors import Failure, ServerError
from gym_http_client.http.retries import Retries
from gym_http_client.relay.calls import RelayCalls
from gym_http_client.relay.segments import Piece
from gym_http_client.relay.spool import Spool

__all__ = ["MAX_POST", "Sender", "Stopped", "end_waiting", "endless"]

#: Bytes of batches in one request, unless a single batch is larger.
MAX_POST = 4 * 1024 * 1024
# All of them may succeed later: the relay is full, restarts, or a proxy waits for it.
_REPEATED = frozenset({408, 429, 500, 502, 503, 504, 507})
_REFUSED = frozenset({400, 413, 422})
# A body may be damaged on its way, but not each time.
_MOST_DAMAGED = 3
_MOST_GAPS = 3
# So many pieces must have been stored without a pause before another is sent ahead,
_SMOOTH = 2
# and its batches must have so many bytes.
_AHEAD_BYTES = 16 * 1024
_PAUSE = 5.0
# Seconds between two attempts to end a request that waits.
_CLOSING_PAUSE = 0.05
# A request through a proxy cannot be ended, and its thread is left to itself.
_CLOSING_SECONDS = 5.0
_logger = logging.getLogger("gym_http_client")


def endless(retries: Retries, sleep: Callable[[float], None]) -> Retries:
    """Return settings by which requests are retried until they are carried out.

    Args:
        retries: The other settings.
        sleep: Waits for a number of seconds; it raises to end the retries.
    """
    return replace(
        retries,
        total=math.inf,
        first_contact=math.inf,
        repeated=_REPEATED,
        sleep=sleep,
    )


def end_waiting(thread: threading.Thread, *calls: RelayCalls) -> None:
    """Wait for a thread that is to end, and end the calls in which it waits."""
    end = time.monotonic() + _CLOSING_SECONDS
    while thread.is_alive() and time.monotonic() < end:
        # It may just have sent another request.
        for each in calls:
            each.abandon()
        thread.join(_CLOSING_PAUSE)
    if not thread.is_alive():
        for each in calls:
            each.close()


class Stopped(Exception):
    """A thread is to end, instead of another try of its request."""


class Sender:
    """A thread that sends the batches and records of a spool.

    It retries without end while the relay is full, restarts or cannot be reached. It
    moves batches that the relay refuses to the folder ``refused`` of the spool, logs an
    error, and goes on.

    Args:
        spool: The spool, which has a session.
        connect: Creates the calls of the run with the retries given.
        retries: How requests are retried; all tries together have no time limit.
        max_post: Bytes of batches in one request.

    Attributes:
        version: The newest version of the weights that the relay has named.
        error: Why the sender has failed, or None.
    """

    def __init__(
        self,
        spool: Spool,
        connect: Callable[[Retries], RelayCalls],
        *,
        retries: Retries | None = None,
        max_post: int = MAX_POST,
    ) -> None:
        self.version = 0
        self.error: Exception | None = None
        self._spool = spool
        self._retries = retries or Retries()
        self._stop = threading.Event()
        self._max_post = max_post
        self._calls = connect(endless(self._retries, self._sleep))
        # For the piece that is sent ahead, while the relay stores the one before it.
        self._other_calls = connect(endless(self._retries, self._sleep))
        # The piece to send next, if it was read meanwhile.
        self._next: Piece | None = None
        self._sent_ahead = False
        # Pieces that were stored since the relay last let the sender wait.
        self._smooth = 0
        # Batches up to this number are sent one by one, to find the one to refuse.
        self._single_upto = 0
        self._damaged = 0
        self._gaps = 0
        self._thread = threading.Thread(
            target=self._run, name=f"sender of {spool.folder}", daemon=True
        )

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def flush(self, time_limit: float) -> bool:
        """Wait until everything was sent.

        Args:
            time_limit: Seconds to wait at most.

        Returns:
            Whether everything was sent.

        Raises:
            ServerError: The relay refuses for a reason that no retry changes.
        """
        clock = self._retries.clock
        return self._spool.wait_until_sent(clock() + time_limit, clock)

    def close(self) -> None:
        """End the thread; what was not sent stays in the spool."""
        self._stop.set()
        end_waiting(self._thread, self._calls, self._other_calls)

    def _run(self) -> None:
        try:
            self._synchronize()
            while not self._stop.is_set():
                sent = self._send_batches()
                if not self._send_records() and not sent:
                    self._spool.wait(0.2)
        except Stopped:
            pass
        except Exception as error:
            if self._stop.is_set():
                return
            self.error = error
            _logger.error(
                "the sender of %s ends, and what was not sent stays there: %s",
                self._spool.folder,
                error,
            )
            self._spool.fail(error)

    def _sleep(self, seconds: float) -> None:
        self._smooth = -1
        if self._stop.wait(seconds):
            raise Stopped

    def _synchronize(self) -> None:
        """Learn what the relay has already."""
        spool = self._spool
        found = self._patiently(lambda: self._calls.session(spool.session))
        spool.settle(found["next"])
        spool.settle_records(found["records_next"])

    def _patiently(self, call: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Call until there is an answer of the server."""
        while True:
            if self._stop.is_set():
                raise Stopped
            try:
                return call()
            except ServerError as error:
                if error.status_code is not None:
                    raise
                _logger.warning("%s; trying again in %g s", error, _PAUSE)
            self._sleep(_PAUSE)

    def _send_batches(self) -> bool:
        """Send a piece, and return whether there was one."""
        piece, self._next = self._next, None
        if piece is None or not self._spool.is_next(piece):
            piece = self._spool.piece(self._max_post)
        if piece is None:
            return False
        if piece.first <= self._single_upto and piece.first != piece.last:
            piece = self._spool.piece(0) or piece
        sent = piece
        try:
            answer = self._patiently(
                lambda: self._calls.put_bundle(sent.data, lambda: self._read_on(sent))
            )
        except ServerError as error:
            self._refused(piece, error)
        else:
            self._note(answer)
            self._damaged = self._gaps = 0
            self._smooth += 1
            self._spool.settle(answer["next"], first=piece.first)
            if self._sent_ahead:
                calls = self._calls, self._other_calls
                self._other_calls, self._calls = calls
        return True

    def _read_on(self, piece: Piece) -> None:
        """Read what follows a piece, which the relay stores meanwhile, and send it.

        Of what is sent, the end is kept back until the piece is stored, since the relay
        stores batches in order. A relay that is full would receive it in vain, and with
        small batches it is the relay that takes longest.
        """
        self._sent_ahead = False
        # The next read raises the error again, if it stays.
        with contextlib.suppress(OSError):
            self._next = self._spool.piece_after(piece, self._max_post)
        if self._next is None or self._smooth < _SMOOTH:
            return
        if len(self._next.data) >= _AHEAD_BYTES * len(self._next.ends):
            with contextlib.suppress(Failure):
                self._other_calls.send_bundle_ahead(self._next.data)
                self._sent_ahead = True

    def _note(self, answer: dict[str, Any]) -> None:
        version = answer.get("version")
        if isinstance(version, int):
            self.version = max(self.version, version)

    def _refused(self, piece: Piece, error: ServerError) -> None:
        """Handle a refusal that repetition does not change, or raise it."""
        body = error.body if isinstance(error.body, dict) else {}
        self._note(body)
        found = body.get("next")
        reached = found if isinstance(found, int) else 0
        if error.code == "gap" and reached:
            self._gaps += 1
            if self._gaps > _MOST_GAPS:
                raise error
            self._spool.settle(reached)
        elif error.code == "stale" and reached > piece.first:
            _logger.warning("batch %d is stale: %s", reached - 1, error)
            self._spool.settle(reached, first=piece.first, stale=True)
        elif error.status_code in _REFUSED:
            if error.code == "digest-mismatch" and self._damaged < _MOST_DAMAGED:
                self._damaged += 1
                return
            self._damaged = 0
            self._refuse(piece, reached, error, body)
        else:
            raise error

    def _refuse(
        self, piece: Piece, reached: int, error: ServerError, problem: dict[str, Any]
    ) -> None:
        """Move the batch that the relay refuses to ``refused``."""
        alone = piece.first == piece.last
        if not alone and not piece.first <= reached <= piece.last:
            # It is not known which: perhaps a proxy refuses the size of the request.
            self._single_upto = piece.last
            if error.status_code == 413:
                self._max_post //= 2
            return
        number = piece.first if alone else reached
        if piece.first < reached <= piece.last:
            self._spool.settle(reached, first=piece.first)
        path = self._spool.refuse(number, problem or {"message": str(error)})
        _logger.error(
            "the relay refuses batch %d of worker %s, so it is dropped: %s; it is kept "
            "as %s",
            number,
            self._spool.worker,
            error,
            path,
        )

    def _send_records(self) -> bool:
        """Send the next records, and return whether there were any."""
        found = self._spool.records()
        if found is None:
            return False
        number, records = found
        session = self._spool.session
        # A request on the others would discard what was sent ahead.
        calls = self._other_calls if self._sent_ahead else self._calls
        try:
            self._patiently(
                lambda: calls.put_records(records, session=session, number=number)
            )
        except ServerError as error:
            if error.status_code not in _REFUSED:
                raise
            _logger.error("the relay refuses %d records: %s", len(records), error)
            self._spool.refuse_records()
        else:
            self._spool.settle_records(number + 1)
        return True
