"""Streams: requests and answers of one instance over one open connection."""

from __future__ import annotations

import socket
import ssl
import struct
import sys
import time
from abc import ABC, abstractmethod
from collections import deque
from functools import partial
from typing import Any, NamedTuple

from gym_http_client.errors import Failure, FailureKind
from gym_http_client.http.dialing import Dialer
from gym_http_client.http.http1 import MAX_BODY, BadAnswer
from gym_http_client.streaming.handshakes import (
    LONGEST_WAIT,
    shake_hands,
    stream_failure,
)
from gym_http_wire.busy_poll import BusyPoll, may_busy_poll
from gym_http_wire.fast_frames import MISSED, FastClientFrames
from gym_http_wire.frames import HEADER
from gym_http_wire.messages import Form
from gym_http_wire.signatures import ReceivedSignatures, SentSignatures
from gym_http_wire.streams import ACKNOWLEDGED
from gym_http_wire.values import BadValue
from gym_http_wire.websocket import (
    Close,
    Masks,
    Message,
    MessageReader,
    Opcode,
    WebSocketError,
    encode,
)

__all__ = ["Stream", "StreamAnswer", "StreamRequest", "WebSocketStream", "parse_answer"]

_HEADER_SIZE = HEADER.size
_BOTH_BINARY = int(Form.BINARY) | int(Form.BINARY) << 4
RECEIVE_BYTES = 64 * 1024
_BINARY_FRAME = int(Opcode.BINARY)
# On Linux the layout of a socket's time limit is known, so the kernel can end waits.
# Each wait takes one system call. Python's own limits take two, and prevent polling.
_KERNEL_LIMITS = sys.platform == "linux"
_TOO_LARGE = int(Close.TOO_LARGE).to_bytes(2)


