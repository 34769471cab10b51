"""The state of a connection, which goes from process to process with its socket."""

from __future__ import annotations

import msgspec

from gym_http_wire.external.handshake import Hello

__all__ = ["State"]


class State(msgspec.Struct):
    """How to go on with a connection that another process had.

    Attributes:
        carrier: Name of its carrier.
        connection: Its ID.
        hello: What the environment said of itself.
        next_number: The least ID that a request may have.
        resume: The token by which it is gone on with.
    """

    carrier: str
    connection: str
    hello: Hello
    next_number: int
    resume: str
