"""Requester: sends requests to one server, with retries."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Protocol, Self

from gym_http_client.errors import Failure
from gym_http_client.http.addresses import Address
from gym_http_client.http.http1 import MAX_BODY, Reply, Request
from gym_http_client.http.processes import PerProcess
from gym_http_client.http.requests_transport import (
    RequestsTransport,
    new_session,
    proxy_for,
)
from gym_http_client.http.retries import REPEATABLE, Retries, Tries, keys
from gym_http_client.http.socket_transport import SocketTransport

__all__ = ["Requester", "Transport"]


class Transport(Protocol):
    """Sends single requests to a server, without retries."""

    @property
    def busy(self) -> bool:
        """Whether a thread waits for an answer, so that others have to wait."""

    def exchange(
        self,
        request: Request,
        time_limit: float,
        fresh: bool,
        meanwhile: Callable[[], None] | None = None,
    ) -> Reply:
        """Send a request once, call `meanwhile`, and return the answer."""

    def send_ahead(self, request: Request, time_limit: float) -> None:
        """Send a request but for its last part, which its exchange sends."""

    def begin(self, request: Request, time_limit: float) -> None:
        """Send a request once, and do not wait for its answer."""

    def finish(self, request: Request, time_limit: float) -> Reply:
        """Return the answer to the request that `begin` sent."""

    def close(self) -> None:
        """Close the connection; the next exchange opens another."""

    def abandon(self) -> None:
        """Close the connection without waiting for a thread that uses it."""

    def interrupt(self) -> None:
        """End the exchange that another thread waits for, if possible."""


class _ProcessState:
    """State of one process: transport, keys, and a request without an answer."""

    def __init__(self, make: Callable[[], Transport]) -> None:
        self.make = make
        self.transport = make()
        self.keys = keys()
        # A request that `begin` sent, whose answer was not read yet.
        self.begun: tuple[Transport, Request] | None = None
        # A request that was sent ahead.
        self.ahead: Request | None = None

    def free_transport(self) -> Transport:
        """Return the transport, or a new one if another thread uses it."""
        return self.make() if self.transport.busy else self.transport


class Requester:
    """Sends requests to a server, and retries those whose answers are lost.

    Each POST has an ``Idempotency-Key``. A POST, PUT or GET is sent again, with the
    same bytes, if there is no complete answer, or if its status is 408, 429 or 503. All
    other answers are final, and other methods are not retried. If no server has ever
    been at the address, retries end sooner: see ``Retries.first_contact``.

    Threads and forked processes may share a requester.

    Args:
        url: The server's address; see ``Address``.
        token: The server's token; else the one in the address, else the one in
            the environment variable ``GHS_TOKEN``. An empty one means none.
        time_limit: Seconds for each try, from connecting to the answer's last byte.
        retries: How requests are retried.
        max_body: Maximum size of an answer's body in bytes.
        transport: Creates the transport. By default it is a socket, or a ``requests``
            session if an environment variable names a proxy.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        time_limit: float = 60.0,
        retries: Retries | None = None,
        max_body: int = MAX_BODY,
        transport: Callable[[Address], Transport] | None = None,
    ) -> None:
        address = Address.parse(url, token)
        self.url = address.url
        self.time_limit = time_limit
        self._retries = retries or Retries()
        self._met = False
        if transport is None:
            transport = partial(_transport_to, max_body, self._retries.clock)
        make = partial(transport, address)
        self._process = PerProcess(
            lambda: _ProcessState(make), lambda state: state.transport.abandon()
        )

    def __repr__(self) -> str:
        return f"Requester({self.url!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; a later request opens it again."""
        self._process.get().transport.close()

    def renew(self) -> None:
        """Close the connection, and use a new transport for later requests."""
        state = self._process.get()
        state.transport.close()
        state.transport = state.make()

    def abandon(self) -> None:
        """Close the connection without waiting for a thread that uses it."""
        self._process.get().transport.abandon()

    def interrupt(self) -> None:
        """End the exchange that another thread waits for, if possible.

        That thread may try again: the sleep of its `Retries` has to raise.
        """
        self._process.get().transport.interrupt()

    def request(
        self,
        method: str,
        path: str,
        body: bytes | memoryview = b"",
        *,
        content_type: str | None = None,
        accept: str | None = None,
        key: str | None = None,
        headers: tuple[tuple[str, str], ...] = (),
        creation_wait: float | None = None,
        within: float | None = None,
        once: bool = False,
        meanwhile: Callable[[], None] | None = None,
    ) -> Reply:
        """Send a request, with retries, and return the answer.

        Args:
            method: As ``POST``.
            path: Path below the server's address, quoted.
            body: The bytes of the body.
            content_type: Media type of the body.
            accept: Media types that the answer may have.
            key: The ``Idempotency-Key``; by default a POST gets a new one.
            headers: Further headers, names and values.
            creation_wait: For a request that creates an instance: the seconds that the
                server may wait for external environments. They are added to the time
                limit of each try. A refusal for lack of environments is not retried.
            within: Seconds for all tries together, of a request that is not worth more,
                such as one that ends an instance. A refused connection is not retried.
            once: Send the request only once.
            meanwhile: Called once the request is sent for the first time, while the
                server works on it.

        Raises:
            ServerUnreachable: There is no answer.
            UnexpectedAnswer: The answer is not HTTP.
            ValueError: The request is malformed.
        """
        state = self._process.get()
        transport = state.transport
        if key is None and method == "POST":
            key = next(state.keys)
        request = Request(method, path, body, content_type, accept, key, headers)
        ahead, state.ahead = state.ahead, None
        if ahead is not None and ahead.body is body:
            request = ahead
        retries, limit = self._retries, self.time_limit
        if creation_wait is not None:
            retries = retries.of_creation(creation_wait)
            limit += creation_wait
        if within is not None:
            retries = retries.within(within)
            limit = min(limit, within)
            transport = state.free_transport()
        once = once or method not in REPEATABLE
        began = retries.clock()
        first: Reply | Failure
        try:
            # A request without retries needs a connection that is certainly open.
            first = transport.exchange(request, limit, once, meanwhile)
            if once or first.status not in retries.repeated:
                self._met = True
                return first
        except Failure as failure:
            first = failure
        # Only here, since nearly all first tries get an answer.
        what = f"{method} {self.url}{path}"
        tries = Tries(retries, began, what=what, met=self._met, limit=limit)
        try:
            if once and isinstance(first, Failure):
                raise first
            return tries.run(
                lambda limit: transport.exchange(request, limit, False), first
            )
        except Failure as failure:
            raise tries.error(failure, method, self.url + path, key) from failure
        finally:
            self._met = tries.met
            # Its traceback refers to this frame: the cycle would keep sockets open.
            del first

    def send_ahead(
        self, path: str, body: bytes | memoryview, *, content_type: str
    ) -> None:
        """Send a POST with a large body but for its last part, once.

        The next request has to be the same POST with the same object as its body, and
        sends the last part. Another one discards this.

        Raises:
            Failure: The request could not be sent.
        """
        state = self._process.get()
        request = Request(
            "POST", path, body=body, content_type=content_type, key=next(state.keys)
        )
        state.ahead = request
        state.transport.send_ahead(request, self.time_limit)

    def begin(self, path: str, seconds: float) -> None:
        """Send a POST without a body once, and do not wait for its answer.

        Args:
            path: As for `request`.
            seconds: Time limit for connecting and sending.

        Raises:
            Failure: The request could not be sent.
        """
        state = self._process.get()
        transport = state.free_transport()
        request = Request("POST", path, key=next(state.keys))
        state.begun = transport, request
        transport.begin(request, min(seconds, self.time_limit))

    def finish(self, seconds: float) -> Reply:
        """Return the answer to the request that `begin` sent, and close its connection.

        Args:
            seconds: Time limit for the answer.

        Raises:
            Failure: There is no answer.
        """
        state = self._process.get()
        if state.begun is None:
            raise RuntimeError("no request was begun")
        (transport, request), state.begun = state.begun, None
        try:
            return transport.finish(request, seconds)
        finally:
            transport.close()


def _transport_to(
    max_body: int, clock: Callable[[], float], address: Address
) -> Transport:
    """Create a transport that respects the proxy settings of environment variables."""
    if proxy_for(address) is None:
        return SocketTransport(address, max_body=max_body, clock=clock)
    session = new_session(address)
    return RequestsTransport(address, session, max_body=max_body, clock=clock)
