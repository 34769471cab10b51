"""Invalid answers that a `BadServer` sends."""

import asyncio
import base64
import hashlib
import json
import struct
from typing import Any

from tests.support import websocket
from tests.support.faults.bad_server import BadAnswer, SeenRequest
from tests.support.faults.http_connection import HttpConnection

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_TRICKLE_S = 1.0
_MESSAGE = 2


def send(data: bytes, *, then_close: bool = False, rudely: bool = False) -> BadAnswer:
    """Send bytes as they are."""

    async def trick(connection: HttpConnection, seen: SeenRequest) -> bool:
        await connection.send(data)
        if rudely:
            connection.close(rudely=True)
        return not then_close and not rudely

    return trick


async def silence(connection: HttpConnection, seen: SeenRequest) -> bool:
    """Send nothing until the client closes the connection."""
    await connection.until_closed()
    return False


def trickle(data: bytes, at_once: int = 0) -> BadAnswer:
    """Send some bytes at once, and the rest one byte a second."""

    async def trick(connection: HttpConnection, seen: SeenRequest) -> bool:
        await connection.send(data[:at_once])
        for byte in data[at_once:]:
            await connection.send(bytes([byte]))
            await asyncio.sleep(_TRICKLE_S)
        return True

    return trick


def message(payload: bytes, *, opcode: int = _MESSAGE) -> bytes:
    """Return a server's WebSocket frame."""
    return websocket.frame(opcode, payload, mask=b"")


def answered(status: int, form: int, body: bytes) -> BadAnswer:
    """Answer a request on a stream."""

    async def trick(connection: HttpConnection, seen: SeenRequest) -> bool:
        await connection.send(message(_answer(seen, status, form, body)))
        return True

    return trick


def trickled(status: int, form: int, body: bytes) -> BadAnswer:
    """Answer a request on a stream with one byte a second."""

    async def trick(connection: HttpConnection, seen: SeenRequest) -> bool:
        data = message(_answer(seen, status, form, body))
        return await trickle(data)(connection, seen)

    return trick


def torn(status: int, form: int, body: bytes) -> BadAnswer:
    """Answer a request on a stream with the first half of a frame."""

    async def trick(connection: HttpConnection, seen: SeenRequest) -> bool:
        data = message(_answer(seen, status, form, body))
        await connection.send(data[: len(data) // 2])
        return False

    return trick


def upgraded(protocol: str) -> BadAnswer:
    """Open a stream of this subprotocol and send nothing on it."""

    async def trick(connection: HttpConnection, seen: SeenRequest) -> bool:
        key = (seen.header("sec-websocket-key") or "").encode()
        accept = base64.b64encode(hashlib.sha1(key + _GUID).digest()).decode()
        await connection.send(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"
            f"Upgrade: websocket\r\nSec-WebSocket-Accept: {accept}\r\n"
            f"Sec-WebSocket-Protocol: {protocol}\r\n\r\n".encode()
        )
        await connection.until_closed()
        return False

    return trick


def http_answer(
    status: int, content_type: str, body: bytes, *headers: str, length: int = -1
) -> bytes:
    """Return a whole HTTP answer, whose length may be wrong."""
    size = len(body) if length < 0 else length
    lines = [
        f"HTTP/1.1 {status} X",
        f"Content-Type: {content_type}",
        *headers,
        f"Content-Length: {size}",
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def problem(status: int, code: str, words: str, **extras: Any) -> bytes:
    """Return a problem as the server would write it."""
    fields = {"code": code, "message": words, "detail": words, "status": status}
    fields |= {"title": "X", "type": f"urn:gym-http:{code}", **extras}
    return json.dumps(fields).encode()


def _answer(seen: SeenRequest, status: int, form: int, body: bytes) -> bytes:
    number = struct.unpack_from("<I", seen.body, 12)[0]
    return struct.pack("<IIHBBI", len(body), 0, status, 0, form, number) + body
