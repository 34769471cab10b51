"""The context: what everybody in the gateway needs."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import socket
import time
from collections.abc import Callable

import msgspec

from gym_http_server.access import Identity
from gym_http_server.authentication import Authenticator
from gym_http_server.frame_socket import FrameSocket, limit_sending
from gym_http_server.gateway.router import Outbox
from gym_http_server.poller import Poller
from gym_http_server.rundir.directory import RunDir
from gym_http_wire.external.framing import COUNTED
from gym_http_wire.messages import Op, RequestHead, request

__all__ = ["Context", "GatewaySettings", "Timers"]


class GatewaySettings(msgspec.Struct, frozen=True):
    """What the gateway has to know.

    Attributes:
        place: Where it listens, as ``tcp://HOST:PORT``.
        heartbeat_s: After as long without a word from a connection, it is pinged.
        max_message: Bytes that a message may have.
        max_request: Bytes that a message of an agent to its instance may have.
        max_first: Bytes that a peer's first message may have.
        max_peers: Far sides and agents at a time.
        max_unaccepted: Connections without an accepted first message at a time.
        tango_name: The environment that agents of Tango's drive.
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
    """What is to be done later."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()

    def add(self, seconds: float, call: Callable[[], None]) -> None:
        """Have something called in so many seconds."""
        due = time.monotonic() + seconds
        heapq.heappush(self._due, (due, next(self._count), call))

    def serve(self) -> None:
        """Call what is due."""
        now = time.monotonic()
        while self._due and self._due[0][0] <= now:
            heapq.heappop(self._due)[2]()

    def left(self, most: float) -> float:
        """Give the seconds until something is due."""
        if not self._due:
            return most
        return min(most, max(0.0, self._due[0][0] - time.monotonic()))


class BrokerConnection:
    """The connection to the broker, opened again if the broker is another one.

    Args:
        run: The run directory.
        poller: Watches it.
    """

    def __init__(self, run: RunDir, poller: Poller) -> None:
        self._path = run.broker_socket
        self._poller = poller
        self._socket: FrameSocket | None = None

    def hand_over(self, end: socket.socket, identity: Identity) -> None:
        """Hand one end of a far side's connection over.

        Args:
            end: The end.
            identity: The identity of the token that the far side has shown.

        Raises:
            OSError: There is no broker.
        """
        come = {"greeting": "", "framing": COUNTED, "identity": identity}
        head = RequestHead(value=msgspec.json.encode(come).decode())
        frame = request(Op.EXTERNAL_CONNECT, head=head)
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.send(frame, end.fileno())
                return
            self._drop()
        line = self._connected()
        try:
            line.send(frame, end.fileno())
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
        self._poller.add(self._socket, self._hear)
        return self._socket

    def _hear(self, events: int) -> None:
        # It says that it has taken them, and nothing else.
        if self._socket is not None and self._socket.receive() is None:
            self._drop()

    def _drop(self) -> None:
        line, self._socket = self._socket, None
        if line is not None:
            self._poller.remove(line)
            line.close()


class Context:
    """All of it.

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
        # Those to whom nothing can be sent at the moment.
        self.troubled: set[Outbox] = set()
