"""Sessions by ZeroMQ: all that is asked of an instance goes over its streams."""

from __future__ import annotations

import json
import re
from typing import Any

from gym_http_client.addresses import Address
from gym_http_client.causes import error_of
from gym_http_client.failures import Failure, FailureKind
from gym_http_client.handshakes import NoStream
from gym_http_client.http1 import Reply
from gym_http_client.openings import Openings
from gym_http_client.outcomes import over_stream
from gym_http_client.raising import refusal, told_by
from gym_http_client.retries import REPEATED, Retries, Tries
from gym_http_client.sessions import Session
from gym_http_client.streaming import Answer, Asked, Streaming
from gym_http_client.zeromq.streams import HANDSHAKE_SECONDS, ZeroMQStream
from gym_http_wire.messages import Op

__all__ = ["ZeroMQOpenings", "ZeroMQSession"]

#: The operation that has a route elsewhere.
CLOSE = 49
# Each try has some time, even one that begins at the end.
_SHORTEST = 0.001
_OPS = {
    "GET ": Op.DESCRIBE,
    "GET generator/": Op.GENERATOR,
    "POST generator/": Op.SET_GENERATOR,
    "reset/": Op.RESET,
    "step/": Op.STEP,
    "render/": Op.RENDER,
}
_ATTRIBUTE_OPS = {
    "GET": Op.ATTRIBUTE,
    "POST": Op.SET_ATTRIBUTE,
    "POST call": Op.CALL_ATTRIBUTE,
}
_ATTRIBUTE = re.compile(r"(GET|POST) attributes/([^/]+)/(?:(call)/)?").fullmatch


class ZeroMQOpenings(Openings):
    """Opens streams of one instance.

    Args:
        address: The server's.
        instance_id: The instance.
        time_limit: Seconds to wait for each answer.
        retries: Have the clock.
    """

    def __init__(
        self,
        address: Address,
        instance_id: str,
        *,
        time_limit: float,
        retries: Retries,
    ) -> None:
        # There is nothing else.
        super().__init__(retries.clock, wanted=True)
        self._address = address
        self._instance_id = instance_id
        self.time_limit = time_limit

    def open(self, session: str, seconds: float = HANDSHAKE_SECONDS) -> ZeroMQStream:
        """Open a stream, within so many seconds."""
        greeting: dict[str, Any] = {
            "instance_id": self._instance_id,
            "session": session,
        }
        lost = self._lost_since()
        if lost is not None:
            greeting["lost"] = lost
        limit = min(self.time_limit, HANDSHAKE_SECONDS, max(_SHORTEST, seconds))
        try:
            stream = ZeroMQStream(self._address, greeting, limit, self.time_limit)
        except NoStream as none:
            if none.reply.status not in REPEATED:
                raise
            words = told_by(none.reply).get("message", "the server is busy")
            raise Failure(FailureKind.LOST, words) from none
        self.forget_loss()
        return stream


