"""An arrival: the connection of an environment that lives elsewhere, while it is free.

Nothing here waits. The little that is said to an arrival fits into any socket, so one
that does not take it is gone.
"""

from __future__ import annotations

import contextlib
import socket
from typing import Any

import msgspec

from gym_http_server.access import Identity
from gym_http_server.rundir.sockets import stop_lingering
from gym_http_server.tango_dialect import TangoDialect
from gym_http_wire.external.binary_dialect import BinaryDialect
from gym_http_wire.external.framing import (
    Framing,
    FramingError,
    ReceivedMessage,
    framing_of,
)
from gym_http_wire.external.handshake import MAX_HELLO_BYTES, TANGO, Hello, Refused
from gym_http_wire.external.json_dialect import JSONDialect
from gym_http_wire.external.messages import BadMessage, Control, Dialect, Fault
from gym_http_wire.messages import Op
from gym_http_wire.websocket import Close

__all__ = ["ConnectionEnded", "IdleConnection"]

RECEIVE_BYTES = 64 * 1024
# While an answer is owed no ping is; then the kernel finds who is gone.
KEEPALIVE = (
    (socket.TCP_KEEPIDLE, 15),
    (socket.TCP_KEEPINTVL, 5),
    (socket.TCP_KEEPCNT, 3),
    (socket.TCP_USER_TIMEOUT, 30_000),
)
_loads: Any = msgspec.json.Decoder().decode


class ConnectionEnded(Exception):
    """The connection has ended, or has to."""


