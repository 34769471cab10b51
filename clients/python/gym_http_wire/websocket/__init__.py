"""WebSocket messages (RFC 6455), sans I/O: no extensions, both roles.

The project has its own codec, since general libraries take longer to parse a message
than a whole step over a stream takes.
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
