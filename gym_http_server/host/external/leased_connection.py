"""A connection that a host has leased: its socket, around an `ExternalConnection`."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable

import msgspec

from gym_http_server.external.connection import (
    Call,
    ConnectionDetails,
    ConnectionState,
    ExternalConnection,
    Loss,
)
from gym_http_server.external.tango_dialect import TangoDialect
from gym_http_server.host import plain_json
from gym_http_server.processes.poller import wait_writable
from gym_http_wire.external.binary_dialect import BinaryDialect
from gym_http_wire.external.handshake import TANGO, Hello
from gym_http_wire.external.json_dialect import JSONDialect
from gym_http_wire.external.messages import BadMessage, Dialect
from gym_http_wire.problems import ExternalAway
from gym_http_wire.values import typed
from gym_http_wire.websocket import Close

__all__ = ["ALONE_SECONDS", "ExternalSettings", "LeasedConnection", "dialect_of"]

RECEIVE_BYTES = 256 * 1024
#: Seconds that a host waits for one connection, at most, without serving others.
ALONE_SECONDS = 0.1
_TIMEVAL = struct.pack("@ll", 0, int(ALONE_SECONDS * 1e6))


class ExternalSettings(msgspec.Struct, frozen=True):
    """Limits for external environments.

    Attributes:
        deadline_s: Seconds in which an environment has to answer.
        grace_s: Seconds in which a lost connection can be resumed.
        heartbeat_s: Seconds of silence after which an environment is pinged.
        max_message: Bytes that a message of an environment may have.
        max_observation: Bytes that one element of a space may take.
    """

    deadline_s: float
    grace_s: float
    heartbeat_s: float
    max_message: int
    max_observation: int


class Lost(ConnectionError):
    """The connection has ended."""


class LeasedConnection:
    """One connection of a host to an external environment.

    Args:
        details: The broker's record of it.
        sock: Its socket.
        settings: Limits.
        watch: Called with this connection when it has another socket.
        report_lost: Called with this connection when it is lost, before its socket is
            closed.
        writer: The socket to write to, if it is another one.

    Attributes:
        protocol: Its state.
        env_id: ID of the environment.
    """

    def __init__(
        self,
        details: ConnectionDetails,
        sock: socket.socket,
        settings: ExternalSettings,
        watch: Callable[[LeasedConnection], None],
        report_lost: Callable[[LeasedConnection], None],
        writer: socket.socket | None = None,
    ) -> None:
        self.env_id = details.env_id
        self.protocol = ExternalConnection(
            details.framing,
            dialect_of,
            max_message=settings.max_message,
            heartbeat_s=settings.heartbeat_s,
            now=time.monotonic(),
            details=details,
            leased=True,
        )
        self._watch = watch
        self._report_lost = report_lost
        self._connect(sock, writer)

    def _connect(
        self, sock: socket.socket, writer: socket.socket | None = None
    ) -> None:
        # It blocks for a moment only, and only if the host waits for nothing else.
        sock.setblocking(True)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _TIMEVAL)
        self._socket = sock
        self._writer = writer or sock
        self._watch(self)

    def fileno(self) -> int:
        """Return the descriptor; -1 while the connection is lost."""
        return self._socket.fileno()

    @property
    def details(self) -> ConnectionDetails:
        """The data that another process needs to continue the connection."""
        return self.protocol.details

    @property
    def hello(self) -> Hello:
        """The environment's hello."""
        return self.protocol.details.hello

    @property
    def lost(self) -> bool:
        """Whether the connection is lost at the moment."""
        return self.protocol.state is ConnectionState.LOST

    @property
    def replaced(self) -> bool:
        """Whether another program has taken this place, and has not begun yet."""
        return self.protocol.state is ConnectionState.FREE

    @property
    def loss(self) -> Loss:
        """The report for the broker that the connection is lost."""
        details = self.details
        return Loss(details.resume, details.resumptions, self.protocol.heard_at)

    def new_number(self) -> int:
        """Return the ID of the next request.

        Raises:
            ExternalAway: All IDs are used up.
        """
        number = self.protocol.new_number(time.monotonic())
        if not number:
            self._flush_or_close()
            raise ExternalAway(f"{self.env_id} has to connect anew")
        return number

    def start(self, call: Call) -> None:
        """Send a request; its outcome goes into the call.

        Raises:
            UnsupportedValue: The dialect cannot write a parameter.
        """
        self.protocol.start(call, time.monotonic())
        self._flush_or_close(call.deadline)

    def follow(self, call: Call, data: bytes) -> None:
        """Await the answer to a step that `exchange` has sent, as a call."""
        self.protocol.follow(call, data, time.monotonic())
        self._flush_or_close()

    def abandon(self, call: Call) -> None:
        """Stop waiting for the answer to a call."""
        self.protocol.abandon(call, time.monotonic())
        self._flush_or_close()

    def fault(self, error: BadMessage) -> None:
        """Report to the environment the fault of its answer."""
        self.protocol.fault(error)
        self._flush_or_close()

    def receive(self) -> None:
        """Read and process the received data, if there is any."""
        try:
            data = self._read(socket.MSG_DONTWAIT)
        except Lost as lost:
            self.lose(str(lost))
            return
        if data:
            self.protocol.receive(data, time.monotonic())
            self._flush_or_close()

    def check(self, now: float) -> None:
        """Ping the environment if it is silent, or end the connection."""
        self.protocol.check(now)
        self._flush_or_close()

    def lose(self, reason: str) -> None:
        """Record that the connection has ended, and close its socket."""
        self.protocol.lose(reason, time.monotonic())
        self._flush_or_close()

    def end(self, words: str) -> None:
        """End the connection for a reason, and close its socket."""
        self.protocol.end(words, time.monotonic(), Close.POLICY)
        self._flush_or_close()

    def resume(self, details: ConnectionDetails, sock: socket.socket) -> None:
        """Continue over another connection of the same environment."""
        self.lose("a newer connection took its place")
        self.details.resumptions = details.resumptions
        self.protocol.resume(details.framing, time.monotonic())
        self._connect(sock)

    def replace(self, details: ConnectionDetails, sock: socket.socket) -> None:
        """Continue with another program, over its connection."""
        before, after = self.details.connection, details.connection
        print(f"{self.env_id}, connection {after}: replaces {before}", flush=True)
        self.protocol.replace(details, time.monotonic())
        self._connect(sock)

    def release(self) -> socket.socket | None:
        """Return the socket for the broker; ``None`` if it cannot continue."""
        return self._socket if self.protocol.transferable else None

    def close(self, words: str = "") -> None:
        """Close the socket; end the connection first if there are words for it."""
        if words:
            self.protocol.end(words, time.monotonic(), Close.GOING_AWAY)
            self._flush(None)
        self._socket.close()
        self._writer.close()

    def exchange(self, data: bytes, until: float) -> bytes:
        """Send bytes, and wait a moment for the answer.

        Args:
            data: The bytes.
            until: When the environment must have read them; monotonic seconds.

        Returns:
            The received bytes; empty if there are none or the connection is lost.
        """
        try:
            sent = self._writer.send(data, socket.MSG_DONTWAIT)
        except OSError:
            sent = 0
        try:
            if sent != len(data):
                self._send(data[sent:], until)
            return self._read(0)
        except Lost as lost:
            self.lose(str(lost))
            return b""

    def _read(self, flags: int) -> bytes:
        """Read the received bytes; without flags, wait `ALONE_SECONDS` for them.

        Raises:
            Lost: The connection has ended.
        """
        try:
            data = self._socket.recv(RECEIVE_BYTES, flags)
        except BlockingIOError:
            return b""
        except OSError as error:
            raise Lost(error) from None
        if not data:
            raise Lost("it ended the connection")
        return data

    def _flush_or_close(self, until: float | None = None) -> None:
        """Send the protocol's output, and close the socket if the connection is lost.

        Args:
            until: When the environment must have read the bytes; ``None``: at once.
        """
        self._flush(until)
        if self.protocol.state is ConnectionState.LOST and self._socket.fileno() >= 0:
            self._report_lost(self)
            self._socket.close()

    def _flush(self, until: float | None) -> None:
        data = self.protocol.take_outgoing()
        if data and self._socket.fileno() >= 0:
            try:
                self._send(data, until)
            except Lost as lost:
                self.protocol.lose(str(lost), time.monotonic())

    def _send(self, data: bytes, until: float | None) -> None:
        """Send bytes.

        Raises:
            Lost: The environment did not read them in time, or the connection ended.
        """
        rest: bytes | memoryview = data
        while rest:
            try:
                sent = self._writer.send(rest, socket.MSG_DONTWAIT)
                rest = memoryview(rest)[sent:] if sent < len(rest) else b""
            except BlockingIOError:
                left = 0.0 if until is None else until - time.monotonic()
                if left <= 0 or not wait_writable(self._writer, left):
                    raise Lost("it does not read what is sent to it") from None
            except OSError as error:
                raise Lost(error) from None


def dialect_of(hello: Hello) -> Dialect:
    """Return the dialect that a hello names, with the values of messages."""
    if hello.dialect == "binary":
        return BinaryDialect()
    if hello.dialect == "typed":
        return JSONDialect(typed.encode, typed.decode)
    if hello.dialect == TANGO:
        return TangoDialect(plain_json.dumps, plain_json.loads)
    return JSONDialect(plain_json.dumps, plain_json.loads)