class IdleConnection:
    """One of them.

    Args:
        line: Its socket.
        carrier: Name of its carrier.
        identity: The identity of the token that it has shown; ``None``: it has to
            show one in its hello.
        now: Monotonic seconds.

    Attributes:
        hello: What it said of itself; ``None`` before.
        connection: The connection's ID.
        resume: The token by which it is gone on with.
        next_number: The least ID that a request may have.
        came_at: When it came.
        heard_at: When it last said something.
        pinged_at: When it was pinged since; ``None`` if it was not.
        knocked: Whether it came by plain TCP, as anybody can.
        greeted: Whether it is welcome without a word, since it has none for that.
    """

    def __init__(
        self,
        line: socket.socket,
        carrier: str,
        *,
        identity: Identity | None,
        now: float,
    ) -> None:
        line.setblocking(False)
        if line.family != socket.AF_UNIX:
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in KEEPALIVE:
                line.setsockopt(socket.IPPROTO_TCP, option, value)
        self.line = line
        self.carrier: Framing = framing_of(carrier, MAX_HELLO_BYTES)
        self.identity = identity
        self.hello: Hello | None = None
        self.connection = ""
        self.resume = ""
        self.next_number = 1
        self.came_at = self.heard_at = now
        self.pinged_at: float | None = None
        self.knocked = self.greeted = False
        self._dialect: Dialect = JSONDialect(msgspec.json.encode, _loads)

    def fileno(self) -> int:
        """Give the descriptor."""
        return self.line.fileno()

    @property
    def address(self) -> str:
        """IP address of its other end; "" for a Unix socket, or if it is gone."""
        if self.line.family == socket.AF_UNIX:
            return ""
        with contextlib.suppress(OSError):
            return str(self.line.getpeername()[0])
        return ""

    @property
    def takeable(self) -> bool:
        """Whether another process can go on reading here."""
        return self.carrier.between and not self.carrier.over

    def adopt(self, hello: Hello) -> None:
        """Take what it said of itself as understood."""
        self.hello = hello
        if hello.dialect == "binary":
            self._dialect = BinaryDialect()
        elif hello.dialect == TANGO:
            self._dialect = TangoDialect(msgspec.json.encode, _loads)

    def receive(self, now: float) -> list[ReceivedMessage]:
        """Read what has come.

        Raises:
            ConnectionEnded: The connection has ended, or has to.
        """
        try:
            data = self.line.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return []
        except OSError as error:
            raise ConnectionEnded(str(error)) from None
        if not data:
            raise ConnectionEnded("it ended the connection")
        return self.feed(data, now)

    def feed(self, data: bytes, now: float) -> list[ReceivedMessage]:
        """Take bytes that have been read already.

        Raises:
            ConnectionEnded: The connection has to end.
        """
        self.heard_at = now
        self.pinged_at = None
        carrier = self.carrier
        try:
            heard = carrier.feed(data)
        except FramingError as error:
            self.say(error.farewell)
            raise ConnectionEnded(str(error)) from None
        if carrier.replies:
            replies, carrier.replies = carrier.replies, b""
            self.say(replies)
        if carrier.over:
            raise ConnectionEnded("it ended the connection")
        return heard

    def idle(self, heard: ReceivedMessage) -> None:
        """Take a message while nothing is asked of it.

        Raises:
            ConnectionEnded: The connection has to end.
        """
        dialect = self._dialect
        try:
            if heard.text is not None and heard.text != dialect.text:
                raise BadMessage("a message is of the other dialect", fatal=True)
            said = dialect.peek_id(heard.payload)
        except BadMessage as error:
            self._blame(error)
            return
        if said == Control(Op.PING):
            self._send(dialect.encode_control(Op.PONG))
        elif isinstance(said, int) and said >= self.next_number:
            words = f"an answer to {said} came, and nothing was asked"
            self._send(dialect.encode_fault(Fault(words, said)))

    def _blame(self, error: BadMessage) -> None:
        self._send(
            self._dialect.encode_fault(Fault(str(error), error.number, error.field))
        )
        if error.fatal:
            self.farewell(str(error), Close.UNSUPPORTED)
            raise ConnectionEnded(str(error))

    def ping(self, now: float) -> None:
        """Have it say something."""
        self.pinged_at = now
        ping = self.carrier.ping()
        if ping is None:
            self._send(self._dialect.encode_control(Op.PING))
        else:
            self.say(ping)

    def greet(self, welcome: msgspec.Struct) -> None:
        """Answer its hello, in JSON whatever follows."""
        if not self.greeted:
            self.say(self.carrier.message(msgspec.json.encode(welcome), text=True))

    def refuse(self, code: str, words: str) -> None:
        """Say why it is not welcome.

        Raises:
            ConnectionEnded: The connection has to end.
        """
        with contextlib.suppress(ConnectionEnded):
            self.greet(Refused(code, words))
            self.farewell(words, Close.POLICY)
        raise ConnectionEnded(words)

    def farewell(self, words: str, code: int = Close.GOING_AWAY) -> None:
        """Say why the connection ends, if it listens."""
        with contextlib.suppress(ConnectionEnded):
            self.say(self.carrier.farewell(words, code))

    def say(self, data: bytes) -> None:
        """Send bytes.

        Raises:
            ConnectionEnded: It does not take them.
        """
        try:
            sent = self.line.send(data) if data else 0
        except OSError as error:
            raise ConnectionEnded(str(error)) from None
        if sent < len(data):
            raise ConnectionEnded("it takes nothing")

    def _send(self, payload: bytes) -> None:
        self.say(self.carrier.message(payload, text=self._dialect.text))

    def state(self) -> bytes:
        """Tell another process how to go on."""
        return self._state(self.hello)

    def short_state(self) -> bytes:
        """Tell the same to a process that knows what the environment is."""
        hello = self.hello and Hello(self.hello.protocol, self.hello.name, {}, {})
        return self._state(hello)

    def _state(self, hello: Hello | None) -> bytes:
        return msgspec.json.encode(
            {
                "carrier": self.carrier.name,
                "connection": self.connection,
                "hello": hello,
                "next_number": self.next_number,
                "resume": self.resume,
            }
        )

    def close(self) -> None:
        """Close the connection."""
        if self.line.fileno() >= 0:
            # An environment may have had it, and may have set it anew.
            stop_lingering(self.line.fileno())
        self.line.close()
