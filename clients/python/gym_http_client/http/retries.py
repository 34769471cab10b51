"""Retries: decides which requests are sent again, when, and for how long.

A repeated request has the same key and the same bytes. So a server that has executed it
already sends the lost answer again.
"""

from __future__ import annotations

import itertools
import logging
import math
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from gym_http_client.errors import Failure, FailureKind, ServerError
from gym_http_client.http.error_mapping import json_object, unanswered_error
from gym_http_client.http.http1 import Reply

__all__ = ["REPEATABLE", "REPEATED", "Retries", "Tries", "keys", "wait_of"]

#: Methods that are retried: they have a key, or a repetition changes nothing.
REPEATABLE = frozenset({"GET", "POST", "PUT"})
#: Statuses of requests that a server did not execute, and may execute later.
REPEATED = frozenset({408, 429, 503})
# The server has already waited as long as the request allowed.
_FINAL_OF_CREATION = ("external-away",)
_REPEATED_KINDS = (
    FailureKind.ABSENT,
    FailureKind.LOST,
    FailureKind.STALE,
    FailureKind.TIMEOUT,
)
_MAX_DOUBLINGS = 30
# The shortest time of a try, for one that begins near the time limit.
_SHORTEST = 0.001
# Longer than any server waits.
_LONGEST_WAIT = 1e6
# The number of the try that logs a warning; fewer tries take little time.
_WARN_AFTER = 6
_logger = logging.getLogger("gym_http_client")
_T = TypeVar("_T")


def _draw() -> float:
    # Not the global generator, whose draws in an agent must not depend on the network.
    return secrets.randbits(53) / 2**53


@dataclass(frozen=True)
class Retries:
    """Settings for the retries of requests.

    Attributes:
        total: Seconds for all tries and pauses together; 0 for a single try.
        first: Upper bound of the first pause in seconds. The bound doubles with each
            try.
        longest: Largest bound of a pause in seconds; a ``Retry-After`` adds to it.
        first_contact: Seconds for all tries while no server has ever been at the
            address: it may be mistyped, or a server may be about to start.
        clock: Returns the time in seconds, from any start.
        sleep: Waits for a number of seconds.
        random: Draws a number from 0 to 1, by which the bound of a pause is
            multiplied, so that many clients do not retry at the same moment.
        final: Codes of problems that are not retried.
        retry_refused: Whether to retry if no server listens at the address.
        repeated: Statuses of answers that are retried.
    """

    total: float = 120.0
    first: float = 0.05
    longest: float = 5.0
    first_contact: float = 5.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    random: Callable[[], float] = _draw
    final: tuple[str, ...] = ()
    retry_refused: bool = True
    repeated: frozenset[int] = REPEATED

    def of_creation(self, wait_s: float) -> Retries:
        """Return the settings for a request that creates an instance.

        Args:
            wait_s: Seconds that the server may wait for external environments. They are
                added to ``total``.
        """
        total = self.total + wait_s if self.total > 0 else self.total
        return replace(self, total=total, final=_FINAL_OF_CREATION)

    def within(self, seconds: float) -> Retries:
        """Return the settings for a request that is not worth more than some seconds.

        A refused connection is not retried, since an instance ends with its server.

        Args:
            seconds: Time limit for all tries together.
        """
        total = min(self.total, seconds)
        return replace(self, total=total, retry_refused=False)


