"""A stream: one WebSocket to one instance, from its handshake to its loss."""

from __future__ import annotations

import base64
import os
import socket
import ssl
import struct
import time
from collections import deque
from functools import partial
from typing import Any, NamedTuple

from gym_http_client.dialing import Dialer
from gym_http_client.failures import ABSENT, Failure, FailureKind
from gym_http_client.headers import read_head
from gym_http_client.http1 import MAX_BODY, BadAnswer, Reply, ReplyReader
from gym_http_wire.frames import HEADER
from gym_http_wire.handshakes import BINARY_PROTOCOL
from gym_http_wire.lanes import MISSED, AskingLane
from gym_http_wire.messages import Form
from gym_http_wire.signatures import Announced, Announcing
from gym_http_wire.spinning import Spinning, may_spin
from gym_http_wire.streams import ACKNOWLEDGED
from gym_http_wire.values import BadValue
from gym_http_wire.websocket import (
    Masks,
    Message,
    MessageReader,
    Opcode,
    WebSocketError,
    accept_of,
    encode,
)

__all__ = ["Answer", "Asked", "NoStream", "Stream"]

RECEIVE_BYTES = 64 * 1024
MAX_HEAD = 64 * 1024
_HEADER_SIZE = HEADER.size
_BINARY = int(Opcode.BINARY)
_BOTH_BINARY = int(Form.BINARY) | int(Form.BINARY) << 4
_LONGEST_WAIT = 1e6


class NoStream(Exception):
    """The handshake was answered otherwise.

    Attributes:
        reply: How.
    """

    def __init__(self, reply: Reply) -> None:
        super().__init__(f"the handshake was answered with status {reply.status}")
        self.reply = reply


class Asked(NamedTuple):
    """A request.

    Attributes:
        number: Its number in its session.
        op: The operation.
        head: The frame's head, padded, or nothing.
        signature: The value's signature, padded; nothing if there is no value.
        leaves: The value's leaves.
    """

    number: int
    op: int
    head: bytes
    signature: bytes
    leaves: bytes


class Answer(NamedTuple):
    """An answer.

    Attributes:
        number: The request's.
        status: As of HTTP.
        form: Of the body.
        message: The whole message; new for each answer.
        start: Where the body begins in it.
    """

    number: int
    status: int
    form: int
    message: bytes | memoryview
    start: int


