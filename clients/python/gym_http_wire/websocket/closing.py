"""How a WebSocket is closed, and why."""

from __future__ import annotations

import struct
from enum import IntEnum

__all__ = ["MAX_CONTROL", "Close", "WebSocketError", "check_close", "close_of"]

#: Bytes that the payload of a control frame may have.
MAX_CONTROL = 125
_U16 = struct.Struct(">H")


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
    """Give the payload of a close frame."""
    reason = words.encode(errors="replace")[: MAX_CONTROL - 2]
    return _U16.pack(code) + reason.decode(errors="ignore").encode()


def check_close(payload: bytes) -> None:
    """Check the payload of a close frame.

    Raises:
        WebSocketError: It is none that may be sent.
    """
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
