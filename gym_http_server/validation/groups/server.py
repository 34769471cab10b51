"""The whole server: its description, tokens, OpenAPI document, instances and logs."""

from __future__ import annotations

from typing import Any

from gym_http_server.validation.calls import Response, basic
from gym_http_server.validation.checks import CheckGroup, Checks
from gym_http_server.validation.expectations import (
    Absent,
    Mismatch,
    equal,
    one_of,
    that,
)
from gym_http_server.validation.target import Target, code_of

__all__ = ["DOCUMENT", "INSTANCE_GROUPS", "SERVER"]

server = Checks()
SERVER = CheckGroup("server", lambda: server)


@server("about")
def _about(target: Target) -> None:
    actual = _present(target.get("/v1/")).json()
    equal(actual["api"], "v1", "api")
    that(isinstance(actual["name"], str) and actual["name"], "a name", actual["name"])
    that(isinstance(actual["version"], str), "a version", actual["version"])
    capabilities = actual["capabilities"]
    listed = isinstance(capabilities, list) and all(
        isinstance(each, str) for each in capabilities
    )
    that(listed, "capabilities, a list of names", capabilities)


@server("healthz")
def _healthz(target: Target) -> None:
    answer = _present(target.get("/healthz", token=False))
    equal(answer.json(), {"status": "ok"}, "the answer")


@server("readyz")
def _readyz(target: Target) -> None:
    answer = _present(target.get("/readyz", token=False))
    equal(answer.json(), {"status": "ready"}, "the answer")


@server("registry")
def _registry(target: Target) -> None:
    answer = target.get("/v1/registry/?search=CartPole")
    target.needs("registry", answer)
    actual = answer.json()
    equal(actual["count"], len(actual["envs"]), "count")
    for env in actual["envs"]:
        that("cartpole" in env["env_id"].lower(), "only names with CartPole", env)
        equal(type(env["available"]), bool, "the type of available")


def _present(answer: Response) -> Response:
    if answer.status == 404:
        raise Absent("it answers 404")
    equal(answer.status, 200, "status")
    equal(answer.media, "application/json", "Content-Type")
    return answer


@server("both-slash-forms")
def _slashes(target: Target) -> None:
    for path in ("/v1/envs", "/v1/envs/"):
        equal(target.get(path).status, 200, f"status of {path}, without a redirect")


@server("token-missing")
def _token_missing(target: Target) -> None:
    _guarded(target)
    _refused(target.get("/v1/envs/", token=False))


@server("token-wrong")
def _token_wrong(target: Target) -> None:
    _guarded(target)
    headers = {"Authorization": f"Bearer {target.address.token}x"}
    _refused(target.get("/v1/envs/", headers=headers))


@server("token-in-address")
def _token_in_address(target: Target) -> None:
    _guarded(target)
    # Not the token itself, which a server's log would keep.
    for name in ("token", "access_token"):
        _refused(target.get(f"/v1/envs/?{name}=x", token=False))


@server("token-as-password")
def _token_as_password(target: Target) -> None:
    _guarded(target)
    headers = {"Authorization": basic(target.address.token)}
    equal(target.get("/v1/envs/", headers=headers).status, 200, "status")


def _guarded(target: Target) -> None:
    if not target.address.token:
        raise Absent("no token was given, so none is required")
    one_of(target.get("/v1/envs/").status, (200,), "status with the token")


def _refused(answer: Response) -> None:
    equal(answer.status, 401, "status")
    equal(code_of(answer), "unauthorized", "code")
    actual = answer.headers.get("www-authenticate", "")
    that(actual, "a header WWW-Authenticate", actual)


document = Checks()
DOCUMENT = CheckGroup("document", lambda: document)

#: Parts that are required, and parts that belong to a capability.
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
    "realtime": (
        "GET /v1/envs/0/realtime/",
        "POST /v1/envs/0/realtime/",
        "POST /v1/envs/0/realtime/pause/",
        "POST /v1/envs/0/realtime/resume/",
        "GET /v1/envs/0/realtime/trace/",
        "POST /v1/envs/0/action/",
        "GET /v1/envs/0/updates/",
    ),
    "registry": ("GET /v1/registry/",),
    "render": ("GET /v1/envs/0/render/", "POST /v1/envs/0/render/"),
    "rollouts": ("POST /v1/envs/0/rollout/",),
    "streams": ("GET /v1/envs/0/stream/",),
    "tickets": ("POST /v1/tickets/",),
}


