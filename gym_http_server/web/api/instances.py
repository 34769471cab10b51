"""Routes of instances: create, list, and requests that are forwarded to a host."""

from __future__ import annotations

import functools

import msgspec

from gym_http_server.datadir.archive import ArchivedInstance, Facts, read_archived
from gym_http_server.errors import (
    InstanceEnded,
    LogsDisabled,
    ServerRestarted,
    UnknownInstance,
)
from gym_http_server.operations.create_bodies import Divided
from gym_http_server.operations.instances import EPISODES, EVENTS, LOG, SEARCH
from gym_http_server.operations.row import Operation
from gym_http_server.operations.table import INSTANCES
from gym_http_server.web.api.exchange import (
    Answer,
    Environ,
    accepted,
    caller_of,
    empty_answer,
    forms,
    frame_answer,
    json_answer,
    key_of,
    read_body,
    read_parameters,
    request_id_of,
)
from gym_http_server.web.api.resumes import may_resume, read_resume
from gym_http_server.web.api.web import View, Web
from gym_http_server.web.backends.supervisor_client import Abandoned
from gym_http_server.web.backends.transfers import in_thread
from gym_http_wire.frames import Frame
from gym_http_wire.messages import (
    NODE_KEY,
    Form,
    Op,
    RequestHead,
    answer_head,
    request,
)
from gym_http_wire.problems import BadJSON, MissingParameter, Problem

__all__ = ["VIEWS", "instance_in"]

# Required parameters. Old clients get an error for a missing one before one for an
# unknown instance.
_REQUIRED = {
    "env_step": "action",
    "env_monitor_start": "directory",
    "env_set_generator": "state",
}

# Codes of problems of calls to instances that may be in the archive.
_ENDED = frozenset(
    each.default_code for each in (InstanceEnded, ServerRestarted, UnknownInstance)
)

# Parameters that may replace a required parameter.
_INSTEAD = {"action": "actions"}


def _create(web: Web, environ: Environ) -> Answer:
    key = key_of(environ)
    body = read_body(environ, web.settings.max_body)
    form = forms(environ)
    resumed: bytes | Divided | None = None
    if may_resume(body):
        owner = caller_of(environ).only
        most = web.settings.max_body
        resumed = in_thread(read_resume, body, form, web.data_dir, owner, most)
    if resumed is not None:
        own = Form.BINARY if isinstance(resumed, Divided) else Form.PLAIN
        form = own | form & 0xF0
    # A client with a key sends the request again, and gets the instance.
    repeats = key and not key.startswith(NODE_KEY)
    client = None if repeats else environ.get("gunicorn.socket")
    gone = bool if client is None else client.has_left
    try:
        frame = web.supervisor.create(
            resumed or body,
            caller=caller_of(environ),
            client=client,
            gone=gone,
            key=key,
            request_id=request_id_of(environ),
            form=form,
            resumed=resumed is not None,
        )
    except Abandoned:
        # The client has closed the connection.
        return empty_answer()
    return frame_answer(frame)


def instance_in(made: Frame) -> str:
    """Return the ID of an instance from the answer to its create."""
    instance_id = answer_head(made).instance_id
    return instance_id or str(msgspec.json.decode(made.body)["instance_id"])


def _list(web: Web, environ: Environ) -> Answer:
    read_body(environ, web.settings.max_body)
    envs = web.supervisor.call(Op.LIST, owner=caller_of(environ).only)
    return json_answer(msgspec.json.encode(envs) + b"\n")


def _list_instances(web: Web, environ: Environ) -> Answer:
    read_body(environ, web.settings.max_body)
    head = RequestHead(owner=caller_of(environ).only)
    given = read_parameters(environ, SEARCH)
    search, state = given.get("search", ""), given.get("state", "")
    body = msgspec.json.encode((search.lower(), state))
    return frame_answer(web.supervisor.forward(Op.INSTANCES, head, body))


def _events(web: Web, environ: Environ) -> Answer:
    read_body(environ, web.settings.max_body)
    given = read_parameters(environ, EVENTS)
    number = given.get("from", EVENTS["from"].default)
    head = RequestHead(owner=caller_of(environ).only)
    return frame_answer(web.supervisor.forward(Op.EVENTS, head, b"%d" % number))


def _log(web: Web, environ: Environ, instance_id: str) -> Answer:
    given = read_parameters(environ, LOG)
    offset = given.get("from", LOG["from"].default)
    wait_s = given.get("wait_s", LOG["wait_s"].default)
    if web.settings.no_tracebacks:
        # Hosts print tracebacks, too.
        raise LogsDisabled(
            "this server shows no logs of instances, in which there may be tracebacks; "
            "start it without --no-tracebacks to show them"
        )
    if "HTTP_EXPECT" not in environ:
        # Otherwise the answer replaces 100 Continue.
        read_body(environ, web.settings.max_body)
    client = environ.get("gunicorn.socket")

    def gone() -> bool:
        return web.stopping or (client is not None and client.has_left())

    owner = caller_of(environ).only
    try:
        answer = web.hosts.read_log(instance_id, owner, offset, wait_s, gone)
    except Problem as problem:
        facts = _archived(web, instance_id, owner, problem).facts
        return _archived_log(facts, offset)
    return frame_answer(answer)


