"""The OpenAPI document agrees with the routes and the running server."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import openapi_spec_validator
import pytest
import requests
import schemathesis
from schemathesis.specs.openapi import checks

import gym_http_server
from gym_http_server.config.settings import Settings
from gym_http_server.errors import GatewayProblem
from gym_http_server.rundir.directory import RunDir
from gym_http_server.web.app import create_app
from gym_http_wire.problems import Problem
from tests.support.api import Api, Instance, no_content, ok
from tests.support.openapi import (
    DOCUMENT,
    INSTANCE_ID,
    ON_INSTANCES,
    ON_RECORDINGS,
    ON_RUNS,
    OPERATIONS,
    PROMISES,
    ROUTES,
    Live,
    examples,
    generated,
    name_of,
)
from tests.support.server import Server

# The scoreboard that uploads went to is gone; streams begin with what is no request.
NEVER_DONE = {"upload", "env_stream", "external_connect", "tango_connect"}
# These leave a connection, or need one.
NEVER_DONE |= {"openenv_connect"}
NEVER_DONE |= {"external_hello", "external_request", "external_answer"}
# Called last, and on a separate server.
SHUTDOWN = "shutdown_server"
# Only the environment may fail here, with options that it does not accept.
FAILURES = {"env-error"}
# Requests whose wait is accepted would take long.
WAITING = {"env_log", "env_updates", "samples_read", "weights_get", "state_get"}
WAITING |= {"external_request"}
LONGEST_WAIT_S = 50
# Bytes of a request line that no server refuses for its length.
MOST_SURELY_FITTING = 4000
# Names of runs, and of things in them.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
# Old clients send these anything, so what is wrong there is ignored and not refused;
# and streams are refused to every plain request, whatever its content.
LENIENT = {"env_stream", "external_connect", "tango_connect", "env_reset"}
LENIENT |= {"openenv_connect"}
LENIENT |= {"external_hello", "external_request", "external_answer"}
# Here the body may be the value itself, which types of generated clients leave out.
LENIENT |= {"env_action_space_contains", "env_observation_space_contains"}
# The body of a number that was stored before is not read.
LENIENT |= {"records_send"}


@pytest.fixture
def session() -> Iterator[requests.Session]:
    with requests.Session() as session:
        yield session


def test_the_document_is_valid() -> None:
    openapi_spec_validator.validate(DOCUMENT)


def test_the_document_is_of_this_version() -> None:
    assert DOCUMENT["info"]["version"] == gym_http_server.__version__


def test_the_server_gives_the_document(api: Api) -> None:
    answer = api.get("/openapi.json")
    assert (answer.status, answer.content_type) == (200, "application/json")
    assert answer.json() == DOCUMENT


def test_routes_and_document_agree(tmp_path: Path) -> None:
    app = create_app(Settings(), RunDir(str(tmp_path)))
    routes = {
        (method.lower(), re.sub(r"<[^>]*>", "{}", rule.rule).rstrip("/"))
        for rule in app.url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }
    documented = {
        (method, re.sub(r"{\w+}", "{}", path).rstrip("/")) for path, method, _ in ROUTES
    }
    assert routes == documented


def test_problems_are_in_the_document() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    documented = {
        (status, code)
        for schema in schemas.values()
        if "/Problem" in str(schema.get("allOf"))
        for each in [schema["allOf"][1]["properties"]]
        for status in each["status"]["enum"]
        for code in each["code"]["enum"]
    }
    every = set(schemas["Problem"]["properties"]["code"]["enum"])
    assert {code for _, code in documented} <= every
    assert {(kind.default_status, kind.default_code) for kind in kinds()} <= documented


def test_wherever_a_token_may_be_wrong_too_many_may_be() -> None:
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            answers = operation.get("responses", {}) if method != "parameters" else {}
            if "401" not in answers:
                continue
            name = answers["429"]["$ref"].rpartition("/")[2]
            codes = DOCUMENT["components"]["schemas"][name]["allOf"][1]["properties"]
            answer = codes["code"]["enum"]
            assert "too-many-wrong-tokens" in answer, (method, path)


def kinds(base: type[Problem] = Problem) -> Iterator[type[Problem]]:
    """Yield a class of problems and all below it on HTTP."""
    yield base
    for kind in base.__subclasses__():
        if kind is not GatewayProblem:
            yield from kinds(kind)


@pytest.fixture
def live(api: Api) -> Iterator[Live]:
    instances = Live(api)
    yield instances
    instances.close()


@pytest.mark.parametrize("operation", sorted(OPERATIONS))
def test_promises_hold_for_generated_requests(
    operation: str, live: Live, session: requests.Session
) -> None:
    @hypothesis.settings(max_examples=10, derandomize=True, deadline=None)
    def promises_hold(case: schemathesis.Case[Any]) -> None:
        response = call_generated(case, live, session)
        assert_promises_hold(case, response)

    # With "SCHEMA.parametrize", each process of a run would make the cases of all
    # operations when it collects the tests.
    generated(operation, promises_hold)()


def call_generated(
    case: schemathesis.Case[Any], live: Live, session: requests.Session
) -> Any:
    """Send a generated request, in the names of things that are there."""
    operation = name_of(case)
    # Cases that were generated as invalid stay invalid.
    if INSTANCE_ID.fullmatch(str((case.path_parameters or {}).get("instance_id"))):
        case.path_parameters["instance_id"] = live.instance_id(operation)
    if operation in WAITING and is_wait(case.query.get("wait_s")):
        case.query["wait_s"] = "0.01"
    if operation in ON_RUNS:
        put_names(case, live.run(operation))
    if operation == "samples_lease" and isinstance(case.body, dict):
        wait_s = case.body.get("wait_s")
        if type(wait_s) in (int, float) and 0 <= wait_s <= LONGEST_WAIT_S:
            case.body["wait_s"] = 0
    response = case.call(live.api.server.url, session)
    if operation == "env_create" and response.status_code == 200:
        Instance(live.api, response.json()["instance_id"]).close()
    if operation == "run_create" and response.status_code in (200, 201):
        live.api.request("DELETE", f"/v1/runs/{response.json()['run']}/")
    return response


def assert_promises_hold(case: schemathesis.Case[Any], response: Any) -> None:
    """Check an answer; 414 is one that the document promises of all in words."""
    if response.status_code == 414:
        assert response.json()["code"] == "uri-too-long"
        assert len(response.request.path_url) > MOST_SURELY_FITTING
        return
    # A list with too many items is refused for its bytes first.
    is_refused = name_of(case) in LENIENT or response.status_code == 413
    refusals = [] if is_refused else [checks.negative_data_rejection]
    case.validate_response(response, checks=PROMISES + refusals)
    if response.status_code >= 500:
        assert response.json()["code"] in FAILURES, response.text


def test_a_path_that_is_too_long_is_answered_as_promised(
    api: Api, session: requests.Session
) -> None:
    (case,) = examples("recording")
    case.path_parameters["directory"] = "x" * 4250
    response = case.call(api.server.url, session)
    assert response.status_code == 414
    assert_promises_hold(case, response)


def is_wait(given: object) -> bool:
    """Whether a parameter is a number of seconds that an operation accepts."""
    try:
        return 0 <= float(str(given)) <= LONGEST_WAIT_S
    except ValueError:
        return False


def put_names(case: schemathesis.Case[Any], names: dict[str, str]) -> None:
    """Put the names of a run in place of generated ones; invalid ones stay."""
    for place in (case.path_parameters or {}, case.query or {}):
        for name, value in names.items():
            if NAME.fullmatch(str(place.get(name, ""))):
                place[name] = value


@pytest.mark.parametrize("operation", sorted(OPERATIONS - NEVER_DONE - {SHUTDOWN}))
def test_examples_succeed(
    operation: str, live: Live, session: requests.Session
) -> None:
    for case in examples(operation):
        if operation in ON_INSTANCES:
            case.path_parameters["instance_id"] = live.instance_id(operation)
        if operation in ON_RUNS:
            put_names(case, live.run(operation))
        if operation in ON_RECORDINGS:
            live.record(case.path_parameters["directory"])
        response = case.call(live.api.server.url, session)
        if operation == "env_create":
            Instance(live.api, response.json()["instance_id"]).close()
        if operation == "run_create":
            live.api.request("DELETE", f"/v1/runs/{response.json()['run']}/")
        assert response.status_code in (200, 201, 204), response.text
        case.validate_response(response, checks=PROMISES)


def test_the_example_of_shutting_down_succeeds(
    make_server: Callable[..., Server], session: requests.Session
) -> None:
    server = make_server("--enable-shutdown")
    (case,) = examples(SHUTDOWN)
    response = case.call(server.url, session)
    assert response.status_code == 200
    case.validate_response(response, checks=PROMISES)
    assert server.wait_exit() == 0


@pytest.mark.parametrize("operation", sorted(ON_INSTANCES - NEVER_DONE))
@pytest.mark.parametrize(
    ("accept", "status"), [("application/json", 400), ("application/problem+json", 404)]
)
def test_unknown_instances_are_answered_as_documented(
    operation: str,
    accept: str,
    status: int,
    server: Server,
    session: requests.Session,
) -> None:
    for case in examples(operation):
        case.path_parameters["instance_id"] = "deadbeef"
        response = case.call(server.url, session, headers={"Accept": accept})
        assert response.status_code == status
        assert response.headers["content-type"] == [accept]
        assert response.json()["code"] == "unknown-instance"
        case.validate_response(response, checks=PROMISES)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("action_space", 5),
        ("observation_space", {"shape": [4]}),
        ("metadata", 5),
        ("np_random", "numbers"),
        ("env", None),
        ("step", 1),
        ("reset", 1),
        ("render", 1),
        ("close", 1),
        ("state", [1]),
        ("get_wrapper_attr", 1),
    ],
)
def test_promises_hold_in_ruins(
    name: str,
    value: object,
    create: Callable[..., Instance],
    session: requests.Session,
) -> None:
    """A client that may set attributes can break its instance, but not the server."""
    instance = create("CartPole-v1", render_mode="rgb_array")
    instance.reset()
    ok(instance.post(f"attributes/{name}/", {"value": value}))
    for operation in sorted(ON_INSTANCES - {"env_close", "env_delete"}):
        for case in examples(operation):
            case.path_parameters["instance_id"] = instance.id
            response = case.call(instance.api.server.url, session)
            case.validate_response(response, checks=PROMISES)
            if response.status_code >= 500:
                assert response.json()["code"] == "env-error", response.text
    no_content(instance.close())


@pytest.mark.parametrize(
    "accept", ["*/*", "application/octet-stream", "application/json"]
)
def test_frames_are_as_documented(
    accept: str, live: Live, session: requests.Session
) -> None:
    (case,) = examples("env_render")
    case.path_parameters["instance_id"] = live.instance_id("env_render")
    response = case.call(live.api.server.url, session, headers={"Accept": accept})
    assert response.status_code == 200
    case.validate_response(response, checks=PROMISES)


@pytest.mark.parametrize(
    "env_id",
    ["Acrobot-v1", "Blackjack-v1", "FrozenLake-v1", "HalfCheetah-v5", "Taxi-v4"],
)
@pytest.mark.parametrize(
    "operation",
    [
        "env_describe",
        "env_reset",
        "env_action_space",
        "env_observation_space",
        "env_action_space_sample",
        "env_observation_space_sample",
    ],
)
def test_other_environments_are_as_documented(
    operation: str,
    env_id: str,
    create: Callable[..., Instance],
    session: requests.Session,
) -> None:
    instance = create(env_id)
    case = examples(operation)[0]
    case.path_parameters["instance_id"] = instance.id
    response = case.call(instance.api.server.url, session)
    assert response.status_code == 200
    case.validate_response(response, checks=PROMISES)
