"""Requests to a node of a fleet that other nodes answer, alone or with it.

An instance ID says which node has the instance. That node gets the request as it is,
with the caller's identity in place of the token.
"""

from __future__ import annotations

import functools
import io
import secrets
from typing import Any

import gevent  # type: ignore[import-untyped]
import msgspec

from gym_http_server.errors import NodeAway, TooManyInstances
from gym_http_server.fleet.records import Record
from gym_http_server.operations.create_bodies import small_members
from gym_http_server.operations.row import Operation
from gym_http_server.operations.table import OPERATIONS
from gym_http_server.web.api.exchange import (
    STATUS_LINES,
    Answer,
    Environ,
    caller_of,
    forms,
    json_answer,
    key_of,
    parts_of,
    read_body,
    request_id_of,
)
from gym_http_server.web.api.fleet_guard import FORWARDED
from gym_http_server.web.api.web import View, Web
from gym_http_server.web.backends.peers import PeerCaller, Peers
from gym_http_wire.problems import Problem

__all__ = ["forwarded"]

#: Names nodes that did not answer in time, in answers about all of them.
MISSING = "Gym-Missing-Nodes"
TOGETHER_SECONDS = 1.0
#: Not sent on: they are of this connection, or have been checked here.
_KEPT_HERE = frozenset(
    {
        *("HTTP_AUTHORIZATION", "HTTP_CONNECTION", "HTTP_COOKIE", "HTTP_EXPECT"),
        *("HTTP_HOST", "HTTP_KEEP_ALIVE", "HTTP_ORIGIN", "HTTP_REFERER", "HTTP_TE"),
        *("HTTP_PROXY_AUTHORIZATION", "HTTP_TRAILER", "HTTP_TRANSFER_ENCODING"),
        *("HTTP_UPGRADE", "HTTP_IDEMPOTENCY_KEY", "HTTP_X_REQUEST_ID"),
    }
)
#: Added here to every answer that needs them; but not the ID to a problem.
_ADDED_HERE = frozenset({"x-content-type-options", "x-request-id"})
_ADDED_TO_PROBLEMS = frozenset({"x-content-type-options"})
#: Answers of a node after which another one is tried.
_REFUSALS = frozenset({429, 503})


class _Wish(msgspec.Struct):
    """Where a client wants an instance."""

    node: str | None = None


def forwarded(peers: Peers, row: Operation, view: View) -> View:
    """Return the view of an operation on a node of a fleet.

    Args:
        peers: The other nodes.
        row: The operation.
        view: Its view where there is no fleet.
    """
    if row.name in _VIEWS:
        return functools.partial(_VIEWS[row.name], peers, row, view)
    if "<instance_id>" in row.path and not row.takes_ticket:
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
    return _pass_on(peers, row, web, environ, node, body)


def _pass_on(
    peers: Peers,
    row: Operation,
    web: Web,
    environ: Environ,
    node: Record,
    body: bytes,
    timeout_s: float | None = None,
) -> Answer:
    """Send a request to its node, and return the answer.

    Raises:
        NodeAway: The node does not answer.
    """
    key = key_of(environ)
    if row.keyed and not key:
        # So that it may be sent again if its answer is lost.
        key = secrets.token_hex(16)
    method, target = environ["REQUEST_METHOD"], environ["RAW_URI"]
    request_id, caller = request_id_of(environ), caller_of(environ)
    call = PeerCaller("" if caller.run_token else caller.name, caller.run_token)
    shown = peers.authorization(node, call, method, target, request_id, key)
    headers = [("Authorization", shown), ("X-Request-Id", request_id)]
    if key:
        headers.append(("Idempotency-Key", key))
    if environ.get("CONTENT_TYPE"):
        headers.append(("Content-Type", environ["CONTENT_TYPE"]))
    headers += [
        (name[5:].replace("_", "-").title(), value)
        for name, value in environ.items()
        if name.startswith("HTTP_") and name not in _KEPT_HERE
    ]
    answer = peers.request(
        *(node, method, target, headers, body),
        repeatable=row.keyed or not row.has_effect,
        budget=web.hosts.budget,
        timeout_s=timeout_s,
    )
    if answer.status not in STATUS_LINES:
        raise NodeAway(f"the server {node.name} answered with {answer.status}")
    added = _ADDED_HERE if answer.status < 400 else _ADDED_TO_PROBLEMS
    kept = [each for each in answer.headers if each[0].lower() not in added]
    return Answer(answer.status, kept, answer.body)


