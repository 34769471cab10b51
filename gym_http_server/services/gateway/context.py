"""The state that all peers of the gateway share: settings, timers, the broker."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import socket
import time
from collections.abc import Callable

import msgspec

from gym_http_server.access.authentication import Authenticator
from gym_http_server.access.identities import Identity
from gym_http_server.processes.frame_socket import FrameSocket, limit_sending
from gym_http_server.processes.poller import Poller
from gym_http_server.rundir.directory import RunDir
from gym_http_server.services.gateway.router import Outbox
from gym_http_wire.external.framing import COUNTED
from gym_http_wire.messages import Op, RequestHead, request

__all__ = ["Context", "GatewaySettings", "Timers"]


class GatewaySettings(msgspec.Struct, frozen=True):
    """The gateway's settings.

    Attributes:
        place: The address on which it listens, as ``tcp://HOST:PORT``.
        heartbeat_s: Seconds of silence after which a connection is pinged.
        max_message: Bytes that a message may have.
        max_request: Bytes that a message of an agent to its instance may have.
        max_first: Bytes that a peer's first message may have.
        max_peers: External environments and agents at a time.
        max_unaccepted: Connections without an accepted first message at a time.
        tango_name: The environment that Tango's agents drive.
    """

    place: str
    heartbeat_s: float
    max_message: int
    max_request: int
    max_first: int
    max_peers: int
    max_unaccepted: int
    tango_name: str


class Timers:
    """Calls that are due later."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()

    def add(self, seconds: float, call: Callable[[], None]) -> None:
        """Schedule a call after a number of seconds."""
        due = time.monotonic() + seconds
        heapq.heappush(self._due, (due, next(self._count), call))

    def serve(self) -> None:
        """Make the calls that are due."""
        now = time.monotonic()
        while self._due and self._due[0][0] <= now:
            heapq.heappop(self._due)[2]()

    def settings_fd(self, most: float) -> float:
        """Return the seconds until the next call is due, up to a maximum."""
        if not self._due:
            return most
        return min(most, max(0.0, self._due[0][0] - time.monotonic()))


class BrokerConnection:
    """The connection to the broker, opened again when another broker runs.

    Args:
        run: The run directory.
        poller: Polls it.
    """

    def __init__(self, run: RunDir, poller: Poller) -> None:
        self._path = run.broker_socket
        self._poller = poller
        self._socket: FrameSocket | None = None

    def pass_on(self, end: socket.socket, identity: Identity) -> None:
        """Pass one end of an environment's connection to the broker.

        Args:
            end: The end.
            identity: The identity of the environment's token.

        Raises:
            OSError: There is no broker.
        """
        details = {"greeting": "", "framing": COUNTED, "identity": identity}
        head = RequestHead(value=msgspec.json.encode(details).decode())
        frame = request(Op.EXTERNAL_CONNECT, head=head)
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.send(frame, end.fileno())
                return
            self._drop()
        connection = self._connected()
        try:
            connection.send(frame, end.fileno())
        except OSError:
            self._drop()
            raise

    def _connected(self) -> FrameSocket:
        end = socket.socket(socket.AF_UNIX)
        try:
            end.connect(self._path)
        except OSError:
            end.close()
            raise
        limit_sending(end)
        self._socket = FrameSocket(end)
        self._poller.add(self._socket, self._receive)
        return self._socket

    def _receive(self, events: int) -> None:
        # It only confirms each connection.
        if self._socket is not None and self._socket.receive() is None:
            self._drop()

    def _drop(self) -> None:
        connection, self._socket = self._socket, None
        if connection is not None:
            self._poller.remove(connection)
            connection.close()


class Context:
    """Everything that peers share.

    Args:
        run: The run directory.
        settings: The settings.
        authenticator: Checks the tokens of peers.
    """

    def __init__(
        self, run: RunDir, settings: GatewaySettings, authenticator: Authenticator
    ) -> None:
        self.run = run
        self.settings = settings
        self.authenticator = authenticator
        self.poller = Poller()
        self.timers = Timers()
        self.broker = BrokerConnection(run, self.poller)
        # Outboxes whose peers do not read at the moment.
        self.blocked: set[Outbox] = set()
