"""Handles: an adapter's access to one instance, from its creation to its end."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import sys
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from gym_http_client.calls.real_time_calls import RealTimeCalls, RealTimeSession
from gym_http_client.errors import Failure, ServerError
from gym_http_client.http.error_mapping import expect_object
from gym_http_client.http.processes import PerProcess
from gym_http_client.http.requester import Requester
from gym_http_client.http.server_warnings import HEADER, show, show_header
from gym_http_client.streaming.node_streams import NodeStreams
from gym_http_client.streaming.session import OF_SESSIONS, Session
from gym_http_wire.messages import MEDIA_TYPES, WARNINGS, Form
from gym_http_wire.values import binary

__all__ = [
    "CLOSE_SECONDS",
    "EXIT_SECONDS",
    "CloseBudget",
    "Handle",
    "WebHandle",
    "capabilities_of",
    "close_budget_of",
    "end_at_exit",
]

#: Seconds that closing waits for one server, for all its instances together.
CLOSE_SECONDS = 3.0
#: Seconds that interpreter exit waits for all servers together.
EXIT_SECONDS = 1.0
#: Seconds after which the budget of a server that did not answer is renewed.
RENEWED_SECONDS = 60.0
_S = TypeVar("_S", bound=Session)
_logger = logging.getLogger("gym_http_client")
_BINARY_TYPE = MEDIA_TYPES[Form.BINARY]


class CloseBudget:
    """Limits the time for which closing instances waits for one server.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._spent = 0.0
        self._at = -RENEWED_SECONDS

    def left(self) -> float:
        """Return the remaining seconds."""
        if self._clock() - self._at >= RENEWED_SECONDS:
            self._spent = 0.0
        return max(0.0, CLOSE_SECONDS - self._spent)

    def spend(self, seconds: float) -> bool:
        """Note that the server did not answer; return whether this was unknown so far.

        Args:
            seconds: How long the caller waited for an answer.
        """
        now = self._clock()
        news = now - self._at >= RENEWED_SECONDS
        self._spent += seconds
        self._at = now
        return news

    def renew(self) -> None:
        """Note that the server answered."""
        self._spent = 0.0
        self._at = self._clock() - RENEWED_SECONDS


class _Closable(Protocol):
    """The methods of a handle that end its instance at interpreter exit."""

    def begin_end(self, seconds: float) -> None: ...

    def finish_end(self, seconds: float) -> None: ...


_patiences: dict[str, CloseBudget] = {}
# By process: a forked child inherits the handles of its parent.
_made: dict[int, weakref.WeakSet[Any]] = {}


def capabilities_of(link: Requester) -> frozenset[str]:
    """Return what a server can do, as ``GET /v1/`` lists it."""
    found = expect_object(link.request("GET", "/v1/"), f"{link.url}/v1/")
    return frozenset(found["capabilities"])


def close_budget_of(url: str) -> CloseBudget:
    """Return the budget for closing instances on the server at a URL."""
    return _patiences.setdefault(url, CloseBudget())


def end_at_exit(handle: _Closable) -> None:
    """Register an instance to be ended at interpreter exit.

    Only the calling process ends it: a forked child that exits does not end the
    instances of its parent.
    """
    process = os.getpid()
    made = _made.get(process)
    if made is None:
        made = _made[process] = weakref.WeakSet()
        atexit.register(_close_made)
        # Up to Python 3.12, children of multiprocessing do not run atexit.
        util = sys.modules.get("multiprocessing.util")
        if util is not None:
            util.Finalize(None, _close_made, exitpriority=0)
    made.add(handle)


def _close_made() -> None:
    """End the instances of this process: send all requests, then wait for answers."""
    until = time.monotonic() + EXIT_SECONDS
    handles = list(_made.pop(os.getpid(), ()))
    for handle in handles:
        handle.begin_end(until - time.monotonic())
    for handle in handles:
        handle.finish_end(until - time.monotonic())


