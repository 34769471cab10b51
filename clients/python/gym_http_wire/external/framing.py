"""Framing: messages of external environments in the bytes of a connection.

There are two: WebSocket (RFC 6455), and messages after their count of bytes, 32 bits
little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple, Protocol

from gym_http_wire.websocket import (
    MAX_CONTROL,
    Close,
    Masks,
    MessageReader,
    Opcode,
    WebSocketError,
    close_of,
    encode,
    head_of,
)

__all__ = [
    "COUNTED",
    "WEBSOCKET",
    "CountedFraming",
    "Framing",
    "FramingError",
    "ReceivedMessage",
    "WebSocketFraming",
    "framing_of",
]

WEBSOCKET = "websocket"
COUNTED = "counted"
_COUNT = struct.Struct("<I")
_TEXT_HEADS, _BINARY_HEADS = (
    tuple(head_of(opcode, size) for size in range(MAX_CONTROL + 1))
    for opcode in (Opcode.TEXT, Opcode.BINARY)
)


class FramingError(ValueError):
    """The bytes are not in this framing; the connection has to end.

    Attributes:
        close: Bytes to send before it ends.
    """

    def __init__(self, words: str, close: bytes = b"") -> None:
        super().__init__(words)
        self.close = close


class ReceivedMessage(NamedTuple):
    """A message.

    Attributes:
        payload: Its bytes.
        text: Whether it is text; ``None`` if the framing has no such mark.
    """

    payload: bytes
    text: bool | None


class Framing(Protocol):
    """Splits bytes into messages, and encodes messages.

    Attributes:
        name: `WEBSOCKET` or `COUNTED`.
        over: Whether the other side has closed the connection.
        replies: Bytes to send in reply; take them after each `feed`.
    """

    name: str
    over: bool
    replies: bytes

    @property
    def between(self) -> bool:
        """Whether the next byte begins a message."""

    def feed(self, data: bytes) -> list[ReceivedMessage]:
        """Add received bytes; returns the messages that are now complete.

        Raises:
            FramingError: A message is malformed or too long.
        """

    def whole(self, data: bytes) -> bytes | None:
        """Return the payload if the bytes are exactly one text message.

        Otherwise nothing changes, and the caller has to `feed` the bytes.
        """

    def message(self, payload: bytes, *, text: bool) -> bytes:
        """Encode a message."""

    def ping(self) -> bytes | None:
        """Return a ping of the framing itself; ``None`` if it has none."""

    def encode_close(self, words: str, code: int = Close.NORMAL) -> bytes:
        """Return the bytes that close the connection, with the reason."""


class WebSocketFraming:
    """A WebSocket after its handshake.

    Args:
        max_message: Bytes that a message may have.
        client: Whether this side is the client, which has to mask.
    """

    name = WEBSOCKET

    def __init__(self, max_message: int, *, client: bool = False) -> None:
        self._reader = MessageReader(masked=not client, max_message=max_message)
        self._masks = Masks() if client else None
        # Called with each step; a method around it would be slower.
        self.whole: Callable[[bytes], bytes | None] = self._reader.whole
        self.over = False
        self.replies = b""

    @property
    def between(self) -> bool:
        """Whether the next byte begins a message."""
        return self._reader.between

    def feed(self, data: bytes) -> list[ReceivedMessage]:
        """Add received bytes; returns the messages that are now complete."""
        messages = []
        try:
            for opcode, payload in self._reader.feed(data):
                if opcode == Opcode.PING:
                    self.replies += encode(Opcode.PONG, bytes(payload), self._next())
                elif opcode == Opcode.CLOSE:
                    if not self.over:
                        reason = bytes(payload)
                        self.replies += encode(Opcode.CLOSE, reason, self._next())
                    self.over = True
                elif opcode != Opcode.PONG:
                    messages.append(
                        ReceivedMessage(bytes(payload), opcode == Opcode.TEXT)
                    )
        except WebSocketError as error:
            words = str(error)
            close = self.encode_close(words, error.code)
            raise FramingError(words, close) from None
        return messages

    def message(self, payload: bytes, *, text: bool) -> bytes:
        """Encode a message."""
        if self._masks is None and len(payload) <= MAX_CONTROL:
            return (_TEXT_HEADS if text else _BINARY_HEADS)[len(payload)] + payload
        return encode(Opcode.TEXT if text else Opcode.BINARY, payload, self._next())

    def _next(self) -> bytes | None:
        return None if self._masks is None else self._masks.next()

    def ping(self) -> bytes | None:
        """Return a WebSocket ping, which every library answers by itself."""
        return encode(Opcode.PING, b"", self._next())

    def encode_close(self, words: str, code: int = Close.NORMAL) -> bytes:
        """Return a close frame."""
        return encode(Opcode.CLOSE, close_of(code, words), self._next())


class CountedFraming:
    """Messages, each after its count of bytes.

    Args:
        max_message: Bytes that a message may have.
    """

    name = COUNTED

    def __init__(self, max_message: int) -> None:
        self._max_message = max_message
        self._buffer = bytearray()
        self._wanted = _COUNT.size
        self.over = False
        self.replies = b""

    @property
    def between(self) -> bool:
        """Whether the next byte begins a message."""
        return not self._buffer

    def feed(self, data: bytes) -> list[ReceivedMessage]:
        """Add received bytes; returns the messages that are now complete."""
        buffer = self._buffer
        buffer += data
        messages = []
        at = 0
        while len(buffer) - at >= self._wanted:
            (size,) = _COUNT.unpack_from(buffer, at)
            if size > self._max_message:
                raise FramingError(
                    f"a message announces {size} bytes; the limit is "
                    f"{self._max_message}"
                )
            end = at + _COUNT.size + size
            if end > len(buffer):
                # Without this, a message in pieces is examined with each piece.
                self._wanted = end - at
                break
            messages.append(
                ReceivedMessage(bytes(buffer[at + _COUNT.size : end]), None)
            )
            at = end
            self._wanted = _COUNT.size
        del buffer[:at]
        return messages

    def whole(self, data: bytes) -> bytes | None:
        """Return the payload if the bytes are exactly one message."""
        size = len(data) - _COUNT.size
        if self._buffer or not 0 < size <= self._max_message:
            return None
        return data[_COUNT.size :] if _COUNT.unpack_from(data)[0] == size else None

    def message(self, payload: bytes, *, text: bool) -> bytes:
        """Encode a message."""
        return _COUNT.pack(len(payload)) + payload

    def ping(self) -> bytes | None:
        """Return ``None``: the dialects have pings."""
        return None

    def encode_close(self, words: str, code: int = Close.NORMAL) -> bytes:
        """Return nothing: such a connection just ends."""
        return b""


def framing_of(name: str, max_message: int) -> Framing:
    """Return a server's framing by its name."""
    if name == WEBSOCKET:
        return WebSocketFraming(max_message)
    return CountedFraming(max_message)
