"""The hall: all connections that came in and that no host has."""

from __future__ import annotations

import logging
import secrets
import select
import socket
import time

from gym_http_server.access import EVERYONE, EXTERNAL, Identity
from gym_http_server.authentication import Authenticator
from gym_http_server.broker.handshakes import received
from gym_http_server.broker.idle_connection import ConnectionEnded, IdleConnection
from gym_http_server.broker.messages import BrokerSettings, ConnectRequest, State
from gym_http_server.broker.registry import Lease, Registry
from gym_http_server.errors import ScopeMissing
from gym_http_server.log_lines import LimitedLog
from gym_http_wire.external.framing import COUNTED, ReceivedMessage
from gym_http_wire.external.handshake import (
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

__all__ = ["IdleConnections"]

HELLO_SECONDS = 10.0
#: Limit of connections by plain TCP that have not sent their hello; when another comes,
#: the oldest is closed. For other connections, the limit is --max-external if greater.
MAX_STRANGERS = 64

log = logging.getLogger("gym_http_server.broker")


class IdleConnections:
    """Greets who comes, and keeps them alive.

    Args:
        poll: Watches them.
        guests: Who was greeted.
        settings: The broker's settings.

    Attributes:
        authenticator: Checks the tokens of those that come by plain TCP; ``None``: they
            need none.
    """

    def __init__(
        self, poll: select.poll, guests: Registry, settings: BrokerSettings
    ) -> None:
        self.authenticator: Authenticator | None = None
        self._poll = poll
        self._guests = guests
        self._settings = settings
        self._arrivals: dict[int, IdleConnection] = {}
        self._refusals = LimitedLog(log)

    def __contains__(self, descriptor: object) -> bool:
        """Whether a descriptor is that of a connection here."""
        return descriptor in self._arrivals

    def __len__(self) -> int:
        """How many there are."""
        return len(self._arrivals)

    def enter(
        self, end: socket.socket, carrier: str, *, identity: Identity | None
    ) -> IdleConnection:
        """Take a connection.

        Args:
            end: Its socket.
            carrier: Name of its carrier.
            identity: The identity of the token that it has shown; ``None``: it has to
                show one in its hello.
        """
        arrival = IdleConnection(end, carrier, identity=identity, now=time.monotonic())
        self._arrivals[arrival.fileno()] = arrival
        self._poll.register(arrival, select.POLLIN)
        return arrival

    def enter_posted(self, end: socket.socket, identity: Identity) -> None:
        """Take the connection of an environment that calls by HTTP."""
        self.enter(end, COUNTED, identity=identity)

    def let_in(self, end: socket.socket) -> None:
        """Take a connection by plain TCP."""
        identity = EVERYONE if self.authenticator is None else None
        self.enter(end, COUNTED, identity=identity).knocked = True
        self._close_oldest_stranger(MAX_STRANGERS, knocked=True)

    def come(self, end: socket.socket, said: ConnectRequest, early: bytes) -> None:
        """Take a WebSocket, or what the gateway brings.

        Args:
            end: Its socket.
            said: What was said of it.
            early: What has come already.
        """
        arrival = self.enter(end, said.carrier, identity=said.identity)
        try:
            arrival.say(said.greeting.encode())
            if said.hello:
                arrival.greeted = True
                self._greet(arrival, said.hello.encode())
            if early:
                self._sort(arrival, arrival.feed(early, time.monotonic()))
        except ConnectionEnded as gone:
            self.leave(arrival, gone)
        most = max(MAX_STRANGERS, self._settings.max_external)
        self._close_oldest_stranger(most, knocked=False)

    def come_again(self, end: socket.socket, state: State) -> None:
        """Take a connection that a host had."""
        arrival = self.enter(end, state.carrier, identity=EVERYONE)
        arrival.connection, arrival.resume = state.connection, state.resume
        arrival.next_number = state.next_number
        arrival.adopt(state.hello)
        self._guests.add(arrival)

    def leave(
        self, arrival: IdleConnection, why: ConnectionEnded | None = None
    ) -> None:
        """Let go of a connection: it is gone, or another process has it."""
        if self._arrivals.pop(arrival.fileno(), None) is None:
            return
        self._poll.unregister(arrival)
        self._guests.remove(arrival)
        source = f" from {arrival.address}" if arrival.address else ""
        arrival.close()
        if why is None:
            return
        if arrival.hello is None:
            words = f"a connection{source} ended without an accepted hello: {why}"
            self._refusals.warning(words)
        else:
            name = arrival.hello.name
            log.info("external/%s left, %s: %s", name, arrival.connection, why)

    def farewell(self) -> None:
        """Tell everybody that the server is stopping."""
        for arrival in self._arrivals.values():
            arrival.farewell("the server is stopping")

    def hear(self, descriptor: int) -> None:
        """Read what has come over a connection."""
        arrival = self._arrivals[descriptor]
        try:
            self._sort(arrival, arrival.receive(time.monotonic()))
        except ConnectionEnded as gone:
            self.leave(arrival, gone)

    def _close_oldest_stranger(self, most: int, *, knocked: bool) -> None:
        """Close the oldest connection without a hello if there are more than allowed.

        Args:
            most: How many there may be.
            knocked: Whether to close one by plain TCP, or one of all others.
        """
        strangers = [
            each
            for each in self._arrivals.values()
            if each.hello is None and each.knocked == knocked
        ]
        if len(strangers) <= most:
            return
        oldest = min(strangers, key=lambda each: each.came_at)
        words = (
            f"{most} newer connections have not sent their hello either: send it first"
        )
        try:
            oldest.refuse("too-many-external", words)
        except ConnectionEnded as gone:
            self.leave(oldest, gone)

    def _sort(self, arrival: IdleConnection, messages: list[ReceivedMessage]) -> None:
        for heard in messages:
            if arrival.hello is None:
                self._greet(arrival, heard.payload)
            elif arrival.fileno() >= 0:
                arrival.idle(heard)

    def _greet(self, arrival: IdleConnection, payload: bytes) -> None:
        try:
            # Before the token is checked, nothing else of the hello is parsed.
            identity = self._identify(arrival, payload)
            hello = received(payload, self._settings.max_observation)
            if arrival.greeted:
                hello.dialect = TANGO
            if not identity.may_connect(hello.name):
                raise ScopeMissing(identity.name, f"{EXTERNAL}:{hello.name}")
        except BadHello as error:
            arrival.refuse(error.code, str(error))
        except Problem as problem:
            arrival.refuse(problem.code, problem.message)
        earlier = self._guests.taken.get(hello.resume)
        if earlier is not None and earlier.hello == hello.public():
            self._go_on(arrival, hello.public(), earlier)
            return
        older = self._guests.free_with(hello.resume) if hello.resume else None
        resumed = older is not None and older.hello == hello.public()
        if older is not None and resumed:
            older.farewell("another connection showed the same resume token")
            arrival.connection, arrival.resume = older.connection, older.resume
            arrival.next_number = older.next_number
            self.leave(older, ConnectionEnded("a newer connection took its place"))
        elif self._guests.count >= self._settings.max_external:
            arrival.refuse(
                "too-many-external",
                f"all {self._settings.max_external} connections that this server may "
                "have are there; raise --max-external",
            )
        else:
            arrival.connection = secrets.token_hex(4)
            arrival.resume = secrets.token_urlsafe(16)
        arrival.adopt(hello.public())
        self._welcome(arrival, resumed=resumed)
        self._guests.add(arrival)
        log.info("external/%s came, connection %s", hello.name, arrival.connection)

    def _identify(self, arrival: IdleConnection, payload: bytes) -> Identity:
        """Return the identity of the token that a connection or its hello has shown.

        Raises:
            BadHello: The hello has no readable token.
            Problem: The token is missing or wrong.
        """
        if arrival.identity is None and self.authenticator is not None:
            shown = parse_token(payload).encode()
            arrival.identity = self.authenticator.identify(shown, arrival.address)
        return arrival.identity or EVERYONE

    def _go_on(self, arrival: IdleConnection, hello: Hello, taken: Lease) -> None:
        """Pass a connection on to the host that had it before it was lost."""
        arrival.connection, arrival.resume = taken.connection, taken.resume
        arrival.adopt(hello)
        if not taken.attentive:
            # Everybody else would wait with this one.
            arrival.farewell("the host that had it is busy: come again")
            raise ConnectionEnded("the host that had it is busy")
        self._welcome(arrival, resumed=True)
        if not arrival.takeable:
            raise ConnectionEnded("it said more than hello")
        try:
            frame = Frame(Op.EXTERNAL_RESUMED, body=arrival.short_state())
            taken.line.send(frame, arrival.line.fileno())
        except OSError:
            raise ConnectionEnded("the host that had it is gone") from None
        self.leave(arrival)

    def _welcome(self, arrival: IdleConnection, *, resumed: bool) -> None:
        settings = self._settings
        arrival.greet(
            Welcome(
                PROTOCOL,
                arrival.connection,
                arrival.resume,
                resumed,
                settings.heartbeat_s,
                settings.grace_s,
                Limits(settings.max_message),
            )
        )

    def tick(self, now: float) -> None:
        """Ping who is silent, and let go of who stays so."""
        heartbeat = self._settings.heartbeat_s
        for arrival in list(self._arrivals.values()):
            try:
                if arrival.hello is None:
                    # Counted from the beginning: who says a byte at a time stays no
                    # longer than who says nothing.
                    if now - arrival.came_at > HELLO_SECONDS:
                        arrival.refuse("bad-hello", f"no hello in {HELLO_SECONDS:g} s")
                elif arrival.pinged_at is None:
                    if now - arrival.heard_at > heartbeat:
                        arrival.ping(now)
                elif now - arrival.pinged_at > heartbeat:
                    # Not counted from its last word: it could not answer while this
                    # process did not ask.
                    arrival.farewell("no answer to a ping")
                    raise ConnectionEnded("no answer to a ping")
            except ConnectionEnded as gone:
                self.leave(arrival, gone)
