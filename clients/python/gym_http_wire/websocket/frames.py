"""Frames of a WebSocket: opcodes, masks, close codes, and the reply to a handshake."""

from __future__ import annotations

import base64
import hashlib
import os
import struct
from enum import IntEnum
from typing import NamedTuple

__all__ = [
    "FIN",
    "MASKED",
    "MAX_CONTROL",
    "U16",
    "U64",
    "Close",
    "Masks",
    "Message",
    "Opcode",
    "WebSocketError",
    "accept_of",
    "check_close",
    "close_of",
    "encode",
    "head_of",
    "masked",
]

FIN = 0x80
MASKED = 0x80
#: Bytes that the payload of a control frame may have.
MAX_CONTROL = 125
U16 = struct.Struct(">H")
U64 = struct.Struct(">Q")
_SMALLEST_LONG = 126
_MASKS_AT_ONCE = 1024
# Looked up once: each message needs it.
_int_of = int.from_bytes
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Opcode(IntEnum):
    """The kind of a frame."""

    CONTINUATION = 0
    TEXT = 1
    BINARY = 2
    CLOSE = 8
    PING = 9
    PONG = 10


class Message(NamedTuple):
    """A whole message, or a control frame.

    Attributes:
        opcode: TEXT or BINARY, or that of a control frame.
        payload: Unmasked.
    """

    opcode: int
    payload: bytes | memoryview


def head_of(opcode: int, size: int) -> bytes:
    """Return the head of an unmasked, unfragmented frame."""
    if size < _SMALLEST_LONG:
        return bytes((FIN | opcode, size))
    if size < 65536:
        return bytes((FIN | opcode, 126)) + U16.pack(size)
    return bytes((FIN | opcode, 127)) + U64.pack(size)


def encode(opcode: int, payload: bytes, mask: bytes | None = None) -> bytes:
    """Return the bytes of an unfragmented frame.

    Args:
        opcode: The kind of the frame.
        payload: Its payload.
        mask: Four bytes, from a client; ``None`` from a server.
    """
    size = len(payload)
    if mask is not None and size < _SMALLEST_LONG:
        first = bytes((FIN | opcode, MASKED | size))
        return first + mask + masked(payload, mask)
    head = head_of(opcode, size)
    if mask is None:
        return head + payload
    head = bytes((head[0], head[1] | MASKED)) + head[2:]
    return head + mask + masked(payload, mask)


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


def close_of(code: int, words: str = "") -> bytes:
    """Return the payload of a close frame."""
    reason = words.encode(errors="replace")[: MAX_CONTROL - 2]
    return U16.pack(code) + reason.decode(errors="ignore").encode()


def check_close(payload: bytes) -> None:
    """Check the payload of a close frame.

    Raises:
        WebSocketError: The payload is invalid.
    """
    if len(payload) == 1:
        raise WebSocketError(Close.PROTOCOL_ERROR, "a close has half a status")
    if payload:
        code = U16.unpack_from(payload)[0]
        if not (1000 <= code <= 1014 and code not in (1004, 1005, 1006)) and not (
            3000 <= code < 5000
        ):
            raise WebSocketError(Close.PROTOCOL_ERROR, f"closes with status {code}")
        try:
            str(payload[2:], "utf-8")
        except UnicodeDecodeError:
            words = "a reason is no UTF-8"
            raise WebSocketError(Close.INVALID_TEXT, words) from None


class Masks:
    """Unpredictable masks, as a client has to send them."""

    def __init__(self) -> None:
        self._drawn = b""
        self._used = 0

    def next(self) -> bytes:
        """Return another mask."""
        used = self._used
        if used == len(self._drawn):
            self._drawn = os.urandom(4 * _MASKS_AT_ONCE)
            used = 0
        self._used = used + 4
        return self._drawn[used : used + 4]


def masked(payload: bytes | memoryview, mask: bytes) -> bytes:
    """Mask a payload, or unmask it."""
    size = len(payload)
    key = _int_of((mask * (size + 3 >> 2))[:size], "little")
    return (_int_of(payload, "little") ^ key).to_bytes(size, "little")


def accept_of(key: str) -> str:
    """Return the Sec-WebSocket-Accept for a Sec-WebSocket-Key."""
    digest = hashlib.sha1(key.encode() + _GUID, usedforsecurity=False).digest()
    return base64.b64encode(digest).decode()
