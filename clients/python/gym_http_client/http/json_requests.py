"""JSON requests to one server, and its answers as values or errors.

This module handles bodies, media types and errors, but no routes.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping
from http.client import responses
from typing import Any
from urllib.parse import urlencode

import requests
from requests.structures import CaseInsensitiveDict
from requests.utils import DEFAULT_CA_BUNDLE_PATH, get_encoding_from_headers

from gym_http_client.errors import (
    ServerError,
    ServerUnreachable,
    UnexpectedAnswer,
    add_notes,
    refusal,
)
from gym_http_client.http.addresses import Address
from gym_http_client.http.error_mapping import json_object, sender_of
from gym_http_client.http.http1 import MAX_BODY, Reply
from gym_http_client.http.requester import Requester, Transport
from gym_http_client.http.requests_transport import (
    RequestsTransport,
    needs_requests,
    new_session,
)
from gym_http_client.http.retries import Retries
from gym_http_client.http.server_warnings import HEADER, show_header
from gym_http_client.http.socket_transport import SocketTransport

__all__ = ["JsonRequests", "json_of", "plain_json"]

_JSON = "application/json"
_WARNINGS = HEADER.lower()
_PIECE = 1024 * 1024
_PIECE_SECONDS = 60.0
_SCALARS = frozenset({bool, float, int, str, type(None)})
# Operating systems limit the length of waits.
_LONGEST_WAIT = 1e6
_logger = logging.getLogger("gym_http_client")


class JsonRequests:
    """Sends JSON requests to a server, with retries.

    A socket sends the requests. A ``requests`` session replaces it once `session` was
    read, or if environment variables have settings that only ``requests`` supports.

    Args:
        base: The server's address; see `Address`.
        token: The server's token; else the one in the address, else the one in
            the environment variable ``GHS_TOKEN``. An empty one means none.
        timeout: Seconds that each try may wait for the server to accept the
            connection, and then for each part of the answer; None for no limit.
        retries: How requests are retried.
    """

    def __init__(
        self,
        base: str,
        *,
        token: str | None = None,
        timeout: float | None = 60.0,
        retries: Retries | None = None,
    ) -> None:
        self._address = Address.parse(base, token)
        self._clock = (retries or Retries()).clock
        self._session: requests.Session | None = None
        self._requester = Requester(
            base,
            token=token,
            time_limit=_LONGEST_WAIT if timeout is None else timeout,
            retries=retries,
            transport=self._new_transport,
        )

    @property
    def base(self) -> str:
        """The server's address, without the token."""
        return self._address.url

    @property
    def session(self) -> requests.Session:
        """The ``requests`` session, which sends all requests from now on."""
        if self._session is None:
            self._session = self._new_session()
            self._requester.renew()
        return self._session

    def get(self, route: str, query: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Send a GET, and return the JSON object in the answer."""
        path = f"{route}?{urlencode(query)}" if query else route
        return json_of(self.send("GET", path), self.base + path)

    def post(self, route: str, body: Any) -> dict[str, Any]:
        """Send a POST with JSON, and return the JSON object in the answer."""
        return json_of(self.send("POST", route, body=body), self.base + route)

    def send(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        accept: str = _JSON,
        once: bool = False,
        creation_wait: float | None = None,
    ) -> Reply:
        """Send a request, with retries, and return the answer if its status is 2xx.

        Args:
            method: As ``POST``.
            path: Path and query below the server's address, quoted.
            body: The value to send as JSON; a GET ignores it.
            accept: Media types that the answer may have.
            once: Send the request only once.
            creation_wait: As for ``Requester.request``.

        Raises:
            ServerError: The server refuses, or there is no answer.
        """
        _logger.debug("%s %s%s", method, self._address.url, path)
        sent = method != "GET"
        reply = self._requester.request(
            method,
            path,
            _encode(body) if sent else b"",
            content_type=_JSON if sent else None,
            accept=accept,
            once=once,
            creation_wait=creation_wait,
        )
        fine = 200 <= reply.status < 300
        if not fine or creation_wait is None:
            # If a filter turned a warning into an exception, a new instance would be
            # lost. So the caller shows the warnings of a creation.
            show_header(reply.headers.get(_WARNINGS))
        if not fine:
            raise _error_in(reply, self.base + path)
        return reply

    def pieces(self, path: str) -> Iterator[bytes]:
        """Send a GET without retries, and yield the answer in pieces of up to 1 MiB.

        Raises:
            ServerError: The server refuses, or the connection is lost.
        """
        url = self.base + path
        with self._new_session() as session:
            try:
                with session.get(url, stream=True, timeout=_PIECE_SECONDS) as response:
                    if response.status_code != 200:
                        headers = {k.lower(): v for k, v in response.headers.items()}
                        reply = Reply(response.status_code, headers, response.content)
                        raise _error_in(reply, url)
                    yield from response.iter_content(_PIECE)
            except requests.RequestException as error:
                raise ServerUnreachable(
                    f"GET {url} failed: {error}", url=url
                ) from error

    def unexpected(self, reply: Reply, path: str, why: str) -> UnexpectedAnswer:
        """Return the error for an answer that is not from a gym_http_server.

        Args:
            reply: The answer.
            path: Path of the request.
            why: The reason, such as "is not JSON".
        """
        return _unexpected(reply, self.base + path, why)

    def close(self) -> None:
        """Close the connection; a later request opens it again."""
        self._requester.close()

    def _new_session(self) -> requests.Session:
        session = new_session(self._address, netrc=True)
        session.headers["Accept"] = _JSON
        return session

    def _new_transport(self, address: Address) -> Transport:
        if self._session is None and not needs_requests(address):
            # Trust the certificates of requests, or of SSL_CERT_FILE if it is set.
            system = bool(os.environ.get("SSL_CERT_FILE"))
            return SocketTransport(
                address,
                max_body=MAX_BODY,
                clock=self._clock,
                ca_file=None if system else DEFAULT_CA_BUNDLE_PATH,
                limits_each_part=True,
            )
        return RequestsTransport(
            address,
            self._session or self._new_session(),
            clock=self._clock,
            limits_each_part=True,
        )


class _Members(dict[str, Any]):
    """The members of an answer; reading a missing one raises `UnexpectedAnswer`."""

    def __init__(self, members: dict[str, Any], reply: Reply, url: str) -> None:
        super().__init__(members)
        self._answer = reply, url

    def __missing__(self, name: str) -> Any:
        raise _unexpected(*self._answer, f"has no {name}")


def json_of(reply: Reply, url: str) -> dict[str, Any]:
    """Return the JSON object of an answer; an empty one if the answer is empty.

    Raises:
        UnexpectedAnswer: The body is not a JSON object. Reading a missing member
            raises this, too.
    """
    members: object = {}
    if reply.body:
        try:
            members = json.loads(reply.body)
        except (ValueError, RecursionError):
            raise _unexpected(reply, url, "is not JSON") from None
    if not isinstance(members, dict):
        raise _unexpected(reply, url, "is not a JSON object")
    return _Members(members, reply, url)


def _error_in(reply: Reply, url: str) -> ServerError:
    """Return the error that an answer describes, or else an UnexpectedAnswer."""
    body = json_object(reply)
    message, code = body.get("message"), body.get("code")
    if not isinstance(message, str):
        where = reply.headers.get("location")
        why = f"leads to {where}" if where else "has no message"
        return _unexpected(reply, url, why)
    code = code if isinstance(code, str) else None
    error = refusal(message, reply.status, code=code, url=url, body=body)
    add_notes(error, body)
    return error


def _unexpected(reply: Reply, url: str, why: str) -> UnexpectedAnswer:
    response = _response_of(reply, url)
    error = UnexpectedAnswer(
        f"The answer of {url} {why}: {sender_of(reply)}",
        reply.status,
        url=url,
        body=response.text,
    )
    error.response = response
    return error


def _response_of(reply: Reply, url: str) -> requests.Response:
    """Convert an answer to a response of ``requests``."""
    response = requests.Response()
    response.status_code = reply.status
    response.reason = responses.get(reply.status, "")
    response.url = url
    response.headers = CaseInsensitiveDict(reply.headers)
    response.encoding = get_encoding_from_headers(response.headers)
    response._content = reply.body
    return response


def _encode(body: Any) -> bytes:
    return json.dumps(_named(body), allow_nan=False, default=_plain).encode()


def plain_json(value: Any) -> Any:
    """Convert a value to JSON's own types, arrays and NumPy scalars included.

    Raises:
        TypeError: A part of it cannot be sent as JSON.
        ValueError: It contains NaN or an infinity.
    """
    return json.loads(_encode(value))


def _named(value: Any) -> Any:
    """Convert named tuples, such as elements of a Graph, to the objects servers expect.

    The JSON encoder would convert them to lists, like other tuples.
    """
    if type(value) in _SCALARS:
        return value
    if isinstance(value, dict):
        return {key: _named(item) for key, item in value.items()}
    as_dict = getattr(value, "_asdict", None)
    if callable(as_dict):
        return _named(as_dict())
    if isinstance(value, (list, tuple)):
        return [_named(item) for item in value]
    return value


def _plain(value: Any) -> Any:
    """Convert an array or a NumPy scalar to lists and numbers.

    It uses a method, not the class, so tensors work too, and NumPy is not needed.
    """
    to_list = getattr(value, "tolist", None)
    if not callable(to_list):
        raise TypeError(f"{type(value).__name__} cannot be sent as JSON: {value!r}")
    return to_list()
