"""Calls over HTTP, each on a new connection, with the raw answer."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import socket
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

from gym_http_server.errors import StartError
from gym_http_server.validation.expectations import Mismatch

__all__ = ["Address", "CallFailed", "Response", "answer_of", "basic", "call"]

MAX_ANSWER = 64 * 1024 * 1024
_PORTS = {"http": 80, "https": 443, "http+unix": 0}


class CallFailed(Exception):
    """Raised if there was no answer, or it is not HTTP."""


@dataclass(frozen=True)
class Address:
    """The address of a server.

    Attributes:
        scheme: ``http``, ``https`` or ``http+unix``.
        host: Name or address; for ``http+unix`` the path of the socket.
        port: The port; 0 for ``http+unix``.
        base: Path in front of all others, without a slash at its end.
        token: The token, or "".
    """

    scheme: str
    host: str
    port: int
    base: str = ""
    token: str = field(default="", repr=False)

    @classmethod
    def parse(cls, url: str, token: str = "") -> Address:
        """Parse an address; a password in it is the token, unless a token is given.

        Raises:
            StartError: The address is malformed.
        """
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            parts, port = urlsplit(""), None
        if parts.scheme not in _PORTS or not parts.hostname:
            # It may hold a token, so it is not shown.
            raise StartError(
                "this is no address of a server: expected one as "
                "http://127.0.0.1:5000 or http+unix://%2Fpath%2Fof.sock"
            )
        host = parts.hostname
        if parts.scheme == "http+unix":
            host = unquote(parts.netloc.rpartition("@")[2])
        given = token or unquote(parts.password or "")
        base = parts.path.rstrip("/").removesuffix("/v1").rstrip("/")
        return cls(parts.scheme, host, port or _PORTS[parts.scheme], base, given)

    @property
    def url(self) -> str:
        """The address, without the token."""
        if self.scheme == "http+unix":
            return f"http+unix://{self.host.replace('/', '%2F')}{self.base}"
        return f"{self.scheme}://{self.authority}{self.base}"

    @property
    def authority(self) -> str:
        """The value of the header Host."""
        if self.scheme == "http+unix":
            return "localhost"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def authorization(self) -> dict[str, str]:
        """The header that shows the token."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def connect(self, timeout_s: float) -> socket.socket:
        """Open a connection.

        Raises:
            CallFailed: No connection can be made.
        """
        try:
            if self.scheme == "http+unix":
                plain = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                plain.settimeout(timeout_s)
                plain.connect(self.host)
                return plain
            plain = socket.create_connection((self.host, self.port), timeout_s)
            if self.scheme == "https":
                context = ssl.create_default_context()
                return context.wrap_socket(plain, server_hostname=self.host)
            return plain
        except OSError as error:
            raise CallFailed(f"no connection to {self.url}: {error}") from None


@dataclass(frozen=True)
class Response:
    """A complete answer.

    Attributes:
        status: Its status.
        headers: By name in lower case; the last one if several have the same name.
        body: Its bytes.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def media(self) -> str:
        """The media type, without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    def json(self) -> Any:
        """Read the body as JSON.

        Raises:
            Mismatch: The body is not JSON.
        """
        try:
            return json.loads(self.body, parse_constant=_refuse)
        except (ValueError, RecursionError) as error:
            words = f"{error} in {self.body[:200]!r}"
            raise Mismatch("a body in JSON", words) from None

    def __str__(self) -> str:
        body = self.body[:200].decode("utf-8", "replace")
        return f"{self.status} {self.media or 'without a type'} {body}"


def call(
    address: Address,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    timeout_s: float = 60.0,
) -> Response:
    """Send a request and read its answer.

    Args:
        address: The server.
        method: GET, POST, DELETE or another.
        path: With the query, below the address's own path.
        body: The body, or ``None``.
        headers: Beside Host and those that frame the body.
        timeout_s: For all of it together.

    Raises:
        CallFailed: There was no answer.
    """
    connection = http.client.HTTPConnection("unused", timeout=timeout_s)
    # An answer that ends the connection takes over its socket.
    connection.sock = sock = address.connect(timeout_s)
    # The timeout of a socket does not end an answer of one byte a second.
    watch = threading.Timer(timeout_s, _hang_up, [sock])
    watch.start()
    fields = {"Host": address.authority, "Connection": "close", **(headers or {})}
    if body is not None or method == "POST":
        fields.setdefault("Content-Length", str(len(body or b"")))
    try:
        target = address.base + path
        connection.putrequest(method, target, True, True)
        for name, value in fields.items():
            connection.putheader(name, value)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            # A request that is too large may be answered before it has ended.
            connection.endheaders(body)
        response = connection.getresponse()
        actual = answer_of(response, _read(response))
        if watch.finished.is_set():
            raise TimeoutError
        return actual
    except (OSError, http.client.HTTPException, ValueError) as error:
        words = f"{type(error).__name__}: {error}"
        if watch.finished.is_set():
            words = f"not whole after {timeout_s:g} s"
        raise CallFailed(f"{method} {path[:100]}: no answer ({words})") from None
    finally:
        watch.cancel()
        connection.close()


def answer_of(response: http.client.HTTPResponse, body: bytes) -> Response:
    """Return the response with a body that was read."""
    headers = {name.lower(): value for name, value in response.getheaders()}
    return Response(response.status, headers, body)


def _hang_up(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def _read(response: http.client.HTTPResponse) -> bytes:
    pieces, size = [], 0
    while piece := response.read1(1 << 16):
        pieces.append(piece)
        size += len(piece)
        if size > MAX_ANSWER:
            raise ValueError(f"the answer has more than {MAX_ANSWER} bytes")
    if response.length:
        raise http.client.IncompleteRead(b"".join(pieces), response.length)
    return b"".join(pieces)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def basic(token: str) -> str:
    """Return the header with a token as the password of basic authentication."""
    return "Basic " + base64.b64encode(f":{token}".encode()).decode()
