"""Sessions: numbered requests to one instance, over streams while there are any.

Request n of session S has the key ``S-n`` wherever it goes. So one whose answer was
lost goes again over another stream, or by REST, and is not executed twice.
"""

from __future__ import annotations

from typing import Any

from gym_http_client.deliveries import Deliveries, Pending
from gym_http_client.failures import Failure
from gym_http_client.handshakes import NoStream
from gym_http_client.outcomes import over_stream
from gym_http_client.retries import REPEATED
from gym_http_client.streaming import Answer, Asked, Streaming
from gym_http_core.session_log import MAX_ANSWERS
from gym_http_wire.fast_frames import MISSED
from gym_http_wire.messages import Op

__all__ = ["Session"]

# So many requests on their way at once that the server still has the answers to all of
# them if they are lost; so many bytes that sending them waits for no answer to be read.
_MAX_PENDING = MAX_ANSWERS
_MAX_PENDING_BYTES = 32 * 1024
_MAX_NUMBER = 2**32 - 1
_OPS = {"reset/": Op.RESET, "step/": Op.STEP, "render/": Op.RENDER}
_QUICK = frozenset({"reset/", "step/"})


class Session(Deliveries):
    """Requests to one instance, from one process.

    Several requests may be on their way; their answers come in their order. When there
    are too many, sending another one waits for the first answer, and keeps it.

    Who gives up waiting for an answer, or is interrupted, gives up all that were sent.
    Whether they are executed is unknown; over streams, not after a later request.

    It takes what `Deliveries` takes.
    """

    @staticmethod
    def carries(method: str, path: str) -> bool:
        """Whether a request goes over the session."""
        return method == "POST" and path in _OPS

    @staticmethod
    def _operation(path: str) -> tuple[int, bytes]:
        """Give the operation of a path, and the head of its requests, padded."""
        return _OPS[path], b""

    @property
    def transport(self) -> str:
        """What requests go over: ``"stream"`` or ``"rest"``."""
        return "stream" if self._stream is not None else "rest"

    def ask(self, path: str, given: Any) -> Any:
        """Ask, and wait for the answer.

        Raises:
            ServerUnreachable: There is no answer.
            ServerError: The server refuses.
            Exception: What the environment raised.
        """
        with self._lock:
            stream = self._stream
            quick = path in _QUICK and self._number < _MAX_NUMBER
            if quick and stream is not None and not self._pending:
                outcome = self._exchange(stream, path, given)
                if outcome is not MISSED:
                    return _given(outcome)
            self.drain()
            self.send(path, given)
            return _given(self._first())

    def _exchange(self, stream: Streaming, path: str, given: Any) -> Any:
        """Ask in the stream's quick lane; gives `MISSED` if this is not for it."""
        op, number = _OPS[path], self._number + 1
        try:
            outcome = stream.exchange(op, number, given)
            if outcome is MISSED:
                return MISSED
            self._number = number
            if type(outcome) is Answer:
                if outcome.status in REPEATED:
                    return self._by_rest(self._pending_of(number, path, given))
                outcome = over_stream(stream, outcome, number, self._url)
        except Failure as failure:
            self._number = number
            pending = self._pending_of(number, path, given)
            self._pending.append(pending)
            self._pending_bytes += len(pending.asked.leaves)
            outcome = self._first(failure)
        except BaseException:
            # The answer, should it still come, would be taken for another's.
            self._number = number
            self._forget()
            raise
        return outcome

    def _pending_of(self, number: int, path: str, given: Any) -> Pending:
        signature, parts = self._writing.split(given)
        asked = Asked(number, _OPS[path], b"", signature, b"".join(parts))
        return Pending(asked, path)

    def send(self, path: str, given: Any) -> None:
        """Ask, and return at once; `receive` gives the answer.

        Raises:
            UnsupportedValue: What is given cannot be sent.
            ServerUnreachable: There is no answer to what was sent earlier.
        """
        op, head = self._operation(path)
        signature, leaves = (b"", b"")
        if given is not None and op != Op.RENDER:
            signature, parts = self._writing.split(given)
            leaves = b"".join(parts)
        with self._lock:
            if self._pending:
                self._make_room(len(leaves))
            if self._number == _MAX_NUMBER:
                self.drain()
                self._begin()
            self._number += 1
            asked = Asked(self._number, op, head, signature, leaves)
            self._pending.append(Pending(asked, path))
            self._pending_bytes += len(leaves)
            try:
                if self._stream is not None:
                    acknowledged = len(self._pending) == 1
                    self._stream.send(asked, acknowledged=acknowledged)
                elif self._openings.wanted:
                    self._reopen()
            except (Failure, NoStream):
                # Whoever waits for the answer sees to it.
                self._lose()
            except BaseException:
                self._forget()
                raise

    def receive(self) -> Any:
        """Wait for the answer to the oldest request that was sent.

        Raises:
            ServerUnreachable: There is no answer.
            ServerError: The server refuses.
            RuntimeError: There is no such request.
            Exception: What the environment raised.
        """
        with self._lock:
            if self._answered:
                return _given(self._answered.popleft())
            if not self._pending:
                raise RuntimeError(
                    "no request waits for its answer: nothing was sent, or it was "
                    "given up along with an earlier one"
                )
            return _given(self._first())

    def drain(self) -> None:
        """Wait for all answers that are still to come, and keep them.

        Raises:
            ServerUnreachable: There are none.
        """
        with self._lock:
            while self._pending:
                self._answered.append(self._first())

    def close(self) -> None:
        """Close the stream; a later request opens another."""
        with self._lock:
            self._forget()

    def leave(self, seconds: float) -> None:
        """Close the stream, for which another thread may wait so long at most."""
        if not self._lock.acquire(timeout=seconds):
            self.abandon()
            return
        try:
            self._forget()
        finally:
            self._lock.release()

    def abandon(self) -> None:
        """Close the stream without waiting for a turn.

        A process that was forked does this with what it inherits.
        """
        self._lose()

    def _make_room(self, size: int) -> None:
        """Wait for answers until another request may be on its way."""
        while self._pending and (
            len(self._pending) >= _MAX_PENDING
            or self._pending_bytes + size > _MAX_PENDING_BYTES
        ):
            self._answered.append(self._first())


def _given(outcome: Any) -> Any:
    if isinstance(outcome, Exception):
        raise outcome
    return outcome
