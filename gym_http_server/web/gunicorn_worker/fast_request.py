"""Requests that arrive complete and have only common headers, and their answers.

gunicorn's parser is general and slow. This one reads a request only if its bytes have
one meaning: a plain path and query, headers that are known to be harmless and occur
once, and the body directly after them. gunicorn reads all others, and answers every
error. An answer is sent in one piece, or from the memory that files are read into, and
its head is cached for later ones.

Without them, a REST step takes at least 1.4 times as long (``rest_1_p50``; measure with
``python -m benchmarks --without fast-request``).
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import time
from collections.abc import Callable, Iterable
from typing import Any

from gunicorn import util  # type: ignore[import-untyped]
from gunicorn.http import wsgi  # type: ignore[import-untyped]
from gunicorn.http.wsgi import Response  # type: ignore[import-untyped]

from gym_http_server.web.api.exchange import SAME_HEAD
from gym_http_server.web.gunicorn_worker.client_socket import ClientSocket
from gym_http_wire.messages import NODE_KEY

__all__ = ["FastReader", "FastReplies", "FastRequest", "KnownHeads", "reads_fast"]

# Within each of the limits that gunicorn has for lines and for headers.
_MAX_HEAD = 4000
_MAX_KNOWN_REQUESTS = 512
_MAX_KNOWN_HEAD = 1024
_REQUEST_LINE = re.compile(
    rb"(GET|POST|DELETE) (/[\w./~-]*)(?:\?([\w.&=~-]*))? HTTP/1\.1"
)
_HEADER_LINE = re.compile(rb"([A-Za-z0-9-]+):[ \t]*([!-~](?:[ -~]*[!-~])?)[ \t]*")
_SIZE = re.compile("[0-9]{1,5}").fullmatch
#: Headers without effect on connections, framing, proxies or protocols.
_HARMLESS = frozenset(
    b"""
    accept accept-encoding accept-language authorization cache-control content-type
    cookie dnt host idempotency-key origin pragma priority referer
    sec-fetch-dest sec-fetch-mode sec-fetch-site sec-fetch-user user-agent x-request-id
    """.upper().split()
)
# Different in each request, while the rest of a head is often the same.
_KEY = b"\r\nIdempotency-Key: "
_KEY_VALUE = re.compile(rb"[!-~]{1,200}").fullmatch
# What differs in the requests of other nodes, which `web/api/fleet/forwarding` puts at
# the end.
_NODE = b"\r\nAuthorization: Fleet "
_NODE_VALUES = re.compile(
    rb"([!-~]+ [!-~]+ [!-~]+ [!-~]+)\r\nX-Request-Id: ([!-~]+)"
    rb"(?:\r\nIdempotency-Key: ((?:%b)?[!-~]{1,200}))?" % NODE_KEY.encode()
).fullmatch

_Field = tuple[str, str]
#: The environments of requests, by the parts of the head before and after the key.
KnownHeads = dict[tuple[bytes, bytes], dict[str, Any]]


class FastRequest:
    """A complete request, with the attributes that worker and error answers use.

    Attributes:
        environ: Its WSGI environment.
        method: As ``POST``.
        path: Its path.
        uri: The path with the query.
        version: Of HTTP.
    """

    __slots__ = ("_client", "environ", "method", "path", "uri")
    version = (1, 1)

    def __init__(self, environ: dict[str, Any], client: ClientSocket) -> None:
        self.environ = environ
        self.method: str = environ["REQUEST_METHOD"]
        self.path: str = environ["PATH_INFO"]
        self.uri: str = environ["RAW_URI"]
        self._client = client

    @property
    def headers(self) -> list[_Field]:
        """Names in capitals, and values."""
        return [
            (key.removeprefix("HTTP_").replace("_", "-"), value)
            for key, value in self.environ.items()
            if key.startswith(("HTTP_", "CONTENT_"))
        ]

    def unread(self) -> float:
        """Return 0: no part of the body is left on the connection."""
        return 0

    def should_close(self) -> bool:
        """Return whether the connection ends with this request's answer."""
        return self._client.limits.last_answers


