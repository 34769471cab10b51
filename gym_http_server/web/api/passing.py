"""Passes a request on to another node of the fleet."""

from __future__ import annotations

import secrets
from typing import Any

import msgspec

from gym_http_server.errors import NodeAway
from gym_http_server.fleet.records import Record
from gym_http_server.operations.row import Operation
from gym_http_server.web.api.exchange import (
    STATUS_LINES,
    Answer,
    Environ,
    caller_of,
    key_of,
    parts_of,
    request_id_of,
)
from gym_http_server.web.api.web import Web
from gym_http_server.web.backends.peers import PeerAnswer, PeerCaller, Peers

__all__ = ["answer_of", "decoded", "headers_for", "joined", "pass_on"]

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


def pass_on(
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
    answer = peers.request(
        *(node, _method_of(environ), environ["RAW_URI"]),
        headers_for(peers, environ, node, key),
        body,
        repeatable=row.keyed or not row.has_effect,
        budget=web.hosts.budget,
        timeout_s=timeout_s,
    )
    return answer_of(answer, node)


def _method_of(environ: Environ) -> str:
    """Return the method for the node: this one leaves out the body after ``HEAD``."""
    method: str = environ["REQUEST_METHOD"]
    return "GET" if method == "HEAD" else method


def headers_for(
    peers: Peers, environ: Environ, node: Record, key: str
) -> list[tuple[str, str]]:
    """Return the headers of a request to a node, which acts for the same caller."""
    method, target = _method_of(environ), environ["RAW_URI"]
    request_id, caller = request_id_of(environ), caller_of(environ)
    call = PeerCaller("" if caller.run_token else caller.name, caller.run_token)
    shown = peers.authorization(node, call, method, target, request_id, key)
    headers = [
        (name[5:].replace("_", "-").title(), value)
        for name, value in environ.items()
        if name.startswith("HTTP_") and name not in _KEPT_HERE
    ]
    if environ.get("CONTENT_TYPE"):
        headers.append(("Content-Type", environ["CONTENT_TYPE"]))
    # The node reads these fast at the end of a head, as what is before repeats.
    headers += [("Authorization", shown), ("X-Request-Id", request_id)]
    if key:
        headers.append(("Idempotency-Key", key))
    return headers


def answer_of(answer: PeerAnswer, node: Record) -> Answer:
    """Return a node's answer as one of this node.

    Raises:
        NodeAway: It is malformed.
    """
    if answer.status not in STATUS_LINES:
        raise NodeAway(f"the server {node.name} answered with {answer.status}")
    added = _ADDED_HERE if answer.status < 400 else _ADDED_TO_PROBLEMS
    kept = [each for each in answer.headers if each[0].lower() not in added]
    return Answer(answer.status, kept, answer.body)


def decoded(answer: Answer) -> Any:
    """Return the value of an answer in JSON."""
    return msgspec.json.decode(joined(answer))


def joined(answer: Answer) -> bytes:
    """Return the body of an answer in one piece."""
    return b"".join(parts_of(answer.body))
