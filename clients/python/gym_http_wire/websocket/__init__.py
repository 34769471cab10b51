"""WebSocket messages (RFC 6455), sans I/O: no extensions, both roles.

A codec of our own, since a step over a stream costs less than the parsing of its
message by the general libraries does.
"""

from gym_http_wire.websocket.frames import (
    MAX_CONTROL,
    Close,
    Masks,
    Message,
    Opcode,
    WebSocketError,
    accept_of,
    close_of,
    encode,
    head_of,
)
from gym_http_wire.websocket.reading import MessageReader

__all__ = [
    "MAX_CONTROL",
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
