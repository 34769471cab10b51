"""Tokens of runs open the routes of their role in their run, and nothing else."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gym_http_server.config.settings import Settings
from gym_http_server.rundir.directory import RunDir
from gym_http_server.web.app import create_app
from tests.support.api import Api, error, ok
from tests.support.runs import Run, done
from tests.support.server import Server
from tests.support.token_file import api_of, token_of, write_file

pytestmark = pytest.mark.live

WORKER, TRAINER, OBSERVER = "worker", "trainer", "observer"
ALL = {WORKER, TRAINER, OBSERVER}
#: The roles that may use each route below ``/v1/runs/<run>``, written by hand.
ALLOWED: dict[tuple[str, str], set[str]] = {
    ("GET", ""): ALL,
    ("DELETE", ""): set(),
    ("POST", "tokens"): set(),
    ("GET", "tokens"): set(),
    ("DELETE", "tokens/<>"): set(),
    ("POST", "sessions"): {WORKER},
    ("GET", "sessions/<>"): {WORKER},
    ("DELETE", "sessions/<>"): {WORKER},
    ("POST", "samples"): {WORKER},
    ("GET", "samples"): {TRAINER},
    ("POST", "samples/lease"): {TRAINER},
    ("POST", "samples/ack"): {TRAINER},
    ("POST", "samples/nack"): {TRAINER},
    ("GET", "samples/aside"): {TRAINER},
    ("PUT", "readers/<>"): {TRAINER},
    ("GET", "readers/<>"): {TRAINER},
    ("DELETE", "readers/<>"): {TRAINER},
    ("PUT", "weights"): {TRAINER},
    ("GET", "weights"): ALL,
    ("GET", "weights/<>"): ALL,
    ("PUT", "state"): {TRAINER},
    ("GET", "state"): {TRAINER},
    ("POST", "records"): {WORKER, TRAINER},
    ("GET", "records"): {TRAINER, OBSERVER},
}
PREFIX = "/v1/runs/<>"


@pytest.fixture(scope="module", params=["with tokens", "without tokens"])
def owner(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Api]:
    """The client of a server that may create runs."""
    with contextlib.ExitStack() as stack:
        if request.param == "with tokens":
            path = write_file(tmp_path_factory.mktemp("tokens"))
            flags = ("--tokens", path)
            server = stack.enter_context(Server(*flags, token=token_of("root")))
            api = api_of(server, "runner")
        else:
            server = stack.enter_context(Server())
            api = Api(server)
        # The relay starts when it is first needed, and stays.
        done(api.get("/v1/runs/"))
        yield api


def routes(server: Server) -> list[tuple[str, str]]:
    """Return method and path of every route that the application has."""
    (path,) = server.run_dir.iterdir()
    app = create_app(Settings(), RunDir(str(path)))
    found = {
        (method, re.sub(r"<[^>]*>", "<>", rule.rule).rstrip("/"))
        for rule in app.url_map.iter_rules()
        for method in (rule.methods or set()) - {"OPTIONS"}
    }
    return sorted(found)


def test_every_route_with_the_token_of_every_role(owner: Api) -> None:
    run = Run.create(owner, "roles")
    other = Run.create(owner, "other")
    revoked = done(run.post("tokens/", {"role": TRAINER}))
    assert run.api.request("DELETE", run.path(f"tokens/{revoked['id']}/")).status == 204
    sources = (f"127.7.{i // 250}.{i % 250 + 1}" for i in range(10_000))
    seen = set()
    for method, rule in routes(owner.server):
        of_run = rule == PREFIX or rule.startswith(PREFIX + "/")
        rest = rule.removeprefix(PREFIX).strip("/")
        as_get = "GET" if method == "HEAD" else method
        # A new route has to be added to the table.
        allowed = ALLOWED[as_get, rest] if of_run else set()
        if of_run:
            seen.add((as_get, rest))
        path = rule.replace(PREFIX, f"/v1/runs/{run.name}").replace("<>", "1") or "/"
        tokens = {f"own {role}": token for role, token in run.tokens.items()}
        tokens |= {"unknown": "ghr_" + "x" * 43}
        if of_run:
            tokens |= {f"other {role}": token for role, token in other.tokens.items()}
            tokens |= {"revoked": revoked["token"]}
        for kind, token in tokens.items():
            source = next(sources) if kind in ("revoked", "unknown") else "127.0.0.1"
            headers = {"Authorization": f"Bearer {token}"}
            response = Api(owner.server, headers, source).request(method, path)
            what = (method, path, kind, response.status, response.text)
            if kind in ("revoked", "unknown"):
                assert response.status == 401, what
            elif kind.partition(" ")[0] == "own" and kind[4:] in allowed:
                assert response.status not in (401, 403, 405, 500, 503), what
            else:
                assert response.status == 403, what
                if method != "HEAD":
                    error(response, 403, "scope-missing")
    assert seen == set(ALLOWED)


def test_a_run_token_opens_no_path_without_a_route(owner: Api) -> None:
    run = Run.create(owner, "paths")
    headers = {"Authorization": f"Bearer {run.tokens[TRAINER]}"}
    for path in ("/nowhere", run.path("nowhere/"), "/healthz", "/v1/external/client/a"):
        error(Api(owner.server, headers).get(path), 403, "scope-missing")
    unknown = {"Authorization": "Bearer ghr_unknown"}
    for number, path in enumerate(("/nowhere", "/healthz"), 1):
        api = Api(owner.server, unknown, f"127.7.99.{number}")
        error(api.get(path), 401, "unauthorized")


def test_wrong_run_tokens_are_counted(owner: Api) -> None:
    run = Run.create(owner, "counted")
    source = "127.7.98.1"
    wrong = Api(owner.server, {"Authorization": "Bearer ghr_wrong"}, source)
    answers = [wrong.get(run.path()).status for _ in range(12)]
    assert set(answers) == {401, 429}, answers
    assert answers[:8] == [401] * 8
    right = {"Authorization": f"Bearer {run.tokens[OBSERVER]}"}
    ok(Api(owner.server, right, source).get(run.path()))


def test_only_the_scope_runs_creates_runs(tmp_path: Path) -> None:
    path = write_file(tmp_path)
    with Server("--tokens", path, token=token_of("root")) as server:
        for name in ("ada", "reader", "stepper", "maker"):
            api = api_of(server, name)
            error(api.post("/v1/runs/", {"run": name}), 403, "scope-missing")
            error(api.get("/v1/runs/"), 403, "scope-missing")
        run = Run.create(api_of(server, "runner"), "mine")
        error(api_of(server, "ada").get(run.path()), 403, "scope-missing")
        done(api_of(server, "root").get(run.path()))
        assert set(run.tokens) == ALL
