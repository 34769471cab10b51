"""One stream of an instance: requests and answers, in either dialect."""

from __future__ import annotations

import json
import struct
from typing import Any, NamedTuple, Self

from gym_http_server.validation.expectations import Mismatch
from gym_http_server.validation.target import TargetInstance
from gym_http_server.validation.websocket import (
    BINARY,
    TEXT,
    TEXT_DIALECT,
    WebSocket,
    frame,
)
from gym_http_wire.websocket import accept_of

__all__ = ["OPERATIONS", "BinaryAnswer", "TargetStream"]

OPERATIONS = {
    "reset": 1,
    "step": 2,
    "describe": 4,
    "observation_contains": 10,
    "attribute": 15,
    "set_attribute": 16,
}
_HEADER = struct.Struct("<IIHBBI")


class BinaryAnswer(NamedTuple):
    """An answer of the binary dialect; its body is the same as over HTTP.

    Attributes:
        number: Number of the request.
        status: A status of HTTP.
        form: 1 is plain JSON, 2 typed, 3 binary.
        body: With its signature, if it is binary.
    """

    number: int
    status: int
    form: int
    body: bytes


class TargetStream(WebSocket):
    """A stream, or the refusal of one; see `WebSocket`."""

    def __init__(
        self,
        instance: TargetInstance,
        dialect: str = TEXT_DIALECT,
        *arguments: Any,
        **options: Any,
    ) -> None:
        self._signatures: dict[int, bytes] = {}
        path = instance.path("stream")
        super().__init__(instance.target, path, dialect, *arguments, **options)

    @classmethod
    def opened(cls, instance: TargetInstance, dialect: str, **more: Any) -> Self:
        """Open a stream, and check that the server accepts it.

        Raises:
            Absent: The server has no streams, and does not claim them.
            Mismatch: It is refused.
        """
        stream = cls(instance, dialect, **more)
        if stream.answer.status != 101:
            stream.end()
            instance.target.needs("streams", stream.answer)
            raise Mismatch("101 to the handshake of a stream", str(stream.answer))
        accept = stream.answer.headers.get("sec-websocket-accept")
        if accept != accept_of(stream.key):
            stream.end()
            wanted = accept_of(stream.key)
            raise Mismatch(f"Sec-WebSocket-Accept: {wanted}", str(accept))
        return stream

    def request(self, op: str, **members: Any) -> dict[str, Any]:
        """Send a request in the text dialect, and return the answer."""
        self.send(frame(TEXT, json.dumps({"op": op, **members}).encode()))
        return self.answered()

    def answered(self) -> dict[str, Any]:
        """Read an answer of the text dialect."""
        try:
            actual = json.loads(self.receive(TEXT))
        except ValueError as error:
            raise Mismatch("an answer in JSON", str(error)) from None
        members = {"number", "status", "body"}
        if not isinstance(actual, dict) or not members <= actual.keys():
            raise Mismatch("an object with number, status and body", str(actual)[:200])
        return actual

    def request_binary(
        self, op: str, number: int, body: bytes = b"", **more: Any
    ) -> BinaryAnswer:
        """Send a request in the binary dialect, and return the answer."""
        self.send(frame(BINARY, _request(OPERATIONS[op], number, body, **more)))
        return self.receive_binary()

    def receive_binary(self) -> BinaryAnswer:
        """Read an answer of the binary dialect."""
        message = self.receive(BINARY)
        if len(message) < _HEADER.size:
            raise Mismatch("a header of 16 bytes", message.hex())
        size, head, status, op, form, number = _HEADER.unpack_from(message)
        if len(message) != 16 + head + size or head % 8 or op:
            raise Mismatch("an answer's header", message[:16].hex())
        body = message[16 + head :]
        if form == 3 and body:
            body = self._named(body)
        return BinaryAnswer(number, status, form, body)

    def _named(self, body: bytes) -> bytes:
        size, name = struct.unpack_from("<II", body)
        signature, rest = body[8 : 8 + size], body[8 + size :]
        if not size:
            if name not in self._signatures:
                raise Mismatch("a signature that was announced", f"number {name}")
            signature = self._signatures[name]
        elif name:
            if name > 255:
                raise Mismatch("numbers of signatures up to 255", str(name))
            self._signatures[name] = signature
        return struct.pack("<II", len(signature), 0) + signature + rest


def _request(
    op: int,
    number: int,
    body: bytes = b"",
    *,
    form: int = 3,
    wanted: int = 3,
    head: Any = None,
) -> bytes:
    """Write a request in the binary dialect."""
    actual = b"" if head is None else json.dumps(head).encode()
    actual += b" " * (-len(actual) % 8)
    form = form if body else 0
    return (
        _HEADER.pack(len(body), len(actual), 0, op, form | wanted << 4, number)
        + actual
        + body
    )
