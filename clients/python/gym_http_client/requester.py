"""Links: requests to one server that are sent until there is an answer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Protocol, Self

from gym_http_client.addresses import Address
from gym_http_client.error_mapping import unanswered_error
from gym_http_client.errors import Failure
from gym_http_client.http1 import MAX_BODY, Reply, Request
from gym_http_client.processes import PerProcess
from gym_http_client.requests_transport import RequestsTransport, proxy_for
from gym_http_client.retries import REPEATABLE, REPEATED, Retries, Tries, keys
from gym_http_client.socket_transport import SocketTransport

__all__ = ["Requester"]

# Each try has some time, even one that begins at the end.
_SHORTEST = 0.001


class _Transport(Protocol):
    """An exchange at a time, each of them once."""

    @property
    def busy(self) -> bool: ...

    def exchange(self, request: Request, time_limit: float, fresh: bool) -> Reply: ...

    def begin(self, request: Request, time_limit: float) -> None: ...

    def finish(self, request: Request, time_limit: float) -> Reply: ...

    def close(self) -> None: ...

    def abandon(self) -> None: ...


class _ProcessState:
    """What each process has for itself."""

    def __init__(self, make: Callable[[], _Transport]) -> None:
        self.make = make
        self.connection = make()
        self.keys = keys()
        # A request that was sent, and whose answer was not read yet.
        self.begun: tuple[_Transport, Request] | None = None

    def free_connection(self) -> _Transport:
        """Return the connection, or a new one if another thread waits on that."""
        return self.make() if self.connection.busy else self.connection


class Requester:
    """Sends requests to a server, and sends them again when the answer is lost.

    Each POST bears an ``Idempotency-Key``. It and GET are sent again, the same to
    the byte, if there is no whole answer, or one of 408, 429 and 503. All other
    answers count, and all other requests are sent once. Where nobody has ever been at
    the address, this ends sooner: see ``Retries.first_contact``.

    Threads and forked processes may share a link.

    Args:
        url: The server's address; see ``Address``.
        token: The server's token; else the one in the address, else the one in
            the environment variable ``GHS_TOKEN``. An empty one means none.
        time_limit: Seconds for each try, from connecting to the answer's last byte.
        retries: How requests are sent again.
        max_body: Bytes that the body of an answer may have.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        time_limit: float = 60.0,
        retries: Retries | None = None,
        max_body: int = MAX_BODY,
    ) -> None:
        address = Address.parse(url, token)
        self.url = address.url
        self.time_limit = time_limit
        self._retries = retries or Retries()
        self._met = False
        kind = SocketTransport if proxy_for(address) is None else RequestsTransport
        make = partial(kind, address, max_body=max_body, clock=self._retries.clock)
        self._own = PerProcess(
            lambda: _ProcessState(make), lambda own: own.connection.abandon()
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
        self._own.get().connection.close()

    def abandon(self) -> None:
        """Close the connection without waiting for a thread that uses it."""
        self._own.get().connection.abandon()

    def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        content_type: str | None = None,
        accept: str | None = None,
        key: str | None = None,
        creation_wait: float | None = None,
        closing_seconds: float | None = None,
    ) -> Reply:
        """Send a request until there is an answer, and return that.

        Args:
            method: As ``POST``.
            path: Path below the server's address, quoted.
            body: What is sent.
            content_type: Media type of the body.
            accept: Media types that the answer may have.
            key: The ``Idempotency-Key``; a POST without gets one of its own.
            creation_wait: Of a request that creates an instance, the seconds that the
                server may wait for external environments: as many more are given to
                each try, and that there are none is not asked again.
            closing_seconds: Of a request that ends an instance, the seconds for all
                tries together; a refused connection is final.

        Raises:
            ServerUnreachable: There is no answer.
            UnexpectedAnswer: What came is none.
            ValueError: This is no request.
        """
        own = self._own.get()
        connection = own.connection
        if key is None and method == "POST":
            key = next(own.keys)
        request = Request(method, path, body, content_type, accept, key)
        # What is sent only once needs a connection that is there for sure.
        once = method not in REPEATABLE
        retries, whole = self._retries, self.time_limit
        if creation_wait is not None:
            retries = retries.of_creation(creation_wait)
            whole += creation_wait
        if closing_seconds is not None:
            retries = retries.of_closing(closing_seconds)
            whole = min(whole, closing_seconds)
            connection = own.free_connection()
        began = retries.clock()
        limit = whole
        tries: Tries | None = None
        outcome: Reply | Failure | None = None
        try:
            while True:
                try:
                    outcome = connection.exchange(request, limit, once)
                    if outcome.status not in REPEATED:
                        self._met = True
                        return outcome
                except Failure as failure:
                    outcome = failure
                tries = tries or self._tries(request, began, retries)
                again = not once and tries.again(outcome)
                self._met = tries.met
                if not again:
                    return self._last(request, outcome, tries)
                limit = min(whole, max(tries.left(), _SHORTEST))
        finally:
            # Its traceback holds this frame: both would stay, and sockets with them.
            del outcome

    def begin(self, path: str, seconds: float) -> None:
        """Send a POST without a body once, and do not wait for its answer.

        Args:
            path: As for `request`.
            seconds: For connecting and sending.

        Raises:
            Failure: It could not be sent.
        """
        own = self._own.get()
        connection = own.free_connection()
        request = Request("POST", path, key=next(own.keys))
        own.begun = connection, request
        connection.begin(request, min(seconds, self.time_limit))

    def finish(self, seconds: float) -> Reply:
        """Return the answer to the request that was begun, and close its connection.

        Args:
            seconds: To wait for it.

        Raises:
            Failure: There is no answer.
        """
        own = self._own.get()
        if own.begun is None:
            raise RuntimeError("no request was begun")
        (connection, request), own.begun = own.begun, None
        try:
            return connection.finish(request, seconds)
        finally:
            connection.close()

    def _tries(self, request: Request, began: float, retries: Retries) -> Tries:
        what = f"{request.method} {self.url}{request.path}"
        return Tries(retries, began, what=what, met=self._met)

    def _last(self, request: Request, outcome: Reply | Failure, tries: Tries) -> Reply:
        """Return what the last try brought, or raise it."""
        if isinstance(outcome, Reply):
            return outcome
        try:
            url = self.url + request.path
            raise unanswered_error(
                outcome, request.method, url, request.key, tries.count, tries.heard
            ) from outcome
        finally:
            del outcome
