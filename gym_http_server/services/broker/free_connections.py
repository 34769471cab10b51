"""Connections that no host has leased: handshakes, heartbeats, leases to hosts."""

from __future__ import annotations

import logging
import secrets
import socket
import time
from collections import Counter

import msgspec

from gym_http_server.access.authentication import Authenticator
from gym_http_server.access.identities import EVERYONE, EXTERNAL, Identity
from gym_http_server.access.shares import share_used_up
from gym_http_server.errors import REVOKED, ScopeMissing, Unauthorized
from gym_http_server.external.connection import (
    ConnectionDetails,
    ConnectionState,
    ExternalConnection,
)
from gym_http_server.external.handshakes import read_hello
from gym_http_server.processes.log_lines import LimitedLog
from gym_http_server.processes.poller import Poller
from gym_http_server.services.broker.free_connection import FreeConnection, dialect_of
from gym_http_server.services.broker.messages import BrokerSettings, ConnectRequest
from gym_http_server.services.broker.registry import Lease, Registry
from gym_http_wire.external.framing import COUNTED
from gym_http_wire.external.handshake import (
    MAX_HELLO_BYTES,
    PROTOCOL,
    TANGO,
    BadHello,
    Hello,
    Limits,
    Welcome,
    parse_token,
)
from gym_http_wire.frames import Frame
from gym_http_wire.messages import Op
from gym_http_wire.problems import Problem
from gym_http_wire.websocket import Close

__all__ = ["FreeConnections"]

#: Limit of connections by plain TCP that have not sent their hello; a further one
#: closes the oldest. For others, the limit is --max-external if that is greater.
MAX_WITHOUT_HELLO = 64

log = logging.getLogger("gym_http_server.broker")


