"""Frames of a WebSocket, and what is in them."""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from gym_http_wire.websocket.masks import masked

__all__ = ["FIN", "MASKED", "U16", "U64", "Message", "Opcode", "encode", "head_of"]

FIN = 0x80
MASKED = 0x80
U16 = struct.Struct(">H")
U64 = struct.Struct(">Q")
_SMALLEST_LONG = 126


class Opcode(IntEnum):
    """What a frame is."""

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
    """Give the head of an unmasked, unfragmented frame."""
    if size < _SMALLEST_LONG:
        return bytes((FIN | opcode, size))
    if size < 65536:
        return bytes((FIN | opcode, 126)) + U16.pack(size)
    return bytes((FIN | opcode, 127)) + U64.pack(size)


def encode(opcode: int, payload: bytes, mask: bytes | None = None) -> bytes:
    """Give the bytes of an unfragmented frame.

    Args:
        opcode: What it is.
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
