"""Routes of the server itself: its version, its features, its health."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.resources
import time
from collections.abc import Iterator
from typing import Any

import msgspec

import gym_http_server
from gym_http_server.access.allowed_envs import check_allowed
from gym_http_server.config.settings import Settings
from gym_http_server.datadir.thumbnails import read_thumbnail
from gym_http_server.errors import (
    Draining,
    NotFound,
    ShutdownDisabled,
    SurveyFailed,
    UploadGone,
)
from gym_http_server.linux import landlock, machine, seccomp
from gym_http_server.operations.instances import UPLOAD
from gym_http_server.operations.members import read
from gym_http_server.operations.server import REGISTRY
from gym_http_server.web.api.exchange import (
    Answer,
    Environ,
    caller_of,
    empty_answer,
    json_answer,
    read_body,
    read_parameters,
)
from gym_http_server.web.api.tickets import LIFETIME_S
from gym_http_server.web.api.web import View, Web
from gym_http_server.web.backends.transfers import in_thread
from gym_http_wire.messages import Op, RequestHead
from gym_http_wire.problems import (
    BadJSON,
    DiskFull,
    Problem,
)

__all__ = [
    "VIEWS",
    "about",
    "check_processes",
    "is_registered",
    "not_registered",
    "ticket_request",
]

CAPABILITIES = (
    "api",
    "arguments",
    "attributes",
    "batches",
    "branches",
    "external",
    "generator",
    "idempotency",
    "instances",
    "kwargs",
    "logs",
    "lossless",
    "monitor",
    "node",
    "realtime",
    "record",
    "registry",
    "render",
    "resume",
    "rollouts",
    "runs",
    "spaces",
    "streams",
    "tickets",
    "watching",
    "wrappers",
)
#: Time to determine the health: less than the 2 seconds that are promised.
HEALTH_SECONDS = 1.5
_LIMITS = (
    "max_instances",
    "create_deadline",
    "step_deadline",
    "idle_timeout",
    "max_body",
    "max_upload",
    "max_answer",
    "host_memory",
    "request_deadline",
)


def _json(value: object) -> Answer:
    return json_answer(msgspec.json.encode(value, order="sorted") + b"\n")


def about(web: Web, environ: Environ) -> Answer:
    """Describe the server."""
    read_body(environ, web.settings.max_body)
    caller = caller_of(environ)
    status = web.supervisor.call(Op.STATUS, owner=caller.only)
    return _json(
        {
            "api": "v1",
            "capabilities": _capabilities(web.settings),
            "gymnasium": importlib.metadata.version("gymnasium"),
            "instances": status["instances"],
            "limits": {name: getattr(web.settings, name) for name in _LIMITS},
            "machine": {
                "cores": machine.cores(),
                "memory_free_bytes": machine.free_memory(),
            },
            "name": "gym_http_server",
            "sandbox": _sandbox(web.settings),
            "scopes": sorted(caller.scopes),
            "version": gym_http_server.__version__,
        }
    )


def _capabilities(settings: Settings) -> tuple[str, ...]:
    """Return the names of the features that the settings enable."""
    without = {"logs"} if settings.no_tracebacks else set()
    if not settings.fleet:
        without.add("node")
    return tuple(each for each in CAPABILITIES if each not in without)


def _sandbox(settings: Settings) -> dict[str, Any]:
    """Describe the sandbox of environments."""
    files = settings.sandbox == "on"
    return {
        "files": files,
        "host_user": settings.host_user or None,
        "network": settings.network,
        "signals": files and landlock.scopes_signals(),
        "system_calls": files and seccomp.supported(),
    }


def _registry(web: Web, environ: Environ) -> Answer:
    read_body(environ, web.settings.max_body)
    given = read_parameters(environ, REGISTRY)
    search, available = given.get("search", "").lower(), given.get("available")
    envs = [
        env
        for env in (*web.supervisor.call(Op.REGISTRY), *_external(web))
        if search in env["env_id"].lower()
        and (available is None or env["available"] == available)
    ]
    return _json({"count": len(envs), "envs": envs})


def _external(web: Web) -> Iterator[dict[str, Any]]:
    """Yield external environments that are connected, in the form of the registry."""
    for listed in web.broker.listed():
        env_id, free = listed.pop("env_id"), listed["free"]
        yield {
            "available": free > 0,
            "entry_point": None,
            "env_id": env_id,
            "external": listed,
            "max_episode_steps": None,
            "reason": None if free else f"all {listed['taken']} are taken",
        }


def not_registered(env_id: str) -> NotFound:
    """Return the refusal of an environment that is not registered."""
    return NotFound(
        f"no environment {env_id!r:.80} is registered; GET /v1/registry/ lists those "
        "that are"
    )


def is_registered(web: Web, env_id: str) -> bool:
    """Whether an environment is registered, or nobody can tell at the moment."""
    try:
        known = {each["env_id"] for each in web.supervisor.call(Op.REGISTRY)}
    except Problem as problem:
        if problem.code != SurveyFailed.default_code:
            raise
        return True
    # A create without a version makes the newest one.
    return env_id in known or any(each.startswith(f"{env_id}-v") for each in known)


def _thumbnail(web: Web, environ: Environ, env_id: str) -> Answer:
    """Send the picture of an environment, which is drawn if there is none yet."""
    read_body(environ, web.settings.max_body)
    # Drawing it makes it, without a create request.
    check_allowed(env_id, web.settings)

    def found() -> bytes | None:
        return in_thread(read_thumbnail, web.data_dir, env_id)

    picture = found()
    if picture is None:
        # An unknown one shall wait for no other, and none for it.
        if not is_registered(web, env_id):
            raise not_registered(env_id)
        head = RequestHead(owner=caller_of(environ).only)
        answer = web.supervisor.forward(Op.THUMBNAIL, head, env_id.encode())
        if not msgspec.json.decode(answer.body)["known"]:
            raise not_registered(env_id)
        picture = found()
    if not picture:
        return empty_answer()
    etag = f'"{hashlib.sha256(picture).hexdigest()[:32]}"'
    headers = [("ETag", etag), ("Cache-Control", "private, max-age=3600")]
    if environ.get("HTTP_IF_NONE_MATCH") == etag:
        return Answer(304, headers, b"")
    return Answer(200, [("Content-Type", "image/jpeg"), *headers], picture)


def _ticket(web: Web, environ: Environ) -> Answer:
    body = read_body(environ, web.settings.max_body)
    instance_id = ticket_request(body).instance_id
    if instance_id:
        web.hosts.check(instance_id, caller_of(environ).only)
    ticket = web.tickets.issue(caller_of(environ).name, instance_id, web.number)
    issued: dict[str, Any] = {"expires_in_s": LIFETIME_S, "ticket": ticket}
    node_url = web.settings.node_url if web.settings.fleet else ""
    if instance_id and node_url:
        url = node_url.rstrip("/").replace("http", "ws", 1)
        issued["stream_url"] = f"{url}/v1/envs/{instance_id}/stream/"
    answer = _json(issued)
    # A ticket in a cache is used or too old soon, but need not be there at all.
    return answer._replace(headers=[*answer.headers, ("Cache-Control", "no-store")])


class TicketRequest(msgspec.Struct):
    """The body of a request for a ticket; all else in it is ignored."""

    instance_id: str = ""


def ticket_request(body: bytes) -> TicketRequest:
    """Read for which instance a ticket is; older clients send any body."""
    try:
        return msgspec.json.decode(body, type=TicketRequest)
    except (msgspec.MsgspecError, RecursionError):
        return TicketRequest()


def _health(web: Web, environ: Environ) -> Answer:
    read_body(environ, web.settings.max_body)
    check_processes(web)
    return _json({"status": "ok"})


def _ready(web: Web, environ: Environ) -> Answer:
    read_body(environ, web.settings.max_body)
    if web.draining:
        raise Draining("the server is stopping")
    check_processes(web)
    if shortage := web.run.shortage():
        raise DiskFull(shortage, status=503)
    return _json({"status": "ready"})


def check_processes(web: Web) -> None:
    """Check that the supervisor responds, and broker and relay, if they run.

    Raises:
        SupervisorUnavailable: Supervisor or broker do not answer in time.
        RelayUnavailable: The relay does not.
    """
    deadline = time.monotonic() + HEALTH_SECONDS
    web.supervisor.check(HEALTH_SECONDS)
    web.broker.check(max(0.1, deadline - time.monotonic()))
    web.relay.check(max(0.1, deadline - time.monotonic()))


def _openapi(web: Web, environ: Environ) -> Answer:
    read_body(environ, web.settings.max_body)
    return json_answer(_openapi_json())


@functools.cache
def _openapi_json() -> bytes:
    file = importlib.resources.files("gym_http_server.web.api").joinpath("openapi.json")
    return msgspec.json.format(file.read_bytes(), indent=-1) + b"\n"


def _upload(web: Web, environ: Environ) -> Answer:
    try:
        given = msgspec.json.decode(read_body(environ, web.settings.max_body))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise BadJSON() from None
    if not isinstance(given, dict):
        raise BadJSON()
    read(UPLOAD, given, ignores=True)
    raise UploadGone(
        "there is nowhere to upload to: the OpenAI Gym website, to which this went, "
        "closed in 2017"
    )


def _shutdown(web: Web, environ: Environ) -> Answer:
    # Before the body is read: a client that waits for 100 Continue need not send it.
    if not web.settings.enable_shutdown:
        raise ShutdownDisabled(
            "this server is not shut down by requests; start it with "
            "--enable-shutdown to allow that"
        )
    read_body(environ, web.settings.max_body)
    web.supervisor.call(Op.SHUTDOWN)
    headers = [("Content-Type", "text/html; charset=utf-8")]
    return Answer(200, headers, b"Server shutting down")


VIEWS: dict[str, View] = {
    "server_info": about,
    "registry": _registry,
    "thumbnail": _thumbnail,
    "ticket_issue": _ticket,
    "healthy": _health,
    "ready": _ready,
    "openapi": _openapi,
    "upload": _upload,
    "shutdown_server": _shutdown,
}
