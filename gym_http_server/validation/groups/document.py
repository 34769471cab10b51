"""The OpenAPI document itself; answers are held against it all the time."""

from __future__ import annotations

from gym_http_server.validation.checks import (
    Absent,
    CheckGroup,
    Checks,
    Mismatch,
    equal,
)
from gym_http_server.validation.target import Target, code_of

__all__ = ["GROUP"]

checks = Checks()
GROUP = CheckGroup("document", lambda: checks)

#: What has to be there, and what belongs to a capability.
ROUTES = {
    "": (
        "GET /v1/envs/",
        "POST /v1/envs/",
        "POST /v1/envs/0/reset/",
        "POST /v1/envs/0/step/",
        "POST /v1/envs/0/close/",
        "GET /v1/envs/0/action_space/",
        "GET /v1/envs/0/action_space/sample",
        "GET /v1/envs/0/action_space/contains/1",
        "GET /v1/envs/0/observation_space/",
        "POST /v1/envs/0/observation_space/contains",
        "POST /v1/envs/0/monitor/start/",
        "POST /v1/envs/0/monitor/close/",
    ),
    "attributes": (
        "GET /v1/envs/0/attributes/gravity/",
        "POST /v1/envs/0/attributes/gravity/",
        "POST /v1/envs/0/attributes/gravity/call/",
    ),
    "batches": ("POST /v1/batch/step/",),
    "generator": ("GET /v1/envs/0/generator/", "POST /v1/envs/0/generator/"),
    "registry": ("GET /v1/registry/",),
    "render": ("GET /v1/envs/0/render/", "POST /v1/envs/0/render/"),
    "rollouts": ("POST /v1/envs/0/rollout/",),
    "streams": ("GET /v1/envs/0/stream/",),
    "tickets": ("POST /v1/tickets/",),
}


@checks("served")
def _served(target: Target) -> None:
    if target.document is None:
        answer = target.get("/openapi.json")
        if answer.status == 404:
            raise Absent("GET /openapi.json answers 404")
        raise Mismatch("an OpenAPI document of 3.1", str(answer))


@checks("valid")
def _valid(target: Target) -> None:
    if target.document is None:
        raise Absent("there is none")
    for fault in target.document.faults():
        raise Mismatch("a valid document", fault)


@checks("routes")
def _routes(target: Target) -> None:
    if target.document is None:
        raise Absent("there is none")
    for capability, routes in ROUTES.items():
        if capability and not target.claims(capability):
            continue
        for route in routes:
            if not target.document.has(*route.split()):
                raise Mismatch(f"the operation {route}", "none")


@checks("routes-are-there")
def _routes_are_there(target: Target) -> None:
    """What the document tells of has to be there."""
    if target.document is None:
        raise Absent("there is none")
    for path, item in target.document.data["paths"].items():
        if "get" not in item:
            continue
        if "{" in path and not path.startswith("/v1/envs/{instance_id}/"):
            # What these name is known to nobody, so 404 is right.
            continue
        route = path.replace("{instance_id}", "ffffffff")
        route = route.replace("{name}", "gravity").replace("{value}", "1")
        answer = target.get(route)
        if answer.status == 404:
            equal(code_of(answer), "unknown-instance", f"code of GET {route}")