class Tries:
    """Runs the tries of one request, and decides whether another one follows.

    Args:
        retries: The settings.
        began: Start of the first try, by the clock; ``None`` for now.
        what: Name of the request for the log.
        met: Whether a server has been at this address before.
        limit: Seconds that each try may take.

    Attributes:
        count: Number of tries, including the current one.
        met: Whether a server has been at this address.
        last_reason: Why the last try failed that did not just time out.
    """

    __slots__ = ("_began", "_limit", "_retries", "_what", "count", "last_reason", "met")

    def __init__(
        self,
        retries: Retries,
        began: float | None = None,
        *,
        what: str = "",
        met: bool = True,
        limit: float = _LONGEST_WAIT,
    ) -> None:
        self.count = 1
        self.met = met
        self.last_reason = ""
        self._retries = retries
        self._what = what
        self._began = retries.clock() if began is None else began
        self._limit = limit

    def run(
        self, attempt: Callable[[float], _T], first: _T | Failure | None = None
    ) -> _T:
        """Try until there is an answer or the time is over, and return the answer.

        Args:
            attempt: Makes one try within the given seconds, and returns its answer. A
                `Reply` with a status that is retried leads to another try.
            first: The answer or the failure of the first try, if the caller made it.

        Returns:
            The first final answer; or, if no try may follow, the last `Reply`.

        Raises:
            Failure: The failure of the last try; there was no answer.
        """
        limit, outcome = self._limit, first
        try:
            while True:
                if outcome is None:
                    try:
                        outcome = attempt(limit)
                    except Failure as error:
                        outcome = error
                if isinstance(outcome, Failure):
                    if not self.again(outcome):
                        raise outcome
                elif not isinstance(outcome, Reply) or not self._is_repeated(outcome):
                    self.met = True
                    return outcome
                elif not self.again(outcome):
                    return outcome
                outcome = None
                limit = min(self._limit, max(self.left(), _SHORTEST))
        finally:
            # Its traceback refers to this frame: the cycle would keep sockets open.
            del outcome, first

    def error(
        self, failure: Failure, method: str, url: str, key: str | None
    ) -> ServerError:
        """Return the error to raise when no try got an answer.

        Args:
            failure: Why the last try failed.
            method: HTTP method of the request.
            url: URL of the request.
            key: Its ``Idempotency-Key``, if it had one.
        """
        return unanswered_error(failure, method, url, key, self.count, self.last_reason)

    def left(self) -> float:
        """Return the remaining seconds."""
        return self._left(self._retries.total)

    def again(self, outcome: Reply | Failure) -> bool:
        """Decide whether to try again, and pause before the next try.

        Args:
            outcome: The answer of the current try, or its failure.
        """
        if isinstance(outcome, Reply) or outcome.kind is not FailureKind.ABSENT:
            self.met = True
        total = self._retries.total
        if not self.met:
            total = min(total, self._retries.first_contact)
        pause = self._pause(outcome)
        if pause is None or pause >= self._left(total):
            return False
        if isinstance(outcome, Reply) or outcome.kind is not FailureKind.TIMEOUT:
            self.last_reason = _words_of(outcome)
        if pause > 0:
            self._retries.sleep(pause)
        self.count += 1
        if self.count == _WARN_AFTER:
            self._warn(outcome, total)
        return True

    def _left(self, total: float) -> float:
        return self._began + total - self._retries.clock()

    def _warn(self, outcome: Reply | Failure, total: float) -> None:
        words = "%s: %s; trying again for %g s at most"
        if math.isinf(total):
            words = "%s: %s; trying again until it is carried out"
            _logger.warning(words, self._what, _words_of(outcome))
            return
        _logger.warning(words, self._what, _words_of(outcome), total)

    def _is_repeated(self, reply: Reply) -> bool:
        if reply.status not in self._retries.repeated:
            return False
        final = self._retries.final
        return not final or json_object(reply).get("code") not in final

    def _is_tried_again(self, kind: FailureKind) -> bool:
        if kind is FailureKind.ABSENT and not self._retries.retry_refused:
            return False
        return kind in _REPEATED_KINDS

    def _pause(self, outcome: Reply | Failure) -> float | None:
        least = 0.0
        if isinstance(outcome, Reply):
            if not self._is_repeated(outcome):
                return None
            least = _retry_after(outcome)
        elif not self._is_tried_again(outcome.kind):
            return None
        elif outcome.kind is FailureKind.STALE and self.count == 1:
            # No error: the server closes idle connections.
            return 0.0
        doublings = min(self.count - 1, _MAX_DOUBLINGS)
        bound = min(self._retries.first * 2.0**doublings, self._retries.longest)
        return least + self._retries.random() * bound


def keys() -> Iterator[str]:
    """Return an iterator of unique idempotency keys; it is thread-safe."""
    prefix = secrets.token_urlsafe(12)
    return map(f"{prefix}-{{}}".format, itertools.count(1))


def wait_of(request: Mapping[str, Any]) -> float:
    """Return the seconds that a create request lets the server wait.

    A value that is not a number of seconds counts as 0: the server refuses it.
    """
    wait_s = request.get("wait_s")
    if not isinstance(wait_s, int | float) or not wait_s > 0:
        return 0.0
    return float(min(wait_s, _LONGEST_WAIT))


def _words_of(outcome: Reply | Failure) -> str:
    if not isinstance(outcome, Reply):
        return str(outcome)
    message = json_object(outcome).get("message")
    return f"{message} ({outcome.status})" if message else f"status {outcome.status}"


def _retry_after(reply: Reply) -> float:
    """Return the seconds in the header Retry-After; a date counts as 0."""
    header = reply.headers.get("retry-after", "")
    return float(header[:9]) if header.isascii() and header.isdigit() else 0.0
