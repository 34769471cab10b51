"""A raw WebSocket client that writes frames by hand, without the project's codec."""

import json
import os
import struct
from typing import Any, NamedTuple, Self

from tests.support.api import Instance
from tests.support.raw import RawConnection, Response
from tests.support.strict_json import parse_strictly

BINARY = "gym-http.v1"
TEXT = "gym-http.v1.json"
KEY = "dGhlIHNhbXBsZSBub25jZQ=="
#: The value of RFC 6455, 1.3, for this key.
ACCEPT = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
CLOSE, PING, PONG = 8, 9, 10

_HEADER = struct.Struct("<IIHBBI")


class Answer(NamedTuple):
    """An answer in the binary dialect."""

    number: int
    status: int
    form: int
    head: bytes
    body: bytes


def masked(payload: bytes, mask: bytes) -> bytes:
    """Mask or unmask bytes, one by one."""
    return bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))


def frame(
    opcode: int, payload: bytes = b"", *, fin: bool = True, mask: bytes | None = None
) -> bytes:
    """Return a client's frame; with the mask b"" it is unmasked."""
    mask = os.urandom(4) if mask is None else mask
    size = len(payload)
    bit = 0x80 if mask else 0
    head = bytes([(0x80 if fin else 0) | opcode])
    if size < 126:
        head += bytes([bit | size])
    elif size < 65536:
        head += bytes([bit | 126]) + struct.pack(">H", size)
    else:
        head += bytes([bit | 127]) + struct.pack(">Q", size)
    return head + mask + (masked(payload, mask) if mask else payload)


def handshake(instance: Instance, session: str = "", **changes: str | None) -> bytes:
    """Return the request that opens a stream.

    Args:
        instance: The instance.
        session: The session, or nothing.
        changes: Headers to change, with _ for -; None removes one. ``method``,
            ``version`` and ``path`` change the request line.
    """
    server = instance.api.server
    query = f"?session={session}" if session else ""
    path = changes.pop("path", None) or instance.path(f"stream{query}")
    method = changes.pop("method", None) or "GET"
    version = changes.pop("version", None) or "1.1"
    headers: dict[str, str | None] = {
        "host": f"127.0.0.1:{server.port}",
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": KEY,
        "sec-websocket-protocol": BINARY,
    }
    if server.token:
        headers["authorization"] = f"Bearer {server.token}"
    headers |= {name.lower().replace("_", "-"): v for name, v in changes.items()}
    lines = [f"{name}: {value}" for name, value in headers.items() if value is not None]
    return "\r\n".join([f"{method} {path} HTTP/{version}", *lines, "", ""]).encode()


class WebSocket(RawConnection):
    """A stream, or the answer to a refused handshake."""

    response: Response

    @classmethod
    def to(
        cls,
        instance: Instance,
        session: str = "",
        *,
        early: bytes = b"",
        timeout: float = 20.0,
        **changes: str | None,
    ) -> Self:
        """Send a handshake; `response` is the answer.

        Args:
            instance: The instance.
            session: The session, or nothing.
            early: Bytes to send right behind the handshake, in the same piece.
            timeout: Seconds for each wait.
            changes: As for `handshake`.
        """
        self = cls(instance.api.server.port, timeout=timeout)
        try:
            self.send(handshake(instance, session, **changes) + early)
            self.response = self.read_response()
        except BaseException:
            self.close()
            raise
        return self

    def send_frame(self, opcode: int, payload: bytes = b"") -> None:
        """Send a whole frame."""
        self.send(frame(opcode, payload))

    def read_frame(self) -> tuple[int, bytes]:
        """Read a frame, which must be whole and unmasked; return opcode, payload."""
        first, size = self._read_exactly(2)
        assert first & 0xF0 == 0x80, f"fragmented, or with reserved bits: {first:#x}"
        assert not size & 0x80, "a server does not mask"
        if size == 126:
            (size,) = struct.unpack(">H", self._read_exactly(2))
        elif size == 127:
            (size,) = struct.unpack(">Q", self._read_exactly(8))
        return first & 15, self._read_large(size)

    def read_close(self) -> tuple[int, str]:
        """Read a close frame and the end of the stream; return status and reason."""
        opcode, payload = self.read_frame()
        assert opcode == CLOSE, (opcode, payload[:200])
        assert self.read_to_end() == b""
        return int.from_bytes(payload[:2], "big"), payload[2:].decode()

    def send_message(self, **members: Any) -> None:
        """Send a request in the text dialect."""
        self.send_frame(1, json.dumps(members).encode())

    def receive(self) -> Any:
        """Read an answer in the text dialect."""
        opcode, payload = self.read_frame()
        assert opcode == 1, (opcode, payload)
        return parse_strictly(payload.decode())

    def call(self, **members: Any) -> Any:
        """Send a request in the text dialect and read the answer."""
        self.send_message(**members)
        return self.receive()

    def send_binary(self, op: int, number: int, body: bytes = b"", **more: Any) -> None:
        """Send a request in the binary dialect; see `binary`."""
        self.send_frame(2, binary(op, number, body, **more))

    def receive_binary(self) -> Answer:
        """Read an answer in the binary dialect."""
        opcode, payload = self.read_frame()
        assert opcode == 2, (opcode, payload)
        body_size, head_size, status, kind, form, number = _HEADER.unpack_from(payload)
        assert kind == 0
        assert len(payload) == 16 + head_size + body_size
        head, body = payload[16 : 16 + head_size], payload[16 + head_size :]
        return Answer(number, status, form, head, body)

    def call_binary(
        self, op: int, number: int, body: bytes = b"", **more: Any
    ) -> Answer:
        """Send a request in the binary dialect and read the answer."""
        self.send_binary(op, number, body, **more)
        return self.receive_binary()

    def _read_large(self, size: int) -> bytes:
        pieces = [self._buffer[:size]]
        self._buffer = self._buffer[size:]
        missing = size - len(pieces[0])
        while missing:
            piece = self._socket.recv(min(missing, 1 << 20))
            if not piece:
                raise ConnectionError(f"a frame of {size} bytes lacks {missing}")
            pieces.append(piece)
            missing -= len(piece)
        return b"".join(pieces)


def binary(
    op: int,
    number: int,
    body: bytes = b"",
    *,
    form: int = 0x33,
    head: bytes = b"",
    status: int = 0,
) -> bytes:
    """Return a message in the binary dialect.

    Args:
        op: The operation.
        number: The request's number.
        body: The body.
        form: Of the body, and in the high half of the answer; 3 is binary, 1 plain.
        head: The head, padded.
        status: 1 acknowledges all earlier answers.
    """
    header = _HEADER.pack(len(body), len(head), status, op, form, number)
    return header + head + body


def value(signature: str, leaves: bytes = b"", number: int = 0) -> bytes:
    """Return a value in the binary form, with a number for its signature or 0."""
    padded = signature.encode() + b" " * (-len(signature) % 8)
    return struct.pack("<II", len(padded), number) + padded + leaves
