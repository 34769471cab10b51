"""External environments that poll their requests by HTTP, and post their answers.

For the other parts of the server, such an environment has an ordinary connection: one
end of a pair of sockets. A `LongPollConnection` has the other end.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from gym_http_server.access.identities import Identity
from gym_http_server.errors import HelloRefused, NotFound, TooManyExternal
from gym_http_server.processes.frame_socket import FrameSocket
from gym_http_server.processes.poller import READ, WRITE, Poller
from gym_http_server.services.broker.messages import BrokerSettings, PollRequest
from gym_http_wire.external.binary_dialect import BinaryDialect
from gym_http_wire.external.framing import CountedFraming, FramingError
from gym_http_wire.external.handshake import Refused, Welcome, parse_reply
from gym_http_wire.external.json_dialect import JSONDialect
from gym_http_wire.external.messages import BadMessage, Dialect, Fault, Request
from gym_http_wire.frames import Frame
from gym_http_wire.messages import (
    AnswerHead,
    Form,
    Op,
    answer,
    problem_answer,
    request_head,
)
from gym_http_wire.problems import Problem

__all__ = ["LongPolling"]

RECEIVE_BYTES = 256 * 1024
#: Faults that are kept until the environment polls again; the oldest are dropped.
MAX_FAULTS = 16
_loads: Any = msgspec.json.Decoder().decode


class ConnectionEnded(Exception):
    """The connection of an environment ended, or must end."""


class WaitingWorker(NamedTuple):
    """A web worker that waits for an answer, on behalf of an environment.

    Attributes:
        client: The connection to the web worker.
        number: Number of its request.
        until: When it gets an empty answer; monotonic seconds.
    """

    client: FrameSocket
    number: int
    until: float = float("inf")

    def answer(self, frame: Frame) -> None:
        """Send the answer, unless the web worker has disconnected."""
        with contextlib.suppress(OSError):
            self.client.send(frame._replace(number=self.number))


class LongPollConnection:
    """One environment that polls by HTTP.

    Args:
        sock: This end of the pair of sockets.
        hello: The hello that the environment posted.
        worker: Waits for the answer to the hello.
        identity: Identity of its token.
        max_message: Bytes that a message may have.
        now: Monotonic seconds.

    Attributes:
        connection: The connection's ID; "" until the hello is accepted.
        polled_at: When the environment sent its last HTTP request.
        poll: Waits for the next request; ``None`` if no web worker does.
        owner: Name of the token that opened it; "" if there was none.
    """

    def __init__(
        self,
        sock: socket.socket,
        hello: bytes,
        worker: WaitingWorker,
        identity: Identity,
        max_message: int,
        now: float,
    ) -> None:
        sock.setblocking(False)
        self.connection = ""
        self.polled_at = now
        self.poll: WaitingWorker | None = None
        self.owner = identity.name
        self._socket = sock
        self._hello: WaitingWorker | None = worker
        self._framing = CountedFraming(max_message)
        self._most = 2 * max_message
        self._binary = _is_binary(hello)
        # The request that has not been answered yet, and its ID.
        self._request = b""
        self._number = 0
        self._faults: deque[bytes] = deque(maxlen=MAX_FAULTS)
        self._out = bytearray()
        self.post(hello)

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._socket.fileno()

    @property
    def unsent(self) -> bool:
        """Whether bytes wait to be sent."""
        return bool(self._out)

    def _dialect(self) -> Dialect:
        if self._binary:
            return BinaryDialect()
        return JSONDialect(msgspec.json.encode, _loads)

    def post(self, payload: bytes) -> None:
        """Pass on a message of the environment.

        Raises:
            ConnectionEnded: The server closed the connection, or reads too little.
        """
        if len(self._out) > self._most:
            # An environment that answers each request once has one message waiting.
            raise ConnectionEnded("it sends more than is read")
        if self._request:
            # Its receiver reports a malformed message.
            with contextlib.suppress(BadMessage):
                if self._dialect().peek_id(payload) == self._number:
                    self._request = b""
        self._out += self._framing.message(payload, text=True)
        self.flush()

    def flush(self) -> None:
        """Send as many bytes as the socket accepts.

        Raises:
            ConnectionEnded: The server has closed the connection.
        """
        try:
            while self._out:
                del self._out[: self._socket.send(self._out)]
        except BlockingIOError:
            pass
        except OSError as error:
            raise ConnectionEnded(str(error)) from None

    def receive(self, now: float, timeout_s: float) -> None:
        """Receive messages of the server.

        Args:
            now: Monotonic seconds.
            timeout_s: Seconds without an HTTP request after which pings are no longer
                answered.

        Raises:
            ConnectionEnded: The server has closed the connection, or refused the hello.
        """
        try:
            data = self._socket.recv(RECEIVE_BYTES)
            messages = self._framing.feed(data)
        except BlockingIOError:
            return
        except (OSError, FramingError) as error:
            raise ConnectionEnded(str(error)) from None
        if not data:
            raise ConnectionEnded("the server ended the connection")
        for message in messages:
            if self._hello is not None:
                self._answer_hello(self._hello, message.payload)
            else:
                self._process(message.payload, now, timeout_s)
        self._deliver()

    def _answer_hello(self, worker: WaitingWorker, payload: bytes) -> None:
        self._hello = None
        reply = parse_reply(payload)
        if isinstance(reply, Welcome):
            self.connection = reply.connection
            body = msgspec.json.encode(reply, order="sorted") + b"\n"
            worker.answer(answer(200, body))
            return
        worker.answer(problem_answer(_problem_of(reply)))
        raise ConnectionEnded(reply.message)

    def _process(self, payload: bytes, now: float, timeout_s: float) -> None:
        try:
            message = self._dialect().decode_request(payload)
        except BadMessage:
            # Its values refer to earlier signatures. Here only its number matters.
            message = Request(Op.STEP, _number_in(payload), {})
        if isinstance(message, Request):
            self._request, self._number = payload, message.number
        elif isinstance(message, Fault):
            self._faults.append(payload)
        elif message.op == Op.PING and (
            self.poll is not None or now - self.polled_at < timeout_s
        ):
            self.post(self._dialect().encode_control(Op.PONG))

    def wait(self, worker: WaitingWorker) -> None:
        """Make a web worker wait for the next request; it replaces another one."""
        self.end_poll()
        self.poll = worker
        self._deliver()

    def end_poll(self) -> None:
        """Answer the web worker that waits: there is no request."""
        poll, self.poll = self.poll, None
        if poll is not None:
            poll.answer(answer(204, form=Form.NONE))

    def _deliver(self) -> None:
        """Answer the web worker that waits; a request stays until it is answered."""
        if self.poll is None or not (self._faults or self._request):
            return
        poll, self.poll = self.poll, None
        payload = self._faults.popleft() if self._faults else self._request
        kind = "application/octet-stream" if self._binary else "application/json"
        head = AnswerHead(content_type=kind)
        poll.answer(answer(200, payload, head, form=Form.OTHER))

    def close(self) -> None:
        """Close this end, and answer the web workers that wait."""
        self._socket.close()
        for worker in (self._hello, self.poll):
            if worker is not None:
                worker.answer(problem_answer(_no_connection(self.connection)))
        self._hello = self.poll = None


class LongPolling:
    """All environments that poll by HTTP.

    Args:
        poller: Polls their sockets.
        add: Called with the other end of the pair of sockets of a new one.
        settings: The broker's settings.
    """

    def __init__(
        self,
        poller: Poller,
        add: Callable[[socket.socket, Identity], None],
        settings: BrokerSettings,
    ) -> None:
        self._poller = poller
        self._add = add
        self._settings = settings
        self._connections: list[LongPollConnection] = []

    def __len__(self) -> int:
        """The number of environments."""
        return len(self._connections)

    def connect(self, client: FrameSocket, frame: Frame) -> None:
        """Process a hello that an environment has posted."""
        value = request_head(frame).value or ""
        identity = msgspec.json.decode(value, type=Identity)
        ours, theirs = socket.socketpair()
        self._add(theirs, identity)
        now = time.monotonic()
        worker = WaitingWorker(client, frame.number)
        most = self._settings.max_message
        connection = LongPollConnection(ours, frame.body, worker, identity, most, now)
        self._connections.append(connection)
        self._poller.add(connection, lambda events: self._serve(connection))
        self._poller.want(connection, _events(connection))

    def poll(self, client: FrameSocket, frame: Frame) -> None:
        """Answer a web worker with the next request, as soon as there is one."""
        head = request_head(frame)
        request = msgspec.json.decode(head.value or "", type=PollRequest)
        connection = self._find(request.connection, head.owner)
        until = connection.polled_at + request.wait_s
        connection.wait(WaitingWorker(client, frame.number, until))

    def answer(self, client: FrameSocket, frame: Frame) -> None:
        """Pass on an answer that an environment has posted."""
        head = request_head(frame)
        connection = self._find(head.value or "", head.owner)
        try:
            connection.post(frame.body)
        except ConnectionEnded:
            self._end(connection)
            raise _no_connection(connection.connection) from None
        self._poller.want(connection, _events(connection))
        client.send(answer(204, number=frame.number, form=Form.NONE))

    def _find(self, connection: str, owner: str) -> LongPollConnection:
        """Return a connection, and record that its environment sent an HTTP request.

        Raises:
            NotFound: There is no such connection.
        """
        for each in self._connections:
            if each.connection == connection != "" and owner in ("", each.owner):
                each.polled_at = time.monotonic()
                return each
        raise _no_connection(connection)

    def _serve(self, connection: LongPollConnection) -> None:
        try:
            connection.flush()
            connection.receive(time.monotonic(), 2 * self._settings.heartbeat_s)
            self._poller.want(connection, _events(connection))
        except (ConnectionEnded, OSError):
            self._end(connection)

    def _end(self, connection: LongPollConnection) -> None:
        self._connections.remove(connection)
        self._poller.remove(connection)
        with contextlib.suppress(OSError):
            connection.close()

    def check(self, now: float) -> None:
        """Answer the web workers that have waited long enough."""
        for connection in self._connections:
            if connection.poll is not None and now >= connection.poll.until:
                connection.end_poll()


def _events(connection: LongPollConnection) -> int:
    return READ | WRITE if connection.unsent else READ


def _no_connection(connection: str) -> Problem:
    return NotFound(
        f"there is no connection {connection!r:.40}, or it has ended: "
        "send a hello again, by POST to /v1/external/"
    )


def _problem_of(refused: Refused) -> Problem:
    if refused.code == TooManyExternal.default_code:
        return TooManyExternal(refused.message)
    return HelloRefused(refused.message, code=refused.code)


def _is_binary(hello: bytes) -> bool:
    try:
        return bool(_loads(hello).get("dialect") == "binary")
    except (msgspec.MsgspecError, ValueError, RecursionError, AttributeError):
        return False


def _number_in(payload: bytes) -> int:
    return int.from_bytes(payload[12:16], "little")
