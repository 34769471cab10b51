"""Heads: requests, and their beginnings, written once for all requests alike."""

from __future__ import annotations

import re

import msgspec

from gym_http_client.addresses import Address

__all__ = ["Request", "RequestHeads"]

_MAX_KNOWN = 256
_METHOD = re.compile(r"[A-Z]+")
_PATH = re.compile(r"/[!-~]*")
_VALUE = re.compile(r"[ -~]+")

_Shape = tuple[str, str, str | None, str | None]


class Request(msgspec.Struct, frozen=True, gc=False):
    """What is asked of a server.

    Attributes:
        method: As ``POST``.
        path: Path below the server's address, quoted.
        body: What is sent.
        content_type: Media type of the body.
        accept: Media types that the answer may have.
        key: The ``Idempotency-Key``.
    """

    method: str
    path: str
    body: bytes = b""
    content_type: str | None = None
    accept: str | None = None
    key: str | None = None


class RequestHeads:
    """Writes the heads of requests to one server.

    Args:
        address: The server's.
    """

    def __init__(self, address: Address) -> None:
        self._prefix = address.prefix
        self._common = f"Host: {address.host_header}\r\nUser-Agent: gym_http_client\r\n"
        if address.token:
            self._common += f"Authorization: Bearer {address.token}\r\n"
        self._known: dict[_Shape, bytes] = {}

    def head(self, request: Request) -> bytes:
        """Return the head of a request.

        Raises:
            ValueError: Something is not what can stand there.
        """
        shape = request.method, request.path, request.content_type, request.accept
        head = self._known.get(shape) or self._write(shape)
        key, size = request.key, len(request.body)
        if key is not None:
            if not (key.isascii() and key.isprintable()):
                raise ValueError("A key is printable ASCII characters")
            head += b"Idempotency-Key: %b\r\n" % key.encode()
        if size or request.method == "POST":
            return b"%bContent-Length: %d\r\n\r\n" % (head, size)
        return head + b"\r\n"

    def _write(self, shape: _Shape) -> bytes:
        method, path, content_type, accept = shape
        if not _METHOD.fullmatch(method):
            raise ValueError(f"{method!r} is no method")
        if not _PATH.fullmatch(path):
            raise ValueError(f"{path!r} is no quoted path")
        head = f"{method} {self._prefix}{path} HTTP/1.1\r\n{self._common}"
        for name, value in (("Content-Type", content_type), ("Accept", accept)):
            if value is not None:
                if not _VALUE.fullmatch(value):
                    raise ValueError(f"{value!r} is no {name}")
                head += f"{name}: {value}\r\n"
        if len(self._known) >= _MAX_KNOWN:
            self._known.clear()
        written = self._known[shape] = head.encode()
        return written