def _archived_log(facts: Facts, offset: int) -> Answer:
    tail = facts.log_tail.encode()
    end = facts.log_start + len(tail)
    start = min(max(offset, facts.log_start), end)
    headers = [
        ("Content-Type", "text/plain; charset=utf-8"),
        ("Gym-Log-Cut", str(max(0, start - offset))),
        ("Gym-Log-Ended", "true"),
        ("Gym-Log-Next", str(end)),
    ]
    return Answer(200, headers, tail[start - facts.log_start :])


def _episodes(web: Web, environ: Environ, instance_id: str) -> Answer:
    key_of(environ)
    read_body(environ, web.settings.max_body)
    given = read_parameters(environ, EPISODES)
    body = msgspec.json.encode(given) if given else b""
    frame = request(Op.EPISODES, body, form=Form.PLAIN | forms(environ) & 0xF0)
    owner = caller_of(environ).only
    try:
        answer = web.hosts.call(instance_id, frame, owner)
    except Problem as problem:
        archived = _archived(web, instance_id, owner, problem)
        first = given.get("from", EPISODES["from"].default)
        last = given.get("last", EPISODES["last"].default)
        body = in_thread(archived.answer, first, last)
        return json_answer(body + b"\n")
    return frame_answer(answer)


def _archived(
    web: Web, instance_id: str, owner: str, problem: Problem
) -> ArchivedInstance:
    """Return an ended instance from the archive.

    Args:
        web: The web worker.
        instance_id: The instance.
        owner: Owner that it must have; "" is any.
        problem: Why no host answers.

    Raises:
        Problem: The instance has not ended, or is not in the archive.
        UnknownInstance: Another token owns it.
    """
    if problem.code not in _ENDED:
        raise problem
    web.hosts.await_archiver(instance_id)
    archived = in_thread(read_archived, web.data_dir, instance_id)
    if archived is None:
        raise problem
    if owner not in ("", archived.facts.owner):
        raise UnknownInstance(instance_id)
    return archived


def _pass_on(row: Operation, web: Web, environ: Environ, instance_id: str) -> Answer:
    key, required = key_of(environ), _REQUIRED.get(row.name)
    if required is None:
        _check_before_body(web, environ, instance_id)
    body = read_body(environ, web.settings.max_body)
    head = RequestHead(key=key) if key else None
    frame = request(row.op, body, head, form=forms(environ))
    try:
        owner = caller_of(environ).only
        return frame_answer(web.hosts.call(instance_id, frame, owner))
    except UnknownInstance:
        if required is not None:
            _check_required(body, required)
        raise


def _check_before_body(web: Web, environ: Environ, instance_id: str) -> None:
    """Check that the instance exists, if the client waits for 100 Continue.

    Raises:
        Problem: It does not exist, so the body is not needed.
    """
    if "HTTP_EXPECT" in environ:
        web.hosts.check(instance_id, caller_of(environ).only)


def _check_required(body: bytes, name: str) -> None:
    try:
        given = msgspec.json.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise BadJSON() from None
    if not isinstance(given, dict):
        raise BadJSON()
    instead = given.get(_INSTEAD.get(name, ""))
    if given.get(name) in (None, "", []) and instead is None:
        raise MissingParameter(name)


def _with_value(
    row: Operation, web: Web, environ: Environ, instance_id: str, value: str
) -> Answer:
    head = RequestHead(value=value, key=key_of(environ))
    _check_before_body(web, environ, instance_id)
    body = read_body(environ, web.settings.max_body)
    frame = request(row.op, body, head, form=forms(environ))
    owner = caller_of(environ).only
    return frame_answer(web.hosts.call(instance_id, frame, owner))


def _render(web: Web, environ: Environ, instance_id: str) -> Answer:
    key = key_of(environ) if environ["REQUEST_METHOD"] == "POST" else ""
    _check_before_body(web, environ, instance_id)
    read_body(environ, web.settings.max_body)
    head = RequestHead(key=key, accept=accepted(environ))
    frame = request(Op.RENDER, head=head, form=forms(environ))
    owner = caller_of(environ).only
    return frame_answer(web.hosts.call(instance_id, frame, owner))


def _close(web: Web, environ: Environ, instance_id: str) -> Answer:
    key = key_of(environ)
    if not key:
        # With a key, an earlier attempt of this request may have closed the instance.
        _check_before_body(web, environ, instance_id)
    read_body(environ, web.settings.max_body)
    replayed = web.hosts.end(
        instance_id, caller_of(environ).only, key, request_id_of(environ)
    )
    answer = empty_answer()
    if replayed:
        answer.headers.append(("Idempotent-Replayed", "true"))
    return answer


def _view_of(row: Operation) -> View:
    view = _with_value if "value" in row.path else _pass_on
    return functools.partial(view, row)


VIEWS: dict[str, View] = {
    **{row.name: _view_of(row) for row in INSTANCES if row.op != Op.ANSWER},
    "env_list_all": _list,
    "env_create": _create,
    "instances": _list_instances,
    "events": _events,
    "env_close": _close,
    "env_delete": _close,
    "env_log": _log,
    "env_render": _render,
    "env_render_once": _render,
    "env_episodes": _episodes,
}
