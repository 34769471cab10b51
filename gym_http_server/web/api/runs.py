"""Routes of training runs, which the relay answers.

Web workers check the form of a request, and forward it. Bodies above 256 KiB they write
to a file of the relay (`web/backends/uploads`), after the relay has admitted them.
"""

from __future__ import annotations

import functools
import re

from gym_http_server.operations.row import Operation
from gym_http_server.operations.table import RUNS
from gym_http_server.services.relay.files import INLINE_BYTES
from gym_http_server.services.relay.messages import ADMITTED, RelayHead
from gym_http_server.web.api.exchange import (
    Answer,
    Environ,
    caller_of,
    empty_answer,
    frame_answer,
    json_object,
    key_of,
    read_body,
    read_parameters,
)
from gym_http_server.web.api.run_bodies import cut_to_range, receive_body
from gym_http_server.web.api.web import View, Web
from gym_http_server.web.backends.relay import LongPoll, RelayAnswer
from gym_http_server.web.backends.supervisor_client import Abandoned
from gym_http_wire.messages import Op, answer_head

__all__ = ["VIEWS", "misdirected_upload"]

#: Weights and checkpoints come from a trainer, in any media type. A browser must not
#: execute them as pages of this server.
_INERT = (
    ("Content-Disposition", "attachment"),
    ("Content-Security-Policy", "sandbox"),
)
_RANGED = (Op.WEIGHTS_GET, Op.STATE_GET)
#: Their answers have tokens, which no cache may keep.
_SECRET = (Op.RUN_CREATE, Op.TOKEN_CREATE)
_MISDIRECTED = re.compile(r"(/v1/runs/[^/]+/(?:weights|state))/[^/]+/?").fullmatch


def misdirected_upload(method: str, path: str) -> str:
    """Return advice for an upload to a path that `curl -T` has appended to, or ""."""
    match = _MISDIRECTED(path)
    if method != "PUT" or match is None:
        return ""
    return (
        f"nothing can be put at {path:.200}; put it at {match[1]:.200}: to an address "
        "that ends in a slash, curl -T appends the name of the file"
    )


def _forward(
    row: Operation, web: Web, environ: Environ, run: str = "", value: str = ""
) -> Answer:
    head = _head(row, environ, run, value)
    body = read_body(environ, min(web.settings.max_body, INLINE_BYTES), "")
    if row.body is not None:
        # The relay reads the members, after it has checked what the caller may do.
        given = json_object(body)
        body = body or b"{}"
        if row.waits and "wait_s" in given:
            wait = row.body["wait_s"].kind
            head.args["wait_s"] = wait.read(given["wait_s"], "wait_s")
    else:
        body = b""
    wait_s = head.args.get("wait_s", 0)
    client = environ.get("gunicorn.socket")
    waiting = LongPoll(wait_s, client, lambda: web.stopping) if wait_s else None
    try:
        answer = web.relay.call(row.op, head, body, waiting=waiting)
    except Abandoned:
        # The client has closed the connection, and the relay forgets its request.
        return empty_answer()
    return _answer(answer, row.op, environ)


def _upload(row: Operation, web: Web, environ: Environ, run: str) -> Answer:
    head = _head(row, environ, run, "")
    body = receive_body(web, row.op, head, environ)
    answer = web.relay.call(
        row.op, body.head, body.data, stored=body.stored, room=body.room
    )
    return _answer(answer, row.op, environ)


def _head(row: Operation, environ: Environ, run: str, value: str) -> RelayHead:
    """Make the head of a request to the relay, without its body's members.

    Raises:
        BadParameter: A parameter of the query, or the idempotency key, is malformed.
    """
    args = read_parameters(environ, row.query)
    for name in ("if_match", "if_none_match"):
        text = environ.get(f"HTTP_{name.upper()}")
        if text is not None:
            args[name] = text
    caller = caller_of(environ)
    return RelayHead(
        run=run,
        token=caller.run_token,
        owner="" if caller.run_token else caller.name,
        value=value,
        args=args,
        key=key_of(environ) if row.op == Op.RUN_CREATE else "",
        content_type=environ.get("CONTENT_TYPE", ""),
    )


def _answer(answer: RelayAnswer, op: Op, environ: Environ) -> Answer:
    frame, download = answer
    if download is None:
        plain = frame_answer(frame)
        if op in _SECRET:
            plain.headers.append(("Cache-Control", "no-store"))
        return plain
    head = answer_head(frame)
    headers = [("Content-Type", head.content_type), *head.headers.items(), *_INERT]
    status = frame.status
    if op in _RANGED:
        status, ranged = cut_to_range(download, environ, head.headers.get("ETag", ""))
        headers += ranged
    return Answer(status, headers, download)


def _view_of(row: Operation) -> View:
    view = _upload if row.op in ADMITTED else _forward
    return functools.partial(view, row)


VIEWS: dict[str, View] = {row.name: _view_of(row) for row in RUNS}
