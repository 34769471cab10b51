"""Requests that record how much of their body is unread."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

from gunicorn.http.body import Body, LengthReader  # type: ignore[import-untyped]
from gunicorn.http.errors import (  # type: ignore[import-untyped]
    LimitRequestHeaders,
    ParseException,
    UnsupportedTransferCoding,
)
from gunicorn.http.message import Request  # type: ignore[import-untyped]
from gunicorn.http.parser import RequestParser  # type: ignore[import-untyped]

from gym_http_server.web.gunicorn_worker.client_socket import ClientSocket
from gym_http_server.web.gunicorn_worker.fast_request import FastReader, FastRequest

#: A body of which more than this is left unread costs the connection.
MOST_UNREAD = 64 * 1024
#: Bytes that all headers of a request may have. With the longest request line that is
#: less than 64 KiB.
MOST_HEADERS = 60 * 1024
#: Bytes of a body that are received at a time. gunicorn holds several copies of them.
MOST_RECEIVED = 256 * 1024
# gunicorn looks at the size only after it has read another piece.
_PIECE = 8 * 1024
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class MalformedHead(ParseException):  # type: ignore[misc]
    """A head that gunicorn accepts and HTTP does not."""


class SizedReader(LengthReader):  # type: ignore[misc]
    """Reads a body of known size; large ones without the copies that gunicorn makes."""

    def readinto(self, memory: memoryview) -> int:
        """Receive the next bytes into memory; return their number, 0 at the end."""
        count = self.readinto_now(memory)
        if count is None:
            count = self.unreader.sock.recv_into(memory[: self.length])
            self.length -= count
        return count

    def readinto_now(self, memory: memoryview) -> int | None:
        """Take what has arrived into memory; ``None`` if nothing has.

        It may be called in a thread.
        """
        memory = memory[: self.length]
        if not memory:
            return 0
        early = self.unreader.take_buffered()
        if early:
            count = min(len(early), len(memory))
            memory[:count] = early[:count]
            self.unreader.unread(early[count:])
        else:
            count = self.unreader.sock.recv_into_now(memory)
        self.length -= count or 0
        return cast("int | None", count)


class ClientBody(Body):  # type: ignore[misc]
    """A body that can also be read into memory."""

    def readinto(self, memory: memoryview) -> int:
        """Read the next bytes into memory; return their number, 0 at the end."""
        if isinstance(self.reader, SizedReader) and not self.buf.tell():
            try:
                return self.reader.readinto(memory)
            except Exception:
                self.failed = True
                raise
        data = self.read(min(len(memory), MOST_RECEIVED))
        memory[: len(data)] = data
        return len(data)

    def readinto_now(self, memory: memoryview) -> int | None:
        """Take what has arrived into memory; ``None`` if that is not known.

        It may be called in a thread, while nothing else reads the body.
        """
        if not isinstance(self.reader, SizedReader) or self.buf.tell():
            return None
        try:
            return self.reader.readinto_now(memory)
        except Exception:
            self.failed = True
            raise


class ExpectedBody(ClientBody):
    """A body that the client sends once it has received 100 Continue.

    gunicorn would send that before the application decides whether it wants the body.

    Attributes:
        announced: Whether 100 Continue was sent.
    """

    announced = False

    def __init__(self, reader: Any, client: ClientSocket) -> None:
        super().__init__(reader)
        self._client = client

    def _read_reader(self, size: int) -> bytes:
        self._announce()
        return cast(bytes, super()._read_reader(size))

    def readinto(self, memory: memoryview) -> int:
        """Read the next bytes into memory; return their number, 0 at the end."""
        self._announce()
        return super().readinto(memory)

    def readinto_now(self, memory: memoryview) -> int | None:
        """Take what has arrived into memory; ``None`` if that is not known."""
        return super().readinto_now(memory) if self.announced else None

    def _announce(self) -> None:
        if not self.announced:
            self.announced = True
            self._client.send(_CONTINUE)


class ClientRequest(Request):  # type: ignore[misc]
    """A request whose head is checked strictly, and whose body need not be read.

    The connection closes if much of the body is unread. gunicorn itself would promise
    to keep the connection, and then read the whole body, which may have no end.
    """

    body: Any
    headers: list[tuple[str, str]]
    max_buffer_headers: int
    _expected_100_continue: bool

    def parse(self, unreader: Any) -> bytes:
        """Read the head, and return the bytes after it.

        Raises:
            LimitRequestHeaders: There are too many headers, or too large ones.
        """
        # gunicorn's limit for all headers is their number times the limit of one.
        limit = min(self.max_buffer_headers, MOST_HEADERS + _PIECE)
        self.max_buffer_headers = limit
        try:
            return cast(bytes, super().parse(unreader))
        except LimitRequestHeaders:
            raise LimitRequestHeaders(
                "the headers of the request are too large: expected at most "
                f"{self.limit_request_fields} headers, {self.limit_request_field_size} "
                f"bytes for each of them and {MOST_HEADERS} bytes for all of them"
            ) from None

    def parse_headers(self, data: bytes, from_trailer: bool = False) -> Any:
        """Read the headers of a head or of a trailer.

        Raises:
            LimitRequestHeaders: There are too many of them, or too large ones.
        """
        if not from_trailer and len(data) > MOST_HEADERS:
            raise LimitRequestHeaders("")
        return super().parse_headers(data, from_trailer=from_trailer)

    def set_body_reader(self) -> None:
        """Check the headers that frame the request, and prepare its body.

        Raises:
            MalformedHead: There is no Host, or more than one Idempotency-Key.
            UnsupportedTransferCoding: The body is compressed.
        """
        if self.version >= (1, 1) and not self._values("HOST"):
            raise MalformedHead(
                "the request has no Host header, which HTTP/1.1 requires: expected "
                "Host with the server's name and port"
            )
        keys = self._values("IDEMPOTENCY-KEY")
        if len(keys) > 1:
            if len(set(keys)) > 1:
                raise MalformedHead(
                    "the request has several different Idempotency-Keys: expected one"
                )
            # gunicorn would join both to a key that the client did not send.
            rest = [each for each in self.headers if each[0] != "IDEMPOTENCY-KEY"]
            self.headers = [*rest, ("IDEMPOTENCY-KEY", keys[0])]
        super().set_body_reader()
        for value in self._values("TRANSFER-ENCODING"):
            codings = {coding.strip().lower() for coding in value.split(",")}
            if codings - {"chunked", "identity"}:
                raise UnsupportedTransferCoding(value)
        reader = self.body.reader
        if isinstance(reader, LengthReader):
            reader = SizedReader(self.unreader, reader.length)
        if self._expected_100_continue:
            self._expected_100_continue = False
            self.body = ExpectedBody(reader, self.unreader.sock)
        else:
            self.body = ClientBody(reader)

    def unread(self) -> float:
        """Return the number of bytes of the body that are unread."""
        reader = self.body.reader
        if isinstance(reader, LengthReader):
            return cast(int, reader.length)
        return math.inf if reader.parser is not None else 0

    def should_close(self) -> bool:
        """Return whether the connection ends with this request's answer."""
        # A client that got no 100 Continue may send the body or not.
        body = self.body
        unsent = isinstance(body, ExpectedBody) and not body.announced
        most = 0 if unsent else MOST_UNREAD
        if self.unreader.sock.limits.last_answers or self.unread() > most:
            # It may be announced now, so it stays true.
            self.force_close()
        if "close" in self._connection_options():
            # gunicorn looks for "close" alone, and some clients send "close, TE".
            return True
        return bool(super().should_close())

    def _connection_options(self) -> set[str]:
        values = self._values("CONNECTION")
        return {word.strip().lower() for value in values for word in value.split(",")}

    def _values(self, name: str) -> list[str]:
        return [value for each, value in self.headers if each == name]


