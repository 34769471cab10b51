"""Each error that a client can bring about without harm, and its form."""

from __future__ import annotations

import functools
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from gym_http_server.validation.binary import BINARY
from gym_http_server.validation.calls import Response
from gym_http_server.validation.checks import Check, CheckGroup, Checks
from gym_http_server.validation.expectations import Absent, equal, that
from gym_http_server.validation.target import Target, code_of
from gym_http_server.validation.typed import TYPED

__all__ = ["GROUP", "problem"]

PROBLEM = "application/problem+json"


@dataclass(frozen=True)
class Cause:
    """A request that is answered with an error.

    Attributes:
        status: The expected status.
        method: Its method.
        path: Its path; ``ID`` stands for an instance that was not reset.
        value: Its body as JSON, or ``None``.
        body: Its body as bytes, or ``None``.
        headers: Its headers.
        capability: The capability that it needs.
        demanded: Headers that the answer must have.
    """

    status: int
    method: str = "GET"
    path: str = "/v1/envs/"
    value: Any = None
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    capability: str = ""
    demanded: tuple[str, ...] = ()


_CAUSES = {
    "bad-json": Cause(400, "POST", body=b"{"),
    "missing-parameter": Cause(400, "POST", value={}),
    "bad-parameter": Cause(
        400, "POST", value={"env_id": "CartPole-v1", "seed": "many"}
    ),
    "unknown-env": Cause(400, "POST", value={"env_id": "validate/None-v0"}),
    "unknown-instance": Cause(400, "POST", "/v1/envs/ffffffff/reset/", {}),
    "not-found": Cause(404, path="/v1/validate-nothing/"),
    "no-attribute": Cause(
        404, path="ID/attributes/validate_none/", capability="attributes"
    ),
    "method-not-allowed": Cause(405, "PATCH", demanded=("allow",)),
    "not-acceptable": Cause(
        406,
        "POST",
        "/v1/batch/step/",
        {"steps": [{"instance_id": "ffffffff", "action": 0}]},
        headers={"Accept": BINARY},
        capability="batches",
    ),
    "reset-needed": Cause(409, "POST", "ID/step/", {"action": 0}),
    "no-render-mode": Cause(
        409,
        path="ID/render/",
        headers={"Accept": "image/png"},
        capability="render",
    ),
    "upload-gone": Cause(
        410, "POST", "/v1/upload/", {"training_dir": "a", "api_key": "b"}
    ),
    "body-too-large": Cause(
        413,
        "POST",
        "/v1/runs/",
        body=b'{"run": "' + b"x" * 300_000 + b'"}',
        capability="runs",
    ),
    "uri-too-long": Cause(414, path="/v1/" + "x" * 20_000),
    "content-encoding": Cause(
        415, "POST", "ID/reset/", body=b"x", headers={"Content-Encoding": "gzip"}
    ),
    "upgrade-required": Cause(
        426, path="ID/stream", capability="streams", demanded=("upgrade",)
    ),
    "headers-too-large": Cause(431, headers={"X-Large": "x" * 100_000}),
    "unsupported-value": Cause(
        501,
        path="ID/attributes/unwrapped/",
        headers={"Accept": TYPED},
        capability="attributes",
    ),
    "env-error": Cause(
        502,
        "POST",
        "ID/attributes/close/call/",
        {"kwargs": {"validate": 1}},
        capability="attributes",
    ),
}


# Requests that are refused before Accept is read, by a proxy if there is one.
_UNREAD = {"uri-too-long", "headers-too-large"}


def _checks() -> Iterator[Check]:
    for code, cause in _CAUSES.items():
        yield Check(code, partial(_caused, code, cause))
    yield from checks


checks = Checks()
GROUP = CheckGroup("errors", _checks)