class FastReader:
    """Reads such requests of one connection.

    Args:
        cfg: gunicorn's configuration.
        client: The connection.
        places: The addresses of client and server, each with a port.
        known: Heads that have been parsed, shared by all connections of a worker.
    """

    def __init__(
        self,
        cfg: Any,
        client: ClientSocket,
        places: tuple[Any, Any],
        known: KnownHeads,
    ) -> None:
        self._client = client
        self._known = known
        self._common = _common_environ(cfg, client, *places)

    def read(self, data: bytes) -> tuple[FastRequest | None, bytes]:
        """Return a request and the rest; ``None`` and all if gunicorn must read it."""
        environ = self._common.copy()
        end = self._read_into(environ, data)
        if end == 0:
            return None, data
        return FastRequest(environ, self._client), data[end:]

    def _read_into(self, environ: dict[str, Any], data: bytes) -> int:
        """Return where the request ends; 0 if gunicorn has to read it."""
        end = data.find(b"\r\n\r\n", 0, _MAX_HEAD)
        if end < 0:
            return 0
        divided = _divide(data[:end])
        if divided is None:
            return 0
        before, behind, different = divided
        fields = self._known.get((before, behind))
        if fields is None:
            fields = _fields(before, behind)
            if fields is None:
                return 0
            # Each request with a query may have another one.
            if end <= _MAX_KNOWN_HEAD and "QUERY_STRING" not in fields:
                if len(self._known) >= _MAX_KNOWN_REQUESTS:
                    self._known.clear()
                fields[SAME_HEAD] = {}
                self._known[before, behind] = fields
        begin = end + 4
        end = begin + int(fields.get("CONTENT_LENGTH", 0))
        if end > len(data):
            return 0
        environ.update(fields)
        if different:
            if not fields.keys().isdisjoint(different):
                return 0
            environ.update(different)
        environ["wsgi.input"] = io.BytesIO(data[begin:end])
        return end


def _divide(head: bytes) -> tuple[bytes, bytes, dict[str, str]] | None:
    """Return the parts of a head that repeat, and the headers that do not.

    Returns:
        What is before and behind them; ``None`` if gunicorn has to read the head.
    """
    before, of_node, rest = head.partition(_NODE)
    if of_node:
        match = _NODE_VALUES(rest)
        if match is None:
            return None
        different = {
            "HTTP_AUTHORIZATION": f"Fleet {match[1].decode()}",
            "HTTP_X_REQUEST_ID": match[2].decode(),
        }
        if match[3]:
            different["HTTP_IDEMPOTENCY_KEY"] = match[3].decode()
        return before, b"", different
    before, has_key, rest = head.partition(_KEY)
    if not has_key:
        return before, b"", {}
    key, _, behind = rest.partition(b"\r\n")
    if not _KEY_VALUE(key):
        return None
    return before, behind, {"HTTP_IDEMPOTENCY_KEY": key.decode()}


def _fields(before: bytes, behind: bytes) -> dict[str, Any] | None:
    """Read a head without its key; None if gunicorn has to."""
    first, *lines = before.split(b"\r\n")
    if behind:
        lines += behind.split(b"\r\n")
    match = _REQUEST_LINE.fullmatch(first)
    if match is None or b"//" in first:
        return None
    path = match[2].decode()
    fields: dict[str, Any] = {
        "REQUEST_METHOD": match[1].decode(),
        "PATH_INFO": path,
        "RAW_URI": path,
    }
    if match[3] is not None:
        fields["QUERY_STRING"] = match[3].decode()
        fields["RAW_URI"] = f"{path}?{fields['QUERY_STRING']}"
    for line in lines:
        field = _field(line)
        # gunicorn decides about a header that occurs twice.
        if field is None or field[0] in fields:
            return None
        fields[field[0]] = field[1]
    return fields if "HTTP_HOST" in fields else None


def _field(line: bytes) -> _Field | None:
    match = _HEADER_LINE.fullmatch(line)
    if match is None:
        return None
    name, value = match[1].upper(), match[2].decode()
    if name == b"CONTENT-LENGTH":
        harmless = _SIZE(value) is not None
    elif name == b"CONNECTION":
        harmless = value.lower() == "keep-alive"
    else:
        harmless = name in _HARMLESS
    if not harmless:
        return None
    key = name.decode().replace("-", "_")
    return key if key.startswith("CONTENT_") else f"HTTP_{key}", value


def reads_fast(cfg: Any) -> bool:
    """Return whether no setting requires work of gunicorn for each request."""
    return not (
        cfg.proxy_protocol != "off"
        or cfg.max_requests
        or cfg.accesslog
        or cfg.logconfig
        or cfg.logconfig_dict
        or cfg.logconfig_json
        or cfg.syslog
        or cfg.statsd_host
        or os.environ.get("SCRIPT_NAME")
    )


