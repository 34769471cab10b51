"""Carriers: how messages are cut out of a connection's bytes.

Two will do: a WebSocket (RFC 6455), and a 32-bit little-endian count of bytes before
each message.
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
    """Bytes that the carrier does not have; the connection has to end.

    Attributes:
        farewell: What to send before it ends.
    """

    def __init__(self, words: str, farewell: bytes = b"") -> None:
        super().__init__(words)
        self.farewell = farewell


class ReceivedMessage(NamedTuple):
    """A message.

    Attributes:
        payload: Its bytes.
        text: Whether it is text; ``None`` where that cannot be told.
    """

    payload: bytes
    text: bool | None


class Framing(Protocol):
    """Cuts messages out of bytes, and makes bytes of messages.

    Attributes:
        name: `WEBSOCKET` or `COUNTED`.
        over: Whether the other side has said that it ends the connection.
        replies: What the carrier itself has to answer; take it after each `feed`.
    """

    name: str
    over: bool
    replies: bytes

    @property
    def between(self) -> bool:
        """Whether the next byte begins a message."""

    def feed(self, data: bytes) -> list[ReceivedMessage]:
        """Take bytes, give the messages that are now whole.

        Raises:
            CarrierError: They are none, or one has too many bytes.
        """

    def whole(self, data: bytes) -> bytes | None:
        """Give the payload, if bytes are one text and nothing but that.

        If not, nothing has happened: they are to be fed.
        """

    def message(self, payload: bytes, *, text: bool) -> bytes:
        """Give the bytes of a message."""

    def ping(self) -> bytes | None:
        """Give what the other side has to answer to; ``None`` if messages must do."""

    def farewell(self, words: str, code: int = Close.NORMAL) -> bytes:
        """Give what says that the connection ends, and why."""


class WebSocketFraming:
    """A WebSocket after its handshake.

    Args:
        max_message: Bytes that a message may have.
        client: Whether this side opened it, and so has to mask.
    """

    name = WEBSOCKET

    def __init__(self, max_message: int, *, client: bool = False) -> None:
        self._reader = MessageReader(masked=not client, max_message=max_message)
        self._masks = Masks() if client else None
        # With each step; this is quicker than a method around it.
        self.whole: Callable[[bytes], bytes | None] = self._reader.whole
        self.over = False
        self.replies = b""

    @property
    def between(self) -> bool:
        """Whether the next byte begins a message."""
        return self._reader.between

    def feed(self, data: bytes) -> list[ReceivedMessage]:
        """Take bytes, give the messages that are now whole."""
        heard = []
        try:
            for opcode, payload in self._reader.feed(data):
                if opcode == Opcode.PING:
                    self.replies += encode(Opcode.PONG, bytes(payload), self._next())
                elif opcode == Opcode.CLOSE:
                    if not self.over:
                        said = bytes(payload)
                        self.replies += encode(Opcode.CLOSE, said, self._next())
                    self.over = True
                elif opcode != Opcode.PONG:
                    heard.append(ReceivedMessage(bytes(payload), opcode == Opcode.TEXT))
        except WebSocketError as error:
            words = str(error)
            farewell = self.farewell(words, error.code)
            raise FramingError(words, farewell) from None
        return heard

    def message(self, payload: bytes, *, text: bool) -> bytes:
        """Give the bytes of a message."""
        if self._masks is None and len(payload) <= MAX_CONTROL:
            return (_TEXT_HEADS if text else _BINARY_HEADS)[len(payload)] + payload
        return encode(Opcode.TEXT if text else Opcode.BINARY, payload, self._next())

    def _next(self) -> bytes | None:
        return None if self._masks is None else self._masks.next()

    def ping(self) -> bytes | None:
        """Give a ping of the carrier's own, which every library answers by itself."""
        return encode(Opcode.PING, b"", self._next())

    def farewell(self, words: str, code: int = Close.NORMAL) -> bytes:
        """Give a close frame."""
        return encode(Opcode.CLOSE, close_of(code, words), self._next())


class CountedFraming:
    """Messages after their counts of bytes.

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
        """Take bytes, give the messages that are now whole."""
        buffer = self._buffer
        buffer += data
        heard = []
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
                # Without this, what comes in pieces is looked at for each piece.
                self._wanted = end - at
                break
            heard.append(ReceivedMessage(bytes(buffer[at + _COUNT.size : end]), None))
            at = end
            self._wanted = _COUNT.size
        del buffer[:at]
        return heard

    def whole(self, data: bytes) -> bytes | None:
        """Give the payload, if bytes are one message and nothing but that."""
        size = len(data) - _COUNT.size
        if self._buffer or not 0 < size <= self._max_message:
            return None
        return data[_COUNT.size :] if _COUNT.unpack_from(data)[0] == size else None

    def message(self, payload: bytes, *, text: bool) -> bytes:
        """Give the bytes of a message."""
        return _COUNT.pack(len(payload)) + payload

    def ping(self) -> bytes | None:
        """Give nothing: a message has to do."""
        return None

    def farewell(self, words: str, code: int = Close.NORMAL) -> bytes:
        """Give nothing: such a connection just ends."""
        return b""


def framing_of(name: str, max_message: int) -> Framing:
    """Give a server's carrier of a name."""
    if name == WEBSOCKET:
        return WebSocketFraming(max_message)
    return CountedFraming(max_message)