def _caused(code: str, cause: Cause, target: Target) -> None:
    if cause.capability:
        target.needs(cause.capability)
    if code in _UNREAD:
        target.needs_no_proxy()
    request = functools.partial(_request, target, cause)
    if cause.path.startswith("ID/"):
        with target.made() as instance:
            path = instance.path(cause.path.removeprefix("ID/"))
            answers = request(path), request(path, Accept=PROBLEM)
    else:
        answers = request(cause.path), request(cause.path, Accept=PROBLEM)
    if code_of(answers[0]) == "env-refused" != code:
        raise Absent("it makes only the environments that are allowed: env-refused")
    problem(answers[0], code, cause.status)
    for name in cause.demanded:
        that(name in answers[0].headers, f"a header {name}", answers[0].headers)
    if "Accept" in cause.headers or code in _UNREAD:
        return
    if code == "unknown-instance":
        # A client that accepts problem details gets the status of HTTP.
        equal(answers[1].status, 404, f"status for {PROBLEM}")
    equal(answers[1].media, PROBLEM, "Content-Type for a client that accepts it")
    equal(code_of(answers[1]), code, "code")


def _request(target: Target, cause: Cause, path: str, **more: str) -> Response:
    headers = {**more, **cause.headers}
    if cause.value is None:
        return target.call(cause.method, path, body=cause.body, headers=headers)
    return target.call(cause.method, path, cause.value, headers=headers)


def problem(answer: Response, code: str, status: int) -> dict[str, Any]:
    """Expect an error with a certain code and status, in its form.

    Raises:
        Mismatch: It is not.
    """
    equal(answer.status, status, f"status of {code}")
    equal(answer.media, "application/json", "Content-Type")
    actual: dict[str, Any] = answer.json()
    equal(actual.get("code"), code, "code")
    message = actual.get("message")
    that(isinstance(message, str) and message.strip(), "a message", actual)
    equal(actual.get("detail"), message, "detail, as message")
    equal(actual.get("status"), status, "status in the body")
    equal(actual.get("type"), f"urn:gym-http:{code}", "type")
    for name in ("title", "request_id"):
        that(isinstance(actual.get(name), str) and actual[name], f"a {name}", actual)
    return actual


@checks("invalid-action")
def _invalid_action(target: Target) -> None:
    with target.made() as instance:
        instance.post("reset/", {})
        wrong: tuple[Any, ...] = ("left", 2, -1, 0.5, [0, 1], {})
        for action in wrong:
            answer = instance.post("step/", {"action": action})
            problem(answer, "invalid-action", 400)
        steps = instance.get().json()["steps"]
        equal(steps, 0, "steps that the environment has taken")


@checks("instance-gone")
def _gone(target: Target) -> None:
    instance = target.create()
    instance.close()
    answer = instance.post("step/", {"action": 0})
    that(answer.status in (400, 410), "status 400 or 410", answer.status)
    known = {"unknown-instance", "instance-ended"}
    that(code_of(answer) in known, " or ".join(known), code_of(answer))


@checks("request-id")
def _request_id(target: Target) -> None:
    given = secrets.token_hex(4)
    answer = target.get("/v1/validate-nothing/", headers={"X-Request-Id": given})
    equal(answer.json().get("request_id"), given, "request_id")


@checks("origin-refused")
def _origin(target: Target) -> None:
    headers = {"Origin": "https://validate.invalid"}
    problem(target.get("/v1/envs/", headers=headers), "origin-refused", 403)


@checks("host-refused")
def _host(target: Target) -> None:
    if target.address.token:
        raise Absent("a server with a token goes by any name")
    headers = {"Host": "validate.invalid"}
    problem(target.get("/v1/envs/", headers=headers), "host-refused", 403)


@checks("dependency-missing")
def _dependency(target: Target) -> None:
    target.needs("registry")
    envs = target.get("/v1/registry/?available=false").json()["envs"]
    if not envs:
        raise Absent("everything that is registered can be made here")
    answer = target.post("/v1/envs/", {"env_id": envs[0]["env_id"]})
    if code_of(answer) == "env-refused":
        raise Absent("it makes only the environments that are allowed: env-refused")
    problem(answer, "dependency-missing", 501)
