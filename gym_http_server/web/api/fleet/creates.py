"""Creates of a fleet: on which nodes they are tried, and what they answer."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import msgspec

from gym_http_server.access.identities import ADMIN
from gym_http_server.config.env_commands import EXTERNAL
from gym_http_server.errors import Draining, ScopeMissing, TooManyInstances
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

#: Nodes that a request with a key may meet while they stop.
MOST_TRIED = 3
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
    body = call.read_body()
    wish = _read_wish(body, forms(call.environ))
    if key := key_of(call.environ):
        return _create_with_key(call, body, wish, key)
    return _within_quota(
        call, wish, lambda: _create_on(call, body, _wanted(call, wish))
    )


def _within_quota(call: FleetCall, wish: _Wish, make: Callable[[], Answer]) -> Answer:
    """Create an instance within the quota of its owner.

    Raises:
        ScopeMissing: The caller may not create for this owner.
        TooManyInstances: The owner has as many as it may have.
    """
    caller = caller_of(call.environ)
    owner = wish.for_ or caller.name
    if caller.only not in ("", owner):
        # Before a create counts for another token.
        raise ScopeMissing(caller.only, ADMIN)
    return within_quota(call.web, owner, make)


class _Stopping(Exception):
    """A node is stopping, and has not executed a create."""

    def __init__(self, node: Record) -> None:
        self.node = node


def _create_with_key(call: FleetCall, body: bytes, wish: _Wish, key: str) -> Answer:
    """Create an instance on the only node that may have the request.

    If that is stopping and has not executed it, another node gets it.
    """
    bind = functools.partial(
        call.fleet.placement.bind, caller_of(call.environ).name, key
    )

    def make(stopping: str) -> Answer:
        chosen = _wanted(call, wish, stopping)[0]
        return _create_bound(call, body, bind(chosen, stopping) or chosen)

    boot, plain = "", _is_plain(call, wish)
    for left in reversed(range(MOST_TRIED)):
        # The first request to the store binds the key if no node can be wrong.
        holder = None if plain else bind(None, boot)
        try:
            if holder is not None:
                # It may have had the request before the quota was reached.
                return _create_bound(call, body, holder)
            return _within_quota(call, wish, functools.partial(make, boot))
        except _Stopping as refusal:
            if not left or wish.node or wish.resume:
                raise Draining(
                    f"the node {refusal.node.name} is stopping and makes no new "
                    "instances"
                ) from None
            boot = refusal.node.boot
    raise AssertionError("the last try returns or raises")


def _is_plain(call: FleetCall, wish: _Wish) -> bool:
    """Whether any node may make the instance, and no quota limits it."""
    wanted = wish.node or wish.resume or wish.for_
    external = wish.env_id.startswith(EXTERNAL)
    limited = caller_of(call.environ).max_instances is not None
    return not (wanted or external or limited)


def _create_bound(call: FleetCall, body: bytes, node: Record) -> Answer:
    """Create an instance on the node to which a key is bound.

    Raises:
        _Stopping: It is stopping, and has not executed the request.
    """
    try:
        answer = _create_on(call, body, [node])
    except Draining:
        raise _Stopping(node) from None
    if answer.status == 503 and decoded(answer)["code"] == Draining.default_code:
        raise _Stopping(node)
    return answer


def _read_wish(body: bytes, form: int) -> _Wish:
    """Read where a client wants an instance; its node refuses malformed bodies."""
    try:
        return msgspec.json.decode(small_members(body, form), type=_Wish)
    except (Problem, msgspec.MsgspecError):
        return _Wish()


def _wanted(call: FleetCall, wish: _Wish, stopping: str = "") -> list[Record]:
    """Return the nodes to create an instance on, in their order.

    Args:
        call: The create.
        wish: Where the client wants the instance.
        stopping: Boot of a node that is stopping.

    Raises:
        Problem: There is none.
    """
    fleet = call.fleet
    if wish.node:
        return [fleet.nodes.named(wish.node)]
    if wish.resume:
        return [recorder(call, wish.resume)]
    if wish.env_id.startswith(EXTERNAL):
        # By TCP or ZeroMQ, one may have connected to another node just now.
        other_ways = call.web.settings.external_tcp or call.web.settings.zmq
        given = math.inf if wish.wait_s is None else wish.wait_s
        wait_s = given if other_ways else 0.0
        return fleet.placement.candidates_for_external(wish.env_id, wait_s)
    return fleet.placement.candidates(stopping)


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
    answer, environ = call.fetch(node, body), call.environ
    client = environ.get("gunicorn.socket")
    left = client is not None and not key_of(environ) and client.has_left()
    if left and answer.status == 200:
        row = OPERATIONS["env_delete"]
        target = row.path.replace("<instance_id>", decoded(answer)["instance_id"])
        ending = environ | {"REQUEST_METHOD": "DELETE", "RAW_URI": target}
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
        "are taken; close one, or start another node",
        extras={"instances": slots, "max_instances": slots},
    )
