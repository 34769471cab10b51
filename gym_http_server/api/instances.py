"""Routes of instances: create, list, and what is passed on to a host."""

from __future__ import annotations

import functools
import select
import socket
from typing import Any

import flask
import msgspec

from gym_http_server.api.exchange import (
    Answer,
    Environ,
    accepted,
    empty_answer,
    frame_answer,
    json_answer,
    read_body,
)
from gym_http_server.api.web import Web, add_route
from gym_http_server.errors import Draining, UnknownInstance
from gym_http_server.instances.supervision import Abandoned
from gym_http_wire.messages import Op, RequestHead, request
from gym_http_wire.problems import BadJSON, MissingParameter

__all__ = ["ENVS", "INSTANCE", "add_routes"]

ENVS = "/v1/envs/"
INSTANCE = ENVS + "<instance_id>/"

# Method, rest of the path, operation, and the parameter that old clients are told
# about before they are told that the instance is unknown.
_PASSED_ON = (
    ("POST", "reset/", Op.RESET, None),
    ("POST", "step/", Op.STEP, "action"),
    ("GET", "", Op.DESCRIBE, None),
    ("GET", "action_space/", Op.ACTION_SPACE, None),
    ("GET", "observation_space/", Op.OBSERVATION_SPACE, None),
    ("GET", "action_space/sample/", Op.ACTION_SAMPLE, None),
    ("POST", "action_space/sample/", Op.ACTION_SAMPLE, None),
    ("GET", "observation_space/sample/", Op.OBSERVATION_SAMPLE, None),
    ("POST", "observation_space/sample/", Op.OBSERVATION_SAMPLE, None),
    ("POST", "action_space/contains/", Op.ACTION_CONTAINS, None),
    ("POST", "observation_space/contains/", Op.OBSERVATION_CONTAINS, None),
    ("POST", "monitor/start/", Op.MONITOR_START, "directory"),
    ("POST", "monitor/close/", Op.MONITOR_CLOSE, None),
)


def add_routes(app: flask.Flask, web: Web) -> None:
    """Add all routes of instances."""
    add_route(app, web, "POST", ENVS, functools.partial(_create, web))
    add_route(app, web, "GET", ENVS, functools.partial(_list, web))
    for method, rest, op, required in _PASSED_ON:
        view = functools.partial(_pass_on, web, op, required)
        add_route(app, web, method, INSTANCE + rest, view)
    contains = functools.partial(_contains, web)
    rest = "action_space/contains/<path:value>/"
    add_route(app, web, "GET", INSTANCE + rest, contains)
    add_route(app, web, "GET", INSTANCE + "render/", functools.partial(_render, web))
    close = functools.partial(_close, web)
    add_route(app, web, "POST", INSTANCE + "close/", close)
    add_route(app, web, "DELETE", INSTANCE, close)


def _create(web: Web, environ: Environ) -> Answer:
    body = read_body(environ, web.settings.max_body)
    if web.draining:
        raise Draining("the server is stopping and makes no new instances")
    client = environ.get("gunicorn.socket")
    gone = functools.partial(_has_left, client)
    try:
        frame = web.supervision.create(body, client, gone)
    except Abandoned:
        # Nobody reads this any more.
        return empty_answer()
    answer = frame_answer(frame)
    if client is not None and gone():
        web.hosts.end(msgspec.json.decode(frame.body)["instance_id"])
    return answer


def _has_left(client: Any) -> bool:
    readable = select.select([client], [], [], 0)[0]
    try:
        return bool(readable) and not client.recv(1, socket.MSG_PEEK)
    except OSError:
        return True


def _list(web: Web, environ: Environ) -> Answer:
    read_body(environ, web.settings.max_body)
    envs = web.supervision.ask(Op.LIST)
    return json_answer(msgspec.json.encode(envs) + b"\n")


def _pass_on(
    web: Web, op: Op, required: str | None, environ: Environ, instance_id: str
) -> Answer:
    body = read_body(environ, web.settings.max_body)
    try:
        frame = web.hosts.call(instance_id, request(op, body))
    except UnknownInstance:
        if required is not None:
            _check_required(body, required)
        raise
    if frame.status == 200:
        return json_answer(frame.body)
    return frame_answer(frame)


def _check_required(body: bytes, name: str) -> None:
    try:
        given = msgspec.json.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise BadJSON() from None
    if not isinstance(given, dict):
        raise BadJSON()
    if given.get(name) in (None, "", []):
        raise MissingParameter(name)


def _contains(web: Web, environ: Environ, instance_id: str, value: str) -> Answer:
    read_body(environ, web.settings.max_body)
    head = RequestHead(value=value)
    frame = request(Op.ACTION_CONTAINS, head=head)
    return frame_answer(web.hosts.call(instance_id, frame))


def _render(web: Web, environ: Environ, instance_id: str) -> Answer:
    read_body(environ, web.settings.max_body)
    frame = request(Op.RENDER, head=RequestHead(accept=accepted(environ)))
    return frame_answer(web.hosts.call(instance_id, frame))


def _close(web: Web, environ: Environ, instance_id: str) -> Answer:
    read_body(environ, web.settings.max_body)
    web.hosts.end(instance_id)
    return empty_answer()
