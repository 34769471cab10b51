"""Roles: which requests the token of a run permits."""

from __future__ import annotations

from gym_http_server.errors import ScopeMissing, Unauthorized
from gym_http_server.operations.runs import RUN_ROLES
from gym_http_server.services.relay.messages import RelayHead
from gym_http_server.services.relay.rows import TokenRow
from gym_http_server.services.relay.store import Store
from gym_http_wire.messages import Op

__all__ = [
    "ROLES",
    "authorize",
    "describe_caller",
    "find_token",
]

_ALL = frozenset(RUN_ROLES)
_WORKER, _TRAINER, _OBSERVER = (frozenset({role}) for role in RUN_ROLES)

#: The roles that permit a request. Others take a token of the server.
ROLES: dict[int, frozenset[str]] = {
    Op.RUN_STATUS: _ALL,
    Op.SESSION_CREATE: _WORKER,
    Op.SESSION_STATUS: _WORKER,
    Op.SESSION_END: _WORKER,
    Op.SAMPLES_PUT: _WORKER,
    Op.SAMPLES_GET: _TRAINER,
    Op.READER_PUT: _TRAINER,
    Op.READER_GET: _TRAINER,
    Op.READER_DELETE: _TRAINER,
    Op.LEASE: _TRAINER,
    Op.ACK: _TRAINER,
    Op.NACK: _TRAINER,
    Op.ASIDE: _TRAINER,
    Op.WEIGHTS_PUT: _TRAINER,
    Op.WEIGHTS_GET: _ALL,
    Op.STATE_PUT: _TRAINER,
    Op.STATE_GET: _TRAINER,
    Op.RECORDS_PUT: _WORKER | _TRAINER,
    Op.RECORDS_GET: _TRAINER | _OBSERVER,
}


def find_token(store: Store, head: RelayHead) -> tuple[str, TokenRow]:
    """Return the run that a token opens, and the token.

    Raises:
        Unauthorized: The token is unknown or revoked.
    """
    found = store.token(head.token)
    if found is None:
        raise Unauthorized(
            "the token of a run is unknown or was revoked: request another one from "
            "the owner of the run"
        )
    return found


def describe_caller(store: Store, head: RelayHead) -> str:
    """Return the name of the token that a request was sent with, for the log."""
    found = store.token(head.token) if head.token else None
    if found is not None:
        run, token = found
        return f"the {token.role} token {token.id} of run {run}"
    return f"the token {head.owner}" if head.owner else "a caller without a named token"


def authorize(store: Store, op: int, head: RelayHead) -> None:
    """Check that a caller may send a request.

    Args:
        store: The store.
        op: The operation.
        head: Its head; callers without the token of a run may send any.

    Raises:
        Unauthorized: The token is unknown or revoked.
        ScopeMissing: It is for another run, or its role does not permit the request.
    """
    if not head.token:
        return
    run, token = find_token(store, head)
    if run != head.run:
        raise ScopeMissing(f"{token.role} of run {run}", f"for {head.run or 'runs'}")
    if token.role not in ROLES.get(op, ()):
        roles = " or ".join(sorted(ROLES.get(op, {"runs"})))
        raise ScopeMissing(f"{token.role} of run {run}", roles)
