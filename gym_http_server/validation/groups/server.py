"""The server as a whole: what it says of itself, and whom it lets in."""

from __future__ import annotations

from gym_http_server.validation.calls import Response, basic
from gym_http_server.validation.checks import (
    Absent,
    CheckGroup,
    Checks,
    equal,
    one_of,
    that,
)
from gym_http_server.validation.target import Target, code_of

__all__ = ["GROUP"]

checks = Checks()
GROUP = CheckGroup("server", lambda: checks)


@checks("about")
def _about(target: Target) -> None:
    told = _present(target.get("/v1/")).json()
    equal(told["api"], "v1", "api")
    that(isinstance(told["name"], str) and told["name"], "a name", told["name"])
    that(isinstance(told["version"], str), "a version", told["version"])
    capabilities = told["capabilities"]
    listed = isinstance(capabilities, list) and all(
        isinstance(each, str) for each in capabilities
    )
    that(listed, "capabilities, a list of names", capabilities)


@checks("healthz")
def _healthz(target: Target) -> None:
    answer = _present(target.get("/healthz", token=False))
    equal(answer.json(), {"status": "ok"}, "the answer")


@checks("readyz")
def _readyz(target: Target) -> None:
    answer = _present(target.get("/readyz", token=False))
    equal(answer.json(), {"status": "ready"}, "the answer")


@checks("registry")
def _registry(target: Target) -> None:
    answer = target.get("/v1/registry/?search=CartPole")
    target.needs("registry", answer)
    told = answer.json()
    equal(told["count"], len(told["envs"]), "count")
    for env in told["envs"]:
        that("cartpole" in env["env_id"].lower(), "only names with CartPole", env)
        equal(type(env["available"]), bool, "the type of available")


def _present(answer: Response) -> Response:
    if answer.status == 404:
        raise Absent("it answers 404")
    equal(answer.status, 200, "status")
    equal(answer.media, "application/json", "Content-Type")
    return answer


@checks("both-slash-forms")
def _slashes(target: Target) -> None:
    for path in ("/v1/envs", "/v1/envs/"):
        equal(target.get(path).status, 200, f"status of {path}, without a redirect")


@checks("token-missing")
def _token_missing(target: Target) -> None:
    _guarded(target)
    _refused(target.get("/v1/envs/", token=False))


@checks("token-wrong")
def _token_wrong(target: Target) -> None:
    _guarded(target)
    headers = {"Authorization": f"Bearer {target.address.token}x"}
    _refused(target.get("/v1/envs/", headers=headers))


@checks("token-in-address")
def _token_in_address(target: Target) -> None:
    _guarded(target)
    # Not the token itself, which a server's log would keep.
    for name in ("token", "access_token"):
        _refused(target.get(f"/v1/envs/?{name}=x", token=False))


@checks("token-as-password")
def _token_as_password(target: Target) -> None:
    _guarded(target)
    headers = {"Authorization": basic(target.address.token)}
    equal(target.get("/v1/envs/", headers=headers).status, 200, "status")


def _guarded(target: Target) -> None:
    if not target.address.token:
        raise Absent("no token was given, so none is asked for")
    one_of(target.get("/v1/envs/").status, (200,), "status with the token")


def _refused(answer: Response) -> None:
    equal(answer.status, 401, "status")
    equal(code_of(answer), "unauthorized", "code")
    told = answer.headers.get("www-authenticate", "")
    that(told, "a header WWW-Authenticate", told)
