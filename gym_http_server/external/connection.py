"""The protocol of one external environment's connection, without I/O.

An external environment connects to the server, sends a hello and answers requests. The
broker holds its connection while it is free, and a host leases it for an instance. Both
drive an `ExternalConnection`::

    HANDSHAKE ──accept──> FREE      in the broker
    READY ──start──> AWAITING ──an answer, or abandon──> READY      in a host
    any state ──lose──> LOST ──resume──> READY
                             ──replace──> FREE ──start──> AWAITING

Pass the bytes that were received to `receive`, and call `check` from time to time.
After each call, send `take_outgoing()`, and close the socket if `state` is
``ConnectionState.LOST``. Times are monotonic seconds, and always arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

import msgspec

from gym_http_wire.external.framing import FramingError, ReceivedMessage, framing_of
from gym_http_wire.external.handshake import TANGO, Hello, Refused, Welcome
from gym_http_wire.external.messages import (
    Answer,
    BadMessage,
    Control,
    Dialect,
    Fault,
    Request,
)
from gym_http_wire.external.steps import StepReader
from gym_http_wire.frames import MAX_NUMBER
from gym_http_wire.messages import Op
from gym_http_wire.websocket import Close

__all__ = [
    "HELLO_SECONDS",
    "Call",
    "ConnectionDetails",
    "ConnectionState",
    "ExternalConnection",
    "Loss",
]

#: Seconds from the connection's beginning within which the hello must arrive.
HELLO_SECONDS = 10.0

M = TypeVar("M")

#: Returns the dialect that an environment chose in its hello.
DialectOf = Callable[[Hello], Dialect]


class ConnectionState(Enum):
    """The state of a connection.

    Attributes:
        HANDSHAKE: The hello has not been accepted yet.
        FREE: No request is sent: no host has leased the connection, or the environment
            has replaced one that a host had leased, and has to begin first.
        READY: A host has leased it, and no request is under way.
        AWAITING: A request is under way.
        LOST: The connection has ended. The environment may resume it with another.
    """

    HANDSHAKE = 1
    FREE = 2
    READY = 3
    AWAITING = 4
    LOST = 5


# Without the lookup in an enumeration: each step needs it.
_READY = ConnectionState.READY


class ConnectionDetails(msgspec.Struct):
    """The record with which another process continues a connection.

    Attributes:
        framing: Name of its framing.
        connection: Its ID, for logs.
        hello: The environment's hello, without its secrets.
        next_number: The least ID that the next request may have.
        resume: The secret that resumes this connection after it was lost.
        owner: Name of the token that it was given to, and that has to show it.
        resumptions: How often it was resumed.
    """

    framing: str
    connection: str
    hello: Hello
    next_number: int
    resume: str
    owner: str = ""
    resumptions: int = 0

    @property
    def env_id(self) -> str:
        """The ID under which agents create the environment."""
        return f"external/{self.hello.name}"

    @property
    def resumable(self) -> bool:
        """Whether the environment can resume the connection; Tango's cannot."""
        return self.hello.dialect != TANGO

    def resumed_by(self, hello: Hello, owner: str) -> bool:
        """Whether a hello resumes the connection.

        Args:
            hello: The hello. All but its secrets has to be as it was.
            owner: Name of the token that it came with.
        """
        shown = hello.resume == self.resume and owner == self.owner
        return shown and hello.public() == self.hello

    def not_replaced_by(self, other: ConnectionDetails) -> str:
        """Return why another connection of this name cannot replace this one, or ""."""
        if other.owner != self.owner:
            return "it has another token"
        # The agent's values depend on the last two.
        spaces = ("observation_space", "action_space")
        for which in (*spaces, "dialect", "reward_channels"):
            if getattr(other.hello, which) != getattr(self.hello, which):
                return f"it has another {which}"
        return ""


class Loss(msgspec.Struct, frozen=True):
    """A host's report that it has lost a connection.

    Attributes:
        resume: The secret that resumes it.
        resumptions: How often it was resumed before.
        heard_at: When the environment was last heard; monotonic seconds.
    """

    resume: str
    resumptions: int
    heard_at: float


