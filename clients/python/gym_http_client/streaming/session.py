"""Sessions: numbered requests to one instance, over streams or by REST.

Request n of session S has the key ``S-n`` on every transport. So a request whose answer
was lost is sent again, over another stream or by REST, and is not executed twice.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any, NamedTuple

from gym_http_client.errors import Failure, FailureKind
from gym_http_client.http.error_mapping import (
    error_from_problem,
    error_from_reply,
    parse_object,
    unanswered_error,
)
from gym_http_client.http.http1 import Reply
from gym_http_client.http.requester import Requester
from gym_http_client.http.retries import REPEATED, Retries, Tries
from gym_http_client.http.server_warnings import HEADER, show, show_header
from gym_http_client.streaming.handshakes import NoStream
from gym_http_client.streaming.stream_openers import StreamOpener
from gym_http_client.streaming.streams import Stream, StreamAnswer, StreamRequest
from gym_http_core.session_log import MAX_ANSWERS
from gym_http_wire.fast_frames import MISSED
from gym_http_wire.frames import MAX_NUMBER, VALUE_HEADER
from gym_http_wire.handshakes import new_session
from gym_http_wire.messages import MEDIA_TYPES, WARNINGS, Form, Op
from gym_http_wire.values import BadValue, binary
from gym_http_wire.values.writing import Writing

__all__ = [
    "OF_SESSIONS",
    "REAL_TIME_OPS",
    "Pending",
    "Session",
    "body_of",
    "by_rest",
    "over_stream",
]

# The kernel accepts smaller messages whole, so the client can read why the stream
# ended. With larger ones, sending fails midway.
_SURELY_READ = 64 * 1024
_BINARY_TYPE = MEDIA_TYPES[Form.BINARY]
_BINARY_FORM = int(Form.BINARY)
# Limits of pending requests: the server still has the answers to all of them if they
# are lost, and sending never has to wait until an answer is read.
_MAX_PENDING = MAX_ANSWERS
_MAX_PENDING_BYTES = 32 * 1024
_OPS = {"reset/": Op.RESET, "step/": Op.STEP, "render/": Op.RENDER}
#: Operations of real time, by method and path.
REAL_TIME_OPS = {
    "POST action/": Op.ACT,
    "GET updates/": Op.UPDATES,
    "GET realtime/": Op.REALTIME,
    "POST realtime/": Op.SET_REALTIME,
    "POST realtime/pause/": Op.PAUSE,
    "POST realtime/resume/": Op.RESUME,
    "GET realtime/trace/": Op.TRACE,
}
#: Paths of the POST requests that belong to a session.
OF_SESSIONS = frozenset(_OPS)
_QUICK = frozenset({"reset/", "step/"})


class Pending(NamedTuple):
    """A request that waits for its answer.

    Attributes:
        request: The request.
        path: The path below the instance.
    """

    request: StreamRequest
    path: str


class Session:
    """Sends the requests of one process to one instance, in order.

    Each request is retried, over another stream or by REST. Several may be pending;
    their answers arrive in order. If too many are pending, sending another one first
    waits for the oldest answer, and keeps it.

    If waiting for an answer fails or is interrupted, all pending requests are dropped.
    It is unknown whether they are executed. Over streams they are not executed after a
    later request.

    Args:
        requester: Sends requests by REST; ``None`` if there is no REST.
        opener: Opens the streams.
        url: URL of the instance, for error messages.
        path: Path of the instance.
        retries: How requests are retried.

    Attributes:
        name: Name of the session.
    """

    def __init__(
        self,
        requester: Requester | None,
        opener: StreamOpener,
        url: str,
        path: str,
        *,
        retries: Retries,
    ) -> None:
        self._requester = requester
        self._retries = retries
        self._path = path
        self._url = url
        self._opener = opener
        self._stream: Stream | None = None
        self._pending: deque[Pending] = deque()
        self._pending_bytes = 0
        # Answers that were received before the caller waited for them.
        self._answered: deque[Any] = deque()
        # One thread at a time uses the stream.
        self._lock = threading.RLock()
        self._writing = Writing()
        self._number = 0
        self._begin()

    @staticmethod
    def _operation(path: str) -> tuple[int, bytes]:
        """Return the operation of a path, and the padded head of its requests."""
        return _OPS[path], b""

    @property
    def transport(self) -> str:
        """The current transport: ``"stream"`` or ``"rest"``."""
        return "stream" if self._stream is not None else "rest"

    def call(self, path: str, given: Any) -> Any:
        """Send a request, and wait for the answer.

        Raises:
            ServerUnreachable: There is no answer.
            ServerError: The server refuses.
            Exception: The environment raised it.
        """
        with self._lock:
            stream = self._stream
            quick = path in _QUICK and self._number < MAX_NUMBER
            if quick and stream is not None and not self._pending:
                outcome = self._exchange(stream, path, given)
                if outcome is not MISSED:
                    if isinstance(outcome, Exception):
                        raise outcome
                    return outcome
            self.drain()
            self.send(path, given)
            return _value_or_raise(self._first())

    def _exchange(self, stream: Stream, path: str, given: Any) -> Any:
        """Send a request as a fast frame; return `MISSED` if it does not fit."""
        op, number = _OPS[path], self._number + 1
        try:
            outcome = stream.exchange(op, number, given)
            if outcome is MISSED:
                return MISSED
            self._number = number
            if type(outcome) is StreamAnswer:
                if outcome.status in REPEATED:
                    return self._by_rest(self._pending_of(number, path, given))
                outcome = over_stream(stream, outcome, number, self._url)
        except Failure as failure:
            self._number = number
            pending = self._pending_of(number, path, given)
            self._pending.append(pending)
            self._pending_bytes += len(pending.request.leaves)
            outcome = self._first(failure)
        except BaseException:
            # A late answer would be read as the answer to another request.
            self._number = number
            self._forget()
            raise
        return outcome

    def _pending_of(self, number: int, path: str, given: Any) -> Pending:
        signature, parts = self._writing.split(given)
        request = StreamRequest(number, _OPS[path], b"", signature, b"".join(parts))
        return Pending(request, path)

    def send(self, path: str, given: Any) -> None:
        """Send a request, and return at once; `receive` returns the answer.

        Raises:
            UnsupportedValue: The value cannot be sent.
            ServerUnreachable: There is no answer to an earlier request.
        """
        op, head = self._operation(path)
        signature, leaves = (b"", b"")
        if given is not None and op != Op.RENDER:
            signature, parts = self._writing.split(given)
            leaves = b"".join(parts)
        with self._lock:
            if self._pending:
                self._make_room(len(leaves))
            if self._number == MAX_NUMBER:
                self.drain()
                self._begin()
            self._number += 1
            request = StreamRequest(self._number, op, head, signature, leaves)
            self._pending.append(Pending(request, path))
            self._pending_bytes += len(leaves)
            try:
                if self._stream is not None:
                    acknowledged = len(self._pending) == 1
                    self._stream.send(request, acknowledged=acknowledged)
                elif self._opener.wanted:
                    self._reopen()
            except (Failure, NoStream):
                # `receive` sends it again.
                self._lose()
            except BaseException:
                self._forget()
                raise

    def receive(self) -> Any:
        """Wait for the answer to the oldest request that was sent.

        Raises:
            ServerUnreachable: There is no answer.
            ServerError: The server refuses.
            RuntimeError: No request is pending.
            Exception: The environment raised it.
        """
        with self._lock:
            if self._answered:
                return _value_or_raise(self._answered.popleft())
            if not self._pending:
                raise RuntimeError(
                    "no request waits for its answer: nothing was sent, or it was "
                    "given up along with an earlier one"
                )
            return _value_or_raise(self._first())

    def drain(self) -> None:
        """Wait for the answers to all pending requests, and keep them.

        Raises:
            ServerUnreachable: There is no answer.
        """
        with self._lock:
            while self._pending:
                self._answered.append(self._first())

    def close(self) -> None:
        """Close the stream; a later request opens another."""
        with self._lock:
            self._forget()

    def leave(self, seconds: float) -> None:
        """Close the stream; wait at most this long for another thread that uses it."""
        if not self._lock.acquire(timeout=seconds):
            self.abandon()
            return
        try:
            self._forget()
        finally:
            self._lock.release()

    def abandon(self) -> None:
        """Close the stream without waiting for a thread that uses it.

        A forked process does this with a session that it inherits.
        """
        self._lose()

    def _make_room(self, size: int) -> None:
        """Wait for answers until another request may be pending."""
        while self._pending and (
            len(self._pending) >= _MAX_PENDING
            or self._pending_bytes + size > _MAX_PENDING_BYTES
        ):
            self._answered.append(self._first())

    def _begin(self) -> None:
        """Begin a new session: a new name, and numbers from 1."""
        self.name = new_session()
        self._number = 0
        self._opener.forget_loss()
        # Requests up to this number go by REST, unless a later one opens a stream.
        self._without = 0
        self._lose()

    def _first(self, failure: Failure | None = None) -> Any:
        """Return the outcome of the oldest pending request; a problem as an exception.

        Args:
            failure: The failure of its first try, if the caller made it.
        """
        pending, outcome = self._pending[0], MISSED
        try:
            if failure is None and self._stream is not None:
                try:
                    outcome = self._stream.receive_fast(pending.request.number)
                except Failure as error:
                    failure = error
            if outcome is MISSED:
                outcome = self._outcome(pending, failure)
            self._pending_bytes -= len(self._pending.popleft().request.leaves)
            self._opener.forget_loss()
        except BaseException:
            # A late answer would be read as the answer to another request.
            self._forget()
            raise
        finally:
            # Its traceback refers to this frame: the cycle would keep sockets open.
            del failure
        return outcome

    def _outcome(self, pending: Pending, failed: Failure | None) -> Any:
        """Send a request, with retries, and return its outcome."""
        tries = Tries(self._retries, what=self._url)
        try:
            if failed is not None:
                try:
                    return self._after_loss(pending, failed)
                except Failure as failure:
                    failed = failure
            answer = tries.run(lambda _: self._try(pending), failed)
        except Failure as failure:
            key = f"{self.name}-{pending.request.number}"
            method, _, path = pending.path.rpartition(" ")
            raise tries.error(failure, method or "POST", self._url + path, key) from (
                None
            )
        finally:
            del failed
        if type(answer) is Reply:
            return problem_outcome(answer.body, answer.status, self._url)
        return answer

    def _try(self, pending: Pending) -> Any:
        """Try once to get the answer to a request; send the request if necessary.

        Returns:
            The outcome; or a `Reply` with a status of `REPEATED`.

        Raises:
            Failure: There is no answer.
        """
        if self._stream is None and not self._opener.wanted:
            return self._by_rest(pending)
        try:
            if self._stream is None and pending.request.number > self._without:
                self._reopen()
            stream = self._stream
            if stream is None:
                return self._by_rest(pending)
            answer = stream.receive()
            if answer.status in REPEATED and answer.number == pending.request.number:
                # The server did not execute it, and may do so later.
                return self._repeated(pending, answer)
            return over_stream(stream, answer, pending.request.number, self._url)
        except NoStream as none:
            return error_from_reply(none.reply, self._url + "stream")
        except Failure as failure:
            return self._after_loss(pending, failure)

    def _after_loss(self, pending: Pending, failure: Failure) -> Any:
        """Close the stream; return the outcome of a request too large for it.

        Raises:
            Failure: The request is not too large; another stream may be tried.
        """
        if self._stream is not None:
            self._opener.lose()
        self._lose()
        if self._requester is not None and _may_be_too_large(pending, failure):
            # By REST, the server's answer states its limit.
            return self._by_rest(pending)
        raise failure

    def _repeated(self, pending: Pending, answer: StreamAnswer) -> Any:
        """Send a request again by REST, since the server did not execute it."""
        return self._by_rest(pending)

    def _reopen(self) -> None:
        """Open a stream if possible, and send all pending requests on it."""
        stream = self._opener.open(self.name)
        if stream is None:
            # Pending requests go by REST; a later request tries a stream again.
            self._without = self._number
            return
        self._stream = stream
        for index, pending in enumerate(self._pending):
            stream.send(pending.request, acknowledged=index == 0)

    def _by_rest(self, pending: Pending) -> Any:
        request, path = pending
        assert self._requester is not None  # noqa: S101 - else streams are always wanted
        key = f"{self.name}-{request.number}"
        return by_rest(
            self._requester, self._path + path, self._url + path, request, key
        )

    def _forget(self) -> None:
        """Close the stream and drop all pending requests."""
        self._lose()
        self._pending.clear()
        self._pending_bytes = 0
        self._opener.forget_loss()

    def _lose(self) -> None:
        """Close the stream and forget it."""
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()


def _may_be_too_large(pending: Pending, failure: Failure) -> bool:
    if failure.kind is FailureKind.LOST:
        return len(pending.request.leaves) > _SURELY_READ
    return failure.kind is FailureKind.TOO_LARGE


def over_stream(stream: Stream, answer: StreamAnswer, number: int, url: str) -> Any:
    """Decode the answer to a request on a stream, to its value or an exception.

    Args:
        stream: The stream.
        answer: The next answer on it.
        number: Number of the request.
        url: URL of the instance.

    Raises:
        Failure: This is not the answer to the request, or it is malformed.
    """
    if answer.number != number:
        words = f"answer {answer.number} arrived instead of answer {number}"
        raise Failure(FailureKind.MALFORMED, words)
    if answer.status == 200 and answer.form == _BINARY_FORM:
        return stream.value(answer)
    body = bytes(answer.message[answer.start :])
    return problem_outcome(body, answer.status, url)


def problem_outcome(body: bytes, status: int, url: str) -> Exception:
    """Convert a problem on a stream to an exception, and show its warnings.

    Raises:
        Failure: The body is not a problem.
    """
    problem = _problem_in(body, status)
    show(problem.get(WARNINGS))
    return error_from_problem(problem, status, url)


def body_of(request: StreamRequest) -> bytes:
    """Return the body over HTTP of a request."""
    if not request.signature:
        return b""
    header = VALUE_HEADER.pack(len(request.signature), 0)
    return header + request.signature + request.leaves


def by_rest(
    requester: Requester,
    path: str,
    url: str,
    request: StreamRequest,
    key: str | None,
    *,
    method: str = "POST",
) -> Any:
    """Send a request by REST; return its value, or its problem as an exception.

    Args:
        requester: Sends the request.
        path: Path of the request.
        url: URL of the request, for error messages.
        request: The request.
        key: Its idempotency key.
        method: ``POST``, or ``GET`` for a request whose value is in its path.

    Raises:
        ServerUnreachable: There is no answer.
    """
    sent = method == "POST"
    reply = requester.request(
        method,
        path,
        body_of(request) if sent else b"",
        content_type=_BINARY_TYPE if sent else None,
        accept=_BINARY_TYPE,
        key=key,
    )
    show_header(reply.headers.get(HEADER.lower()))
    if reply.status != 200 or reply.headers.get("content-type") != _BINARY_TYPE:
        return error_from_reply(reply, url)
    try:
        return binary.decode(reply.content)
    except BadValue as error:
        failure = Failure(FailureKind.MALFORMED, f"a value {error}")
        raise unanswered_error(failure, method, url, None, 1) from error


def _problem_in(body: bytes, status: int) -> dict[str, Any]:
    problem = parse_object(body)
    if not problem:
        words = f"the answer with status {status} is neither a value nor a problem"
        raise Failure(FailureKind.MALFORMED, words)
    extras = problem.get("extras")
    return {**extras, **problem} if isinstance(extras, dict) else problem


def _value_or_raise(outcome: Any) -> Any:
    if isinstance(outcome, Exception):
        raise outcome
    return outcome
