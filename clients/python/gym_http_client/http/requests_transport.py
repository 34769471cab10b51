"""The transport on ``requests``, for settings that only its sessions support."""

from __future__ import annotations

import http.client
import math
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase
from requests.utils import get_environ_proxies, get_netrc_auth, select_proxy
from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError
from urllib3.exceptions import TimeoutError as WaitTimeout

from gym_http_client.errors import (
    ABSENT,
    Failure,
    FailureKind,
)
from gym_http_client.http.addresses import Address
from gym_http_client.http.dialing import check_unix_sockets
from gym_http_client.http.http1 import MAX_BODY, BadAnswer, Reply, Request, RequestHeads
from gym_http_client.http.http1_bodies import check_size

__all__ = [
    "RequestsTransport",
    "UnixAdapter",
    "check_head",
    "needs_requests",
    "new_session",
    "proxy_for",
    "requests_failure",
]

_TIMEOUTS = (requests.Timeout, WaitTimeout)
_LOSSES = (
    requests.ConnectionError,
    requests.exceptions.ChunkedEncodingError,
    HTTPError,
)
_CUT_OFF = (ssl.SSLEOFError, ssl.SSLSyscallError, ssl.SSLZeroReturnError)
_BODYLESS_STATUSES = frozenset({204, 304})
_PIECE = 64 * 1024
_BUNDLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


def requests_failure(error: Exception, limit: float | None, proxy: str = "") -> Failure:
    """Convert an exception of ``requests`` or ``urllib3`` to a failure.

    Args:
        error: The exception.
        limit: Time limit of each wait, in seconds.
        proxy: URL of the proxy that the request was sent through; "" if none.
    """
    kind = _kind_of(error)
    timeout = kind is FailureKind.TIMEOUT and limit is not None
    reason = f"nothing within {limit:g} s" if timeout else str(_reason(error))
    failure = Failure(kind, f"{reason}, through the proxy {proxy}" if proxy else reason)
    failure.__cause__ = error
    return failure


def check_head(reply: Reply) -> None:
    """Raise if an answer's head was cut off, which ``http.client`` accepts.

    Raises:
        requests.ConnectionError: The headers do not state the length of the body.
    """
    if reply.status in _BODYLESS_STATUSES or reply.body:
        return
    if not (
        reply.headers.get("content-length") or "transfer-encoding" in reply.headers
    ):
        raise requests.ConnectionError("the answer ended within its head")


def _kind_of(error: Exception) -> FailureKind:
    causes = list(_causes(error))
    if any(isinstance(cause, ABSENT) for cause in causes):
        return FailureKind.ABSENT
    if any(isinstance(cause, _TIMEOUTS) for cause in causes):
        return FailureKind.TIMEOUT
    if isinstance(error, requests.exceptions.SSLError):
        cut = any(isinstance(cause, _CUT_OFF) for cause in causes)
        return FailureKind.LOST if cut else FailureKind.UNTRUSTED
    if any(_is_no_http(cause) for cause in causes):
        return FailureKind.MALFORMED
    return FailureKind.LOST if isinstance(error, _LOSSES) else FailureKind.MALFORMED


def _is_no_http(cause: BaseException) -> bool:
    # A status line without a line break was cut off.
    if not isinstance(cause, http.client.BadStatusLine):
        return False
    return str(cause.args[0]).endswith("\n")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    # Ignore __context__: it may be an exception that the caller handles.
    while error is not None:
        yield error
        found = (error.__cause__, getattr(error, "reason", None), *error.args)
        error = next((each for each in found if isinstance(each, Exception)), None)


def _reason(error: Exception) -> object:
    """Return the cause of urllib3's "Max retries exceeded", which misleads here."""
    inner = error.args[0] if error.args else error
    return getattr(inner, "reason", inner)


def proxy_for(address: Address) -> str | None:
    """Return the proxy that environment variables set for a server, or None."""
    if address.socket_path:
        return None
    return select_proxy(address.url, get_environ_proxies(address.url, no_proxy=None))


def needs_requests(address: Address) -> bool:
    """Return whether a server needs settings that only ``requests`` supports.

    These are a proxy and a certificate bundle in environment variables, and, without a
    token, an entry in netrc.
    """
    if address.socket_path:
        return False
    bundle = any(os.environ.get(name) for name in _BUNDLES)
    return (
        proxy_for(address) is not None
        or (address.scheme == "https" and bundle)
        or (not address.token and get_netrc_auth(address.url) is not None)
    )


def new_session(address: Address, *, netrc: bool = False) -> requests.Session:
    """Return a session of ``requests`` for one server.

    Args:
        address: The server's.
        netrc: Whether an entry in netrc replaces a missing token.
    """
    session = requests.Session()
    session.headers["User-Agent"] = "gym_http_client"
    trusted = os.environ.get("SSL_CERT_FILE")
    # As for sockets. REQUESTS_CA_BUNDLE still overrides it.
    if trusted and not any(os.environ.get(name) for name in _BUNDLES):
        session.verify = trusted
    if address.socket_path:
        session.mount("http+unix://", UnixAdapter(address))
    if address.token or not netrc:
        session.auth = _BearerToken(address.token)
    return session


class _BearerToken(AuthBase):
    """Sets the Authorization header; without a token, it only disables netrc."""

    def __init__(self, token: str | None) -> None:
        # Headers are encoded as Latin-1, but tokens are UTF-8.
        self._value = token and f"Bearer {token.encode().decode('latin-1')}"

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self._value:
            request.headers["Authorization"] = self._value
        return request


