"""What tells a client that its handshake was understood."""

from __future__ import annotations

import base64
import hashlib

__all__ = ["accept_of"]

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def accept_of(key: str) -> str:
    """Give the Sec-WebSocket-Accept for a Sec-WebSocket-Key."""
    digest = hashlib.sha1(key.encode() + _GUID, usedforsecurity=False).digest()
    return base64.b64encode(digest).decode()
