"""A stream by WebSocket to one instance, until it is lost."""

from __future__ import annotations

import socket
import ssl
import struct
import sys
import time
from collections import deque
from functools import partial
from typing import Any

from gym_http_client.dialing import Dialer
from gym_http_client.failures import Failure, FailureKind
from gym_http_client.handshakes import LONGEST_WAIT, failure_of, shake_hands
from gym_http_client.http1 import MAX_BODY, BadAnswer
from gym_http_client.streaming import Answer, Asked, Streaming, answer_in
from gym_http_wire.busy_poll import BusyPoll, may_busy_poll
from gym_http_wire.fast_frames import MISSED, FastClientFrames
from gym_http_wire.streams import ACKNOWLEDGED
from gym_http_wire.websocket import (
    Close,
    Masks,
    Message,
    MessageReader,
    Opcode,
    WebSocketError,
    encode,
)

__all__ = ["Stream"]

RECEIVE_BYTES = 64 * 1024
_BINARY = int(Opcode.BINARY)
# Where the layout of a time limit is known, the kernel can end waits. Then each takes
# one system call, while Python's own time limits take two, and rule out spinning.
_KERNEL_LIMITS = sys.platform == "linux"
_TOO_LARGE = int(Close.TOO_LARGE).to_bytes(2)


class Stream(Streaming):
    """One WebSocket.

    Args:
        dialer: Opens the connection.
        head: The request that asks for the stream, but for the lines of its
            handshake and the blank line at its end.
        handshake_limit: Seconds for the handshake.
        time_limit: Seconds to wait for each answer; a little more, if some of it comes
            at the end.
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
        super().__init__(time_limit)
        self._masks = Masks()
        self._lane = FastClientFrames(self._announcing, self._announced)
        self._reader = MessageReader(masked=False, max_message=MAX_BODY)
        self._arrived: deque[Message] = deque()
        self._line, rest = shake_hands(dialer, head, handshake_limit)
        try:
            if rest:
                self._arrived.extend(self._reader.feed(rest))
            self._settle_down()
            secured = isinstance(self._line, ssl.SSLSocket)
            limit = 0 if secured or not _KERNEL_LIMITS else spin_us * 1000
            self._spinning = BusyPoll(limit, partial(may_busy_poll, [self._line]))
        except (OSError, BadAnswer, WebSocketError) as error:
            self._line.close()
            raise failure_of(error) from error
        except BaseException:
            self._line.close()
            raise

    def send(self, asked: Asked, *, acknowledged: bool) -> None:
        """Send a request."""
        message = self._message(asked, acknowledged=acknowledged)
        try:
            self._line.sendall(encode(_BINARY, message, self._masks.next()))
        except OSError as error:
            raise failure_of(error) from error
        self._lane.learn(asked.op, asked.signature)

    def receive(self) -> Answer:
        """Wait for the next answer."""
        end = 0.0
        try:
            while not self._arrived:
                # The kernel ends a single wait, and there may be one for each byte.
                now = time.monotonic()
                end = end or now + self._time_limit
                if now > end:
                    raise TimeoutError
                self._take()
            return answer_in(self._arrived.popleft().payload)
        except (OSError, BadAnswer, WebSocketError) as error:
            raise failure_of(error) from error

    def exchange(self, op: int, number: int, given: Any) -> Any:
        """Ask in the quick lane, with no other request on its way."""
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
            raise failure_of(error) from error
        return self.receive()

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
                if message.payload[:2] == _TOO_LARGE:
                    raise Failure(FailureKind.TOO_LARGE, reason)
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
        if isinstance(self._line, ssl.SSLSocket) or not _KERNEL_LIMITS:
            self._line.settimeout(min(self._time_limit, LONGEST_WAIT))
            return
        limit = min(self._time_limit, LONGEST_WAIT)
        spec = struct.pack("ll", int(limit), int(limit % 1 * 1e6))
        self._line.settimeout(None)
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            self._line.setsockopt(socket.SOL_SOCKET, option, spec)
