"""Requests to a node of a fleet that other nodes answer, alone or with it.

An instance ID says which node has the instance. That node gets the request as it is,
with the caller's identity in place of the token.
"""

from __future__ import annotations

import contextlib
import functools
import math
from typing import Any

import msgspec

from gym_http_server.access.identities import ADMIN
from gym_http_server.config.env_commands import EXTERNAL
from gym_http_server.errors import (
    NodeAway,
    ScopeMissing,
    TicketRefused,
    TooManyInstances,
)
from gym_http_server.fleet.records import Record
from gym_http_server.operations.create_bodies import small_members
from gym_http_server.operations.row import Operation
from gym_http_server.operations.table import OPERATIONS
from gym_http_server.web.api.exchange import (
    SWITCHED,
    Answer,
    Environ,
    caller_of,
    forms,
    json_answer,
    key_of,
    read_body,
    with_body,
)
from gym_http_server.web.api.fleet_batches import split_batch
from gym_http_server.web.api.fleet_guard import FORWARDED
from gym_http_server.web.api.fleet_quotas import within_quota
from gym_http_server.web.api.fleet_runs import RunViews
from gym_http_server.web.api.passing import answer_of, decoded, headers_for, pass_on
from gym_http_server.web.api.service import ticket_request
from gym_http_server.web.api.streams import check_framing
from gym_http_server.web.api.together import LISTS, node_header, recorder
from gym_http_server.web.api.web import View, Web
from gym_http_server.web.backends.handover import relay_both_ways
from gym_http_server.web.backends.peers import TAKING, PeerAnswer, Peers
from gym_http_wire.problems import Problem

__all__ = ["forwarded"]

#: Answers of a node after which another one is tried.
_REFUSALS = frozenset({429, 503})


def _nodes_for(
    peers: Peers, web: Web, environ: Environ, key: str, wish: _Wish
) -> list[Record]:
    """Return the nodes to create an instance on, in their order.

    Raises:
        Problem: There is none.
    """
    nodes = _wanted(peers, web, environ, wish)
    if key:
        # The only one that may ever have this request.
        bound = peers.bind(caller_of(environ).name, key, nodes[0])
        nodes = nodes[:1] if bound is None else [bound]
    return nodes


def _wanted(peers: Peers, web: Web, environ: Environ, wish: _Wish) -> list[Record]:
    """Return the nodes that a client wants, or that are good for an instance."""
    if wish.node:
        return [peers.named(wish.node)]
    if wish.resume:
        return [recorder(peers, web, environ, wish.resume)]
    if wish.env_id.startswith(EXTERNAL):
        # If a client gives none, it may have connected to another node just now.
        wait_s = math.inf if wish.wait_s is None else wish.wait_s
        return peers.candidates_for_external(wish.env_id, wait_s)[:3]
    return peers.candidates()


class _Wish(msgspec.Struct):
    """Where a client wants an instance."""

    node: str | None = None
    env_id: str = ""
    resume: str | None = None
    wait_s: float | None = None
    for_: str | None = msgspec.field(name="for", default=None)


def forwarded(peers: Peers, runs: RunViews, row: Operation, view: View) -> View:
    """Return the view of an operation on a node of a fleet.

    Args:
        peers: The other nodes.
        runs: The views of training runs.
        row: The operation.
        view: Its view where there is no fleet.
    """
    if row.name in _VIEWS:
        return functools.partial(_VIEWS[row.name], peers, row, view)
    if (of_run := runs.view_of(row, view)) is not None:
        return of_run
    if row.name == "env_stream":
        return functools.partial(_stream, peers, view)
    if "<instance_id>" in row.path:
        return functools.partial(_of_instance, peers, row, view)
    return view


def _of_instance(
    peers: Peers,
    row: Operation,
    view: View,
    web: Web,
    environ: Environ,
    instance_id: str,
    **arguments: str,
) -> Answer:
    if peers.is_own(instance_id) or FORWARDED in environ or len(instance_id) != 8:
        return view(web, environ, instance_id=instance_id, **arguments)
    node = peers.find(instance_id)
    body = read_body(environ, web.settings.max_body)
    return pass_on(peers, row, web, environ, node, body)


def _stream(
    peers: Peers, view: View, web: Web, environ: Environ, instance_id: str
) -> Answer:
    """Relay a stream of another node's instance."""
    if peers.is_own(instance_id) or FORWARDED in environ or len(instance_id) != 8:
        return view(web, environ, instance_id=instance_id)
    check_framing(environ)
    node = peers.find(instance_id)
    headers = headers_for(peers, environ, node, "")
    headers += [("Connection", "Upgrade"), ("Upgrade", environ.get("HTTP_UPGRADE", ""))]
    opened = peers.open_stream(node, environ["RAW_URI"], headers)
    if isinstance(opened, PeerAnswer):
        return answer_of(opened, node)
    caller, client = caller_of(environ), environ["gunicorn.socket"]

    def take() -> None:
        early = environ["wsgi.input"].reader.unreader.take_buffered()
        opened.socket.sendall(early)
        relay_both_ways(client, opened)

    web.count_stream(caller, client, take)
    return SWITCHED


