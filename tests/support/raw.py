"""A raw HTTP/1.x client that sends exact bytes and reads exactly one answer.

Client libraries correct what they send and tolerate what they receive. This client adds
nothing to a request, and an answer that breaks HTTP's framing fails the test.
"""

import contextlib
import re
import socket
import ssl
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from tests.support.strict_json import parse_strictly

_BODYLESS = {204, 304}
#: For servers that speak TLS, by port, in the place of plain TCP.
SECURED: dict[int, ssl.SSLContext] = {}


@dataclass(frozen=True)
class Response:
    """One answer as it was on the wire; header names keep their case."""

    version: str
    status: int
    reason: str
    headers: list[tuple[str, str]]
    body: bytes = b""
    request: bytes = field(default=b"", repr=False)

    def header(self, name: str) -> str | None:
        """Return a header's value, or None; fail if it was sent twice."""
        values = [v for n, v in self.headers if n.lower() == name.lower()]
        assert len(values) < 2, f"{name} was sent {len(values)} times: {values}"
        return values[0] if values else None

    @property
    def content_type(self) -> str:
        """The Content-Type header, or an empty string."""
        return self.header("Content-Type") or ""

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode("utf-8")

    def json(self) -> Any:
        """Return the body's value; NaN, Infinity and repeated keys are refused."""
        return parse_strictly(self.text)


class RawConnection:
    """One TCP connection to a server on this machine.

    Args:
        port: Port of the server.
        timeout: Seconds for each wait.
        source: Address to come from; all of 127.0.0.0/8 are this machine's.
    """

    def __init__(
        self, port: int, *, timeout: float = 20.0, source: str = "127.0.0.1"
    ) -> None:
        self._socket = socket.create_connection(
            ("127.0.0.1", port), timeout, source_address=(source, 0)
        )
        if self._socket.getsockname() == self._socket.getpeername():
            # The kernel gave the connection the free port that it goes to: it has
            # reached itself, as happens where one waits for a server to listen.
            self._socket.close()
            raise ConnectionRefusedError(f"no server at port {port}")
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if port in SECURED:
            self._socket = SECURED[port].wrap_socket(
                self._socket, server_hostname="localhost"
            )
        self._buffer = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def send(self, data: bytes) -> None:
        """Send the bytes as they are.

        A server may answer and close before it has read everything (a body
        beyond the limit): then the answer is what counts, not the lost bytes.
        """
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendall(data)

    def finish_sending(self) -> None:
        """Close the sending half: the server reads the end of the stream."""
        self._socket.shutdown(socket.SHUT_WR)

    def read_response(self, *, head: bool = False, request: bytes = b"") -> Response:
        """Read one answer and not a byte more.

        Args:
            head: The request was a HEAD, so no body follows.
            request: The request's bytes, to be shown in failures.
        """
        status_line = self._read_line()
        match = re.fullmatch(r"(HTTP/1\.[01]) (\d{3})(?: (.*))?", status_line)
        assert match, f"not a status line: {status_line!r}"
        headers = self._read_headers()
        fields = {name.lower(): value for name, value in headers}
        status = int(match[2])
        body = b""
        if not (head or status < 200 or status in _BODYLESS):
            body = self._read_body(fields)
        return Response(match[1], status, match[3] or "", headers, body, request)

    def read_to_end(self) -> bytes:
        """Return everything up to the server's end of the stream."""
        try:
            while chunk := self._socket.recv(65536):
                self._buffer += chunk
        except ConnectionResetError:
            pass
        except TimeoutError:
            raise AssertionError("the server keeps the connection open") from None
        rest, self._buffer = self._buffer, b""
        return rest

    def _read_body(self, fields: dict[str, str]) -> bytes:
        if "chunked" in fields.get("transfer-encoding", "").lower():
            assert "content-length" not in fields, "both framings in one answer"
            return self._read_chunks()
        if "content-length" in fields:
            return self._read_exactly(int(fields["content-length"]))
        return self.read_to_end()

    def _read_chunks(self) -> bytes:
        body = b""
        while size := int(self._read_line().split(";")[0], 16):
            body += self._read_exactly(size)
            assert self._read_exactly(2) == b"\r\n"
        while self._read_line():
            pass
        return body

    def _read_headers(self) -> list[tuple[str, str]]:
        headers = []
        while line := self._read_line():
            name, separator, value = line.partition(":")
            assert separator, f"not a header: {line!r}"
            assert name == name.strip(), f"not a header: {line!r}"
            headers.append((name, value.strip()))
        return headers

    def _read_line(self) -> str:
        while b"\r\n" not in self._buffer:
            self._fill()
        line, self._buffer = self._buffer.split(b"\r\n", 1)
        return line.decode("latin-1")

    def _read_exactly(self, count: int) -> bytes:
        while len(self._buffer) < count:
            self._fill()
        data, self._buffer = self._buffer[:count], self._buffer[count:]
        return data

    def _fill(self) -> None:
        chunk = self._socket.recv(65536)
        if not chunk:
            raise ConnectionError(f"the answer ended early, after {self._buffer!r}")
        self._buffer += chunk


def exchange(
    port: int, request: bytes, *, timeout: float = 20.0, source: str = "127.0.0.1"
) -> Response:
    """Send one request on a new connection and return the answer."""
    with RawConnection(port, timeout=timeout, source=source) as connection:
        connection.send(request)
        head = request.startswith(b"HEAD ")
        return connection.read_response(head=head, request=request[:2000])


def chunked(body: bytes, size: int = 7) -> bytes:
    """Return the body in HTTP's chunked coding."""
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    coded = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    return coded + b"0\r\n\r\n"