@dataclass(eq=False, slots=True)
class Call:
    """A request to an external environment, and its outcome.

    Attributes:
        op: The operation.
        parameters: Its parameters by name.
        number: The request's ID.
        deadline: When the answer is due.
        key: Idempotency key of the agent's request that caused it, or "".
        answer: The environment's answer.
        error: Why its answer was rejected.
        lost: Whether the connection was lost before the answer arrived.
    """

    op: Op
    parameters: dict[str, Any]
    number: int
    deadline: float
    key: str = ""
    answer: Answer | None = None
    error: BadMessage | None = None
    lost: bool = False

    @property
    def over(self) -> bool:
        """Whether the outcome is known."""
        return self.lost or self.answer is not None or self.error is not None


class ExternalConnection:
    """The state of one connection, without I/O: the caller moves its bytes.

    Args:
        framing: Name of the framing of its messages.
        dialect_of: Returns the dialect for a hello.
        max_message: Bytes that a message of the environment may have.
        heartbeat_s: Seconds of silence after which the environment is pinged, and
            after as many again without an answer the connection is lost.
        now: When the connection began, or was passed to this process.
        details: The record of a connection that another process had; ``None``: the
            hello has not arrived yet.
        leased: Whether this process has leased the connection for an instance.
        implicit_hello: Whether the environment sends no hello and expects no welcome,
            as Tango's do; another party supplies its hello.

    Attributes:
        state: The state.
        implicit_hello: The argument of this name.
        lost_because: Why the connection was lost; "" before.
        lost_at: When it was lost.
        malformed: Whether it was lost because of a malformed message.
    """

    def __init__(
        self,
        framing: str,
        dialect_of: DialectOf,
        *,
        max_message: int,
        heartbeat_s: float,
        now: float,
        details: ConnectionDetails | None = None,
        leased: bool = False,
        implicit_hello: bool = False,
    ) -> None:
        self.lost_because = ""
        self.lost_at = 0.0
        self.malformed = False
        self._dialect_of = dialect_of
        self._max_message = max_message
        self._heartbeat_s = heartbeat_s
        self.implicit_hello = implicit_hello
        self._details = details
        self._call: Call | None = None
        self._unread: list[ReceivedMessage] = []
        self._outgoing = b""
        self._open(framing, now)
        self.state = ConnectionState.HANDSHAKE
        if details is not None:
            self.state = ConnectionState.READY if leased else ConnectionState.FREE
            self._dialect = dialect_of(details.hello)

    def _open(self, framing: str, now: float) -> None:
        self._framing = framing_of(framing, self._max_message)
        self._opened_at = self._received_at = self._answer_due = now
        self._pinged_at: float | None = None

    @property
    def framing(self) -> str:
        """Name of the framing."""
        return self._framing.name

    @property
    def hello_accepted(self) -> bool:
        """Whether a hello has been accepted."""
        return self._details is not None

    @property
    def details(self) -> ConnectionDetails:
        """The record for a process that continues it; set after the handshake."""
        assert self._details is not None  # noqa: S101 - set by accept()
        return self._details

    @property
    def heard_at(self) -> float:
        """When the environment was last heard."""
        return self._received_at

    @property
    def transferable(self) -> bool:
        """Whether another process can continue reading: no message is half read."""
        return self.state is not ConnectionState.LOST and self._framing.between

    def take_outgoing(self) -> bytes:
        """Return the bytes to send now."""
        outgoing, self._outgoing = self._outgoing, b""
        return outgoing

    def receive(self, data: bytes, now: float) -> bytes | None:
        """Process received bytes.

        Returns:
            In state HANDSHAKE the hello, when it is complete: answer it with `accept`
            or `refuse`. Otherwise ``None``.
        """
        self._received_at = now
        self._pinged_at = None
        framing = self._framing
        try:
            messages = framing.feed(data)
        except FramingError as error:
            bad = BadMessage(str(error), field="message", fatal=True)
            self._reject(bad, error.close, now)
            return None
        if framing.replies:
            self._outgoing += framing.replies
            framing.replies = b""
        hello = None
        if self.state is ConnectionState.HANDSHAKE:
            first = not self._unread
            self._unread += messages
            if messages and first and not framing.over:
                hello = self._unread[0].payload
        else:
            for message in messages:
                self._process(message, now)
        if framing.over:
            self.lose("it ended the connection", now)
        return hello

    def accept(self, details: ConnectionDetails, welcome: Welcome, now: float) -> None:
        """Accept the hello: the connection is free."""
        self._details = details
        self._dialect = self._dialect_of(details.hello)
        self._answer_hello(welcome)
        self.state = ConnectionState.FREE
        unread, self._unread = self._unread[1:], []
        for message in unread:
            self._process(message, now)

    def refuse(self, code: str, words: str, now: float) -> None:
        """Refuse the hello, or a connection without a hello, and end the connection."""
        self._answer_hello(Refused(code, words))
        self.end(words, now, Close.POLICY)

    def _answer_hello(self, reply: Welcome | Refused) -> None:
        """Answer the hello, in JSON for any dialect."""
        if not self.implicit_hello:
            payload = msgspec.json.encode(reply)
            self._outgoing += self._framing.message(payload, text=True)

    def new_number(self, now: float) -> int:
        """Return the ID of the next request.

        Returns:
            It; 0 if all IDs are used up, which ends the connection.
        """
        details = self.details
        if details.next_number > MAX_NUMBER:
            self.lose("all IDs of requests are used up", now)
            return 0
        details.next_number += 1
        return details.next_number - 1

    def start(self, call: Call, now: float) -> None:
        """Send a request; its outcome goes into the call.

        Raises:
            UnsupportedValue: The dialect cannot write a parameter.
        """
        left = max(0.0, call.deadline - now)
        payload = self._dialect.encode_request(
            Request(call.op, call.number, call.parameters), left
        )
        call.lost = False
        if not payload:
            # The dialect lacks this request, which would change nothing.
            call.answer = Answer(call.number, {})
            return
        self._outgoing += self._framing.message(payload, text=self._dialect.text)
        self._await(call)

    def _await(self, call: Call) -> None:
        self.state = ConnectionState.AWAITING
        self._call = call
        self._answer_due = call.deadline

    def abandon(self, call: Call, now: float) -> None:
        """Stop waiting for the answer to a call. An answer that is late is dropped."""
        if self._call is not call:
            return
        self._complete()
        if not self._dialect.numbered:
            words = "it did not answer in time, and a late answer has no ID"
            self.end(words, now, Close.POLICY)

    def _complete(self) -> None:
        self._call = None
        if self.state is ConnectionState.AWAITING:
            self.state = ConnectionState.READY

    def write_step(self, action: Any, deadline_s: float) -> tuple[int, bytes] | None:
        """Encode the request of a step that the caller sends at once, without a `Call`.

        Returns:
            Its ID and the bytes to send; ``None`` if the action cannot be encoded or
            the connection is not ready, and then nothing has changed.
        """
        details, dialect = self._details, self._dialect
        if details is None or self.state is not _READY:
            return None
        number = details.next_number
        if number > MAX_NUMBER:
            return None
        try:
            payload = dialect.encode_step(number, action, deadline_s)
        except Exception:
            # `start` raises it again, and there it becomes the agent's error.
            return None
        details.next_number = number + 1
        return number, self._framing.message(payload, text=dialect.text)

    def read_step(
        self, number: int, data: bytes, reader: StepReader[M], now: float
    ) -> M | None:
        """Decode the answer to `write_step`, if the bytes contain only this answer.

        Returns:
            The step; ``None`` for any other bytes. Then nothing has changed: pass them
            to `follow`.
        """
        payload = self._framing.whole(data)
        if payload is None:
            return None
        decoded = self._dialect.decode_step(payload, reader)
        if decoded is None or decoded[0] != number:
            return None
        self._received_at = self._answer_due = now
        self._pinged_at = None
        return decoded[1]

    def follow(self, call: Call, data: bytes, now: float) -> None:
        """Await the answer to a request of `write_step` as that to a call.

        Args:
            call: The call of that request.
            data: Bytes received since.
            now: The time.
        """
        if self.state is ConnectionState.LOST:
            call.lost = True
            return
        self._await(call)
        if data:
            self.receive(data, now)

    def fault(self, error: BadMessage) -> None:
        """Report to the environment the fault of a message."""
        if self.state is not ConnectionState.LOST:
            fault = Fault(str(error), error.number, error.field)
            self._send(self._dialect.encode_fault(fault))

    def check(self, now: float) -> None:
        """End the connection if its hello is late, or ping it if it is silent.

        While an answer is due it may be silent: an environment that computes in its
        only thread cannot answer pings.
        """
        if self.state is ConnectionState.LOST:
            return
        if self.state is ConnectionState.HANDSHAKE:
            # From the beginning: bytes that trickle in do not prolong it.
            if now - self._opened_at > HELLO_SECONDS:
                self.refuse("bad-hello", f"no hello in {HELLO_SECONDS:g} s", now)
        elif self._pinged_at is None:
            if now - max(self._received_at, self._answer_due) > self._heartbeat_s:
                self._ping(now)
        elif now - max(self._pinged_at, self._answer_due) > self._heartbeat_s:
            # From the ping on: before it, this process may have stood still.
            self.end("no answer to a ping", now)

    def _ping(self, now: float) -> None:
        self._pinged_at = now
        ping = self._framing.ping()
        if ping is None:
            self._send(self._dialect.encode_control(Op.PING))
        else:
            self._outgoing += ping

    def end(self, words: str, now: float, code: int = Close.GOING_AWAY) -> None:
        """End the connection, with the reason in the close frame."""
        if self.state is not ConnectionState.LOST:
            self._outgoing += self._framing.encode_close(words, code)
            self.lose(words, now)

    def lose(self, reason: str, now: float) -> None:
        """Note that the connection has ended, and with it the call under way."""
        if self.state is ConnectionState.LOST:
            return
        self.state = ConnectionState.LOST
        self.lost_because, self.lost_at = reason, now
        if self._call is not None:
            self._call.lost = True
            self._call = None

    def resume(self, framing: str, now: float) -> None:
        """Continue over another connection of the same environment."""
        self.lose("a newer connection took its place", now)
        self._outgoing = b""
        self._open(framing, now)
        self.details.framing = framing
        self._dialect = self._dialect_of(self.details.hello)
        self.state = ConnectionState.READY

    def replace(self, details: ConnectionDetails, now: float) -> None:
        """Continue with another program, over its connection: it has to begin first."""
        self._details = details
        self.resume(details.framing, now)
        self.state = ConnectionState.FREE

    def _send(self, payload: bytes) -> None:
        self._outgoing += self._framing.message(payload, text=self._dialect.text)

    def _process(self, message: ReceivedMessage, now: float) -> None:
        if self.state is ConnectionState.LOST:
            return
        dialect = self._dialect
        try:
            if message.text is not None and message.text != dialect.text:
                words = "a message is of the other dialect"
                raise BadMessage(words, field="message", fatal=True)
            if self.state is ConnectionState.FREE:
                # No answer matters, so its content is not parsed.
                decoded: Control | Answer | int = dialect.peek_id(message.payload)
            else:
                decoded = dialect.decode_answer(message.payload)
        except BadMessage as error:
            close = self._framing.encode_close(str(error), Close.UNSUPPORTED)
            self._reject(error, close, now)
            return
        if isinstance(decoded, Control):
            if decoded.op == Op.PING:
                self._send(dialect.encode_control(Op.PONG))
            return
        number = decoded if isinstance(decoded, int) else decoded.number
        call = self._call
        if call is not None and number == call.number and isinstance(decoded, Answer):
            call.answer = decoded
            self._answer_due = now
            self._complete()
        elif number >= self.details.next_number:
            words = f"an answer to request {number} arrived, which was not sent"
            self._reject(BadMessage(words, number=number, field="id"), b"", now)
        # Any other answer is late, and dropped.

    def _reject(self, error: BadMessage, close: bytes, now: float) -> None:
        """Report a bad message to the environment, and fail the call under way."""
        call, number = self._call, error.number
        if self.state is not ConnectionState.HANDSHAKE and not self._is_late(number):
            self.fault(error)
            if call is not None:
                call.error = error
                self._complete()
        if error.fatal:
            self.malformed = True
            self._outgoing += close
            self.lose(str(error), now)

    def _is_late(self, number: int) -> bool:
        """Whether a number is that of an earlier request than the call under way."""
        if not number or number >= self.details.next_number:
            return False
        return self._call is None or number != self._call.number
