"""HTTP/1.1 for clients, sans I/O: encodes requests and parses answers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from gym_http_client.http.addresses import Address
from gym_http_client.http.http1_bodies import (
    BadAnswer,
    BodyReader,
    ChunkedBody,
    LargeBody,
    SizedBody,
    UnsizedBody,
    check_size,
)
from gym_http_client.http.large_memory import LARGE_BYTES
from gym_http_client.http.ports import OtherPort, port_of

__all__ = [
    "MAX_BODY",
    "AnswerHead",
    "BadAnswer",
    "Reply",
    "ReplyReader",
    "Request",
    "RequestHeads",
    "read_head",
]

_MAX_KNOWN = 256
# Their requests have a Content-Length even without a body.
_WITH_BODY = frozenset({"POST", "PUT"})
_NAME = re.compile(r"[A-Za-z-]+")
_METHOD = re.compile(r"[A-Z]+")
_PATH = re.compile(r"/[!-~]*")
_VALUE = re.compile(r"[ -~]+")

_Shape = tuple[str, str, str | None, str | None]
_STATUS_LINE = re.compile(r"HTTP/1\.[0-9] ([1-9][0-9][0-9])(?: [^\r\n]*)?")
_HEADER_LINE = re.compile(r"([!#-'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\0]*)")
_BODYLESS = (204, 304)
#: Maximum size of a body in bytes: more than servers send.
MAX_BODY = 65 * 1024 * 1024
_MAX_HEAD = 64 * 1024


class Request(msgspec.Struct, frozen=True, gc=False):
    """An HTTP request.

    Attributes:
        method: As ``POST``.
        path: Path below the server's address, quoted.
        body: The bytes of the body.
        content_type: Media type of the body.
        accept: Media types that the answer may have.
        key: The ``Idempotency-Key``.
        headers: Further headers, names and values.
    """

    method: str
    path: str
    body: bytes | memoryview = b""
    content_type: str | None = None
    accept: str | None = None
    key: str | None = None
    headers: tuple[tuple[str, str], ...] = ()


class RequestHeads:
    """Encodes the heads of requests to one server.

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
            ValueError: Method, path, key or a header is malformed.
        """
        shape = request.method, request.path, request.content_type, request.accept
        head = self._known.get(shape) or self._write(shape)
        key, size = request.key, len(request.body)
        if key is not None:
            if not (key.isascii() and key.isprintable()):
                raise ValueError("A key is printable ASCII characters")
            head += b"Idempotency-Key: %b\r\n" % key.encode()
        if request.headers:
            head += _header_lines(request.headers)
        if size or request.method in _WITH_BODY:
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


def _header_lines(headers: tuple[tuple[str, str], ...]) -> bytes:
    for name, value in headers:
        if not (_NAME.fullmatch(name) and _VALUE.fullmatch(value)):
            raise ValueError(f"{name}: {value!r} is no header")
    return "".join(f"{name}: {value}\r\n" for name, value in headers).encode()


class AnswerHead(NamedTuple):
    """The parsed head of an answer.

    Attributes:
        status: HTTP status.
        headers: By lower-case name; several headers of one name are one value, with
            commas between.
        size: Bytes of the body, if they are known.
        chunked: Whether the body comes in chunks.
        keep_alive: Whether the connection stays open.
    """

    status: int
    headers: Mapping[str, str]
    size: int | None
    chunked: bool
    keep_alive: bool


# The heads of a server's answers repeat: within a second only their lengths differ.
@lru_cache(maxsize=64)
def read_head(head: bytes) -> AnswerHead:
    """Parse the head of an answer.

    Args:
        head: The head, without the line breaks at its end.

    Raises:
        BadAnswer: The head is malformed.
    """
    line, *lines = head.decode("latin-1").split("\r\n")
    match = _STATUS_LINE.fullmatch(line)
    if match is None:
        raise BadAnswer("it is not HTTP/1")
    headers = _headers(lines)
    status = int(match[1])
    size = headers.get("content-length")
    coding = headers.get("transfer-encoding")
    if coding is not None and (size is not None or coding.lower() != "chunked"):
        raise BadAnswer("the end of its body is not marked")
    count = None if size is None else _number(size)
    stays = _stays(line, headers.get("connection", ""))
    if status in _BODYLESS:
        # A forbidden body would be read as the next answer.
        stays = stays and (status == 304 or not (count or coding))
        count, coding = 0, None
    return AnswerHead(
        status=status,
        headers=MappingProxyType(headers),
        size=count,
        chunked=coding is not None,
        keep_alive=stays,
    )


def _headers(lines: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        match = _HEADER_LINE.fullmatch(line)
        if match is None:
            raise BadAnswer("one of its header lines is malformed")
        name, value = match[1].lower(), match[2].rstrip(" \t")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _number(text: str) -> int:
    # Check the length first: parsing long numbers is slow, and Python refuses some.
    if len(text) > 18 or not (text.isascii() and text.isdigit()):
        raise BadAnswer("its Content-Length is malformed")
    return int(text)


def _stays(line: str, connection: str) -> bool:
    words = {word.strip() for word in connection.lower().split(",")}
    if "close" in words:
        return False
    return "keep-alive" in words or not line.startswith("HTTP/1.0")


class Reply(msgspec.Struct, frozen=True, gc=False):
    """A complete HTTP answer.

    Attributes:
        status: HTTP status.
        headers: By lower-case name.
        content: The body, without the transfer coding. A large one is usually in
            writeable memory.
        proxy: URL of the proxy that it came through, without password; "" if none.
    """

    status: int
    headers: Mapping[str, str]
    content: bytes | memoryview
    proxy: str = ""

    @property
    def body(self) -> bytes:
        """The body as bytes; a copy, if it is in other memory."""
        return bytes(self.content)


class ReplyReader:
    """Parses one answer from bytes as they arrive.

    Args:
        bodyless: Whether the request was a HEAD, whose answers have no body.
        max_body: Maximum size of the body in bytes.

    Attributes:
        begun: Whether a byte of the answer has arrived.
        keep_alive: Whether the connection can be used again; known when the answer is
            complete.
    """

    begun = False
    keep_alive = False
    # The received bytes of an incomplete head.
    _early = b""
    _skipped = 0
    # A complete head, and its incomplete body.
    _partial: tuple[AnswerHead, BodyReader] | None = None

    def __init__(self, bodyless: bool = False, max_body: int = MAX_BODY) -> None:
        self._bodyless = bodyless
        self._max_body = max_body

    def feed(self, data: bytes) -> Reply | None:
        """Add received bytes; return the answer once it is complete.

        Raises:
            BadAnswer: The bytes are not an HTTP answer, or too large.
        """
        if self._partial is not None:
            return self._take_body(*self._partial, data)
        self.begun = True
        if self._early:
            data = self._early + data
        while True:
            end = data.find(b"\r\n\r\n")
            if end < 0 or self._skipped + end > _MAX_HEAD:
                self._keep_early(data)
                return None
            head = read_head(data[:end])
            data = data[end + 4 :]
            status, headers, size, _, keep_alive = head
            if status >= 200:
                if size == len(data) <= self._max_body:
                    self.keep_alive = keep_alive
                    return Reply(status, headers, data)
                return self._take_head(head, data)
            if status == 101:
                raise BadAnswer("it switches to a protocol that was not requested")
            # "Continue" and the like: the final answer follows.
            self._skipped += end + 4

    @property
    def room(self) -> memoryview | None:
        """Memory for the rest of a large body; None if its bytes have to be fed."""
        if self._partial is None or not isinstance(self._partial[1], LargeBody):
            return None
        return self._partial[1].room

    def fill(self, count: int) -> Reply | None:
        """Note bytes that were received into the room; as `feed`."""
        if self._partial is None or not isinstance(self._partial[1], LargeBody):
            raise RuntimeError("there is no room for received bytes")
        head, body = self._partial[0], self._partial[1]
        body.fill(count)
        return Reply(head.status, head.headers, body.value()) if body.done else None

    def end(self) -> Reply | None:
        """Note the end of the stream; return the answer if that completes it."""
        if self._partial is None:
            return None
        head, body = self._partial
        if not isinstance(body, UnsizedBody):
            return None
        self.keep_alive = False
        return Reply(head.status, head.headers, body.value())

    def _keep_early(self, data: bytes) -> None:
        """Keep the bytes of an incomplete head, if they can become a valid one."""
        if self._skipped + len(data) > _MAX_HEAD:
            raise BadAnswer(f"its headers have more than {_MAX_HEAD} bytes")
        if data[:7] != b"HTTP/1."[: len(data)]:
            if (port := port_of(data)) is not None:
                raise OtherPort(port)
            raise BadAnswer("it is not HTTP/1")
        line_end = data.find(b"\n")
        if line_end > 0 and data[line_end - 1] != ord("\r"):
            raise BadAnswer("its lines do not end as HTTP's do")
        self._early = data

    def _take_head(self, head: AnswerHead, data: bytes) -> Reply | None:
        self.keep_alive = head.keep_alive
        body: BodyReader
        if self._bodyless:
            body = SizedBody(0)
        elif head.size is not None:
            check_size(head.size, self._max_body)
            large = head.size >= LARGE_BYTES
            body = LargeBody(head.size) if large else SizedBody(head.size)
        elif head.chunked:
            body = ChunkedBody(self._max_body)
        else:
            body = UnsizedBody(self._max_body)
        self._early = b""
        self._partial = head, body
        return self._take_body(head, body, data)

    def _take_body(
        self, head: AnswerHead, body: BodyReader, data: bytes
    ) -> Reply | None:
        body.feed(data)
        if not body.done:
            return None
        if body.rest:
            self.keep_alive = False
        return Reply(head.status, head.headers, body.value())