@document("served")
def _served(target: Target) -> None:
    if target.document is None:
        answer = target.get("/openapi.json")
        if answer.status == 404:
            raise Absent("GET /openapi.json answers 404")
        raise Mismatch("an OpenAPI document of 3.1", str(answer))


@document("valid")
def _valid(target: Target) -> None:
    if target.document is None:
        raise Absent("there is no document")
    for fault in target.document.faults():
        raise Mismatch("a valid document", fault)


@document("routes")
def _routes(target: Target) -> None:
    if target.document is None:
        raise Absent("there is no document")
    for capability, routes in ROUTES.items():
        if capability and not target.claims(capability):
            continue
        for route in routes:
            if not target.document.has(*route.split()):
                raise Mismatch(f"the operation {route}", "none")


@document("routes-are-there")
def _routes_are_there(target: Target) -> None:
    """Expect all routes of the document."""
    if target.document is None:
        raise Absent("there is no document")
    for path, item in target.document.data["paths"].items():
        if "get" not in item:
            continue
        if "{" in path and not path.startswith("/v1/envs/{instance_id}/"):
            # Their names are unknown to the server, so 404 is right.
            continue
        route = path.replace("{instance_id}", "ffffffff")
        route = route.replace("{name}", "gravity").replace("{value}", "1")
        answer = target.get(route)
        if answer.status == 404:
            equal(code_of(answer), "unknown-instance", f"code of GET {route}")


listing = Checks()
logs = Checks()


def _needs_listing(target: Target) -> None:
    target.needs("instances", target.get("/v1/instances/"))


def _needs_logs(target: Target) -> None:
    answer = target.shared(target.env_id).get("log/")
    if code_of(answer) == "logs-disabled":
        raise Absent("it shows no logs of instances: logs-disabled")
    target.needs("logs", answer)


INSTANCE_GROUPS = (
    CheckGroup("instances", lambda: listing, _needs_listing),
    CheckGroup("logs", lambda: logs, _needs_logs),
)


def _row(target: Target, kind: str, instance_id: str) -> dict[str, Any]:
    """Return the entry of an instance in the list, present or ended."""
    answer = target.get("/v1/instances/")
    equal(answer.status, 200, "status")
    rows = [row for row in answer.json()[kind] if row["instance_id"] == instance_id]
    equal(len(rows), 1, f"entries of the instance in {kind}")
    return dict(rows[0])


@listing("figures")
def _figures(target: Target) -> None:
    with target.made(target.env_id, label="validate") as instance:
        equal(instance.post("reset/", {}).status, 200, "status of a reset")
        row = _row(target, "instances", instance.id)
        equal((row["env_id"], row["label"]), (target.env_id, "validate"), "names")
        equal((row["state"], row["steps"]), ("waiting", 0), "state and steps")
        that(row["age_s"] >= row["idle_s"] >= 0, "an age, and less idle time", row)


@listing("ended")
def _ended(target: Target) -> None:
    with target.made(target.env_id) as instance:
        equal(instance.close().status, 204, "status of the close")
        row = _row(target, "ended", instance.id)
        equal(row["reason"], "closed", "reason")


@listing("label-refused")
def _label(target: Target) -> None:
    for label in ("x" * 65, "two\nlines", 5):
        body = {"env_id": target.env_id, "label": label}
        answer = target.post("/v1/envs/", body)
        equal((answer.status, code_of(answer)), (400, "bad-parameter"), repr(label))


@logs("offsets")
def _offsets(target: Target) -> None:
    with target.made(target.env_id) as instance:
        answer = instance.get("log/?from=0&wait_s=0")
        equal(answer.status, 200, "status")
        size = len(answer.body)
        equal(answer.headers.get("gym-log-next"), str(size), "Gym-Log-Next")
        equal(answer.headers.get("gym-log-cut"), "0", "Gym-Log-Cut")
        equal(answer.headers.get("gym-log-ended"), "false", "Gym-Log-Ended")
        for query in ("from=-1", "wait_s=26"):
            refused = instance.get(f"log/?{query}")
            actual = refused.status, code_of(refused)
            equal(actual, (400, "bad-parameter"), query)


@logs("of-an-ended-instance")
def _kept(target: Target) -> None:
    with target.made(target.env_id) as instance:
        equal(instance.close().status, 204, "status of the close")
        answer = instance.get("log/")
        equal(answer.status, 200, "status")
        equal(answer.headers.get("gym-log-ended"), "true", "Gym-Log-Ended")