def _common_environ(
    cfg: Any, client: ClientSocket, peer: Any, server: Any
) -> dict[str, Any]:
    """Return gunicorn's environment, as far as it is the same for all requests."""
    _, environ = wsgi.create(_Nothing, client, peer, server, cfg)
    # It belongs to an answer.
    del environ["wsgi.early_hints"]
    environ["wsgi.multithread"] = True
    if cfg.is_ssl:
        environ["wsgi.url_scheme"] = "https"
    return dict(environ)


class _Nothing:
    """A request with default values only."""

    body = None
    headers = ()
    method = "GET"
    path = query = uri = ""
    proxy_protocol_info = None
    scheme = "http"
    version = (1, 1)
    _expected_100_continue = False


_MAX_KNOWN_ANSWERS = 512
# Up to this size a body is copied after its head. That is cheaper than a second
# system call, and than waking the client twice.
_SMALL = 64 * 1024

_Headers = list[tuple[str, str]]
_Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class _Start:
    """The start_response of one request; stores its arguments."""

    __slots__ = ("early", "headers", "status")
    early: list[bytes]
    headers: _Headers
    status: str

    def __init__(self) -> None:
        self.early = []

    def __call__(
        self, status: str, headers: _Headers, exc_info: object = None
    ) -> Callable[[bytes], None]:
        if exc_info is None and hasattr(self, "status"):
            raise AssertionError("the application starts its answer twice")
        self.status, self.headers = status, headers
        return self.early.append


class FastReplies:
    """Answers fast requests by calling the application.

    Args:
        cfg: gunicorn's configuration.
        application: The WSGI application.
    """

    def __init__(self, cfg: Any, application: _Application) -> None:
        self._cfg = cfg
        self._application = application
        self._heads: dict[tuple[Any, ...], bytes] = {}
        self._second = 0
        self._date = b""

    def reply(self, request: FastRequest, client: ClientSocket) -> bool:
        """Answer a request; return whether the connection stays."""
        start = _Start()
        chunks = self._application(request.environ, start)
        body: Any
        if type(chunks) is list:
            body = chunks[0] if len(chunks) == 1 else None
        else:
            # Applications may also return a large body as a memoryview, or as several.
            body = getattr(chunks, "whole", None)
            if body is None and hasattr(chunks, "views"):
                body = chunks
        if body is None or start.early:
            return self._reply_in_pieces(request, client, start, chunks)
        headers = start.headers
        sized = headers and headers[-1] == ("Content-Length", str(len(body)))
        if not sized or request.should_close():
            return self._reply_in_pieces(request, client, start, chunks)
        shape = (start.status, *headers)
        head = self._heads.get(shape) or self._write_head(shape, request, client)
        if hasattr(body, "views"):
            with contextlib.closing(body):
                client.sendall(head + self._date_line())
                for view in body.views():
                    client.sendall(view)
        elif len(body) <= _SMALL:
            client.sendall(b"%b%b%b" % (head, self._date_line(), body))
        else:
            client.sendall(head + self._date_line())
            client.sendall(body)
        return True

    def _reply_in_pieces(
        self,
        request: FastRequest,
        client: ClientSocket,
        start: _Start,
        chunks: Iterable[bytes],
    ) -> bool:
        response = Response(request, client, self._cfg)
        try:
            for chunk in chunks:
                self._begin(response, start)
                response.write(chunk)
            self._begin(response, start)
            response.close()
        finally:
            if hasattr(chunks, "close"):
                chunks.close()
        return not response.should_close()

    @staticmethod
    def _begin(response: Response, start: _Start) -> None:
        # The application may call start_response as late as for the first chunk.
        if response.status is None:
            response.start_response(start.status, start.headers)
            for chunk in start.early:
                response.write(chunk)

    def _write_head(
        self, shape: tuple[Any, ...], request: FastRequest, client: ClientSocket
    ) -> bytes:
        status, *headers = shape
        response = Response(request, client, self._cfg)
        response.start_response(status, headers)
        lines = [
            line for line in response.default_headers() if not line.startswith("Date:")
        ]
        lines += [f"{name}: {value}\r\n" for name, value in response.headers]
        head = "".join(lines).encode("latin-1")
        if len(self._heads) >= _MAX_KNOWN_ANSWERS:
            self._heads.clear()
        self._heads[shape] = head
        return head

    def _date_line(self) -> bytes:
        second = int(time.time())
        if second != self._second:
            self._second = second
            self._date = f"Date: {util.http_date(second)}\r\n\r\n".encode()
        return self._date
