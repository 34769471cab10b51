"""Deliveries: how the requests of a session get there, and their answers back."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any, NamedTuple

from gym_http_client.causes import error_of
from gym_http_client.failures import Failure, FailureKind
from gym_http_client.handshakes import NoStream
from gym_http_client.links import Link
from gym_http_client.openings import Openings
from gym_http_client.outcomes import by_rest, over_stream
from gym_http_client.raising import refusal
from gym_http_client.retries import REPEATED, Retries, Tries
from gym_http_client.streaming import Answer, Asked, Streaming
from gym_http_wire.handshakes import new_session
from gym_http_wire.values.writing import Writing

__all__ = ["Deliveries", "Pending"]


# The kernel takes smaller messages whole, so that the reason for the end of the stream
# can be read. In the midst of larger ones, sending just fails.
_SURELY_READ = 64 * 1024


class Pending(NamedTuple):
    """A request that waits for its answer.

    Attributes:
        asked: The request.
        path: What follows the instance in the path.
    """

    asked: Asked
    path: str


class Deliveries:
    """The requests of one session that are on their way, the oldest first.

    Each is sent again, over another stream or by REST, until there is an answer.

    Args:
        link: Requests by REST; ``None`` where there is none.
        openings: Opens the streams.
        url: The instance's, for those who read of it.
        path: The instance's.
        retries: How requests are sent again.

    Attributes:
        name: The session's.
    """

    def __init__(
        self,
        link: Link | None,
        openings: Openings,
        url: str,
        path: str,
        *,
        retries: Retries,
    ) -> None:
        self._link = link
        self._retries = retries
        self._path = path
        self._url = url
        self._openings = openings
        self._stream: Streaming | None = None
        self._pending: deque[Pending] = deque()
        self._pending_bytes = 0
        # What came before anybody asked for it.
        self._answered: deque[Any] = deque()
        # Threads take turns.
        self._lock = threading.RLock()
        self._writing = Writing()
        self._begin()

    def _begin(self) -> None:
        """Count from 1 again, under another name."""
        self.name = new_session()
        self._number = 0
        self._openings.forget_loss()
        # Up to this one, requests go by REST unless a later one opens a stream.
        self._without = 0
        self._lose()

    def _first(self, failure: Failure | None = None) -> Any:
        """Wait for the answer to the first pending request; problems are returned.

        Args:
            failure: What came of its first try, if there was one.
        """
        try:
            outcome = self._settled(self._pending[0], failure)
            self._pending_bytes -= len(self._pending.popleft().asked.leaves)
            self._openings.forget_loss()
        except BaseException:
            # The answer, should it still come, would be taken for another's.
            self._forget()
            raise
        return outcome

    def _settled(self, pending: Pending, failed: Failure | None) -> Any:
        """Send a request until there is an answer; problems are returned, too."""
        tries: Tries | None = None
        began = self._retries.clock()
        while self._openings.wanted:
            try:
                if failed is not None:
                    raise failed
                if self._stream is None and pending.asked.number > self._without:
                    self._reopen()
                stream = self._stream
                if stream is None:
                    break
                answer = stream.receive()
                if answer.status in REPEATED and answer.number == pending.asked.number:
                    # It was not done, and may be later.
                    return self._repeated(pending, stream, answer)
                return over_stream(stream, answer, pending.asked.number, self._url)
            except NoStream as none:
                return refusal(none.reply, self._url + "stream")
            except Failure as failure:
                failed = None
                if self._stream is not None:
                    self._openings.lose()
                self._lose()
                if self._link is not None and _may_be_too_large(pending, failure):
                    # By REST the server says so, and what its limit is.
                    break
                tries = tries or Tries(self._retries, began, what=self._url)
                if not tries.again(failure):
                    key = f"{self.name}-{pending.asked.number}"
                    url = self._url + pending.path
                    raise error_of(
                        failure, "POST", url, key, tries.count, tries.heard
                    ) from None
        return self._by_rest(pending)

    def _repeated(self, pending: Pending, stream: Streaming, answer: Answer) -> Any:
        """Ask again for what may be done later: that is the link's."""
        return self._by_rest(pending)

    def _reopen(self) -> None:
        """Open a stream if that works, and send on it whatever is pending."""
        stream = self._openings.open(self.name)
        if stream is None:
            # What is pending goes by REST; a later request tries a stream again.
            self._without = self._number
            return
        self._stream = stream
        for index, pending in enumerate(self._pending):
            stream.send(pending.asked, acknowledged=index == 0)

    def _by_rest(self, pending: Pending) -> Any:
        asked, path = pending
        assert self._link is not None  # noqa: S101 - else streams are always wanted
        key = f"{self.name}-{asked.number}"
        return by_rest(self._link, self._path + path, self._url + path, asked, key)

    def _forget(self) -> None:
        """Give up whatever is on its way."""
        self._lose()
        self._pending.clear()
        self._pending_bytes = 0
        self._openings.forget_loss()

    def _lose(self) -> None:
        """Do without the stream."""
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()


def _may_be_too_large(pending: Pending, failure: Failure) -> bool:
    if failure.kind is FailureKind.LOST:
        return len(pending.asked.leaves) > _SURELY_READ
    return failure.kind is FailureKind.TOO_LARGE