class Stream:
    """One connection; what it loses is lost.

    Args:
        dialer: Opens the connection.
        head: The request that asks for the stream, but for the lines of its
            handshake and the blank line at its end.
        handshake_limit: Seconds for the handshake.
        time_limit: Seconds for each wait for an answer.
        spin_us: Microseconds to spin at most for an answer.

    Raises:
        NoStream: There is a server, but no stream.
        Failure: There is no answer.
    """

    def __init__(
        self,
        dialer: Dialer,
        head: bytes,
        handshake_limit: float,
        time_limit: float,
        spin_us: int,
    ) -> None:
        self._time_limit = time_limit
        self._masks = Masks()
        self._announcing = Announcing()
        self._announced = Announced()
        self._lane = AskingLane(self._announcing, self._announced)
        self._reader = MessageReader(masked=False, max_message=MAX_BODY)
        self._arrived: deque[Message] = deque()
        self._said = 0
        end = time.monotonic() + handshake_limit
        try:
            self._line = dialer.dial(lambda: _left(end))
        except OSError as error:
            kind = FailureKind.ABSENT if isinstance(error, ABSENT) else FailureKind.LOST
            if isinstance(error, TimeoutError):
                kind = FailureKind.TIMEOUT
            raise Failure(kind, error) from error
        try:
            self._shake_hands(head, end)
            self._settle_down()
            secured = isinstance(self._line, ssl.SSLSocket)
            limit = 0 if secured else spin_us * 1000
            self._spinning = Spinning(limit, partial(may_spin, [self._line]))
        except (OSError, BadAnswer, WebSocketError) as error:
            self._line.close()
            raise _failure(error) from error
        except BaseException:
            self._line.close()
            raise

    def send(self, asked: Asked, *, acknowledged: bool) -> None:
        """Send a request.

        Args:
            asked: The request.
            acknowledged: Whether all earlier ones have been answered.

        Raises:
            Failure: The connection is lost.
        """
        value = b""
        if asked.signature:
            value = self._announcing.header(asked.signature) + asked.leaves
        status = ACKNOWLEDGED if acknowledged else 0
        head = asked.head
        header = HEADER.pack(
            len(value), len(head), status, asked.op, _BOTH_BINARY, asked.number
        )
        message = b"".join((header, head, value))
        try:
            self._line.sendall(encode(_BINARY, message, self._masks.next()))
        except OSError as error:
            raise _failure(error) from error
        self._lane.learn(asked.op, asked.signature)

    def receive(self) -> Answer:
        """Wait for the next answer.

        Raises:
            Failure: The connection is lost, or what came is no answer.
        """
        try:
            while not self._arrived:
                self._take()
            message = self._arrived.popleft().payload
            size = len(message)
            if size < _HEADER_SIZE:
                raise BadAnswer(f"a message has {size} bytes")
            header = HEADER.unpack_from(message)
            body_size, head_size, status, _, form, number = header
            start = _HEADER_SIZE + head_size
            if start + body_size != size:
                raise BadAnswer(f"a message of {size} bytes announces others")
        except (OSError, BadAnswer, WebSocketError) as error:
            raise _failure(error) from error
        return Answer(number, status, form, message, start)

    def exchange(self, op: int, number: int, given: Any) -> Any:
        """Ask in the quick lane, with no other request on its way.

        Returns:
            The value of the answer; or `MISSED`, if nothing was sent, since this is
            not for the lane; or an `Answer`, if that is not.

        Raises:
            Failure: The connection is lost, or what came is no answer.
        """
        message = self._lane.message(op, number, ACKNOWLEDGED, given)
        if message is MISSED or self._arrived or not self._reader.between:
            return MISSED
        try:
            self._line.sendall(message)
            data = self._spin()
            value = self._lane.value(data, number)
            if value is not MISSED:
                return value
            self._sort(data)
        except (OSError, WebSocketError) as error:
            raise _failure(error) from error
        return self.receive()

    def value(self, answer: Answer) -> object:
        """Read the value of an answer in the binary form.

        Raises:
            Failure: It is none.
        """
        try:
            return self._announced.read(answer.message, answer.start)
        except BadValue as error:
            words = f"a value {error}"
            raise Failure(FailureKind.MALFORMED, words) from error

    def close(self) -> None:
        """Close the connection without a word."""
        self._line.close()

    def _take(self) -> None:
        """Receive once, and sort what came."""
        space = self._reader.space()
        if space is not None:
            size = self._line.recv_into(space)
            if not size:
                raise ConnectionResetError("the stream was cut within a message")
            messages = self._reader.received(size)
            self._keep(messages)
        else:
            self._sort(self._spin())

    def _sort(self, data: bytes) -> None:
        if not data:
            raise ConnectionResetError("the stream ended")
        self._keep(self._reader.feed(data))

    def _keep(self, messages: list[Message]) -> None:
        for message in messages:
            if message.opcode == _BINARY:
                self._arrived.append(message)
            elif message.opcode == Opcode.CLOSE:
                reason = bytes(message.payload[2:]).decode(errors="replace")
                raise ConnectionResetError(reason or "the stream was closed")
            elif message.opcode == Opcode.PING:
                pong = bytes(message.payload)
                self._line.sendall(encode(Opcode.PONG, pong, self._masks.next()))

    def _spin(self) -> bytes:
        """Look for an answer for a while before waiting for it."""
        recv, spinning = self._line.recv, self._spinning
        if spinning.rest:
            spinning.rest -= 1
            return recv(RECEIVE_BYTES)
        until = spinning.until(time.monotonic_ns())
        if not until:
            return recv(RECEIVE_BYTES)
        while time.monotonic_ns() < until:
            try:
                data = recv(RECEIVE_BYTES, socket.MSG_DONTWAIT)
            except BlockingIOError:
                continue
            spinning.found()
            return data
        spinning.missed()
        return recv(RECEIVE_BYTES)

    def _settle_down(self) -> None:
        """Have the kernel end waits that are too long: that takes fewer calls."""
        if isinstance(self._line, ssl.SSLSocket):
            self._line.settimeout(self._time_limit)
            return
        limit = min(self._time_limit, _LONGEST_WAIT)
        spec = struct.pack("ll", int(limit), int(limit % 1 * 1e6))
        self._line.settimeout(None)
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            self._line.setsockopt(socket.SOL_SOCKET, option, spec)

    def _shake_hands(self, head: bytes, end: float) -> None:
        key = base64.b64encode(os.urandom(16)).decode()
        self._line.settimeout(_left(end))
        self._line.sendall(
            head
            + b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
            + b"Sec-WebSocket-Version: 13\r\n"
            + f"Sec-WebSocket-Protocol: {BINARY_PROTOCOL}\r\n".encode()
            + f"Sec-WebSocket-Key: {key}\r\n\r\n".encode()
        )
        data = self._read_head(end)
        if not data.startswith((b"HTTP/1.1 101", b"HTTP/1.0 101")):
            raise NoStream(self._refusal(data, end))
        head_bytes, _, rest = data.partition(b"\r\n\r\n")
        headers = read_head(head_bytes).headers
        accepted = headers.get("sec-websocket-accept") == accept_of(key)
        if not accepted or headers.get("sec-websocket-protocol") != BINARY_PROTOCOL:
            raise BadAnswer("the handshake's answer is not to our handshake")
        if rest:
            self._arrived.extend(self._reader.feed(rest))

    def _read_head(self, end: float) -> bytes:
        data = b""
        while b"\r\n\r\n" not in data and len(data) <= MAX_HEAD:
            self._line.settimeout(_left(end))
            more = self._line.recv(RECEIVE_BYTES)
            if not more:
                raise ConnectionResetError("the connection was closed in the handshake")
            data += more
        return data

    def _refusal(self, data: bytes, end: float) -> Reply:
        reader = ReplyReader()
        reply = reader.feed(data)
        while reply is None:
            self._line.settimeout(_left(end))
            more = self._line.recv(RECEIVE_BYTES)
            reply = reader.feed(more) if more else reader.end()
            if not more and reply is None:
                raise ConnectionResetError("the refusal of the stream was cut off")
        return reply


def _left(end: float) -> float:
    left = end - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return min(left, _LONGEST_WAIT)


def _failure(error: Exception) -> Failure:
    if isinstance(error, BadAnswer | WebSocketError):
        return Failure(FailureKind.MALFORMED, error)
    # Of a socket that blocks, the kernel tells the end of a wait as "not now".
    if isinstance(error, TimeoutError | BlockingIOError | ssl.SSLWantReadError):
        return Failure(FailureKind.TIMEOUT, "nothing within the time limit")
    return Failure(FailureKind.LOST, error)