class FreeConnections:
    """All connections that no host has leased.

    Args:
        poller: Polls their sockets.
        registry: The connections whose hello was accepted, and the leases.
        settings: The broker's settings.
        authenticator: Checks the tokens of connections by plain TCP; ``None``: they
            need no token.
    """

    def __init__(
        self,
        poller: Poller,
        registry: Registry,
        settings: BrokerSettings,
        authenticator: Authenticator | None = None,
    ) -> None:
        self._poller = poller
        self._registry = registry
        self._settings = settings
        self._authenticator = authenticator
        self._connections: dict[int, FreeConnection] = {}
        # Names of tokens that are gone.
        self._gone: frozenset[str] = frozenset()
        self._refusals = LimitedLog(log)

    def __len__(self) -> int:
        """The number of connections."""
        return len(self._connections)

    def add(
        self,
        sock: socket.socket,
        framing: str,
        *,
        identity: Identity | None = EVERYONE,
        details: ConnectionDetails | None = None,
        implicit_hello: bool = False,
        by_tcp: bool = False,
    ) -> FreeConnection:
        """Add a connection.

        Args:
            sock: Its socket.
            framing: Name of its framing.
            identity: Identity of its token; ``None``: the hello must have a token.
            details: The record of a connection that another process had.
            implicit_hello: Whether another party supplies its hello.
            by_tcp: Whether it is by plain TCP.
        """
        now = time.monotonic()
        protocol = ExternalConnection(
            framing,
            dialect_of,
            max_message=MAX_HELLO_BYTES,
            heartbeat_s=self._settings.heartbeat_s,
            now=now,
            details=details,
            implicit_hello=implicit_hello,
        )
        connection = FreeConnection(sock, protocol, identity, now, by_tcp=by_tcp)
        self._connections[connection.fileno()] = connection
        self._poller.add(connection, lambda events: self._receive(connection))
        return connection

    def add_local(self, sock: socket.socket, identity: Identity) -> None:
        """Add a connection whose other end belongs to another part of the broker."""
        self.add(sock, COUNTED, identity=identity)

    def add_tcp(self, sock: socket.socket) -> None:
        """Add a connection by plain TCP."""
        identity = EVERYONE if self._authenticator is None else None
        self.add(sock, COUNTED, identity=identity, by_tcp=True)
        self._close_oldest_without_hello(MAX_WITHOUT_HELLO, by_tcp=True)

    def connect(
        self, sock: socket.socket, request: ConnectRequest, early: bytes
    ) -> None:
        """Add a connection that a web worker or the gateway passes to the broker.

        Args:
            sock: Its socket.
            request: Their record of it.
            early: Bytes that they have read from it already.
        """
        connection = self.add(
            sock,
            request.framing,
            identity=request.identity,
            implicit_hello=bool(request.hello),
        )
        now = time.monotonic()
        connection.send(request.greeting.encode(), now)
        if request.hello:
            self._process_hello(connection, request.hello.encode(), now)
        if early:
            self._process(connection, early, now)
        self._flush_or_remove(connection, now)
        most = max(MAX_WITHOUT_HELLO, self._settings.max_external)
        self._close_oldest_without_hello(most, by_tcp=False)

    def add_released(self, sock: socket.socket, details: ConnectionDetails) -> None:
        """Add a connection that a host releases."""
        self._registry.add(self.add(sock, details.framing, details=details))
        self.revoke(self._gone)

    def revoke(self, gone: frozenset[str]) -> None:
        """End the connections of tokens that are gone, now and from now on.

        Args:
            gone: The names of all of these tokens.
        """
        self._gone = gone
        now = time.monotonic()
        for connection in list(self._connections.values()):
            if connection.owner in gone:
                connection.protocol.end(REVOKED, now, Close.POLICY)
                self._flush_or_remove(connection, now)

    def remove(self, connection: FreeConnection) -> None:
        """Remove and close a connection: another process has it, or it is lost."""
        if self._connections.pop(connection.fileno(), None) is not None:
            self._poller.remove(connection)
            self._registry.remove(connection)
            connection.close()

    def end_all(self) -> None:
        """End all connections, since the server is stopping."""
        now = time.monotonic()
        for connection in self._connections.values():
            connection.protocol.end("the server is stopping", now)
            connection.flush(now)

    def check(self, now: float) -> None:
        """Ping silent connections, and close those that have timed out."""
        for connection in list(self._connections.values()):
            connection.protocol.check(now)
            self._flush_or_remove(connection, now)

    def _receive(self, connection: FreeConnection) -> None:
        now = time.monotonic()
        data = connection.read(now)
        if data:
            self._process(connection, data, now)
        self._flush_or_remove(connection, now)

    def _process(self, connection: FreeConnection, data: bytes, now: float) -> None:
        hello = connection.protocol.receive(data, now)
        if hello is not None:
            self._process_hello(connection, hello, now)

    def _flush_or_remove(self, connection: FreeConnection, now: float) -> None:
        """Send pending output, and remove the connection if it is lost."""
        connection.flush(now)
        protocol = connection.protocol
        if protocol.state is not ConnectionState.LOST or connection.fileno() < 0:
            return
        source = f" from {connection.address}" if connection.address else ""
        self.remove(connection)
        why = protocol.lost_because
        if protocol.hello_accepted:
            details = protocol.details
            log.info("%s left, %s: %s", details.env_id, details.connection, why)
        else:
            words = f"a connection{source} ended without an accepted hello: {why}"
            self._refusals.warning(words)

    def _close_oldest_without_hello(self, most: int, *, by_tcp: bool) -> None:
        """Close the oldest connection without a hello if there are more than allowed.

        Args:
            most: How many there may be.
            by_tcp: Whether to count those by plain TCP, or all others.
        """
        ungreeted = [
            each
            for each in self._connections.values()
            if not each.protocol.hello_accepted and each.by_tcp == by_tcp
        ]
        if len(ungreeted) <= most:
            return
        # Of the token that has most of them; "" if it is not known yet.
        held = Counter(_name_of(each) for each in ungreeted)
        name = held.most_common(1)[0][0]
        oldest = min(
            (each for each in ungreeted if _name_of(each) == name),
            key=lambda each: each.opened_at,
        )
        words = (
            f"{most} newer connections have not sent their hello either: send it first"
        )
        now = time.monotonic()
        oldest.protocol.refuse("too-many-external", words, now)
        self._flush_or_remove(oldest, now)

    def _process_hello(
        self, connection: FreeConnection, payload: bytes, now: float
    ) -> None:
        """Accept a hello, or refuse it; resume the connection that it names."""
        protocol = connection.protocol
        try:
            hello, owner = self._checked(connection, payload)
        except BadHello as error:
            protocol.refuse(error.code, str(error), now)
            return
        except Problem as problem:
            protocol.refuse(problem.code, problem.message, now)
            return
        lease = self._registry.leased_before(hello, owner)
        if lease is not None:
            self._pass_to_host(connection, lease, now)
            return
        older = self._registry.free_before(hello, owner)
        if older is not None:
            details = older.protocol.details
            details.framing = protocol.framing
            older.protocol.end("a newer connection took its place", now)
            self._flush_or_remove(older, now)
            self._accept(connection, details, now, resumed=True)
        else:
            ids = secrets.token_hex(4), secrets.token_urlsafe(16)
            details = ConnectionDetails(
                protocol.framing, ids[0], hello.public(), 1, ids[1], owner
            )
            connection.may_replace = hello.replace
            replaces = self._registry.replaced_by(connection, details)
            if replaces is None and (why := self._why_full(owner)):
                protocol.refuse("too-many-external", why, now)
                return
            self._accept(connection, details, now)
        if protocol.state is not ConnectionState.LOST:
            self._registry.add(connection)
            log.info("%s connected, connection %s", details.env_id, details.connection)

    def _why_full(self, owner: str) -> str | None:
        """Return why a token may open no further connection now."""
        most, taken = self._settings.max_external, self._registry.count
        if taken >= most:
            return (
                f"all {most} connections of external environments are taken; raise "
                "--max-external"
            )
        what, held = "connections of external environments", 0
        # Until then, no token can hold as many as are left.
        if owner and taken >= most // 2:
            held = self._registry.held_by(owner)
        return share_used_up(owner, what, held=held, taken=taken, most=most)

    def _checked(self, connection: FreeConnection, payload: bytes) -> tuple[Hello, str]:
        """Return a hello whose token and content are accepted, and the token's name.

        Raises:
            BadHello: It is malformed.
            Problem: Its token is missing or wrong, or lacks the scope.
        """
        identity = connection.identity
        # Before the token is checked, no other part of the hello is parsed.
        if identity is None and self._authenticator is not None:
            shown = parse_token(payload).encode()
            identity = self._authenticator.identify(shown, connection.address)
        hello = read_hello(payload, self._settings.max_observation)
        if hello.name in self._settings.commands:
            raise BadHello(
                f"name is {hello.name!r}: the server has a command of this name "
                f"(--env-command or --env-python {hello.name}=...); choose another name"
            )
        if connection.protocol.implicit_hello:
            hello.dialect = TANGO
        identity = identity or EVERYONE
        if identity.name in self._gone:
            # It was removed just after a web worker had checked it.
            raise Unauthorized(REVOKED)
        if not identity.may_connect(hello.name):
            raise ScopeMissing(identity.name, f"{EXTERNAL}:{hello.name}")
        return hello, identity.name

    def _accept(
        self,
        connection: FreeConnection,
        details: ConnectionDetails,
        now: float,
        *,
        resumed: bool = False,
    ) -> None:
        settings = self._settings
        welcome = Welcome(
            PROTOCOL,
            details.connection,
            details.resume,
            resumed,
            settings.heartbeat_s,
            settings.grace_s,
            Limits(settings.max_message),
        )
        connection.protocol.accept(details, welcome, now)
        connection.flush(now)

    def _pass_to_host(
        self, connection: FreeConnection, lease: Lease, now: float
    ) -> None:
        """Pass a connection to the host that had it before it was lost."""
        protocol = connection.protocol
        if not lease.responsive:
            # This connection would delay all others.
            protocol.end("the host that has this environment is busy: come again", now)
            return
        details = msgspec.structs.replace(
            lease.details,
            framing=protocol.framing,
            resumptions=lease.details.resumptions + 1,
        )
        self._accept(connection, details, now, resumed=True)
        if not protocol.transferable:
            protocol.lose("it sent more than its hello", now)
            return
        # The host already has the spaces, which may be large.
        hello = details.hello
        details.hello = Hello(hello.protocol, hello.name, {}, {})
        body = msgspec.json.encode(details)
        try:
            lease.host.send(Frame(Op.EXTERNAL_RESUMED, body=body), connection.fileno())
        except OSError:
            protocol.lose("the host that had it is gone", now)
            return
        lease.details.resumptions = details.resumptions
        self._registry.lost.pop(details.resume, None)
        self.remove(connection)


def _name_of(connection: FreeConnection) -> str:
    return connection.identity.name if connection.identity is not None else ""
