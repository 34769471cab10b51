"""HTTP/1.1 as a client needs it: answers, sans I/O.

Only what is needed is looked at: an answer's status and framing, and of its headers
those that somebody asks for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from gym_http_client.bodies import (
    BadAnswer,
    BodyReader,
    ChunkedBody,
    SizedBody,
    UnsizedBody,
    check_size,
)
from gym_http_client.headers import Headers

__all__ = ["MAX_BODY", "BadAnswer", "Reply", "ReplyReader"]

#: Bytes that a body may have: what servers send at most, and room to spare.
MAX_BODY = 65 * 1024 * 1024
_MAX_HEAD = 64 * 1024
_STATUS_LINE = re.compile(rb"HTTP/1\.[0-9] ([1-9][0-9][0-9])[ \r]")


class Reply(NamedTuple):
    """A whole answer.

    Attributes:
        status: HTTP status.
        headers: By lower-case name.
        body: Without the transfer coding.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes


class ReplyReader:
    """Takes the bytes of one answer as they come.

    Args:
        bodyless: The request was one whose answers have no body, a HEAD.
        max_body: Bytes that the body may have.

    Attributes:
        begun: Whether a byte of the answer has come.
        keep_alive: Whether the connection can bear another exchange; known when
            the answer is whole.
    """

    __slots__ = (
        "_bodyless",
        "_early",
        "_max_body",
        "_partial",
        "_skipped",
        "begun",
        "keep_alive",
    )

    def __init__(self, *, bodyless: bool = False, max_body: int = MAX_BODY) -> None:
        self.begun = False
        self.keep_alive = False
        self._bodyless = bodyless
        self._max_body = max_body
        # What has come of the head, while that is not whole.
        self._early = b""
        self._skipped = 0
        self._partial: tuple[int, Headers, BodyReader] | None = None

    def feed(self, data: bytes) -> Reply | None:
        """Take the next bytes; return the answer when it is whole.

        Raises:
            BadAnswer: This is no answer, or too large.
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
            line = _STATUS_LINE.match(data)
            if line is None:
                raise BadAnswer("it is not HTTP/1")
            status = int(line[1])
            head, data = data[:end], data[end + 4 :]
            if status >= 200:
                return self._take_head(status, head, data)
            if status == 101:
                raise BadAnswer("it turns to a protocol that nobody asked for")
            # "Continue" and the like: the answer itself is still to come.
            self._skipped += end + 4

    def end(self) -> Reply | None:
        """Take the end of the stream; return the answer if that makes it whole."""
        if self._partial is None:
            return None
        status, headers, body = self._partial
        if not isinstance(body, UnsizedBody):
            return None
        self.keep_alive = False
        return Reply(status, headers, body.value())

    def _keep_early(self, data: bytes) -> None:
        """Keep the bytes of a head that is not whole, if they may become one."""
        if self._skipped + len(data) > _MAX_HEAD:
            raise BadAnswer(f"its headers have more than {_MAX_HEAD} bytes")
        line_end = data.find(b"\n")
        if line_end >= 0 and data[line_end - 1 : line_end] != b"\r":
            raise BadAnswer("its lines do not end as HTTP's do")
        if data[:7] != b"HTTP/1."[: len(data)]:
            raise BadAnswer("it is not HTTP/1")
        self._early = data

    def _take_head(self, status: int, head: bytes, data: bytes) -> Reply | None:
        headers = Headers(head)
        size = headers.find(b"\r\ncontent-length:")
        coding = headers.find(b"\r\ntransfer-encoding:")
        self.keep_alive = _stays(head, headers.find(b"\r\nconnection:"))
        if self._bodyless or status == 204 or status == 304:
            # A body against the rules would be taken for the next answer.
            sized = coding is not None or size not in (None, b"0")
            if data or (sized and status == 204):
                self.keep_alive = False
            return Reply(status, headers, b"")
        body: BodyReader
        if coding is not None:
            if size is not None or coding.lower() != b"chunked":
                raise BadAnswer("nobody can tell where its body ends")
            body = ChunkedBody(self._max_body)
        elif size is not None:
            count = _number(size)
            if count == len(data):
                check_size(count, self._max_body)
                return Reply(status, headers, data)
            check_size(count, self._max_body)
            body = SizedBody(count)
        else:
            headers.check()
            body = UnsizedBody(self._max_body)
        self._early = b""
        self._partial = status, headers, body
        return self._take_body(status, headers, body, data)

    def _take_body(
        self, status: int, headers: Headers, body: BodyReader, data: bytes
    ) -> Reply | None:
        body.feed(data)
        if not body.done:
            return None
        if body.rest:
            self.keep_alive = False
        return Reply(status, headers, body.value())


def _number(text: bytes) -> int:
    # The length first: long numbers take long to read, and Python refuses some.
    if len(text) > 18 or not text.isdigit():
        raise BadAnswer("its Content-Length is none")
    return int(text)


def _stays(head: bytes, connection: bytes | None) -> bool:
    """Tell whether a connection stays open behind an answer."""
    if connection is None:
        return not head.startswith(b"HTTP/1.0")
    words = {word.strip() for word in connection.lower().split(b",")}
    if b"close" in words:
        return False
    return b"keep-alive" in words or not head.startswith(b"HTTP/1.0")
