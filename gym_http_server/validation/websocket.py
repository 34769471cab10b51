"""One WebSocket to the server, frame by frame."""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Mapping
from typing import Self

from gym_http_server.validation.calls import CallFailed, Response
from gym_http_server.validation.expectations import Mismatch
from gym_http_server.validation.target import Target
from gym_http_wire.websocket import (
    Message,
    MessageReader,
    WebSocketError,
    encode,
)

__all__ = [
    "BINARY",
    "BINARY_DIALECT",
    "CLOSE",
    "PING",
    "PONG",
    "TEXT",
    "TEXT_DIALECT",
    "Closed",
    "WebSocket",
    "frame",
]

BINARY_DIALECT, TEXT_DIALECT = "gym-http.v1", "gym-http.v1.json"
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
MAX_MESSAGE = 64 * 1024 * 1024


class Closed(Exception):
    """The stream ended.

    Attributes:
        code: Status of the close frame; 0 if there was none.
    """

    def __init__(self, code: int, why: str) -> None:
        super().__init__(f"closed with {code or 'no status'} {why}".strip())
        self.code = code


class WebSocket:
    """A WebSocket, or the refusal of its handshake.

    Args:
        target: The server.
        path: The path of the route.
        dialect: The subprotocol; "" names none.
        query: The query of the address.
        headers: In addition to those of a handshake.
        token: Whether to send the token.

    Attributes:
        answer: The answer to the handshake.
        key: The handshake's key.
    """

    def __init__(
        self,
        target: Target,
        path: str,
        dialect: str = "",
        query: str = "",
        headers: Mapping[str, str] | None = None,
        *,
        token: bool = True,
        key: str = "",
    ) -> None:
        self._timeout_s = target.timeout_s
        self.key = key or base64.b64encode(os.urandom(16)).decode()
        fields = {
            "Host": target.address.authority,
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": self.key,
        }
        if dialect:
            fields["Sec-WebSocket-Protocol"] = dialect
        fields |= (target.address.authorization if token else {}) | dict(headers or {})
        url = target.address.base + path + (f"?{query}" if query else "")
        lines = [f"{name}: {value}" for name, value in fields.items()]
        request = "\r\n".join([f"GET {url} HTTP/1.1", *lines, "", ""])
        self._socket = target.address.connect(self._timeout_s)
        self._reader = MessageReader(masked=False, max_message=MAX_MESSAGE)
        self._messages: list[Message] = []
        try:
            self._socket.sendall(request.encode("latin-1"))
            self.answer = self._handshake()
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.end()

    def end(self) -> None:
        """Close the connection, without a word."""
        self._socket.close()

    def _handshake(self) -> Response:
        data, deadline = b"", time.monotonic() + self._timeout_s
        while b"\r\n\r\n" not in data:
            self._socket.settimeout(max(0.001, deadline - time.monotonic()))
            data += self._receive()
        head, _, rest = data.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        try:
            status = int(first.split(" ")[1])
        except (IndexError, ValueError):
            raise CallFailed(f"no HTTP in the answer: {first[:80]!r}") from None
        pairs = (line.partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        if status == 101:
            self._feed(rest)
            return Response(status, headers, b"")
        while len(rest) < int(headers.get("content-length", 0)):
            rest += self._receive()
        return Response(status, headers, rest)

    def _receive(self) -> bytes:
        try:
            data = self._socket.recv(65536)
        except ConnectionResetError:
            data = b""
        except TimeoutError:
            words = f"nothing arrived over the stream for {self._timeout_s:g} s"
            raise CallFailed(words) from None
        if not data:
            raise Closed(0, "")
        return data

    def _feed(self, data: bytes) -> None:
        if not data:
            return
        try:
            self._messages += self._reader.feed(data)
        except WebSocketError as error:
            raise Mismatch("frames of a WebSocket", str(error)) from None

    def send(self, data: bytes) -> None:
        """Send bytes unchanged.

        Raises:
            Closed: The server has closed the connection.
        """
        try:
            self._socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            # Messages that it sent before the close count.
            return

    def read(self) -> Message:
        """Read the next message, or a control frame.

        Raises:
            Closed: The stream has ended.
            CallFailed: No message arrives.
        """
        deadline = time.monotonic() + self._timeout_s
        while not self._messages:
            self._socket.settimeout(max(0.001, deadline - time.monotonic()))
            self._feed(self._receive())
        message = self._messages.pop(0)
        if message.opcode == CLOSE:
            payload = bytes(message.payload)
            code = int.from_bytes(payload[:2], "big")
            raise Closed(code, payload[2:].decode("utf-8", "replace"))
        return message

    def receive(self, opcode: int) -> bytes:
        """Read the next message, which has to be of a kind.

        Raises:
            Mismatch: It is of another.
        """
        message = self.read()
        if message.opcode != opcode:
            raise Mismatch(f"a message of opcode {opcode}", str(message.opcode))
        return bytes(message.payload)


def frame(opcode: int, payload: bytes = b"") -> bytes:
    """Write a client's frame, masked."""
    return encode(opcode, payload, os.urandom(4))