def _issue_ticket(
    peers: Peers, row: Operation, view: View, web: Web, environ: Environ
) -> Answer:
    """Issue a ticket on the node of its instance, or use one up for another node."""
    body = read_body(environ, web.settings.max_body)
    again = with_body(environ, body)
    if FORWARDED in environ:
        if environ.get("HTTP_IDEMPOTENCY_KEY") != TAKING:
            return view(web, again)
        holder = web.tickets.take(
            msgspec.json.decode(body, type=dict[str, str])["take"]
        )
        if holder is None:
            raise TicketRefused("the ticket was used, or is too old")
        return json_answer(msgspec.json.encode(holder))
    instance_id = ticket_request(body).instance_id
    if not instance_id or peers.is_own(instance_id):
        return view(web, again)
    # A client's key means nothing here, and must not look like another node's.
    plain = {k: v for k, v in environ.items() if k != "HTTP_IDEMPOTENCY_KEY"}
    return pass_on(peers, row, web, plain, peers.find(instance_id), body)


def _of_connection(
    peers: Peers,
    row: Operation,
    view: View,
    web: Web,
    environ: Environ,
    connection: str,
) -> Answer:
    """Answer an external environment that is connected to any node by long polling."""
    body = read_body(environ, web.settings.max_answer, "--max-answer")
    again = with_body(environ, body)
    try:
        return view(web, again, connection=connection)
    except Problem as problem:
        if FORWARDED in environ or problem.status != 404:
            raise
        for node in peers.all()[1:]:
            with contextlib.suppress(NodeAway):
                answer = pass_on(peers, row, web, environ, node, body)
                if answer.status != 404:
                    return answer
        raise


def _create(
    peers: Peers, row: Operation, view: View, web: Web, environ: Environ
) -> Answer:
    if FORWARDED in environ:
        return view(web, environ)
    key, caller = key_of(environ), caller_of(environ)
    body = read_body(environ, web.settings.max_body)
    wish = _read_wish(body, forms(environ))
    create = functools.partial(_create_on, peers, row, view, web, environ, body)
    bound = peers.bind(caller.name, key, None) if key else None
    if bound is not None:
        # The node may have had the request before it was gone, or the quota reached.
        return create([bound])
    owner = wish.for_ or caller.name
    if caller.only not in ("", owner):
        # Before a create counts for another token.
        raise ScopeMissing(caller.only, ADMIN)
    return within_quota(
        web, owner, lambda: create(_nodes_for(peers, web, environ, key, wish))
    )


def _create_on(
    peers: Peers,
    row: Operation,
    view: View,
    web: Web,
    environ: Environ,
    body: bytes,
    nodes: list[Record],
) -> Answer:
    """Create an instance on the first node that does not refuse it."""
    refusals: list[Answer | Problem] = []
    for node in nodes:
        try:
            if node.boot == peers.nodes.own.boot:
                answer = view(web, with_body(environ, body))
            else:
                answer = _create_there(peers, row, web, environ, node, body)
            if answer.status not in _REFUSALS:
                answer.headers.append(node_header(node.name))
                return answer
            refusals.append(answer)
        except Problem as problem:
            if problem.status not in _REFUSALS:
                raise
            refusals.append(problem)
    full = len(nodes) > 1 and all(each.status == 429 for each in refusals)
    if full and not _has_free_slot(peers):
        raise _full(peers)
    last = refusals[-1]
    if isinstance(last, Problem):
        raise last
    return last


def _read_wish(body: bytes, form: int) -> _Wish:
    """Read where a client wants an instance; its node refuses malformed bodies."""
    try:
        return msgspec.json.decode(small_members(body, form), type=_Wish)
    except (Problem, msgspec.MsgspecError):
        return _Wish()


def _create_there(
    peers: Peers, row: Operation, web: Web, environ: Environ, node: Record, body: bytes
) -> Answer:
    """Create an instance on another node; end it if the client has left meanwhile."""
    answer = pass_on(peers, row, web, environ, node, body)
    client = environ.get("gunicorn.socket")
    left = client is not None and not key_of(environ) and client.has_left()
    if left and answer.status == 200:
        instance_id = decoded(answer)["instance_id"]
        target = f"{environ['PATH_INFO']}{instance_id}/"
        ending = environ | {"REQUEST_METHOD": "DELETE", "RAW_URI": target}
        pass_on(peers, OPERATIONS["env_delete"], web, ending, node, b"")
    return answer


def _has_free_slot(peers: Peers) -> bool:
    return any(each.free > 0 for each in peers.all())


def _full(peers: Peers) -> TooManyInstances:
    nodes = peers.all()
    slots = sum(each.slots for each in nodes)
    return TooManyInstances(
        f"all {slots} instances that the {len(nodes)} servers of this fleet may have "
        "are taken; close one, or start another server"
    )


_VIEWS: dict[str, Any] = {
    "env_create": _create,
    "batch_step": split_batch,
    "external_answer": _of_connection,
    "external_request": _of_connection,
    "ticket_issue": _issue_ticket,
    **LISTS,
}
