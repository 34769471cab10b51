"""Routes of the clock of an instance: actions, updates, settings and statistics.

The query of a GET becomes a JSON object, the same as streams send, since hosts know
neither paths nor queries.
"""

from __future__ import annotations

import functools
import select
import socket
from typing import Any

import msgspec

from gym_http_server.operations.row import Operation
from gym_http_server.operations.table import CLOCKS
from gym_http_server.web.api.exchange import (
    Answer,
    Environ,
    caller_of,
    empty_answer,
    forms,
    frame_answer,
    key_of,
    read_body,
    read_parameters,
)
from gym_http_server.web.api.web import View, Web
from gym_http_server.web.backends.supervisor_client import Abandoned
from gym_http_wire.messages import Form, request

__all__ = ["VIEWS"]


def _pass_on(row: Operation, web: Web, environ: Environ, instance_id: str) -> Answer:
    # A malformed key is refused, and others have no effect: no answer is kept.
    key_of(environ)
    body, form = read_body(environ, web.settings.max_body), forms(environ)
    given = read_parameters(environ, row.query)
    if row.method == "GET":
        body = msgspec.json.encode(given) if given else b""
        form = Form.PLAIN | form & 0xF0
    frame = request(row.op, body, form=form)
    owner, client = caller_of(environ).only, environ.get("gunicorn.socket")
    wait = None
    if row.waits and client is not None:
        wait = functools.partial(_wait, client)
    try:
        return frame_answer(web.hosts.call(instance_id, frame, owner, wait))
    except Abandoned:
        # The client has closed the connection, and the host drops its request.
        return empty_answer()


def _wait(client: Any, answer: socket.socket) -> None:
    """Wait for an answer of a host, unless the client leaves.

    Raises:
        Abandoned: It has left.
    """
    poll = select.poll()
    poll.register(answer, select.POLLIN)
    poll.register(client, select.POLLIN)
    ready = [descriptor for descriptor, _ in poll.poll()]
    if answer.fileno() not in ready and client.has_left():
        raise Abandoned


VIEWS: dict[str, View] = {row.name: functools.partial(_pass_on, row) for row in CLOCKS}
