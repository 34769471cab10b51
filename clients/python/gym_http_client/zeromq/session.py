"""ZeroMQ sessions: send every request to an instance over its streams."""

from __future__ import annotations

import contextlib
import json
import re
from typing import Any

import msgspec

from gym_http_client.errors import Failure, FailureKind
from gym_http_client.http.addresses import Address
from gym_http_client.http.error_mapping import (
    json_object,
    parse_object,
)
from gym_http_client.http.http1 import MAX_BODY, Reply
from gym_http_client.http.retries import REPEATED, Retries, Tries
from gym_http_client.streaming.handshakes import NoStream
from gym_http_client.streaming.session import REAL_TIME_OPS, Pending, Session
from gym_http_client.streaming.stream_openers import StreamOpener
from gym_http_client.streaming.streams import (
    Stream,
    StreamAnswer,
    StreamRequest,
    parse_answer,
)
from gym_http_client.zeromq.dealer import REFUSED, Dealer
from gym_http_wire.messages import Op

__all__ = ["ZeroMQOpener", "ZeroMQSession", "ZeroMQStream"]

GREETING_SECONDS = 10.0
PROTOCOL = 1
#: The operation that ends an instance; over HTTP it is a route.
CLOSE = 49
# The shortest time of a try, for one that begins near the time limit.
_SHORTEST = 0.001
_OPS = {
    "GET ": Op.DESCRIBE,
    "GET generator/": Op.GENERATOR,
    "POST generator/": Op.SET_GENERATOR,
    "reset/": Op.RESET,
    "step/": Op.STEP,
    "render/": Op.RENDER,
    **REAL_TIME_OPS,
}
_ATTRIBUTE_OPS = {
    "GET": Op.ATTRIBUTE,
    "POST": Op.SET_ATTRIBUTE,
    "POST call": Op.CALL_ATTRIBUTE,
}
_ATTRIBUTE = re.compile(r"(GET|POST) attributes/([^/]+)/(?:(call)/)?").fullmatch


class ZeroMQStream(Stream):
    """A stream over a ZeroMQ connection.

    Args:
        address: The server's.
        greeting: Members of the first message, in addition to protocol and token.
        greeting_limit: Seconds to wait for the welcome.
        time_limit: Seconds to wait for each answer.

    Attributes:
        welcome: The server's answer to the first message.

    Raises:
        NoStream: The server refuses the stream.
        Failure: There is no answer.
    """

    def __init__(
        self,
        address: Address,
        greeting: dict[str, Any],
        greeting_limit: float,
        time_limit: float,
    ) -> None:
        super().__init__(time_limit)
        seconds = min(greeting_limit, GREETING_SECONDS)
        try:
            self._dealer = Dealer(address, MAX_BODY, seconds)
        except OSError as error:
            raise Failure.of(error) from error
        greeting_members = {
            "type": "agent",
            "protocol": PROTOCOL,
            "dialect": "binary",
            **greeting,
        }
        if address.token:
            greeting_members["token"] = address.token
        try:
            self._send(json.dumps(greeting_members, allow_nan=False).encode())
            self.welcome = _welcome(self._receive(greeting_limit))
        except BaseException:
            self._dealer.close()
            raise

    def send(self, request: StreamRequest, *, acknowledged: bool) -> None:
        """Send a request.

        Raises:
            NoStream: The message is over the server's limit, which would end the
                stream.
        """
        message = self._message(request, acknowledged=acknowledged)
        most = self.welcome.get("limits", {}).get("max_message", len(message))
        if len(message) > most:
            raise _too_large(len(message), most)
        self._send(message)

    def receive(self, seconds: float | None = None) -> StreamAnswer:
        """Wait for the next answer, by default for the stream's time limit."""
        message = self._receive(self._time_limit if seconds is None else seconds)
        try:
            return parse_answer(message)
        except ValueError as error:
            raise Failure(FailureKind.MALFORMED, error) from error

    def close(self) -> None:
        """Close the connection without a message."""
        self._dealer.close()

    def _send(self, message: bytes) -> None:
        try:
            self._dealer.send(message)
        except OSError as error:
            raise Failure.of(error) from error

    def _receive(self, seconds: float) -> bytes:
        try:
            message = self._dealer.receive(seconds)
        except OSError as error:
            raise Failure.of(error) from error
        if message is None:
            raise Failure(FailureKind.TIMEOUT, f"nothing within {seconds:g} s")
        if message.startswith(REFUSED):
            raise _refused(message)
        return message


def _welcome(message: bytes) -> dict[str, Any]:
    try:
        members = msgspec.json.decode(message, type=dict[str, Any])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        members = {}
    if members.get("type") != "welcome" or not isinstance(
        members.get("instance_id"), str
    ):
        words = "the greeting was answered by what is no welcome"
        raise Failure(FailureKind.MALFORMED, words)
    return members


