"""Connection: requests to one server, and its answers as results or errors.

It knows addresses, tokens, time limits and errors, and no route. It never sends
a request twice: a step that was sent twice would be two steps.
"""

from __future__ import annotations

import json
import logging
import os
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

import requests
from requests.auth import AuthBase

from gym_http_client.errors import (
    ServerError,
    ServerTimeout,
    ServerUnreachable,
    UnexpectedAnswer,
)

__all__ = ["Connection"]

_logger = logging.getLogger("gym_http_client")


class Connection:
    """Keeps a connection to a server open and speaks JSON over it.

    Args:
        base: The server's address, as ``http://127.0.0.1:5000``. It may hold a
            token, as ``http://:TOKEN@host:5000``, and a path.
        token: The server's token; else the one in the address, else the one in
            the environment variable ``GHS_TOKEN``. An empty one means none.
        timeout: Seconds that a call may wait for the server to accept the
            connection, and then for each part of the answer; None to wait for ever.
    """

    def __init__(
        self, base: str, *, token: str | None = None, timeout: float | None = 60.0
    ) -> None:
        self.base, token_in_base = _address_and_token(base)
        self.timeout = timeout
        self.session = requests.Session()
        self.session.headers["Accept"] = "application/json"
        if token is None:
            token = token_in_base or os.environ.get("GHS_TOKEN")
        if token:
            self.session.auth = _BearerToken(token)

    def get(self, route: str, query: dict[str, str] | None = None) -> Any:
        """Return the JSON that a GET answers."""
        return _value(self.send("GET", route, query=query))

    def post(self, route: str, body: Any) -> Any:
        """Return the JSON that a POST of JSON answers; None when that is empty."""
        return _value(self.send("POST", route, body=body))

    def send(
        self,
        method: str,
        route: str,
        *,
        body: Any = None,
        query: dict[str, str] | None = None,
        accept: str | None = None,
    ) -> requests.Response:
        """Send a request once and return the answer, which is a 2xx one.

        Raises:
            ServerError: If the server says no, or there is no answer.
        """
        url = self.base + route
        headers = {} if accept is None else {"Accept": accept}
        data = None
        if method != "GET":
            headers["Content-Type"] = "application/json"
            data = _encode(body)
        _logger.debug("%s %s", method, url)
        try:
            response = self.session.request(
                method,
                url,
                params=query,
                data=data,
                headers=headers,
                timeout=self.timeout,
                # A redirected POST becomes a GET: another request than was meant.
                allow_redirects=False,
            )
        except requests.Timeout as error:
            raise ServerTimeout(
                f"{method} {url} had no answer within {self.timeout} s", url=url
            ) from error
        except (
            requests.ConnectionError,
            requests.exceptions.ChunkedEncodingError,
        ) as error:
            raise ServerUnreachable(
                f"{method} {url} had no answer: {_reason(error)}", url=url
            ) from error
        if not 200 <= response.status_code < 300:
            raise _error(response)
        return response

    def close(self) -> None:
        """Close the connection; a later call opens it again."""
        self.session.close()


class _BearerToken(AuthBase):
    """Sets the header on each request, so that no netrc entry replaces it."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request


def _address_and_token(base: str) -> tuple[str, str | None]:
    """Split a server's address from the token in it, so that no message shows it."""
    parts = urlsplit(base)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("A server's address looks like http://127.0.0.1:5000")
    host = parts.netloc.rpartition("@")[2]
    address = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
    return address, unquote(parts.password) if parts.password else None


def _encode(body: Any) -> bytes:
    return json.dumps(body, allow_nan=False, default=_plain).encode()


def _plain(value: Any) -> Any:
    """Turn what JSON does not know, an array or an array's scalar, into what it does.

    By the method and not the class: so tensors work too, and NumPy is not needed.
    """
    to_list = getattr(value, "tolist", None)
    if not callable(to_list):
        raise TypeError(f"{type(value).__name__} cannot be sent as JSON: {value!r}")
    return to_list()


def _reason(error: requests.RequestException) -> object:
    """Find what urllib3 says below its "Max retries exceeded", which misleads here."""
    inner = error.args[0] if error.args else error
    return getattr(inner, "reason", inner)


def _value(response: requests.Response) -> Any:
    if not response.content:
        return None
    try:
        return json.loads(response.content)
    except ValueError:
        raise _unexpected(response, "is not JSON") from None


def _error(response: requests.Response) -> ServerError:
    try:
        body = json.loads(response.content)
        message = body["message"]
    except (ValueError, LookupError, TypeError):
        where = response.headers.get("Location")
        return _unexpected(response, f"leads to {where}" if where else "has no message")
    return ServerError(
        str(message),
        response.status_code,
        code=body.get("code"),
        url=response.url,
        body=body,
    )


def _unexpected(response: requests.Response, why: str) -> UnexpectedAnswer:
    error = UnexpectedAnswer(
        f"The answer of {response.url} {why}: is it a gym_http_server?",
        response.status_code,
        url=response.url,
        body=response.text,
    )
    error.response = response
    return error
