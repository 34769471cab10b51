"""WebSocket messages (RFC 6455), sans I/O: no extensions, both roles.

A codec of our own, since a step over a stream costs less than the parsing of its
message by the general libraries does.
"""

from __future__ import annotations

import base64
import hashlib
import os
import struct
from enum import IntEnum
from typing import NamedTuple

__all__ = [
    "Close",
    "Masks",
    "Message",
    "MessageReader",
    "Opcode",
    "WebSocketError",
    "accept_of",
    "close_of",
    "encode",
    "head_of",
]

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_FIN = 0x80
_MASKED = 0x80
_U16 = struct.Struct(">H")
_U64 = struct.Struct(">Q")
_MAX_CONTROL = 125
_WHOLE_BINARY = 0x82
_SMALLEST_LONG = 126
_MASKS_AT_ONCE = 1024
# Of what a client announces, memory for more waits for the bytes.
_GRANTED_AT_ONCE = 1024 * 1024


class Opcode(IntEnum):
    """What a frame is."""

    CONTINUATION = 0
    TEXT = 1
    BINARY = 2
    CLOSE = 8
    PING = 9
    PONG = 10


class Close(IntEnum):
    """Why a connection is closed (RFC 6455, 7.4.1)."""

    NORMAL = 1000
    GOING_AWAY = 1001
    PROTOCOL_ERROR = 1002
    UNSUPPORTED = 1003
    NO_STATUS = 1005
    INVALID_TEXT = 1007
    POLICY = 1008
    TOO_LARGE = 1009
    INTERNAL = 1011


class WebSocketError(ValueError):
    """The other side breaks the protocol.

    Attributes:
        code: The status to close with.
    """

    def __init__(self, code: Close, words: str) -> None:
        super().__init__(words)
        self.code = code


class Message(NamedTuple):
    """A whole message, or a control frame.

    Attributes:
        opcode: TEXT or BINARY, or that of a control frame.
        payload: Unmasked.
    """

    opcode: int
    payload: bytes | memoryview


def accept_of(key: str) -> str:
    """Give the Sec-WebSocket-Accept for a Sec-WebSocket-Key."""
    digest = hashlib.sha1(key.encode() + _GUID, usedforsecurity=False).digest()
    return base64.b64encode(digest).decode()


def head_of(opcode: int, size: int) -> bytes:
    """Give the head of an unmasked, unfragmented frame."""
    if size < _SMALLEST_LONG:
        return bytes((_FIN | opcode, size))
    if size < 65536:
        return bytes((_FIN | opcode, 126)) + _U16.pack(size)
    return bytes((_FIN | opcode, 127)) + _U64.pack(size)


def encode(opcode: int, payload: bytes, mask: bytes | None = None) -> bytes:
    """Give the bytes of an unfragmented frame.

    Args:
        opcode: What it is.
        payload: Its payload.
        mask: Four bytes, from a client; ``None`` from a server.
    """
    size = len(payload)
    if mask is not None and size < _SMALLEST_LONG:
        first = bytes((_FIN | opcode, _MASKED | size))
        return first + mask + _masked(payload, mask)
    head = head_of(opcode, size)
    if mask is None:
        return head + payload
    head = bytes((head[0], head[1] | _MASKED)) + head[2:]
    return head + mask + _masked(payload, mask)


def close_of(code: int, words: str = "") -> bytes:
    """Give the payload of a close frame."""
    reason = words.encode(errors="replace")[: _MAX_CONTROL - 2]
    return _U16.pack(code) + reason.decode(errors="ignore").encode()


class Masks:
    """Masks that nobody can foresee, as a client has to send them."""

    def __init__(self) -> None:
        self._drawn = b""
        self._used = 0

    def next(self) -> bytes:
        """Give another one."""
        used = self._used
        if used == len(self._drawn):
            self._drawn = os.urandom(4 * _MASKS_AT_ONCE)
            used = 0
        self._used = used + 4
        return self._drawn[used : used + 4]


