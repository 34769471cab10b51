"""Requests to the broker, and its settings."""

from __future__ import annotations

import msgspec

from gym_http_server.access.identities import EVERYONE, Identity
from gym_http_wire.external.framing import WEBSOCKET

__all__ = ["BrokerSettings", "ConnectRequest", "LeaseRequest", "PollRequest"]


class BrokerSettings(msgspec.Struct, frozen=True):
    """The broker's settings.

    Attributes:
        heartbeat_s: Seconds of silence after which an environment is pinged.
        grace_s: Seconds in which a lost connection can be resumed.
        max_message: Bytes that a message to a host may have.
        max_external: Connections at a time.
        max_observation: Bytes that one element of a space may take.
        commands: Names of external environments that are commands.
    """

    heartbeat_s: float
    grace_s: float
    max_message: int
    max_external: int
    max_observation: int
    commands: tuple[str, ...] = ()


class ConnectRequest(msgspec.Struct):
    """A connection that a web worker or the gateway passes to the broker.

    Attributes:
        greeting: Text to send before all else.
        framing: Name of the framing of its messages.
        hello: Its hello, if it does not send one itself, like Tango's pages.
        identity: Identity of its token.
        own: Whether it is the connection that carries this request, since no other
            socket can be passed.
    """

    greeting: str
    framing: str = WEBSOCKET
    hello: str = ""
    identity: Identity = EVERYONE
    own: bool = False


class PollRequest(msgspec.Struct):
    """A web worker's request to wait for the next request to an environment.

    Attributes:
        connection: ID of the environment's connection.
        wait_s: Seconds to wait.
    """

    connection: str
    wait_s: float


class LeaseRequest(msgspec.Struct):
    """A host requests connections.

    Attributes:
        name: Name of the environment.
        count: Number of connections, of which it gets all or none.
        wait_s: Seconds to wait until so many are free.
    """

    name: str
    count: int
    wait_s: float