def _too_large(size: int, most: int) -> NoStream:
    words = f"the message has {size} bytes, more than the {most} that this server takes"
    members = {"code": "body-too-large", "message": words, "status": 413}
    return NoStream(Reply(413, {}, json.dumps(members).encode()))


def _refused(message: bytes) -> NoStream | Failure:
    """Convert the server's last message to a refusal or a failure."""
    members = parse_object(message)
    status = members.get("status")
    if not isinstance(status, int):
        return Failure(FailureKind.MALFORMED, "a refusal has no status")
    if members.get("code") == "stream-ended":
        return Failure(FailureKind.LOST, members.get("message"))
    return NoStream(Reply(status, {}, message))


class ZeroMQOpener(StreamOpener):
    """Opens ZeroMQ streams of one instance.

    Args:
        address: The server's.
        instance_id: The instance.
        time_limit: Seconds to wait for each answer.
        retries: Its clock is used.
    """

    def __init__(
        self,
        address: Address,
        instance_id: str,
        *,
        time_limit: float,
        retries: Retries,
    ) -> None:
        # Streams are the only transport.
        super().__init__(retries.clock, wanted=True)
        self._address = address
        self._instance_id = instance_id
        self.time_limit = time_limit

    def open(self, session: str, seconds: float = GREETING_SECONDS) -> ZeroMQStream:
        """Open a stream within a number of seconds."""
        greeting: dict[str, Any] = {
            "instance_id": self._instance_id,
            "session": session,
        }
        lost = self._lost_since()
        if lost is not None:
            greeting["lost"] = lost
        limit = min(self.time_limit, GREETING_SECONDS, max(_SHORTEST, seconds))
        try:
            stream = ZeroMQStream(self._address, greeting, limit, self.time_limit)
        except NoStream as none:
            if none.reply.status not in REPEATED:
                raise
            words = json_object(none.reply).get("message", "the server is busy")
            raise Failure(FailureKind.LOST, words) from none
        self.forget_loss()
        return stream


class ZeroMQSession(Session):
    """Sends the requests of one process to one instance, over ZeroMQ only.

    Args:
        opener: Opens the streams.
        url: URL of the instance, for error messages.
        retries: How requests are retried.
    """

    def __init__(self, opener: ZeroMQOpener, url: str, retries: Retries) -> None:
        super().__init__(None, opener, url, "", retries=retries)
        self._zeromq = opener
        # The stream on which `begin_end` sent its request.
        self._ending: ZeroMQStream | None = None

    def begin_with(self, stream: ZeroMQStream) -> None:
        """Use a stream that is already open."""
        self.name = str(stream.welcome["session"])
        self._stream = stream

    @property
    def transport(self) -> str:
        """The transport of requests."""
        return "zeromq"

    def end(self, seconds: float) -> None:
        """End the instance, if it has not ended yet.

        Args:
            seconds: Time limit; half of it is for another thread that uses the stream.

        Raises:
            ServerUnreachable: There is no answer.
        """
        retries = self._retries.within(seconds)
        until = retries.clock() + seconds
        tries = Tries(retries, what=self._url)
        try:
            tries.run(lambda _: self._end_once(until - retries.clock()))
        except Failure as failure:
            raise tries.error(failure, "POST", self._url + "close/", None) from failure

    def _end_once(self, seconds: float) -> None:
        """End the instance, unless it has ended.

        Raises:
            Failure: The server is unreachable.
        """
        with contextlib.suppress(NoStream):
            self.begin_end(seconds)
            self.finish_end(seconds)

    def begin_end(self, seconds: float) -> None:
        """Request the end of the instance, without waiting for the answer.

        Args:
            seconds: Time limit; half of it is for another thread that uses the stream.

        Raises:
            NoStream: The instance has ended.
            Failure: The server is unreachable.
        """
        stream = self._take_stream(seconds / 2)
        self._ending = stream or self._zeromq.open(self.name, seconds)
        request = StreamRequest(self._number + 1, CLOSE, b"", b"", b"")
        self._ending.send(request, acknowledged=True)

    def finish_end(self, seconds: float) -> None:
        """Wait for the answer to `begin_end`.

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
        """Remove the stream from the session and return it, if no thread uses it.

        Two threads must not use or close a ZeroMQ socket at the same time.
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
        """Return the operation of a path, and the padded head of its requests."""
        if path in _OPS:
            return _OPS[path], b""
        match = _ATTRIBUTE(path)
        if match is None:
            raise ValueError(f"there is nothing at {path!r}")
        method, name, call = match.groups()
        head = json.dumps({"value": name}).encode()
        op = _ATTRIBUTE_OPS[f"{method} {call}" if call else method]
        return op, head + b" " * (-len(head) % 8)

    def _repeated(self, pending: Pending, answer: StreamAnswer) -> Reply:
        """Close the stream, so that this request and all later ones are sent again.

        Over a new stream, their answers arrive in the order of the requests.
        """
        self._lose()
        return Reply(answer.status, {}, bytes(answer.message[answer.start :]))
