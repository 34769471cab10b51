"""The server as a whole: what it says of itself, and whom it lets in."""

from __future__ import annotations

from gym_http_server.validation.calls import Answer, basic
from gym_http_server.validation.checks import Absent, Checks, Group, equal, one_of, that
from gym_http_server.validation.served import Served, code_of

__all__ = ["GROUP"]

checks = Checks()
GROUP = Group("server", lambda: checks)


@checks("about")
def _about(served: Served) -> None:
    told = _present(served.get("/v1/")).json()
    equal(told["api"], "v1", "api")
    that(isinstance(told["name"], str) and told["name"], "a name", told["name"])
    that(isinstance(told["version"], str), "a version", told["version"])
    capabilities = told["capabilities"]
    listed = isinstance(capabilities, list) and all(
        isinstance(each, str) for each in capabilities
    )
    that(listed, "capabilities, a list of names", capabilities)


@checks("healthz")
def _healthz(served: Served) -> None:
    answer = _present(served.get("/healthz", token=False))
    equal(answer.json(), {"status": "ok"}, "the answer")


@checks("readyz")
def _readyz(served: Served) -> None:
    answer = _present(served.get("/readyz", token=False))
    equal(answer.json(), {"status": "ready"}, "the answer")


@checks("registry")
def _registry(served: Served) -> None:
    answer = served.get("/v1/registry/?search=CartPole")
    served.needs("registry", answer)
    told = answer.json()
    equal(told["count"], len(told["envs"]), "count")
    for env in told["envs"]:
        that("cartpole" in env["env_id"].lower(), "only names with CartPole", env)
        equal(type(env["available"]), bool, "the type of available")


def _present(answer: Answer) -> Answer:
    if answer.status == 404:
        raise Absent("it answers 404")
    equal(answer.status, 200, "status")
    equal(answer.media, "application/json", "Content-Type")
    return answer


@checks("both-slash-forms")
def _slashes(served: Served) -> None:
    for path in ("/v1/envs", "/v1/envs/"):
        equal(served.get(path).status, 200, f"status of {path}, without a redirect")


@checks("token-missing")
def _token_missing(served: Served) -> None:
    _guarded(served)
    _refused(served.get("/v1/envs/", token=False))


@checks("token-wrong")
def _token_wrong(served: Served) -> None:
    _guarded(served)
    headers = {"Authorization": f"Bearer {served.address.token}x"}
    _refused(served.get("/v1/envs/", headers=headers))


@checks("token-in-address")
def _token_in_address(served: Served) -> None:
    _guarded(served)
    # Not the token itself, which a server's log would keep.
    for name in ("token", "access_token"):
        _refused(served.get(f"/v1/envs/?{name}=x", token=False))


@checks("token-as-password")
def _token_as_password(served: Served) -> None:
    _guarded(served)
    headers = {"Authorization": basic(served.address.token)}
    equal(served.get("/v1/envs/", headers=headers).status, 200, "status")


def _guarded(served: Served) -> None:
    if not served.address.token:
        raise Absent("no token was given, so none is asked for")
    one_of(served.get("/v1/envs/").status, (200,), "status with the token")


def _refused(answer: Answer) -> None:
    equal(answer.status, 401, "status")
    equal(code_of(answer), "unauthorized", "code")
    told = answer.headers.get("www-authenticate", "")
    that(told, "a header WWW-Authenticate", told)
