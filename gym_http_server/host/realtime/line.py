"""Requests that wait: for a time step, for a tick, or for an update."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from gym_http_server.host.realtime.handlers import UpdatesRequest
from gym_http_wire.frames import Frame

__all__ = ["Line", "Waiting"]

T = TypeVar("T")


class Waiting(Generic[T]):
    """A request that waits.

    Args:
        sender: The connection or the stream that it came from.
        frame: The request.
        session: Its session, if it came over a stream.
        behind: Whether its sender may not know the outcome of all earlier requests.
        caller: The session that it belongs to, also over HTTP; or "".
        updates: For a request for updates, the same, decoded.
        until_ns: When its wait is over; ``None``: never.
    """

    __slots__ = (
        "behind",
        "caller",
        "frame",
        "sender",
        "session",
        "until_ns",
        "updates",
    )

    def __init__(
        self,
        sender: T,
        frame: Frame,
        session: str,
        behind: bool,
        caller: str,
        *,
        updates: UpdatesRequest | None = None,
        until_ns: int | None = None,
    ) -> None:
        self.sender = sender
        self.frame = frame
        self.session = session
        self.behind = behind
        self.caller = caller
        self.updates = updates
        self.until_ns = until_ns


class Line(Generic[T]):
    """Waiting requests in the order of their arrival.

    Requests of one session keep their order; those of others may pass.

    Attributes:
        requests: The requests, for reading only.
    """

    def __init__(self) -> None:
        self.requests: list[Waiting[T]] = []

    def add(self, waiting: Waiting[T]) -> None:
        """Add a request at the end."""
        self.requests.append(waiting)

    def count(self, sender: T) -> int:
        """Return the number of requests of a connection or stream."""
        return sum(each.sender is sender for each in self.requests)

    def drop(self, sender: T) -> None:
        """Remove the requests of a connection or stream that has ended."""
        self.requests = [each for each in self.requests if each.sender is not sender]

    def take(self, is_ready: Callable[[Waiting[T]], bool]) -> Waiting[T] | None:
        """Remove and return the first request that may be executed, or ``None``.

        Args:
            is_ready: Whether a request may be executed now. It is not called for those
                behind another one of their session.
        """
        blocked: set[str] = set()
        for place, each in enumerate(self.requests):
            if each.session and each.session in blocked:
                continue
            if is_ready(each):
                del self.requests[place]
                return each
            blocked.add(each.session)
        return None

    def take_all(self) -> list[Waiting[T]]:
        """Remove and return all requests."""
        taken, self.requests = self.requests, []
        return taken
