"""The gateway as the client of a host's stream, on behalf of an agent."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from gym_http_server.errors import StreamEnded, UnknownInstance
from gym_http_server.processes.end_problems import end_problem, was_in_flight
from gym_http_server.services.gateway.buffered_socket import BufferedSocket, connected
from gym_http_server.services.gateway.context import Context
from gym_http_server.services.gateway.supervisor_call import SupervisorCall
from gym_http_wire.external.framing import WebSocketFraming
from gym_http_wire.frames import Frame, FrameReader, encode
from gym_http_wire.handshakes import BINARY_PROTOCOL, TEXT_PROTOCOL, StreamHandshake
from gym_http_wire.messages import Op, RequestHead, problem_of, request
from gym_http_wire.problems import Problem

__all__ = ["HostStream"]

MAX_GREETING = 64 * 1024
#: Messages of the largest size that may wait until the host reads them.
MAX_WAITING = 4
#: Number and interval, in seconds, of the requests for the tombstone of a host.
TOMBSTONE_TRIES, TOMBSTONE_SECONDS = 40, 0.05
_END_OF_HEAD = b"\r\n\r\n"
_MALFORMED = (
    msgspec.MsgspecError,
    KeyError,
    RecursionError,
    TypeError,
    ValueError,
)
_INSTANCE_ID = re.compile(r"[0-9a-f]{8}").fullmatch


class HostStream:
    """A stream of one instance.

    Args:
        context: The state that all peers share.
        instance_id: The instance, as the peer named it.
        session: Name of the session.
        text: Whether messages are text, else binary.
        lost_s: Seconds since the agent lost an answer along with a stream.
        owner: Owner that the instance must have; "" is any.
        token: Name of the peer's token.
        on_open: Called when it is open.
        on_message: Called with each message.
        on_end: Called once, with the reason, when it has ended or could not be opened;
            never before the constructor returns.
    """

    def __init__(
        self,
        context: Context,
        instance_id: str,
        *,
        session: str,
        text: bool,
        lost_s: float | None = None,
        owner: str = "",
        token: str,
        on_open: Callable[[], None],
        on_message: Callable[[bytes], None],
        on_end: Callable[[Problem], None],
    ) -> None:
        self._context = context
        self._instance_id = instance_id
        self._text = text
        self._lost_s = lost_s
        self._on_open = on_open
        self._on_message = on_message
        self._on_end: Callable[[Problem], None] | None = on_end
        self._reader: FrameReader | None = FrameReader(MAX_GREETING)
        self._head: bytes | None = b""
        self._framing = WebSocketFraming(context.settings.max_message, client=True)
        self._early: list[bytes] = []
        # Number of answers due, and of requests to the supervisor about the host.
        self._owed = 0
        self._tries = 0
        self._socket: BufferedSocket | None = None
        if not _INSTANCE_ID(instance_id):
            problem = UnknownInstance(f"{instance_id:.80}")
            context.timers.add(0.0, lambda: self._end(problem))
            return
        protocol = TEXT_PROTOCOL if text else BINARY_PROTOCOL
        hello = StreamHandshake("", protocol, session, owner=token)
        if not owner:
            self._connect(hello)
            return
        head = RequestHead(instance_id=instance_id, owner=owner)
        frame = request(Op.TOMBSTONE, head=head)
        SupervisorCall(
            context, frame, lambda answer: self._receive_owner(answer, hello)
        )

    def _receive_owner(self, answer: Frame, hello: StreamHandshake) -> None:
        """Connect if the supervisor has the instance and the owner owns it."""
        if answer.status != 200:
            self._end(problem_of(answer))
        elif self._on_end is not None:
            self._connect(hello)

    def _connect(self, hello: StreamHandshake) -> None:
        context = self._context
        try:
            end = connected(context.run.host_socket(self._instance_id))
        except OSError:
            self._request_reason()
            return
        most = MAX_WAITING * context.settings.max_message
        self._socket = BufferedSocket(
            context.poller, end, self._receive, self._request_reason, most
        )
        head = RequestHead(value=msgspec.json.encode(hello).decode())
        self._socket.send(encode(request(Op.STREAM, head=head)))

    def send(self, payload: bytes) -> None:
        """Send a message."""
        self._owed += 1
        message = self._framing.message(payload, text=self._text)
        if self._head is not None:
            self._early.append(message)
        elif self._socket is not None:
            self._socket.send(message)

    def pause(self) -> None:
        """Stop reading until `resume`."""
        if self._socket is not None:
            self._socket.pause()

    def resume(self) -> None:
        """Read again after `pause`."""
        if self._socket is not None:
            self._socket.resume()

    def close(self) -> None:
        """Close the stream; the instance stays."""
        self._on_end = None
        if self._socket is not None:
            self._socket.close()

    def _receive(self, data: bytes) -> None:
        try:
            self._process(data)
        except _MALFORMED:
            # An environment may forge the messages of its host.
            self._lose()

    def _process(self, data: bytes) -> None:
        if self._reader is not None:
            data = self._receive_answer(self._reader, data)
        if self._reader is None and self._head is not None:
            data = self._receive_head(self._head + data)
        if self._head is None and data and self._on_end is not None:
            self._receive_messages(data)

    def _receive_answer(self, reader: FrameReader, data: bytes) -> bytes:
        """Process the host's answer; return the bytes after it."""
        answer = reader.feed_first(data)
        if answer is None:
            return b""
        if answer.status != 204:
            self._end(problem_of(answer))
            return b""
        self._reader = None
        return reader.rest()

    def _receive_head(self, data: bytes) -> bytes:
        """Skip the HTTP head of the WebSocket; return the bytes after it."""
        _, found, rest = data.partition(_END_OF_HEAD)
        if not found:
            self._head = data
            return b""
        self._head = None
        self._on_open()
        if self._socket is not None:
            self._socket.send(b"".join(self._early))
        self._early.clear()
        return rest

    def _receive_messages(self, data: bytes) -> None:
        framing = self._framing
        for message in framing.feed(data):
            self._owed -= 1
            self._on_message(message.payload)
        if framing.replies and self._socket is not None:
            replies, framing.replies = framing.replies, b""
            self._socket.send(replies)
        if framing.over:
            self._lose()

    def _lose(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._request_reason()

    def _request_reason(self) -> None:
        """Request the state of the host from the supervisor; it may be about to end."""
        self._tries += 1
        head = RequestHead(instance_id=self._instance_id)
        SupervisorCall(
            self._context, request(Op.TOMBSTONE, head=head), self._receive_reason
        )

    def _receive_reason(self, answer: Frame) -> None:
        if answer.status != 200:
            self._end(problem_of(answer))
            return
        end = msgspec.json.decode(answer.body)
        if not end["alive"]:
            in_flight = self._owed > 0 or was_in_flight(end, self._lost_s)
            self._end(end_problem(self._instance_id, end, in_flight=in_flight))
        elif self._tries < TOMBSTONE_TRIES:
            self._context.timers.add(TOMBSTONE_SECONDS, self._request_reason)
        else:
            words = f"the host of instance {self._instance_id} ended the stream"
            self._end(StreamEnded(f"{words}; attach again"))

    def _end(self, problem: Problem) -> None:
        on_end = self._on_end
        self.close()
        if on_end is not None:
            on_end(problem)
