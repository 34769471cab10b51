"""The proxied connection: exchanges through the HTTP proxy that the user has set."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import requests
from requests.utils import get_environ_proxies, select_proxy

from gym_http_client.addresses import Address
from gym_http_client.bodies import check_size
from gym_http_client.failures import Failure, FailureKind
from gym_http_client.heads import Request
from gym_http_client.http1 import MAX_BODY, BadAnswer, Reply

__all__ = ["ProxiedConnection", "proxy_for"]

_PIECE = 64 * 1024


def proxy_for(address: Address) -> str | None:
    """Return the proxy for a server that the environment names, or None."""
    if address.socket_path:
        return None
    return select_proxy(address.url, get_environ_proxies(address.url, no_proxy=None))


class ProxiedConnection:
    """As ``LeanConnection``, on ``requests``, which knows proxies.

    The time limit counts for the headers of an answer and for its body each, and
    for each wait for a part of them.

    Args:
        address: The server's.
        max_body: Bytes that the body of an answer may have.
        clock: Tells the time, in seconds from whenever.
    """

    def __init__(
        self,
        address: Address,
        *,
        max_body: int = MAX_BODY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._base = address.url
        self._token = address.token
        self._max_body = max_body
        self._clock = clock
        self._lock = threading.Lock()
        self._session = requests.Session()

    def exchange(
        self, request: Request, time_limit: float = 60.0, fresh: bool = False
    ) -> Reply:
        """Send a request once and return its answer; see ``LeanConnection``."""
        headers = {
            "Accept": request.accept,
            # An answer counts as it was sent.
            "Accept-Encoding": "identity",
            "Content-Type": request.content_type,
            "Idempotency-Key": request.key,
            "User-Agent": "gym_http_client",
        }
        with self._lock:
            if fresh:
                self._session.close()
            try:
                with self._session.request(
                    request.method,
                    self._base + request.path,
                    data=request.body,
                    headers={name: said for name, said in headers.items() if said},
                    auth=self._authorise,
                    timeout=time_limit,
                    allow_redirects=False,
                    stream=True,
                ) as response:
                    return self._reply(response, self._clock() + time_limit)
            except requests.RequestException as error:
                raise Failure(_kind(error), _reason(error)) from error
            except BadAnswer as error:
                raise Failure(FailureKind.MALFORMED, error) from error

    def close(self) -> None:
        """Close the connection; the next exchange opens another."""
        with self._lock:
            self._session.close()

    def abandon(self) -> None:
        """Close the connection, and without waiting for a turn."""
        self._session.close()

    def _authorise(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        # Even without a token it is here, for no netrc entry shall replace it.
        if self._token:
            token = f"Bearer {self._token}".encode()
            request.headers["Authorization"] = token  # type: ignore[assignment]
        return request

    def _reply(self, response: requests.Response, end: float) -> Reply:
        body = bytearray()
        for piece in response.iter_content(_PIECE):
            body += piece
            check_size(len(body), self._max_body)
            if self._clock() > end:
                raise requests.ReadTimeout("the body did not come within its time")
        headers = {name.lower(): value for name, value in response.headers.items()}
        return Reply(response.status_code, headers, bytes(body))


def _kind(error: requests.RequestException) -> FailureKind:
    if isinstance(error, requests.Timeout):
        return FailureKind.TIMEOUT
    if isinstance(error, requests.exceptions.SSLError):
        return FailureKind.UNTRUSTED
    if isinstance(
        error, requests.ConnectionError | requests.exceptions.ChunkedEncodingError
    ):
        return FailureKind.LOST
    return FailureKind.MALFORMED


def _reason(error: requests.RequestException) -> object:
    """Find what urllib3 says below its "Max retries exceeded", which misleads here."""
    inner = error.args[0] if error.args else error
    return getattr(inner, "reason", inner)
