"""Creates of a fleet: on which nodes they are tried, and what they answer."""

from __future__ import annotations

import math

import msgspec

from gym_http_server.access.identities import ADMIN
from gym_http_server.config.env_commands import EXTERNAL
from gym_http_server.errors import ScopeMissing, TooManyInstances
from gym_http_server.fleet.records import Record
from gym_http_server.operations.create_bodies import small_members
from gym_http_server.operations.table import OPERATIONS
from gym_http_server.web.api.exchange import Answer, caller_of, forms, key_of
from gym_http_server.web.api.fleet.forwarding import FleetCall, decoded
from gym_http_server.web.api.fleet.lists import node_header, recorder
from gym_http_server.web.api.fleet.quotas import within_quota
from gym_http_server.web.backends.nodes.known import KnownNodes
from gym_http_wire.problems import Problem

__all__ = ["create"]

#: Answers of a node after which another one is tried.
_REFUSALS = frozenset({429, 503})


class _Wish(msgspec.Struct):
    """Where a client wants an instance."""

    node: str | None = None
    env_id: str = ""
    resume: str | None = None
    wait_s: float | None = None
    for_: str | None = msgspec.field(name="for", default=None)


def create(call: FleetCall) -> Answer:
    """Create an instance on a node that the client wants, or on a good one."""
    if call.is_forwarded:
        return call.here()
    key, caller = key_of(call.environ), caller_of(call.environ)
    body = call.read_body()
    wish = _read_wish(body, forms(call.environ))
    bound = call.fleet.placement.bind(caller.name, key, None) if key else None
    if bound is not None:
        # The node may have had the request before it was gone, or the quota reached.
        return _create_on(call, body, [bound])
    owner = wish.for_ or caller.name
    if caller.only not in ("", owner):
        # Before a create counts for another token.
        raise ScopeMissing(caller.only, ADMIN)

    def make() -> Answer:
        nodes = _wanted(call, wish)
        if key:
            # The only one that may ever have this request.
            holder = call.fleet.placement.bind(caller.name, key, nodes[0])
            nodes = nodes[:1] if holder is None else [holder]
        return _create_on(call, body, nodes)

    return within_quota(call.web, owner, make)


def _read_wish(body: bytes, form: int) -> _Wish:
    """Read where a client wants an instance; its node refuses malformed bodies."""
    try:
        return msgspec.json.decode(small_members(body, form), type=_Wish)
    except (Problem, msgspec.MsgspecError):
        return _Wish()


def _wanted(call: FleetCall, wish: _Wish) -> list[Record]:
    """Return the nodes to create an instance on, in their order.

    Raises:
        Problem: There is none.
    """
    fleet = call.fleet
    if wish.node:
        return [fleet.nodes.named(wish.node)]
    if wish.resume:
        return [recorder(call, wish.resume)]
    if wish.env_id.startswith(EXTERNAL):
        # If a client gives none, it may have connected to another node just now.
        wait_s = math.inf if wish.wait_s is None else wish.wait_s
        return fleet.placement.candidates_for_external(wish.env_id, wait_s)
    return fleet.placement.candidates()


def _create_on(call: FleetCall, body: bytes, nodes: list[Record]) -> Answer:
    """Create an instance on the first node that does not refuse it."""
    refusals: list[Answer | Problem] = []
    for node in nodes:
        try:
            if node.boot == call.fleet.nodes.own.boot:
                answer = call.with_body(body).here()
            else:
                answer = _create_there(call, node, body)
            if answer.status not in _REFUSALS:
                answer.headers.append(node_header(node.name))
                return answer
            refusals.append(answer)
        except Problem as problem:
            if problem.status not in _REFUSALS:
                raise
            refusals.append(problem)
    full = len(nodes) > 1 and all(each.status == 429 for each in refusals)
    if full:
        _check_free_slot(call.fleet.nodes)
    last = refusals[-1]
    if isinstance(last, Problem):
        raise last
    return last


def _create_there(call: FleetCall, node: Record, body: bytes) -> Answer:
    """Create an instance on another node; end it if the client has left meanwhile."""
    answer, environ = call.forward(node, body), call.environ
    client = environ.get("gunicorn.socket")
    left = client is not None and not key_of(environ) and client.has_left()
    if left and answer.status == 200:
        instance_id = decoded(answer)["instance_id"]
        target = f"{environ['PATH_INFO']}{instance_id}/"
        ending = environ | {"REQUEST_METHOD": "DELETE", "RAW_URI": target}
        row = OPERATIONS["env_delete"]
        call._replace(row=row, environ=ending).forward(node, b"")
    return answer


def _check_free_slot(nodes: KnownNodes) -> None:
    """Check that a node has a free slot.

    Raises:
        TooManyInstances: None has; the message has the fleet's counts.
    """
    found = nodes.all()
    if any(each.free > 0 for each in found):
        return
    slots = sum(each.slots for each in found)
    raise TooManyInstances(
        f"all {slots} instances that the {len(found)} nodes of this fleet may have "
        "are taken; close one, or start another node"
    )
