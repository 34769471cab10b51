"""HTTP/1.1 as a client needs it: answers, sans I/O."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from gym_http_client.bodies import (
    BadAnswer,
    BodyReader,
    ChunkedBody,
    SizedBody,
    UnsizedBody,
    check_size,
)
from gym_http_client.headers import AnswerHead, read_head
from gym_http_client.ports import OtherPort, port_that_says

__all__ = ["MAX_BODY", "BadAnswer", "Reply", "ReplyReader"]

#: Bytes that a body may have: what servers send at most, and room to spare.
MAX_BODY = 65 * 1024 * 1024
_MAX_HEAD = 64 * 1024


class Reply(msgspec.Struct, frozen=True, gc=False):
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

    begun = False
    keep_alive = False
    # What has come of the head, while that is not whole.
    _early = b""
    _skipped = 0
    # What has come of the rest, once the head is whole and the rest is not.
    _partial: tuple[AnswerHead, BodyReader] | None = None

    def __init__(self, bodyless: bool = False, max_body: int = MAX_BODY) -> None:
        self._bodyless = bodyless
        self._max_body = max_body

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
            head = read_head(data[:end])
            data = data[end + 4 :]
            status, headers, size, _, keep_alive = head
            if status >= 200:
                if size == len(data) <= self._max_body:
                    self.keep_alive = keep_alive
                    return Reply(status, headers, data)
                return self._take_head(head, data)
            if status == 101:
                raise BadAnswer("it turns to a protocol that nobody asked for")
            # "Continue" and the like: the answer itself is still to come.
            self._skipped += end + 4

    def end(self) -> Reply | None:
        """Take the end of the stream; return the answer if that makes it whole."""
        if self._partial is None:
            return None
        head, body = self._partial
        if not isinstance(body, UnsizedBody):
            return None
        self.keep_alive = False
        return Reply(head.status, head.headers, body.value())

    def _keep_early(self, data: bytes) -> None:
        """Keep the bytes of a head that is not whole, if they may become one."""
        if self._skipped + len(data) > _MAX_HEAD:
            raise BadAnswer(f"its headers have more than {_MAX_HEAD} bytes")
        if data[:7] != b"HTTP/1."[: len(data)]:
            if (port := port_that_says(data)) is not None:
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
            body = SizedBody(head.size)
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