def _masked(payload: bytes | memoryview, mask: bytes) -> bytes:
    size = len(payload)
    pad = mask * (size >> 2)
    if size & 3:
        pad += mask[: size & 3]
    key = int.from_bytes(pad, "little")
    return (int.from_bytes(payload, "little") ^ key).to_bytes(size, "little")


class MessageReader:
    """Takes the bytes of one connection, gives messages.

    Args:
        masked: The other side is a client, whose frames have to be masked.
        max_message: Bytes that a message may have.

    Attributes:
        between: Whether the next byte begins a message.
    """

    def __init__(self, *, masked: bool, max_message: int) -> None:
        self._masked = masked
        self._max_message = max_message
        self._grant = _GRANTED_AT_ONCE if masked else max_message
        self._buffer = bytearray()
        self._wanted = 2
        # Of a message in fragments.
        self._opcode = 0
        self._parts: list[bytes] = []
        self._size = 0
        self._closed = False
        # Of a large frame: its payload as far as there is memory for it, what has
        # come of it, the memory lent out for more, and its head.
        self._large: bytearray | None = None
        self._filled = 0
        self._lent: memoryview | None = None
        self._head = (0, 0, b"")
        self.between = True

    def feed(self, data: bytes) -> list[Message]:
        """Take bytes, give the messages that are now complete.

        Raises:
            WebSocketError: They are not what the protocol allows.
        """
        size = len(data)
        if self.between and 6 < size < 132 and data[0] == _WHOLE_BINARY:
            # Nearly always one whole message.
            if self._masked:
                if data[1] == size + 122:
                    return [Message(2, _masked(data[6:], data[2:6]))]
            elif data[1] == size - 2 < 126:
                return [Message(2, data[2:])]
        messages = self._feed(data)
        self.between = not (
            self._buffer or self._opcode or self._closed or self._large is not None
        )
        return messages

    def space(self) -> memoryview | None:
        """Give the memory to receive the next bytes into, within a large frame.

        Returns:
            Where what follows of the frame goes, until `received` is called; ``None``
            where bytes are to be given to `feed`.
        """
        if self._large is None:
            return None
        self._lent = memoryview(self._large)[self._filled :]
        return self._lent

    def received(self, size: int) -> list[Message]:
        """Take note of bytes that were received into `space`."""
        payload = self._large
        self._filled += size
        if payload is None or self._lent is None or self._filled < len(payload):
            return []
        first, length, mask = self._head
        if len(payload) < length:
            self._lent.release()
            payload += bytes(min(len(payload), length - len(payload)))
            return []
        self._large = self._lent = None
        whole: bytes | memoryview = memoryview(payload)
        if mask:
            whole = _masked(whole, mask)
        message = self._frame(first, whole)
        self.between = not self._opcode
        return [] if message is None else [message]

    def _feed(self, data: bytes) -> list[Message]:
        messages = []
        while data and (space := self.space()) is not None:
            taken = data[: len(space)]
            space[: len(taken)] = taken
            messages += self.received(len(taken))
            data = data[len(taken) :]
        buffer = self._buffer
        buffer += data
        at = 0
        while not self._closed and len(buffer) - at >= self._wanted:
            end = self._cut(at, messages)
            if end is None:
                break
            at = end
        if self._closed:
            # What follows a close is nobody's.
            buffer.clear()
        else:
            del buffer[:at]
        return messages

    def _cut(self, at: int, messages: list[Message]) -> int | None:
        """Cut the next frame out of the buffer; give its end, if it is whole."""
        buffer = self._buffer
        first, second = buffer[at], buffer[at + 1]
        length = second & 127
        head = 2 + (0 if length < 126 else 2 if length == 126 else 8)
        mask_at = at + head
        head += 4 if self._masked else 0
        if bool(second & _MASKED) != self._masked:
            words = "is not masked" if self._masked else "is masked"
            raise WebSocketError(Close.PROTOCOL_ERROR, f"a frame {words}")
        if len(buffer) - at < head:
            self._wanted = head
            return None
        if length == 126:
            length = _U16.unpack_from(buffer, at + 2)[0]
            self._check_short(length < 126)
        elif length == 127:
            length = _U64.unpack_from(buffer, at + 2)[0]
            self._check_short(length < 65536)
        self._check(first, length)
        mask = bytes(buffer[mask_at : at + head]) if self._masked else b""
        start, end = at + head, at + head + length
        if len(buffer) < end:
            if length < 65536:
                self._wanted = head + length
                return None
            self._begin_large(first, mask, length, start)
            return len(buffer)
        payload = bytes(buffer[start:end])
        message = self._frame(first, _masked(payload, mask) if mask else payload)
        if message is not None:
            messages.append(message)
        self._wanted = 2
        return end

    def _begin_large(self, first: int, mask: bytes, length: int, start: int) -> None:
        early = memoryview(self._buffer)[start:]
        self._filled = len(early)
        # More than has come, so that there is always space.
        granted = max(self._grant, 2 * self._filled)
        self._large = bytearray(min(length, granted))
        self._large[: self._filled] = early
        early.release()
        self._head = (first, length, mask)
        self._wanted = 2

    @staticmethod
    def _check_short(too_long: bool) -> None:
        if too_long:
            raise WebSocketError(Close.PROTOCOL_ERROR, "a length is not the shortest")

    def _check(self, first: int, length: int) -> None:
        """Refuse a frame by its head, before anything is kept for it."""
        if first & 0x70:
            raise WebSocketError(Close.PROTOCOL_ERROR, "a reserved bit is set")
        opcode = first & 15
        if opcode >= 8:
            if opcode > 10:
                raise WebSocketError(
                    Close.PROTOCOL_ERROR, f"opcode {opcode} is unknown"
                )
            if length > _MAX_CONTROL or not first & _FIN:
                words = "a control frame is too long or in fragments"
                raise WebSocketError(Close.PROTOCOL_ERROR, words)
            return
        if opcode > 2:
            raise WebSocketError(Close.PROTOCOL_ERROR, f"opcode {opcode} is unknown")
        if bool(opcode) == bool(self._opcode):
            words = "a message begins within another, or goes on without one"
            raise WebSocketError(Close.PROTOCOL_ERROR, words)
        if self._size + length > self._max_message:
            words = f"a message has more than {self._max_message} bytes"
            raise WebSocketError(Close.TOO_LARGE, words)

    def _frame(self, first: int, payload: bytes | memoryview) -> Message | None:
        opcode = first & 15
        if opcode >= 8:
            if opcode == Opcode.CLOSE:
                self._closed = True
                _check_close(bytes(payload))
            return Message(opcode, payload)
        if first & _FIN and opcode:
            return _whole(opcode, payload)
        self._parts.append(bytes(payload))
        self._size += len(payload)
        self._opcode = self._opcode or opcode
        if len(self._parts) > 65536:
            raise WebSocketError(Close.POLICY, "a message has too many fragments")
        if not first & _FIN:
            return None
        whole, opcode = b"".join(self._parts), self._opcode
        self._parts, self._size, self._opcode = [], 0, 0
        return _whole(opcode, whole)


def _whole(opcode: int, payload: bytes | memoryview) -> Message:
    if opcode == Opcode.TEXT:
        try:
            str(payload, "utf-8")
        except UnicodeDecodeError as error:
            raise WebSocketError(Close.INVALID_TEXT, f"a text is {error}") from None
    return Message(opcode, payload)


def _check_close(payload: bytes) -> None:
    if len(payload) == 1:
        raise WebSocketError(Close.PROTOCOL_ERROR, "a close has half a status")
    if payload:
        code = _U16.unpack_from(payload)[0]
        if not (1000 <= code <= 1014 and code not in (1004, 1005, 1006)) and not (
            3000 <= code < 5000
        ):
            raise WebSocketError(Close.PROTOCOL_ERROR, f"closes with status {code}")
        try:
            str(payload[2:], "utf-8")
        except UnicodeDecodeError:
            words = "a reason is no UTF-8"
            raise WebSocketError(Close.INVALID_TEXT, words) from None
