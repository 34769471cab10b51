"""What an operation is: a row of the table."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from gym_http_server.operations.members import Members, even_null, is_given, read
from gym_http_wire.messages import Op

__all__ = ["Operation"]


class Operation(Struct, frozen=True):
    """An operation of the HTTP interface.

    Attributes:
        name: Its name, by which documents and generated clients refer to it.
        method: GET, POST, PUT or DELETE.
        path: With a final slash, which a request may omit, and with names in ``<>`` for
            the parts that vary.
        words: What it does, in a line.
        scopes: A caller must have one of these; if empty, any token is sufficient.
        op: Its number in the frames that web workers send; `Op.ANSWER` if they answer
            by themselves, or have code of their own for it.
        changes: Whether it has an effect though it is a GET: it changes state, or runs
            an environment's code. No link of another site may lead to it.
        waits: Whether a request may wait for something to happen.
        keyed: Whether a request with an idempotency key is executed once.
        takes_ticket: Whether it opens a stream, for which a ticket is sufficient.
        is_open: Whether it answers everybody, without a token.
        problems: Errors that may answer it, by their names in documents; of two with
            one status, the later one holds.
        query: The parameters of its query.
        body: The members of its body; ``None``: it has none, or is no object of these.
        is_lenient: Whether its body is read as gym-http-api reads it: null counts as
            absent, and unknown members are ignored with a warning. Else both are
            refused, since a null may stand for what a client failed to compute.
        takes_nulls: Whether null counts as absent though it is not lenient.
    """

    name: str
    method: str
    path: str
    words: str
    scopes: frozenset[str]
    op: Op = Op.ANSWER
    changes: bool = False
    waits: bool = False
    keyed: bool = False
    takes_ticket: bool = False
    is_open: bool = False
    problems: tuple[str, ...] = ()
    query: Members = field(default_factory=dict)
    body: Members | None = None
    is_lenient: bool = False
    takes_nulls: bool = False

    @property
    def has_effect(self) -> bool:
        """Whether it changes state, or runs an environment's code."""
        return self.changes or self.method != "GET"

    @property
    def ignores_nulls(self) -> bool:
        """Whether null counts as absent in its body."""
        return self.is_lenient or self.takes_nulls

    def read_body(self, given: Any) -> dict[str, Any]:
        """Read a body; return its checked members, without those that are not given.

        Raises:
            MissingParameter: A required member is not given.
            BadParameter: It is no object, or a member is unknown or has another value.
        """
        counts = is_given if self.ignores_nulls else even_null
        return read(self.body or {}, given, is_given=counts)