class ClientParser(RequestParser):  # type: ignore[misc]
    """Reads requests from a connection, and marks where each begins.

    Args:
        cfg: gunicorn's configuration.
        client: The connection.
        address: The client's address.
        whole: Makes a reader of requests that arrive complete; with ``None``, gunicorn
            reads all of them.
    """

    mesg_class = ClientRequest
    mesg: Any

    def __init__(
        self,
        cfg: Any,
        client: ClientSocket,
        address: Any,
        whole: Callable[[], FastReader] | None = None,
    ) -> None:
        super().__init__(cfg, client, address)
        self.unreader.max_body_chunk = MOST_RECEIVED
        self._client = client
        self._make_whole = whole
        self._whole: FastReader | None = None

    def __next__(self) -> ClientRequest | FastRequest:
        """Read the next request.

        Raises:
            StopIteration: The connection has ended.
        """
        if self.mesg is not None and (
            self.mesg.should_close() or not self.finish_body()
        ):
            raise StopIteration
        if self._make_whole is not None:
            data = self.unreader.read()
            if not data:
                raise StopIteration
            self._whole = self._whole or self._make_whole()
            self.mesg, rest = self._whole.read(data)
            if rest:
                self.unreader.unread(rest)
        if self.mesg is None:
            super().__next__()
        request: ClientRequest | FastRequest = self.mesg
        return request

    def unread(self) -> float:
        """Return the number of unread bytes of the present request's body."""
        return 0 if self.mesg is None else cast(float, self.mesg.unread())

    def finish_body(self, *args: Any, **kwargs: Any) -> bool:
        """Read the little that may be left of a body; the next byte is a request's."""
        is_whole = type(self.mesg) is FastRequest
        finished = is_whole or super().finish_body(*args, **kwargs)
        if finished and self.mesg is not None:
            self._client.expect_request(self.unreader.buf.tell() > 0)
            # Later errors do not belong to this request.
            self.mesg = None
        return bool(finished)
