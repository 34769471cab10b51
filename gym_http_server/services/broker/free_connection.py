"""A connection that no host has leased: its socket, around an `ExternalConnection`.

Nothing here blocks. The short output fits into the buffer of any socket, so a
connection that does not accept it at once is lost.
"""

from __future__ import annotations

import contextlib
import socket
from typing import Any

import msgspec

from gym_http_server.access.identities import Identity
from gym_http_server.external.connection import ExternalConnection
from gym_http_server.external.tango_dialect import TangoDialect
from gym_http_server.rundir.sockets import stop_lingering
from gym_http_wire.external.binary_dialect import BinaryDialect
from gym_http_wire.external.handshake import TANGO, Hello
from gym_http_wire.external.json_dialect import JSONDialect
from gym_http_wire.external.messages import Dialect

__all__ = ["FreeConnection", "dialect_of"]

RECEIVE_BYTES = 64 * 1024
# No ping is sent while an answer is due; then the kernel detects a lost peer.
KEEPALIVE = (
    (socket.TCP_KEEPIDLE, 15),
    (socket.TCP_KEEPINTVL, 5),
    (socket.TCP_KEEPCNT, 3),
    (socket.TCP_USER_TIMEOUT, 30_000),
)
_loads: Any = msgspec.json.Decoder().decode


class FreeConnection:
    """A connection that no host has leased: its socket, around an `ExternalConnection`.

    Args:
        sock: The socket.
        protocol: Its state.
        identity: Identity of its token; ``None``: the hello must have a token.
        now: Monotonic seconds.
        by_tcp: Whether it is by plain TCP.

    Attributes:
        sock, protocol, identity, by_tcp: The arguments of these names.
        opened_at: When it was opened.
        may_replace: Whether its program is new, and may replace one that was lost.
        explained: Whether the log says why it does not.
    """

    may_replace = False
    explained = False

    def __init__(
        self,
        sock: socket.socket,
        protocol: ExternalConnection,
        identity: Identity | None,
        now: float,
        *,
        by_tcp: bool = False,
    ) -> None:
        sock.setblocking(False)
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in KEEPALIVE:
                sock.setsockopt(socket.IPPROTO_TCP, option, value)
        self.sock = sock
        self.protocol = protocol
        self.identity = identity
        self.by_tcp = by_tcp
        self.opened_at = now

    def fileno(self) -> int:
        """Return the descriptor."""
        return self.sock.fileno()

    @property
    def owner(self) -> str:
        """Name of the token that it has shown; "" without one."""
        if self.protocol.hello_accepted:
            return self.protocol.details.owner
        return "" if self.identity is None else self.identity.name

    @property
    def address(self) -> str:
        """IP address of its other end; "" for a Unix socket, or if it has closed."""
        if self.sock.family == socket.AF_UNIX:
            return ""
        with contextlib.suppress(OSError):
            return str(self.sock.getpeername()[0])
        return ""

    def read(self, now: float) -> bytes:
        """Return received bytes; empty if there are none or the connection is lost."""
        try:
            data = self.sock.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return b""
        except OSError as error:
            self.protocol.lose(str(error), now)
            return b""
        if not data:
            self.protocol.lose("it ended the connection", now)
        return data

    def flush(self, now: float) -> None:
        """Send the protocol's output."""
        self.send(self.protocol.take_outgoing(), now)

    def send(self, data: bytes, now: float) -> None:
        """Send bytes; the connection is lost if the socket does not accept all."""
        try:
            sent = self.sock.send(data) if data else 0
        except OSError as error:
            self.protocol.lose(str(error), now)
            return
        if sent < len(data):
            self.protocol.lose("it does not read what is sent to it", now)

    def close(self) -> None:
        """Close the socket."""
        if self.sock.fileno() >= 0:
            # An environment may have had it, and may have set it anew.
            stop_lingering(self.sock.fileno())
        self.sock.close()


def dialect_of(hello: Hello) -> Dialect:
    """Return a dialect that reads the kinds of messages, without their values."""
    if hello.dialect == "binary":
        return BinaryDialect()
    if hello.dialect == TANGO:
        return TangoDialect(msgspec.json.encode, _loads)
    return JSONDialect(msgspec.json.encode, _loads)