class RequestsTransport:
    """Sends single requests with ``requests``, which supports proxies.

    Its time limit is less exact than that of ``SocketTransport``: it applies to each
    wait, and is checked between waits.

    Args:
        address: The server's.
        session: Sends the requests.
        max_body: Maximum size of an answer's body in bytes.
        clock: Returns the time in seconds, from any start.
        limits_each_part: Whether the time limit restarts with each part of the answer.
    """

    def __init__(
        self,
        address: Address,
        session: requests.Session,
        *,
        max_body: int = MAX_BODY,
        clock: Callable[[], float] = time.monotonic,
        limits_each_part: bool = False,
    ) -> None:
        self._base = address.url
        self._heads = RequestHeads(address)
        self._max_body = max_body
        self._clock = clock
        self._limits_each_part = limits_each_part
        self._lock = threading.Lock()
        self._session = session

    def exchange(
        self,
        request: Request,
        time_limit: float = 60.0,
        fresh: bool = False,
        meanwhile: Callable[[], None] | None = None,
    ) -> Reply:
        """Send a request once and return its answer; see ``SocketTransport``.

        ``requests`` calls nothing meanwhile.
        """
        self._heads.head(request)  # raises what a socket would raise
        with self._lock:
            if fresh:
                self._session.close()
            end = self._clock() + time_limit
            if self._limits_each_part:
                end = math.inf
            try:
                with self._send(request, time_limit) as response:
                    return self._reply(response, end)
            except (requests.RequestException, HTTPError) as error:
                if isinstance(error, ValueError):
                    # The session's settings do not permit this request.
                    raise
                raise requests_failure(error, time_limit, self._proxy) from error
            except BadAnswer as error:
                raise Failure(FailureKind.MALFORMED, error) from error

    @property
    def busy(self) -> bool:
        """Whether a thread waits for an answer, so that others have to wait."""
        return self._lock.locked()

    def send_ahead(self, request: Request, time_limit: float) -> None:
        """Do nothing: ``requests`` sends only whole requests."""

    def begin(self, request: Request, time_limit: float) -> None:
        """Do nothing: ``requests`` cannot send without waiting, so `finish` sends."""

    def finish(self, request: Request, time_limit: float) -> Reply:
        """Send the request of `begin`, and return its answer."""
        return self.exchange(request, time_limit)

    def close(self) -> None:
        """Close the connection; the next exchange opens another."""
        with self._lock:
            self._session.close()

    def abandon(self) -> None:
        """Close the connection without waiting for a thread that uses it."""
        self._session.close()

    def interrupt(self) -> None:
        """Close idle connections; ``requests`` cannot end a running exchange."""
        self._session.close()

    @cached_property
    def _proxy(self) -> str:
        """The URL of the proxy for this server, without password; "" if none."""
        found = self._session.merge_environment_settings(
            self._base, {}, None, None, None
        )
        proxy = select_proxy(self._base, found["proxies"])
        if not proxy:
            return ""
        scheme, _, place = proxy.rpartition("://")
        return f"{scheme or 'http'}://{place.rpartition('@')[2]}"

    def _send(self, request: Request, time_limit: float) -> requests.Response:
        headers = {
            "Accept": request.accept,
            # Avoid the cost of compression.
            "Accept-Encoding": "identity",
            "Content-Type": request.content_type,
            "Idempotency-Key": request.key,
            **dict(request.headers),
        }
        return self._session.request(
            request.method,
            self._base + request.path,
            data=bytes(request.body),
            headers={name: value for name, value in headers.items() if value},
            timeout=time_limit,
            # A redirected POST would become a GET.
            allow_redirects=False,
            stream=True,
        )

    def _reply(self, response: requests.Response, end: float) -> Reply:
        # A read of fixed size would wait for its last byte.
        read = getattr(response.raw, "read1", response.raw.read)
        if "Content-Encoding" in response.headers:
            # A proxy compressed the body, although the client did not request it.
            read = partial(response.raw.read, decode_content=True)
        body = bytearray()
        while piece := read(_PIECE):
            body += piece
            check_size(len(body), self._max_body)
            if self._clock() > end:
                raise requests.ReadTimeout("the body did not come within its time")
        headers = {name.lower(): value for name, value in response.headers.items()}
        reply = Reply(response.status_code, headers, bytes(body), self._proxy)
        check_head(reply)
        return reply


class _UnixConnection(HTTPConnection):
    """A connection to a Unix socket."""

    def __init__(self, *args: Any, socket_path: str, **options: Any) -> None:
        super().__init__(*args, **options)
        self._socket_path = socket_path

    def _new_conn(self) -> socket.socket:
        check_unix_sockets()
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connected.settimeout(self.timeout)
        try:
            connected.connect(self._socket_path)
        except TimeoutError as error:
            connected.close()
            raise ConnectTimeoutError(self, str(error)) from error
        except OSError as error:
            connected.close()
            raise NewConnectionError(self, str(error)) from error
        return connected


class _UnixPool(HTTPConnectionPool):
    """Connections to one Unix socket."""

    ConnectionCls = _UnixConnection


class UnixAdapter(HTTPAdapter):
    """Sends all requests to the Unix socket of one server.

    Args:
        address: The server's.
    """

    def __init__(self, address: Address) -> None:
        super().__init__()
        self._address = address
        self._pool = self._new_pool()

    def get_connection_with_tls_context(
        self, *args: Any, **options: Any
    ) -> HTTPConnectionPool:
        """Return the connections, the same for all requests."""
        return self._pool

    def request_url(self, request: requests.PreparedRequest, proxies: Any) -> str:
        """Return the target of the request line, as without a proxy."""
        return super().request_url(request, {})

    def close(self) -> None:
        """Close the connections; a later request opens others."""
        self._pool.close()
        self._pool = self._new_pool()
        super().close()

    def _new_pool(self) -> HTTPConnectionPool:
        # The host is the Host header of requests.
        path = self._address.socket_path
        return _UnixPool(self._address.host_header, socket_path=path)
