"""Connection: requests to one server, and its answers as results or errors.

It knows addresses, tokens, time limits, retries and errors, and no route.
"""

from __future__ import annotations

import json
import logging
import os
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

import requests
from requests.auth import AuthBase

from gym_http_client.addresses import Address, base_path, no_scheme
from gym_http_client.answers import error_in, value_of
from gym_http_client.error_mapping import unanswered_error
from gym_http_client.errors import Failure
from gym_http_client.http1 import Reply
from gym_http_client.processes import PerProcess
from gym_http_client.requests_transport import UnixAdapter, check_head, requests_failure
from gym_http_client.retries import REPEATABLE, Retries, Tries, keys
from gym_http_client.server_warnings import HEADER, show_header

__all__ = ["Connection"]

_logger = logging.getLogger("gym_http_client")
# Each try has some time, even one that begins at the end.
_SHORTEST = 0.001
_UNIX = "http+unix://"


@dataclass(frozen=True)
class _JsonRequest:
    """What is sent, and sent again, the same to the byte."""

    method: str
    url: str
    headers: dict[str, str]
    data: bytes | None
    query: dict[str, str] | None


class Connection:
    """Keeps a connection to a server open and speaks JSON over it.

    Args:
        base: The server's address, as ``http://127.0.0.1:5000``. It may hold a
            token, as ``http://:TOKEN@host:5000``, and a path. A Unix socket is
            ``http+unix://%2Fpath%2Fto.sock``.
        token: The server's token; else the one in the address, else the one in
            the environment variable ``GHS_TOKEN``. An empty one means none.
        timeout: Seconds that each try may wait for the server to accept the
            connection, and then for each part of the answer; None to wait for ever.
        retries: How requests are sent again.
    """

    def __init__(
        self,
        base: str,
        *,
        token: str | None = None,
        timeout: float | None = 60.0,
        retries: Retries | None = None,
    ) -> None:
        self.base, token_in_base = _address_and_token(base)
        self.timeout = timeout
        self._retries = retries or Retries()
        self._met = False
        self._keys = PerProcess(keys)
        self.session = requests.Session()
        self.session.headers["Accept"] = "application/json"
        # As for streams. What REQUESTS_CA_BUNDLE names still replaces it.
        trusted = os.environ.get("SSL_CERT_FILE")
        if trusted and not {"REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"} & os.environ.keys():
            self.session.verify = trusted
        if self.base.startswith(_UNIX):
            self.session.mount(_UNIX, UnixAdapter(Address.parse(self.base)))
        if token is None:
            token = token_in_base or os.environ.get("GHS_TOKEN")
        if token:
            self.session.auth = _BearerToken(token)

    def get(self, route: str, query: dict[str, str] | None = None) -> Any:
        """Return the JSON that a GET answers."""
        return value_of(self.send("GET", route, query=query))

    def post(self, route: str, body: Any) -> Any:
        """Return the JSON that a POST of JSON answers; None when that is empty."""
        return value_of(self.send("POST", route, body=body))

    def send(
        self,
        method: str,
        route: str,
        *,
        body: Any = None,
        query: dict[str, str] | None = None,
        accept: str | None = None,
        once: bool = False,
        creation_wait: float | None = None,
    ) -> requests.Response:
        """Send a request until there is an answer, and return that, which is a 2xx one.

        A POST bears an ``Idempotency-Key``. It and GET are sent again if there is no
        whole answer, or one of 408, 429 and 503; other requests are sent once.

        Args:
            method: As ``POST``.
            route: Path below the server's address, quoted.
            body: What is sent as JSON, unless this is a GET.
            query: What follows the path.
            accept: Media types that the answer may have.
            once: Send it once in any case.
            creation_wait: As for ``Requester.request``.

        Raises:
            ServerError: If the server says no, or there is no answer.
        """
        request = self._request(method, route, body, query, accept)
        what = f"{method} {request.url}"
        retries, whole = self._retries, self.timeout
        if creation_wait is not None:
            retries = retries.of_creation(creation_wait)
            whole = None if whole is None else whole + creation_wait
        tries = Tries(retries, retries.clock(), what=what, met=self._met)
        limit = whole
        while True:
            response = self._exchange(request, limit)
            if once or method not in REPEATABLE or not tries.again(_outcome(response)):
                break
            if whole is not None:
                limit = min(whole, max(tries.left(), _SHORTEST))
        self._met = tries.met
        if isinstance(response, Failure):
            key = request.headers.get("Idempotency-Key")
            raise unanswered_error(
                response, method, request.url, key, tries.count, tries.heard
            ) from response
        fine = 200 <= response.status_code < 300
        if not fine or creation_wait is None:
            # Where a filter turns a warning into an exception, a new instance would be
            # lost: its warnings are for the caller to show.
            show_header(response.headers.get(HEADER))
        if not fine:
            raise error_in(response)
        return response

    def close(self) -> None:
        """Close the connection; a later call opens it again."""
        self.session.close()

    def _request(
        self,
        method: str,
        route: str,
        body: Any,
        query: dict[str, str] | None,
        accept: str | None,
    ) -> _JsonRequest:
        headers = {} if accept is None else {"Accept": accept}
        data = None
        if method != "GET":
            headers["Content-Type"] = "application/json"
            data = _encode(body)
        if method == "POST":
            headers["Idempotency-Key"] = next(self._keys.get())
        return _JsonRequest(method, self.base + route, headers, data, query)

    def _exchange(
        self, request: _JsonRequest, limit: float | None
    ) -> requests.Response | Failure:
        """Send a request once."""
        _logger.debug("%s %s", request.method, request.url)
        try:
            response = self.session.request(
                request.method,
                request.url,
                params=request.query,
                data=request.data,
                headers=request.headers,
                timeout=limit,
                # A redirected POST becomes a GET: another request than was meant.
                allow_redirects=False,
            )
            check_head(_reply(response))
        except (
            requests.Timeout,
            requests.ConnectionError,
            requests.exceptions.ChunkedEncodingError,
        ) as error:
            # Without a name: its traceback holds this frame, and both would stay.
            return requests_failure(error, limit)
        return response


