"""Retries: which requests are sent again, when, and for how long.

A request that is sent again bears the same key and the same bytes, so that a server
which has executed it already sends the lost answer again.
"""

from __future__ import annotations

import itertools
import logging
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from gym_http_client.error_mapping import json_object, unanswered_error
from gym_http_client.errors import Failure, FailureKind, ServerError
from gym_http_client.http1 import Reply

__all__ = ["REPEATABLE", "REPEATED", "Retries", "Tries", "keys", "wait_of"]

#: Methods that are sent again: with a key, or without effect.
REPEATABLE = frozenset({"GET", "POST"})
#: Statuses of requests that a server did not execute, and may execute later.
REPEATED = frozenset({408, 429, 503})
# The server has waited already, as long as the request allowed.
_FINAL_OF_CREATION = ("external-away",)
_REPEATED_KINDS = (
    FailureKind.ABSENT,
    FailureKind.LOST,
    FailureKind.STALE,
    FailureKind.TIMEOUT,
)
_MAX_DOUBLINGS = 30
# Each try has some time, even one that begins at the end.
_SHORTEST = 0.001
# No server waits that long.
_LONGEST_WAIT = 1e6
# Fewer tries take so little time that nobody wonders.
_WORTH_A_WORD = 6
_logger = logging.getLogger("gym_http_client")
_T = TypeVar("_T")


def _draw() -> float:
    # The global generator is the agent's: its draws must not depend on the network.
    return secrets.randbits(53) / 2**53


@dataclass(frozen=True)
class Retries:
    """How requests are sent again until there is an answer.

    Attributes:
        total: Seconds for all tries together, with the pauses between; 0 for one
            try only.
        first: The first pause is no longer than this, and each further one no
            longer than twice the last bound.
        longest: No pause is longer than this, unless the server demands it.
        first_contact: Seconds for all tries while there is nobody at the address and
            never was: it may be mistyped, and at best a server is about to start.
        clock: Returns the time, in seconds from any moment.
        sleep: Waits for some seconds.
        random: Draws from 0 to 1: the part of its bound that a pause takes, so
            that many clients do not come back at the same moment.
        final: Codes of problems after which there is no other try.
        retry_refused: Whether a request is sent again after nobody was at the address.
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

    def of_creation(self, wait_s: float) -> Retries:
        """Return how a request is sent again that creates an instance.

        Args:
            wait_s: Seconds that the server may wait for external environments, which
                are on top of all others.
        """
        total = self.total + wait_s if self.total > 0 else self.total
        return replace(self, total=total, final=_FINAL_OF_CREATION)

    def of_closing(self, seconds: float) -> Retries:
        """Return how a request is sent again that ends an instance.

        An instance has ended with the server that had it: a refused connection is
        final.

        Args:
            seconds: For all tries together.
        """
        total = min(self.total, seconds)
        return replace(self, total=total, retry_refused=False)


class Tries:
    """The tries of one request: the one place that decides whether there is another.

    Args:
        retries: How it is sent again.
        began: When the first one began; ``None`` is now.
        what: The request, in a word for the log.
        met: Whether there has been an answer from this address before.
        limit: Seconds that each try may take.

    Attributes:
        count: How many there were, the present one included.
        met: Whether there has been an answer from this address.
        last_reason: Why the last try failed that did not just take too long, in words.
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

    def run(self, attempt: Callable[[float], _T], first: Failure | None = None) -> _T:
        """Try until there is an answer, and return it.

        Args:
            attempt: Makes one try within so many seconds, and returns its answer. A
                `Reply` with a status of `REPEATED` is followed by another try.
            first: Why the first try failed, if it was made already.

        Returns:
            The first answer that counts; or, when the time is over, the last `Reply`.

        Raises:
            Failure: There is no answer: that of the last try.
        """
        limit, failure = self._limit, first
        try:
            while True:
                if failure is None:
                    try:
                        answer = attempt(limit)
                    except Failure as error:
                        failure = error
                if failure is not None:
                    if not self.again(failure):
                        raise failure
                elif not isinstance(answer, Reply) or answer.status not in REPEATED:
                    self.met = True
                    return answer
                elif not self.again(answer):
                    return answer
                failure = None
                limit = min(self._limit, max(self.left(), _SHORTEST))
        finally:
            # Its traceback holds this frame: both would stay, and sockets with them.
            del failure

    def error(
        self, failure: Failure, method: str, url: str, key: str | None
    ) -> ServerError:
        """Return the error to raise when no try brought an answer.

        Args:
            failure: Why the last try failed.
            method: The request's.
            url: Where it went.
            key: Its ``Idempotency-Key``, if it had one.
        """
        return unanswered_error(failure, method, url, key, self.count, self.last_reason)

    def left(self) -> float:
        """Return the seconds that are left."""
        return self._left(self._retries.total)

    def again(self, outcome: Reply | Failure) -> bool:
        """Pause if there is to be another try; return whether there is.

        Args:
            outcome: The answer of the present try, or its failure.
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
        if self.count == _WORTH_A_WORD:
            self._warn(outcome, total)
        return True

    def _left(self, total: float) -> float:
        return self._began + total - self._retries.clock()

    def _warn(self, outcome: Reply | Failure, total: float) -> None:
        words = "%s: %s; trying again for %g s at most"
        _logger.warning(words, self._what, _words_of(outcome), total)

    def _is_repeated(self, reply: Reply) -> bool:
        if reply.status not in REPEATED:
            return False
        final = self._retries.final
        return not final or json_object(reply).get("code") not in final

    def _is_tried_again(self, kind: FailureKind) -> bool:
        if kind is FailureKind.ABSENT and not self._retries.retry_refused:
            return False
        return kind in _REPEATED_KINDS

    def _pause(self, outcome: Reply | Failure) -> float | None:
        asked = 0.0
        if isinstance(outcome, Reply):
            if not self._is_repeated(outcome):
                return None
            asked = _retry_after(outcome)
        elif not self._is_tried_again(outcome.kind):
            return None
        elif outcome.kind is FailureKind.STALE and self.count == 1:
            # Nothing is wrong with the server: it closes idle connections.
            return 0.0
        doublings = min(self.count - 1, _MAX_DOUBLINGS)
        bound = min(self._retries.first * 2.0**doublings, self._retries.longest)
        return asked + self._retries.random() * bound


def keys() -> Iterator[str]:
    """Return keys that nobody else has, as threads may take them in turn."""
    prefix = secrets.token_urlsafe(12)
    return map(f"{prefix}-{{}}".format, itertools.count(1))


def wait_of(request: Mapping[str, Any]) -> float:
    """Return the seconds that the body of a create request has the server wait.

    A value that is not a number of seconds counts as 0: the server refuses it.
    """
    wait_s = request.get("wait_s")
    if not isinstance(wait_s, int | float) or not wait_s > 0:
        return 0.0
    return float(min(wait_s, _LONGEST_WAIT))


def _words_of(outcome: Reply | Failure) -> str:
    if not isinstance(outcome, Reply):
        return str(outcome)
    said = json_object(outcome).get("message")
    return f"{said} ({outcome.status})" if said else f"status {outcome.status}"


def _retry_after(reply: Reply) -> float:
    """Return the seconds of Retry-After; a date counts as 0."""
    asked = reply.headers.get("retry-after", "")
    return float(asked[:9]) if asked.isascii() and asked.isdigit() else 0.0