def _create(
    peers: Peers, row: Operation, view: View, web: Web, environ: Environ
) -> Answer:
    if FORWARDED in environ:
        return view(web, environ)
    key = key_of(environ)
    body = read_body(environ, web.settings.max_body)
    wish = _read_wish(body, forms(environ))
    nodes = [peers.named(wish.node)] if wish.node else peers.candidates()
    if key:
        # The only one that may ever have this request.
        nodes = [peers.bind(caller_of(environ).name, key, nodes[0])]
    refusals: list[Answer | Problem] = []
    for node in nodes:
        try:
            if node.boot == peers.nodes.own.boot:
                again = {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": len(body)}
                answer = view(web, environ | again)
            else:
                answer = _create_there(peers, row, web, environ, node, body)
            if answer.status not in _REFUSALS:
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
    answer = _pass_on(peers, row, web, environ, node, body)
    client = environ.get("gunicorn.socket")
    left = client is not None and not key_of(environ) and client.has_left()
    if left and answer.status == 200:
        instance_id = _decoded(answer)["instance_id"]
        target = f"{environ['PATH_INFO']}{instance_id}/"
        ending = environ | {"REQUEST_METHOD": "DELETE", "RAW_URI": target}
        _pass_on(peers, OPERATIONS["env_delete"], web, ending, node, b"")
    return answer


def _has_free_slot(peers: Peers) -> bool:
    nodes = peers.nodes
    return nodes.own.free > 0 or any(each.record.free > 0 for each in nodes.others)


def _full(peers: Peers) -> TooManyInstances:
    nodes = peers.nodes
    slots = nodes.own.slots + sum(each.record.slots for each in nodes.others)
    return TooManyInstances(
        f"all {slots} instances that the {1 + len(nodes.others)} servers of this fleet "
        "may have are taken; close one, or start another server"
    )


def _list(
    peers: Peers, row: Operation, view: View, web: Web, environ: Environ
) -> Answer:
    own = view(web, environ)
    if FORWARDED in environ:
        return own
    envs = _decoded(own)["all_envs"]
    answers, missing = _gather(peers, row, web, environ)
    for _, answer in answers:
        envs |= answer["all_envs"]
    merged = json_answer(
        msgspec.json.encode({"all_envs": dict(sorted(envs.items()))}) + b"\n"
    )
    merged.headers.extend(missing)
    return merged


def _gather(
    peers: Peers, row: Operation, web: Web, environ: Environ
) -> tuple[list[tuple[Record, Any]], list[tuple[str, str]]]:
    """Return the answers of all other nodes, and the header of those without one."""
    records = [each.record for each in peers.nodes.others]

    def ask(node: Record) -> Any:
        try:
            answer = _pass_on(
                peers, row, web, environ, node, b"", timeout_s=TOGETHER_SECONDS
            )
        except Problem:
            return None
        if answer.status != 200:
            return None
        return _decoded(answer)

    tasks = [gevent.spawn(ask, node) for node in records]
    gevent.joinall(tasks, timeout=2 * TOGETHER_SECONDS)
    found = list(zip(records, (each.value for each in tasks), strict=True))
    missing = ",".join(node.name for node, answer in found if answer is None)
    answers = [each for each in found if each[1] is not None]
    return answers, [(MISSING, missing)] if missing else []


def _decoded(answer: Answer) -> Any:
    return msgspec.json.decode(b"".join(parts_of(answer.body)))


_VIEWS: dict[str, Any] = {
    "env_create": _create,
    "env_list_all": _list,
}