class ZeroMQSession(Session):
    """Requests to one instance, from one process.

    Args:
        openings: Opens the streams.
        url: The instance's, for those who read of it.
        retries: How requests are sent again.
    """

    def __init__(self, openings: ZeroMQOpenings, url: str, retries: Retries) -> None:
        super().__init__(None, openings, url, "", retries=retries)
        self._zeromq = openings
        # The stream on which the end was asked for.
        self._ending: ZeroMQStream | None = None

    def begin_with(self, stream: ZeroMQStream) -> None:
        """Go on with a stream that is open already."""
        self.name = str(stream.welcome["session"])
        self._stream = stream

    @property
    def transport(self) -> str:
        """What requests go over."""
        return "zeromq"

    def end(self, seconds: float) -> None:
        """End the instance, if it has not ended yet.

        Args:
            seconds: For this; another thread that waits for an answer gets half of it.

        Raises:
            ServerUnreachable: There is no answer.
        """
        retries = self._retries.of_closing(seconds)
        until = retries.clock() + seconds
        tries = Tries(retries, retries.clock(), what=self._url)
        while (failure := self._end_once(until - retries.clock())) is not None:
            if not tries.again(failure):
                raise self._error_of(failure, "close/", tries)

    def _end_once(self, seconds: float) -> Failure | None:
        """Return why there is no answer, if there is none."""
        try:
            self.begin_end(seconds)
            self.finish_end(seconds)
        except NoStream:
            # There is no such instance any more.
            return None
        except Failure as failure:
            return failure
        return None

    def begin_end(self, seconds: float) -> None:
        """Ask for the end of the instance.

        Args:
            seconds: For this; another thread that waits for an answer gets half of it.

        Raises:
            NoStream: The instance has ended.
            Failure: The server is unreachable.
        """
        stream = self._take_stream(seconds / 2)
        self._ending = stream or self._zeromq.open(self.name, seconds)
        asked = Asked(self._number + 1, CLOSE, b"", b"", b"")
        self._ending.send(asked, acknowledged=True)

    def finish_end(self, seconds: float) -> None:
        """Wait for the answer to that.

        Raises:
            NoStream: The instance has ended.
            Failure: There is no answer.
        """
        ending, self._ending = self._ending, None
        if ending is not None:
            try:
                ending.receive(max(_SHORTEST, min(seconds, self._zeromq.time_limit)))
            finally:
                ending.close()

    def leave(self, seconds: float) -> None:
        """Close the stream, unless another thread uses it for longer than this."""
        stream = self._take_stream(seconds)
        if stream is not None:
            stream.close()

    def _take_stream(self, seconds: float) -> ZeroMQStream | None:
        """Take the stream out of the session, if there is one that is not in use.

        Sockets of ZeroMQ must not be used, or closed, by two threads at a time.
        """
        if not self._lock.acquire(timeout=max(0.0, seconds)):
            return None
        try:
            if self._pending:
                self._forget()
            stream, self._stream = self._stream, None
            return stream if isinstance(stream, ZeroMQStream) else None
        finally:
            self._lock.release()

    @staticmethod
    def _operation(path: str) -> tuple[int, bytes]:
        """Give the operation of a path, and the head of its requests, padded."""
        if path in _OPS:
            return _OPS[path], b""
        match = _ATTRIBUTE(path)
        if match is None:
            raise ValueError(f"there is nothing at {path!r}")
        method, name, call = match.groups()
        head = json.dumps({"value": name}).encode()
        op = _ATTRIBUTE_OPS[f"{method} {call}" if call else method]
        return op, head + b" " * (-len(head) % 8)

    def _repeated(self, pending: Any, stream: Streaming, answer: Answer) -> Any:
        """Ask again for what may be done later.

        What was sent behind it goes again as well: with a stream of its own, answers
        come in the order in which they are waited for.
        """
        tries, number = self._tries(), pending.asked.number
        outcome = over_stream(stream, answer, number, self._url)
        again = tries.again(_reply_of(answer))
        while again:
            self._lose()
            try:
                stream = self._opened()
                answer = stream.receive()
                outcome = over_stream(stream, answer, number, self._url)
                if answer.status not in REPEATED:
                    return outcome
                again = tries.again(_reply_of(answer))
            except NoStream as none:
                return refusal(none.reply, self._url)
            except Failure as failure:
                if self._stream is not None:
                    self._openings.lose()
                again = tries.again(failure)
                if not again:
                    raise self._error_of(failure, pending.path, tries) from None
        return outcome

    def _opened(self) -> Streaming:
        """Give the stream, opened if need be."""
        if self._stream is None:
            self._reopen()
        assert self._stream is not None  # noqa: S101 - else there was a failure
        return self._stream

    def _error_of(self, failure: Failure, path: str, tries: Tries) -> Exception:
        url = self._url + path
        return error_of(failure, "POST", url, None, tries.count, tries.heard)

    def _tries(self) -> Tries:
        return Tries(self._retries, self._retries.clock(), what=self._url)


def _reply_of(answer: Answer) -> Reply:
    """Give an answer that is a problem as HTTP would give it."""
    return Reply(answer.status, {}, bytes(answer.message[answer.start :]))
