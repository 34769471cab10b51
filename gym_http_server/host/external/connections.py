"""All external connections of one host, and its connection to the broker.

One descriptor is readable when any of them has received data, so that the host's loop
polls only one more descriptor.
"""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

import msgspec

from gym_http_server.errors import REVOKED
from gym_http_server.external.connection import ConnectionDetails
from gym_http_server.host.external.leased_connection import (
    ExternalSettings,
    LeasedConnection,
)
from gym_http_server.processes.frame_socket import FrameSocket, limit_sending
from gym_http_wire.frames import Frame
from gym_http_wire.messages import Op, problem_of, request, request_head
from gym_http_wire.problems import ExternalAway

__all__ = ["LONGEST_TICK", "Awaited", "ExternalConnections", "connect_broker"]

T = TypeVar("T")

#: Longest time between two checks of timeouts, in seconds.
LONGEST_TICK = 0.25
#: Seconds that the broker may take to answer, besides its wait for connections.
BROKER_SECONDS = 5.0
# Each poll allocates memory for this many events; the next poll returns the others.
_EVENTS = 64
#: Limit of descriptors from the broker that wait to be processed.
MAX_DESCRIPTORS = 16


class Awaited(Protocol):
    """Something to wait for, such as a call.

    Attributes:
        deadline: Monotonic seconds until which to wait.
    """

    deadline: float

    @property
    def over(self) -> bool:
        """Whether the wait is over."""


