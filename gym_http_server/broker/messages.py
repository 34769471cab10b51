"""What web workers and hosts say to the broker, and what it is set to."""

from __future__ import annotations

import msgspec

from gym_http_server.access import EVERYONE, Identity
from gym_http_wire.external.framing import WEBSOCKET
from gym_http_wire.external.handshake import Hello

__all__ = ["BrokerSettings", "ConnectRequest", "PollRequest", "State", "TakeRequest"]


class BrokerSettings(msgspec.Struct, frozen=True):
    """What the broker has to know.

    Attributes:
        heartbeat_s: After as long without a word from a connection, it is pinged.
        grace_s: Within as long a connection that was lost can be gone on with.
        max_message: Bytes that a message to a host may have.
        max_external: Connections at a time.
        max_observation: Bytes that one element of a space may take.
    """

    heartbeat_s: float
    grace_s: float
    max_message: int
    max_external: int
    max_observation: int


class ConnectRequest(msgspec.Struct):
    """What a web worker or the gateway says of a connection.

    Attributes:
        greeting: What to send before all else.
        carrier: Name of its carrier.
        hello: What it says of itself, where it does not say so itself, since it speaks
            Tango's dialect.
        identity: The identity of the token that it has shown.
        own: Whether it is the very connection over which this is said, since there is
            no other to pass on.
    """

    greeting: str
    carrier: str = WEBSOCKET
    hello: str = ""
    identity: Identity = EVERYONE
    own: bool = False


class PollRequest(msgspec.Struct):
    """What a web worker says that waits for the next request."""

    connection: str
    wait_s: float


class TakeRequest(msgspec.Struct):
    """What a host says that wants connections."""

    name: str
    count: int
    wait_s: float


class State(msgspec.Struct):
    """As `IdleConnection.state` tells it."""

    carrier: str
    connection: str
    hello: Hello
    next_number: int
    resume: str