class Handle(ABC, Generic[_S]):
    """One instance on a server, over any transport.

    Args:
        session: Creates a session of the instance.
        server_url: URL of the server.
        instance_id: The instance.
    """

    def __init__(
        self, session: Callable[[], _S], server_url: str, instance_id: str
    ) -> None:
        self._session = PerProcess(session, Session.abandon)
        self._server_url = server_url
        self._instance_id = instance_id
        self._ended = False

    @property
    def node(self) -> str:
        """Name of the server of a fleet that has the instance; "" if it is unknown."""
        return ""

    @property
    def transport(self) -> str:
        """The transport of steps: ``"stream"``, ``"rest"`` or ``"zeromq"``.

        It is ``"rest"`` without a stream, and before the stream opens.
        """
        return self._session.get().transport

    def call(self, method: str, path: str, given: Any = None) -> Any:
        """Send a request of the instance, in the binary form both ways.

        Args:
            method: ``GET`` or ``POST``.
            path: The path below the instance.
            given: The value that a POST sends.

        Returns:
            The value of the answer.

        Raises:
            ServerUnreachable: There is no answer.
            ServerError: The server refuses.
            Exception: The environment raised it.
        """
        session = self._session.get()
        if method == "POST" and path in OF_SESSIONS:
            answer = session.call(path, given)
        else:
            answer = self._call_other(session, method, path, given)
        if WARNINGS in answer:
            show(answer.pop(WARNINGS))
        return answer

    def send(self, path: str, given: Any) -> None:
        """Send a reset, a step or a render, and return at once.

        Args:
            path: The path below the instance.
            given: The value.
        """
        self._session.get().send(path, given)

    def receive(self) -> Any:
        """Return the answer to the oldest `send` without a returned answer.

        Raises:
            ServerUnreachable: There is no answer.
            ServerError: The server refuses.
            Exception: The environment raised it.
        """
        answer = self._session.get().receive()
        if WARNINGS in answer:
            show(answer.pop(WARNINGS))
        return answer

    def end(self) -> None:
        """End the instance, if it has not ended yet.

        If the server is unreachable, this waits briefly and raises nothing; see
        `CloseBudget`.
        """
        if self._ended:
            return
        self._ended = True
        # `end_at_exit` has ended the instances of this process before.
        if sys.is_finalizing():
            return
        budget = close_budget_of(self._server_url)
        seconds = budget.left()
        began = time.monotonic()
        try:
            if seconds > 0:
                self._end(seconds)
                budget.renew()
        except (ServerError, Failure) as error:
            self._give_up(budget, time.monotonic() - began, error)
        finally:
            self.release()

    def begin_end(self, seconds: float) -> None:
        """Request the end of the instance at interpreter exit, and do not wait.

        Args:
            seconds: Time limit for connecting and sending.
        """
        if self._ended or seconds <= 0:
            return
        # `finish_end` reports the error.
        with contextlib.suppress(Exception):
            self._begin_end(seconds)

    def finish_end(self, seconds: float) -> None:
        """Wait for the answer to `begin_end`, and raise nothing.

        Args:
            seconds: Time limit for the answer.
        """
        if self._ended:
            return
        self._ended = True
        try:
            if seconds <= 0:
                raise TimeoutError("there was no time left to wait for the server")
            self._finish_end(seconds)
        except Exception as error:
            self._give_up(close_budget_of(self._server_url), 0.0, error)

    def _give_up(self, budget: CloseBudget, seconds: float, error: Exception) -> None:
        """Warn that the instance may still run, once per server."""
        if budget.spend(seconds):
            words = (
                "could not end instance %s, since %s does not answer: %s; it ends by "
                "itself when the server's idle timeout is over"
            )
            _logger.warning(words, self._instance_id, self._server_url, error)

    @abstractmethod
    def real_time_calls(self) -> RealTimeCalls:
        """Return the real-time calls of the instance, on connections of their own."""

    @abstractmethod
    def capabilities(self) -> frozenset[str]:
        """Return what the server can do, as ``GET /v1/`` lists it."""

    @abstractmethod
    def _end(self, seconds: float) -> None:
        """End the instance within a number of seconds."""

    @abstractmethod
    def release(self) -> None:
        """Close all connections; the instance stays."""

    @abstractmethod
    def _begin_end(self, seconds: float) -> None:
        """Send the request that ends the instance."""

    @abstractmethod
    def _finish_end(self, seconds: float) -> None:
        """Receive the answer to `_begin_end`."""

    @abstractmethod
    def _call_other(self, session: _S, method: str, path: str, given: Any) -> Any:
        """Send a request other than reset, step and render, as `call` does."""


class WebHandle(Handle[Session]):
    """One instance on a server, over HTTP and WebSocket streams.

    Args:
        link: The connection to the server; only this handle uses it.
        instance_id: The instance.
        session: Creates a session of the instance.
        real_time_session: Creates a session for its real-time calls.
        node_streams: Finds the streams at the instance's node.
    """

    def __init__(
        self,
        link: Requester,
        instance_id: str,
        session: Callable[[], Session],
        real_time_session: Callable[[], RealTimeSession],
        node_streams: NodeStreams,
    ) -> None:
        super().__init__(session, link.url, instance_id)
        self._node_streams = node_streams
        self._real_time_session = real_time_session
        self._link = link
        self._path = f"/v1/envs/{instance_id}/"
        self._request = link.request

    @property
    def node(self) -> str:
        """Name of the server of a fleet that has the instance; "" if it is unknown."""
        return self._node_streams.node

    def learn_node(self, headers: Mapping[str, str]) -> None:
        """Read the node from the headers of an answer about the instance."""
        self._node_streams.learn(headers)

    def real_time_calls(self) -> RealTimeCalls:
        """Return the real-time calls of the instance, on connections of their own."""
        return RealTimeCalls(self._real_time_session, self._link.time_limit)

    def capabilities(self) -> frozenset[str]:
        """Return what the server can do, as ``GET /v1/`` lists it."""
        return capabilities_of(self._link)

    def _end(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        self._session.get().leave(seconds / 2)
        left = until - time.monotonic()
        self._request("POST", self._path + "close/", within=left)

    def release(self) -> None:
        """Close all connections; the instance stays."""
        self._session.get().abandon()
        self._link.abandon()

    def _begin_end(self, seconds: float) -> None:
        self._session.get().abandon()
        self._link.begin(self._path + "close/", seconds)

    def _finish_end(self, seconds: float) -> None:
        self._link.finish(seconds)

    def _call_other(self, session: Session, method: str, path: str, given: Any) -> Any:
        # This request must not arrive before earlier ones.
        session.drain()
        path = self._path + path
        body = binary.encode(given) if method == "POST" else b""
        reply = self._request(
            method, path, body, content_type=_BINARY_TYPE, accept=_BINARY_TYPE
        )
        self.learn_node(reply.headers)
        show_header(reply.headers.get(HEADER.lower()))
        if reply.status == 200 and reply.headers["content-type"] == _BINARY_TYPE:
            return binary.decode(reply.content)
        return expect_object(reply, self._link.url + path)