class _BearerToken(AuthBase):
    """Sets the header on each request, so that no netrc entry replaces it."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request


def _address_and_token(base: str) -> tuple[str, str | None]:
    """Split a server's address from the token in it, so that no message shows it."""
    if base.startswith(_UNIX):
        unix = Address.parse(base)
        return unix.url, unix.token
    parts = urlsplit(base)
    if parts.scheme not in ("http", "https"):
        raise no_scheme()
    if not parts.hostname:
        raise ValueError("A server's address looks like http://127.0.0.1:5000")
    host = parts.netloc.rpartition("@")[2]
    address = urlunsplit((parts.scheme, host, base_path(parts.path), "", ""))
    return address, unquote(parts.password) if parts.password else None


def _encode(body: Any) -> bytes:
    return json.dumps(_named(body), allow_nan=False, default=_plain).encode()


def _named(value: Any) -> Any:
    """Turn named tuples, as elements of a Graph are, into objects, which servers want.

    To JSON they would be lists, as other tuples are.
    """
    if isinstance(value, dict):
        return {key: _named(item) for key, item in value.items()}
    as_dict = getattr(value, "_asdict", None)
    if callable(as_dict):
        return _named(as_dict())
    if isinstance(value, (list, tuple)):
        return [_named(item) for item in value]
    return value


def _plain(value: Any) -> Any:
    """Turn what JSON does not know, an array or an array's scalar, into what it does.

    By the method and not the class: so tensors work too, and NumPy is not needed.
    """
    to_list = getattr(value, "tolist", None)
    if not callable(to_list):
        raise TypeError(f"{type(value).__name__} cannot be sent as JSON: {value!r}")
    return to_list()


def _outcome(response: requests.Response | Failure) -> Reply | Failure:
    return response if isinstance(response, Failure) else _reply(response)


def _reply(response: requests.Response) -> Reply:
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Reply(response.status_code, headers, response.content)
