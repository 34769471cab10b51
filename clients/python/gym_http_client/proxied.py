"""The proxied connection: exchanges through the HTTP proxy that the user has set."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import requests
from requests.utils import get_environ_proxies, select_proxy
from urllib3.exceptions import HTTPError

from gym_http_client.addresses import Address
from gym_http_client.bodies import check_size
from gym_http_client.causes import check_head, failure_of
from gym_http_client.failures import Failure, FailureKind
from gym_http_client.heads import Request, RequestHeads
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

    Its time limit is looser: it counts for each wait, and is looked at between.

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
        self._heads = RequestHeads(address)
        self._max_body = max_body
        self._clock = clock
        self._lock = threading.Lock()
        self._session = requests.Session()

    def exchange(
        self, request: Request, time_limit: float = 60.0, fresh: bool = False
    ) -> Reply:
        """Send a request once and return its answer; see ``LeanConnection``."""
        self._heads.head(request)  # refuses what is none
        with self._lock:
            if fresh:
                self._session.close()
            end = self._clock() + time_limit
            try:
                with self._send(request, time_limit) as response:
                    return self._reply(response, end)
            except (requests.RequestException, HTTPError) as error:
                raise failure_of(error, time_limit) from error
            except BadAnswer as error:
                raise Failure(FailureKind.MALFORMED, error) from error

    @property
    def busy(self) -> bool:
        """Whether a thread waits for an answer, and others for their turn."""
        return self._lock.locked()

    def begin(self, request: Request, time_limit: float) -> None:
        """Do nothing: ``requests`` cannot send without waiting, so `finish` does it."""

    def finish(self, request: Request, time_limit: float) -> Reply:
        """Send the request that was begun, and return its answer."""
        return self.exchange(request, time_limit)

    def close(self) -> None:
        """Close the connection; the next exchange opens another."""
        with self._lock:
            self._session.close()

    def abandon(self) -> None:
        """Close the connection, and without waiting for a turn."""
        self._session.close()

    def _send(self, request: Request, time_limit: float) -> requests.Response:
        headers = {
            "Accept": request.accept,
            # The body counts as it was sent.
            "Accept-Encoding": "identity",
            "Content-Type": request.content_type,
            "Idempotency-Key": request.key,
            "User-Agent": "gym_http_client",
        }
        return self._session.request(
            request.method,
            self._base + request.path,
            data=request.body,
            headers={name: value for name, value in headers.items() if value},
            auth=self._authorise,
            timeout=time_limit,
            allow_redirects=False,
            stream=True,
        )

    def _authorise(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        # Even without a token it is called, so that no netrc entry takes its place.
        if self._token:
            # In the end headers are encoded as Latin-1, and tokens are UTF-8.
            token = self._token.encode().decode("latin-1")
            request.headers["Authorization"] = f"Bearer {token}"
        return request

    def _reply(self, response: requests.Response, end: float) -> Reply:
        # What reads whole pieces would wait for the last byte of each.
        read = getattr(response.raw, "read1", response.raw.read)
        body = bytearray()
        while piece := read(_PIECE):
            body += piece
            check_size(len(body), self._max_body)
            if self._clock() > end:
                raise requests.ReadTimeout("the body did not come within its time")
        headers = {name.lower(): value for name, value in response.headers.items()}
        reply = Reply(response.status_code, headers, bytes(body))
        check_head(reply)
        return reply
