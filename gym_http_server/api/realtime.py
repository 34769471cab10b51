"""Routes of the clock of an instance: actions, updates, settings and statistics.

The query of a GET becomes a JSON object, the same as streams send, since hosts know
neither paths nor queries.
"""

from __future__ import annotations

import functools
import re
import select
import socket
from typing import Any

import msgspec

from gym_http_server.api.exchange import (
    MAX_QUERY,
    Answer,
    Environ,
    caller_of,
    empty_answer,
    forms,
    frame_answer,
    key_of,
    read_body,
    read_query,
)
from gym_http_server.api.web import View, Web
from gym_http_server.instances.supervisor_client import Abandoned
from gym_http_server.operations.row import Operation
from gym_http_server.operations.table import CLOCKS
from gym_http_wire.messages import Form, request
from gym_http_wire.problems import BadParameter

__all__ = ["VIEWS"]

_NUMBER = re.compile(r"[0-9]{1,15}", re.ASCII).fullmatch
_COUNT = re.compile(r"[1-9][0-9]{0,3}", re.ASCII).fullmatch
_SECONDS = re.compile(r"[0-9]{1,2}(\.[0-9]{1,6})?", re.ASCII).fullmatch
# Parameters of queries that are numbers: which texts they may be.
_NUMBERS = {
    "after": (_NUMBER, "the number of an update, an integer from 0"),
    "wait_s": (_SECONDS, "seconds from 0 to 50"),
    "max": (_COUNT, "an integer from 1 to 9999"),
    "last": (_COUNT, "an integer from 1 to 9999"),
}
# Those that are words.
_WORDS = ("deliver", "format")

# Parameters that the queries of operations may have.
_QUERIES = {
    "env_updates": ("after", "wait_s", "deliver", "max"),
    "env_trace": ("last", "format"),
}


def _pass_on(row: Operation, web: Web, environ: Environ, instance_id: str) -> Answer:
    # A malformed key is refused, and others have no effect: no answer is kept.
    key_of(environ)
    body, form = read_body(environ, web.settings.max_body), forms(environ)
    names = _QUERIES.get(row.name, ())
    texts = read_query(environ.get("QUERY_STRING", ""), names, MAX_QUERY)
    if row.method == "GET":
        body = _body_of(texts)
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


def _body_of(texts: dict[str, str]) -> bytes:
    """Return a query's parameters as the JSON object of a request; empty without any.

    Raises:
        BadParameter: A number is malformed.
    """
    given: dict[str, str | int | float] = {}
    for name, text in texts.items():
        if name in _WORDS:
            given[name] = text
            continue
        is_number, expected = _NUMBERS[name]
        if not is_number(text):
            raise BadParameter(f"{name} is {text!r:.40}: expected {expected}")
        given[name] = float(text) if "." in text else int(text)
    return msgspec.json.encode(given) if given else b""


VIEWS: dict[str, View] = {row.name: functools.partial(_pass_on, row) for row in CLOCKS}