def connect_broker(channel: socket.socket) -> socket.socket:
    """Connect to the broker through the supervisor.

    Args:
        channel: The connection to the supervisor.

    Returns:
        A socket, which ends at once if there is no broker at the moment.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        FrameSocket(channel).send(request(Op.EXTERNAL_HOST), theirs.fileno())
    return ours


class ExternalConnections:
    """The connections of one host to external environments.

    Args:
        settings: Limits.
        connect_broker: Returns a new connection to the broker.
        blocks: Whether the host may block while a single environment works.

    Attributes:
        settings: The same.
        blocks: The same.
        leased: The connections, in the order of their environments.
        key: Idempotency key of the agent's request under way, or "".
        plain: Whether it is a step in plain JSON.
        due: Monotonic seconds of the next check of timeouts.
    """

    def __init__(
        self,
        settings: ExternalSettings,
        connect_broker: Callable[[], socket.socket],
        *,
        blocks: bool = True,
    ) -> None:
        self.settings = settings
        self.blocks = blocks
        self.leased: list[LeasedConnection] = []
        self.key = ""
        self.plain = False
        self.due = 0.0
        self._new_broker_socket = connect_broker
        self._epoll = select.epoll()
        self._by_descriptor: dict[int, LeasedConnection] = {}
        self._broker: FrameSocket | None = None
        self._wait: Callable[[Awaited], None] = self._wait_alone

    def fileno(self) -> int:
        """Return the descriptor that is readable when a connection has data."""
        return self._epoll.fileno()

    def perform(self, key: str, call: Callable[[], T], *, plain: bool = False) -> T:
        """Call the environment on behalf of an agent's request.

        Args:
            key: The request's idempotency key, or "".
            call: Calls the environment.
            plain: Whether the request is a step in plain JSON.

        Returns:
            The result of the call.
        """
        self.key, self.plain = key, plain
        try:
            return call()
        finally:
            self.key, self.plain = "", False

    def wait(self, awaited: Awaited) -> None:
        """Wait until something has happened, at most until a deadline."""
        self._wait(awaited)

    @contextlib.contextmanager
    def waiting_by(self, wait: Callable[[Awaited], None]) -> Iterator[None]:
        """Replace `wait` by another function for a while, as for concurrent calls."""
        before, self._wait = self._wait, wait
        try:
            yield
        finally:
            self._wait = before

    def lease(self, name: str, count: int, wait_s: float) -> list[LeasedConnection]:
        """Lease connections from the broker, all or none.

        Args:
            name: Name of the environment.
            count: Number of connections.
            wait_s: Seconds to wait until so many are free.

        Raises:
            ExternalAway: So many were not free in time.
        """
        wanted = {"name": name, "count": count, "wait_s": wait_s}
        try:
            broker = self._broker = self._connect_broker()
            # If the broker is stopped, a create must fail before its deadline.
            broker.socket.settimeout(wait_s + BROKER_SECONDS)
            broker.send(request(Op.EXTERNAL_LEASE, msgspec.json.encode(wanted)))
        except OSError:
            raise _no_broker() from None
        while len(self.leased) < count:
            frames = broker.receive()
            if frames is None:
                raise _no_broker()
            for frame in frames:
                if frame.status != 200:
                    raise problem_of(frame)
                self._receive_lease(frame, broker)
        self._watch_broker(broker)
        return self.leased

    def _receive_lease(self, frame: Frame, broker: FrameSocket) -> None:
        sock = broker.take_socket()
        if sock is None:
            raise ExternalAway("a connection was lost on its way; try again")
        self.add(msgspec.json.decode(frame.body, type=ConnectionDetails), sock)

    def add(
        self,
        details: ConnectionDetails,
        sock: socket.socket,
        writer: socket.socket | None = None,
    ) -> LeasedConnection:
        """Add a connection that was leased; ``writer`` is as for it."""
        connection = LeasedConnection(
            details, sock, self.settings, self._watch, self._report_lost, writer
        )
        self.leased.append(connection)
        return connection

    def _watch(self, connection: LeasedConnection) -> None:
        descriptor = connection.fileno()
        self._by_descriptor[descriptor] = connection
        with contextlib.suppress(FileExistsError):
            self._epoll.register(descriptor, select.EPOLLIN)

    def _report_lost(self, connection: LeasedConnection) -> None:
        """Report a lost connection to the broker, which may find another for it."""
        why = connection.protocol.lost_because
        name = f"{connection.env_id}, connection {connection.details.connection}"
        print(f"{name}: {why}", flush=True)
        broker = self._broker
        if broker is None or not connection.hello.replace:
            return
        # A broker that has ended is noticed when it is read from.
        with contextlib.suppress(OSError):
            body = msgspec.json.encode(connection.loss)
            broker.send(request(Op.EXTERNAL_LOST, body))

    def _connect_broker(self) -> FrameSocket:
        end = self._new_broker_socket()
        limit_sending(end)
        return FrameSocket(end, max_descriptors=MAX_DESCRIPTORS)

    def _watch_broker(self, broker: FrameSocket) -> None:
        broker.socket.setblocking(False)
        self._epoll.register(broker.fileno(), select.EPOLLIN)

    def attend(self, seconds: float = 0.0) -> None:
        """Process received data, waiting for it if necessary, and check timeouts.

        Args:
            seconds: Longest wait.
        """
        now = time.monotonic()
        seconds = min(seconds, max(0.0, self.due - now)) if seconds else 0.0
        for descriptor, _ in self._epoll.poll(seconds, _EVENTS):
            connection = self._by_descriptor.get(descriptor)
            if connection is not None and connection.fileno() == descriptor:
                connection.receive()
            elif self._broker is not None and self._broker.fileno() == descriptor:
                self._receive_from_broker(self._broker)
        now = time.monotonic()
        if now >= self.due:
            self.due = now + min(LONGEST_TICK, self.settings.heartbeat_s / 4)
            for connection in self.leased:
                connection.check(now)
            if self._broker is None:
                self._rejoin_broker()

    def check_soon(self) -> None:
        """Check timeouts at the next opportunity."""
        self.due = 0.0

    @property
    def program(self) -> str:
        """The versions of the environment's program, for people; "" if unknown."""
        return self.leased[0].hello.program if self.leased else ""

    @property
    def any_lost(self) -> bool:
        """Whether a connection is lost at the moment."""
        return any(connection.lost for connection in self.leased)

    @property
    def expired(self) -> LeasedConnection | None:
        """A connection that was lost and not resumed in time, or ``None``."""
        now = time.monotonic()
        for connection in self.leased:
            grace = self.settings.grace_s if connection.details.resumable else 0.0
            if connection.lost and now - connection.protocol.lost_at > grace:
                return connection
        return None

    def wait_with(self, pause: Callable[[Awaited], bool]) -> None:
        """Wait by a function that lets others go on; where it returns False, alone."""

        def wait(awaited: Awaited) -> None:
            if not pause(awaited):
                self._wait_alone(awaited)

        self._wait = wait

    def _wait_alone(self, awaited: Awaited) -> None:
        self.attend(max(0.0, awaited.deadline - time.monotonic()))

    def _receive_from_broker(self, broker: FrameSocket) -> None:
        """Adopt resumed and replacing connections; end those whose token is gone."""
        frames = broker.receive()
        if frames is None:
            self._epoll.unregister(broker.fileno())
            broker.close()
            self._broker = None
            return
        for frame in frames:
            if frame.kind == Op.EXTERNAL_REVOKED:
                self._revoke(frame.body.decode())
                continue
            sock = broker.take_socket()
            if sock is None:
                continue
            details = msgspec.json.decode(frame.body, type=ConnectionDetails)
            replaced = request_head(frame).value
            for connection in self.leased:
                if connection.details.resume == (replaced or details.resume):
                    adopt = connection.replace if replaced else connection.resume
                    adopt(details, sock)
                    break
            else:
                sock.close()

    def _revoke(self, resume: str) -> None:
        """End a connection whose token is gone."""
        for connection in self.leased:
            if connection.details.resume == resume:
                connection.end(REVOKED)

    def _rejoin_broker(self) -> None:
        """Report the leases of this host to a new broker, after the last one ended."""
        details = msgspec.json.encode([each.details for each in self.leased])
        try:
            broker = self._connect_broker()
        except OSError:
            # There may be descriptors again at the next check.
            return
        try:
            broker.send(request(Op.EXTERNAL_ADOPT, details))
        except OSError:
            broker.close()
            return
        self._broker = broker
        self._watch_broker(broker)
        for connection in self.leased:
            if connection.lost:
                self._report_lost(connection)

    def release(self) -> None:
        """Return all connections to the broker; close those that cannot be returned."""
        leased, self.leased = self.leased, []
        broker = self._broker
        if broker is not None:
            broker.socket.setblocking(True)
        for connection in leased:
            if not connection.lost:
                # The broker's copy of the socket would still trigger events.
                self._epoll.unregister(connection)
            sock = connection.release()
            words = "the instance was closed"
            if broker is not None and sock is not None:
                with contextlib.suppress(OSError):
                    details = msgspec.json.encode(connection.details)
                    broker.send(request(Op.EXTERNAL_RELEASE, details), sock.fileno())
                    words = ""
            connection.close(words)
        if broker is not None:
            broker.close()
            self._broker = None

    def close(self) -> None:
        """Close the descriptor."""
        self._epoll.close()


def _no_broker() -> ExternalAway:
    return ExternalAway("the broker does not answer; try again")
