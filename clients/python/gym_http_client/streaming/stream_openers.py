"""Stream openers: open the streams of one instance, and limit the tries."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from urllib.parse import quote

from gym_http_client.errors import Failure
from gym_http_client.http.addresses import Address
from gym_http_client.http.dialing import Dialer
from gym_http_client.http.error_mapping import json_object
from gym_http_client.http.http1 import Reply, Request, RequestHeads
from gym_http_client.http.retries import REPEATED
from gym_http_client.streaming.handshakes import NoStream
from gym_http_client.streaming.node_streams import NODE_SECONDS, NodeStreams
from gym_http_client.streaming.streams import Stream, WebSocketStream

__all__ = ["StreamOpener", "WebSocketOpener"]

_PROBLEM = "application/problem+json"
_HANDSHAKE_SECONDS = 10.0
_SERVER_ERRORS = 500
# The number of failed handshakes in a row after which streams rest: seconds without a
# handshake, twice as many after each further one that fails. A server may be restarted
# behind its proxy; some networks never let a stream through.
_FAILED_HANDSHAKES = 3
_FIRST_REST, _LONGEST_REST = 0.5, 300.0
_UPGRADE_REQUIRED = "upgrade-required"
# Codes that mean that the server has no streams; others concern the instance.
_NO_STREAMS = frozenset(
    {"malformed-request", "method-not-allowed", "not-found", _UPGRADE_REQUIRED}
)


class StreamOpener(ABC):
    """Opens the streams of a session, one at a time.

    Args:
        clock: Monotonic seconds.
        wanted: Whether to try streams at all.
    """

    def __init__(self, clock: Callable[[], float], *, wanted: bool) -> None:
        self._wanted = wanted
        self._clock = clock
        # The time when an answer was lost with a stream, while no stream followed.
        self._lost_at: float | None = None

    @property
    def wanted(self) -> bool:
        """Whether to try a stream now."""
        return self._wanted

    @abstractmethod
    def open(self, session: str) -> Stream | None:
        """Open a stream.

        Returns:
            The stream; ``None`` if none can be opened, now or at all.

        Raises:
            NoStream: The server refuses, for a reason that concerns the instance.
            Failure: There is no answer, and streams are the only transport.
        """

    def lose(self) -> None:
        """Note that an answer was lost with a stream."""
        self._lost_at = self._clock()

    def forget_loss(self) -> None:
        """Note that the answer has arrived, or that the caller has given up."""
        self._lost_at = None

    def _lost_since(self) -> float | None:
        """Return the seconds since an answer was lost, or None.

        With them, the server can attribute the instance's end to the waiting call.
        """
        if self._lost_at is None:
            return None
        return max(0.0, self._clock() - self._lost_at)


class WebSocketOpener(StreamOpener):
    """Opens WebSockets.

    Args:
        address: The server's.
        path: The instance's.
        node_streams: Finds streams at the instance's node, which are preferred.
        time_limit: Seconds to wait for each answer.
        spin_us: Microseconds to poll for an answer at most, before sleeping.
        clock: Monotonic seconds.
        wanted: Whether to try streams at all.
    """

    def __init__(
        self,
        address: Address,
        path: str,
        node_streams: NodeStreams,
        *,
        time_limit: float,
        spin_us: int,
        clock: Callable[[], float],
        wanted: bool,
    ) -> None:
        super().__init__(clock, wanted=wanted)
        self._address = address
        self._dialer = Dialer(address)
        self._heads = RequestHeads(address)
        self._path = path
        self._node_streams = node_streams
        self._time_limit = time_limit
        self._spin_us = spin_us
        self._failed = 0
        self._rests_until = -math.inf

    @property
    def wanted(self) -> bool:
        """Whether to try a stream now: not while they rest."""
        return self._wanted and self._clock() >= self._rests_until

    def open(self, session: str) -> WebSocketStream | None:
        """Open a stream, at the instance's node if that answers."""
        query = f"?session={session}"
        lost = self._lost_since()
        if lost is not None:
            query += f"&lost={lost:.3f}"
        stream = self._open_at_node(query)
        if stream is None:
            stream = self._open_at_server(query)
        if stream is not None:
            self._failed = 0
            self.forget_loss()
        return stream

    def _open_at_node(self, query: str) -> WebSocketStream | None:
        """Open a stream at the instance's node; return ``None`` if that fails."""
        found = self._node_streams.find()
        if found is None:
            return None
        address, path, ticket = found
        request = Request("GET", f"{path}{query}&ticket={quote(ticket)}")
        heads, dialer = RequestHeads(address), Dialer(address)
        try:
            return self._shake_hands(dialer, heads.head(request), NODE_SECONDS)
        except (NoStream, Failure):
            return None

    def _open_at_server(self, query: str) -> WebSocketStream | None:
        """Open a stream at the address that the user named."""
        request = Request("GET", f"{self._path}stream{query}", accept=_PROBLEM)
        head = self._heads.head(request)
        try:
            return self._shake_hands(self._dialer, head, _HANDSHAKE_SECONDS)
        except NoStream as none:
            if _is_passing(none.reply):
                self._fail()
            elif _is_about_instance(none.reply):
                raise
            else:
                self._use_rest(none.reply)
        except Failure:
            self._fail()
        return None

    def _shake_hands(
        self, dialer: Dialer, head: bytes, limit: float
    ) -> WebSocketStream:
        # The headers of the handshake follow, and then the blank line.
        head, limit = head.removesuffix(b"\r\n"), min(self._time_limit, limit)
        return WebSocketStream(dialer, head, limit, self._time_limit, self._spin_us)

    def _use_rest(self, reply: Reply) -> None:
        self._wanted = False
        problem = json_object(reply)
        if problem.get("code") == _UPGRADE_REQUIRED:
            # The log helps an administrator: a proxy may be the cause.
            warnings.warn(
                f"steps go over HTTP, which is slower than a stream: "
                f"{self._address.url}{self._path}stream answered 426, "
                f"{problem.get('message')!s:.500}",
                stacklevel=2,
            )

    def _fail(self) -> None:
        self._failed += 1
        further = self._failed - _FAILED_HANDSHAKES
        if further >= 0:
            seconds = min(_FIRST_REST * 2 ** min(further, 10), _LONGEST_REST)
            self._rests_until = self._clock() + seconds


def _is_passing(reply: Reply) -> bool:
    """Whether a handshake may succeed later, as when a proxy's server is back."""
    if reply.status in REPEATED:
        return True
    return reply.status >= _SERVER_ERRORS and not json_object(reply).get("code")


def _is_about_instance(reply: Reply) -> bool:
    problem = json_object(reply)
    return bool(problem) and problem.get("code") not in _NO_STREAMS