class StreamRequest(NamedTuple):
    """A request on a stream.

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


class StreamAnswer(NamedTuple):
    """An answer on a stream; its value is not decoded.

    Attributes:
        number: Number of the request.
        status: HTTP status.
        form: Form of the body.
        message: The whole message; each answer has a new one.
        start: Position of the body in it.
    """

    number: int
    status: int
    form: int
    message: bytes | memoryview
    start: int


class Stream(ABC):
    """One connection for requests to an instance, without retries.

    Args:
        time_limit: Seconds to wait for each answer.
    """

    def __init__(self, time_limit: float) -> None:
        self._time_limit = time_limit
        self._announcing = SentSignatures()
        self._announced = ReceivedSignatures()

    @abstractmethod
    def send(self, request: StreamRequest, *, acknowledged: bool) -> None:
        """Send a request.

        Args:
            request: The request.
            acknowledged: Whether the answers to all earlier requests were received.

        Raises:
            Failure: The connection is lost.
        """

    @abstractmethod
    def receive(self) -> StreamAnswer:
        """Wait for the next answer.

        Raises:
            NoStream: The instance is gone.
            Failure: The connection is lost, or a message is not an answer.
        """

    def exchange(self, op: int, number: int, given: Any) -> Any:
        """Send a request as a fast frame, while no other request is pending.

        Returns:
            The value of the answer; `MISSED` if nothing was sent, since the request
            does not fit; or a `StreamAnswer` if the answer is not a fast frame.

        Raises:
            Failure: The connection is lost, or a message is not an answer.
        """
        return MISSED

    def receive_fast(self, number: int) -> Any:
        """Wait for the next answer, and return its value if it is a fast frame.

        Args:
            number: Number of the oldest pending request.

        Returns:
            The value; `MISSED` if `receive` has to return the answer.

        Raises:
            Failure: The connection is lost, or a message is not an answer.
        """
        return MISSED

    def value(self, answer: StreamAnswer) -> object:
        """Decode the value of an answer in the binary form.

        Raises:
            Failure: The value is malformed.
        """
        try:
            return self._announced.read(answer.message, answer.start)
        except BadValue as error:
            raise _malformed_value(error) from error

    @abstractmethod
    def close(self) -> None:
        """Close the connection without a closing handshake."""

    def _message(self, request: StreamRequest, *, acknowledged: bool) -> bytes:
        """Encode a request."""
        number, op, head, signature, leaves = request
        value = self._announcing.header(signature) + leaves if signature else b""
        status = ACKNOWLEDGED if acknowledged else 0
        header = HEADER.pack(len(value), len(head), status, op, _BOTH_BINARY, number)
        return b"".join((header, head, value))


def _malformed_value(error: BadValue) -> Failure:
    return Failure(FailureKind.MALFORMED, f"a value {error}")


def parse_answer(message: bytes | memoryview) -> StreamAnswer:
    """Parse an answer without decoding its value.

    Raises:
        BadAnswer: The message is malformed.
    """
    size = len(message)
    if size < _HEADER_SIZE:
        raise BadAnswer(f"a message has {size} bytes")
    body_size, head_size, status, _, form, number = HEADER.unpack_from(message)
    start = _HEADER_SIZE + head_size
    if start + body_size != size:
        raise BadAnswer(f"a message of {size} bytes announces others")
    return StreamAnswer(number, status, form, message, start)


class WebSocketStream(Stream):
    """A stream over a WebSocket.

    Args:
        dialer: Opens the connection.
        head: Head of the request, without the headers of the handshake and the blank
            line at its end.
        handshake_limit: Seconds for the handshake.
        time_limit: Seconds to wait for each answer. The wait may last a little longer,
            if a part of the answer arrives near the limit.
        spin_us: Microseconds to poll for an answer at most, before sleeping.

    Raises:
        NoStream: The server refuses the stream.
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
        super().__init__(time_limit)
        self._masks = Masks()
        self._lane = FastClientFrames(self._announcing, self._announced)
        self._reader = MessageReader(masked=False, max_message=MAX_BODY)
        self._arrived: deque[Message] = deque()
        self._socket, rest = shake_hands(dialer, head, handshake_limit)
        try:
            if rest:
                self._arrived.extend(self._reader.feed(rest))
            self._set_wait_limit()
            secured = isinstance(self._socket, ssl.SSLSocket)
            limit = 0 if secured or not _KERNEL_LIMITS else spin_us * 1000
            self._spinning = BusyPoll(limit, partial(may_busy_poll, [self._socket]))
        except (OSError, BadAnswer, WebSocketError) as error:
            self._socket.close()
            raise stream_failure(error) from error
        except BaseException:
            self._socket.close()
            raise

    def send(self, request: StreamRequest, *, acknowledged: bool) -> None:
        """Send a request."""
        message = self._fast_message(request, acknowledged)
        if message is MISSED:
            payload = self._message(request, acknowledged=acknowledged)
            message = encode(_BINARY_FRAME, payload, self._masks.next())
        try:
            self._socket.sendall(message)
        except OSError as error:
            raise stream_failure(error) from error
        self._lane.learn(request.op, request.signature)

    def _fast_message(self, request: StreamRequest, acknowledged: bool) -> Any:
        """Encode a request as a fast frame; returns `MISSED` if it does not fit."""
        number, op, head, signature, leaves = request
        signature_number = self._announcing.numbers.get(signature)
        if signature_number is None or head:
            return MISSED
        return self._lane.message_from_leaves(
            op, number, acknowledged, leaves, signature_number
        )

    def receive(self) -> StreamAnswer:
        """Wait for the next answer."""
        end = 0.0
        try:
            while not self._arrived:
                # The kernel limits single waits, and there may be one for each byte.
                now = time.monotonic()
                end = end or now + self._time_limit
                if now > end:
                    raise TimeoutError
                self._take()
            return parse_answer(self._arrived.popleft().payload)
        except (OSError, BadAnswer, WebSocketError) as error:
            raise stream_failure(error) from error

    def exchange(self, op: int, number: int, given: Any) -> Any:
        """Send a request as a fast frame, while no other request is pending."""
        message = self._lane.message(op, number, ACKNOWLEDGED, given)
        if message is MISSED or self._arrived or not self._reader.between:
            return MISSED
        try:
            self._socket.sendall(message)
        except OSError as error:
            raise stream_failure(error) from error
        value = self.receive_fast(number)
        return self.receive() if value is MISSED else value

    def receive_fast(self, number: int) -> Any:
        """Wait for the next answer, and return its value if it is a fast frame."""
        if self._arrived or not self._reader.between:
            return MISSED
        try:
            data = self._spin()
            value = self._lane.value(data, number)
            if value is MISSED:
                self._sort(data)
        except (OSError, WebSocketError) as error:
            raise stream_failure(error) from error
        except BadValue as error:
            raise _malformed_value(error) from error
        return value

    def close(self) -> None:
        """Close the connection without a closing handshake."""
        self._socket.close()

    def _take(self) -> None:
        """Receive once, and handle the messages."""
        space = self._reader.space()
        if space is not None:
            size = self._socket.recv_into(space)
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
            if message.opcode == _BINARY_FRAME:
                self._arrived.append(message)
            elif message.opcode == Opcode.CLOSE:
                reason = bytes(message.payload[2:]).decode(errors="replace")
                if message.payload[:2] == _TOO_LARGE:
                    raise Failure(FailureKind.TOO_LARGE, reason)
                raise ConnectionResetError(reason or "the stream was closed")
            elif message.opcode == Opcode.PING:
                pong = bytes(message.payload)
                self._socket.sendall(encode(Opcode.PONG, pong, self._masks.next()))

    def _spin(self) -> bytes:
        """Poll for an answer for a while, then sleep until it arrives."""
        recv, spinning = self._socket.recv, self._spinning
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

    def _set_wait_limit(self) -> None:
        """Set the kernel's time limit for waits, which saves system calls."""
        if isinstance(self._socket, ssl.SSLSocket) or not _KERNEL_LIMITS:
            self._socket.settimeout(min(self._time_limit, LONGEST_WAIT))
            return
        limit = min(self._time_limit, LONGEST_WAIT)
        spec = struct.pack("ll", int(limit), int(limit % 1 * 1e6))
        self._socket.settimeout(None)
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            self._socket.setsockopt(socket.SOL_SOCKET, option, spec)
