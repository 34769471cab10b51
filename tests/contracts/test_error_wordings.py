"""The wordings of errors that clients search for, the order of checks, and the form."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.api import Api, Instance, error, no_content, ok
from tests.support.raw import Response
from tests.support.server import Server

Create = Callable[..., Instance]

NOBODY = "ffffffff"
PROBLEM = "application/problem+json"
NOT_JSON = "Request is not a valid json"
UNKNOWN = f"Instance_id {NOBODY} unknown"
MALFORMED = "Attempted to look up malformed environment ID '{}'"
NOT_PROVIDED = "A required request parameter '{}' was not provided"

INSTANCE_ROUTES = [
    ("POST", "reset/", {}),
    ("POST", "step/", {"action": 1}),
    ("POST", "close/", {}),
    ("POST", "monitor/start/", {"directory": "x"}),
    ("POST", "monitor/close/", {}),
    ("POST", "action_space/contains", {"value": 1}),
    ("POST", "action_space/sample", {}),
    ("POST", "observation_space/contains", {"name": "Box"}),
    ("POST", "observation_space/sample", {}),
    ("GET", "", None),
    ("GET", "action_space/", None),
    ("GET", "action_space/sample", None),
    ("GET", "action_space/contains/1", None),
    ("GET", "observation_space/", None),
    ("GET", "observation_space/sample", None),
    ("GET", "render/", None),
    ("DELETE", "", None),
]

REQUIRED = [
    ("/v1/envs/", "env_id", {}),
    ("step/", "action", {}),
    ("monitor/start/", "directory", {}),
    ("/v1/upload/", "training_dir", {"api_key": "sk"}),
    ("/v1/upload/", "api_key", {"training_dir": "results"}),
]
MISSING: list[Any] = [None, "", [], ...]


def call(api: Api, method: str, path: str, body: Any, **more: Any) -> Response:
    if body is None:
        return api.request(method, path, **more)
    return api.request(method, path, body, **more)


@pytest.mark.parametrize(("method", "rest", "body"), INSTANCE_ROUTES)
def test_unknown_instance(method: str, rest: str, body: Any, api: Api) -> None:
    path = f"/v1/envs/{NOBODY}/{rest}"
    answer = error(call(api, method, path, body), 400, "unknown-instance")
    assert answer["message"] == UNKNOWN
    headers = {"Accept": f"{PROBLEM}, application/json;q=0.9"}
    response = call(api, method, path, body, headers=headers)
    assert error(response, 404, "unknown-instance")["message"] == UNKNOWN
    assert response.content_type == PROBLEM


@pytest.mark.parametrize(
    "instance_id", ["0", "x", "FFFFFFFF", "0123456", "012345678", "%2e%2e", "a%2Fb"]
)
def test_ids_that_cannot_be(instance_id: str, api: Api) -> None:
    """An id is a name in the run directory: nothing but one may reach it."""
    response = api.post(f"/v1/envs/{instance_id}/step/", {"action": 1})
    answer = error(response, (400, 404))
    if "%" not in instance_id:
        assert answer["message"] == f"Instance_id {instance_id} unknown"


@pytest.mark.parametrize("value", MISSING, ids=repr)
@pytest.mark.parametrize(("path", "name", "others"), REQUIRED)
def test_missing_parameters(
    path: str, name: str, others: dict[str, Any], value: Any, create: Create
) -> None:
    """Absent, null, "" and [] are the same thing."""
    instance = create()
    if not path.startswith("/"):
        path = instance.path(path)
    body = others if value is ... else {**others, name: value}
    answer = error(instance.api.post(path, body), 400, "missing-parameter")
    assert answer["message"] == NOT_PROVIDED.format(name)


@pytest.mark.parametrize(
    "path", ["/v1/envs/", "step/", "monitor/start/", "/v1/upload/"]
)
@pytest.mark.parametrize("body", [b"", b"{", b"env_id=CartPole-v0", b"{'action': 1}"])
def test_not_json(path: str, body: bytes, instance: Instance) -> None:
    if not path.startswith("/"):
        path = instance.path(path)
    answer = error(instance.api.post(path, data=body), 400)
    if body:
        assert answer["code"] == "bad-json"
        assert answer["message"].startswith(NOT_JSON)
    else:
        assert answer["code"] in ("bad-json", "missing-parameter")


@pytest.mark.parametrize(
    "env_id",
    ["Nonsense", "Nonsense-v0", "CartPole-v99", "a b-v0", "-v0", "../x-v1", "x/y/z-v1"],
)
def test_unknown_env_ids(env_id: str, api: Api) -> None:
    """The message begins with these words; a hint may follow."""
    answer = error(api.post("/v1/envs/", {"env_id": env_id}), 400, "unknown-env")
    assert answer["message"].startswith(MALFORMED.format(env_id))
    assert api.instances() == {}


def test_a_hint_follows_the_words(api: Api) -> None:
    answer = error(api.post("/v1/envs/", {"env_id": "CartPole-v99"}), 400)
    hint = answer["message"].removeprefix(MALFORMED.format("CartPole-v99"))
    assert "CartPole" in hint


def test_step_reads_the_body_before_it_looks_for_the_instance(api: Api) -> None:
    path = f"/v1/envs/{NOBODY}/step/"
    answer = error(api.post(path, data=b"{"), 400, "bad-json")
    assert answer["message"].startswith(NOT_JSON)
    answer = error(api.post(path, {}), 400, "missing-parameter")
    assert answer["message"] == NOT_PROVIDED.format("action")
    answer = error(api.post(path, {"action": "up"}), 400, "unknown-instance")
    assert answer["message"] == UNKNOWN


def test_step_checks_the_action_before_the_env_sees_it(create: Create) -> None:
    instance = create()
    error(instance.post("step/", {"action": 99}), (400, 409))
    error(instance.post("step/", {"action": 1}), 409, "reset-needed")
    instance.reset()
    error(instance.post("step/", {"action": 99}), 400, "invalid-action")
    instance.step(1)


def test_contains_of_values_that_are_not_json(instance: Instance) -> None:
    for value in ("abc", "1.2.3", "%5B1", "NaN"):
        error(instance.get(f"action_space/contains/{value}"), 400)


def test_monitor_conflicts(instance: Instance) -> None:
    no_content(instance.post("monitor/start/", {"directory": "conflict"}))
    again = instance.post("monitor/start/", {"directory": "conflict-2"})
    error(again, 409, "monitor-active")
    no_content(instance.post("monitor/close/"))


def test_monitor_does_not_lose_data(create: Create) -> None:
    instance = create()
    for options, status in [({}, 204), ({}, 400), ({"resume": True}, 204)]:
        body = {"directory": "kept", **options}
        response = instance.post("monitor/start/", body)
        if status == 400:
            error(response, 400)
            continue
        no_content(response)
        instance.reset()
        while not instance.step(1)["done"]:
            pass
        no_content(instance.post("monitor/close/"))
    written = instance.api.server.data_dir / "kept" / "episodes.jsonl"
    assert len(written.read_text().splitlines()) == 2
    no_content(instance.post("monitor/start/", {"directory": "kept", "force": True}))
    no_content(instance.post("monitor/close/"))
    assert not written.exists() or not written.read_text()


def test_render_needs_a_mode(create: Create) -> None:
    problem = error(create().get("render/"), 409, "no-render-mode")
    # CartPole has the mode "human" too, with which no instance can be made.
    assert problem["message"].endswith("MODE is one of ['rgb_array']")


ERRORS: list[tuple[str, str, bytes | None, dict[str, str], int]] = [
    ("GET", "/v1/nowhere", None, {}, 404),
    ("PUT", "/v1/envs/", None, {}, 405),
    ("POST", "/v1/envs/", b"{", {}, 400),
    ("POST", "/v1/envs/", b"{}", {"Content-Encoding": "gzip"}, 415),
    ("POST", "/v1/envs/", b"{}".ljust(8 * 2**20 + 1), {}, 413),
    ("POST", "/v1/shutdown/", b"", {}, 403),
    ("POST", "/v1/envs/", b"{}", {"Host": "evil.example"}, 403),
    ("POST", "/v1/envs/", b"{}", {"Origin": "https://evil.example"}, 403),
]


@pytest.mark.parametrize(
    "accept", ["", "*/*", "application/json", "text/html", PROBLEM]
)
@pytest.mark.parametrize(
    ("method", "path", "data", "headers", "status"), ERRORS, ids=lambda v: str(v)[:20]
)
def test_form_of_errors(
    method: str,
    path: str,
    data: bytes | None,
    headers: dict[str, str],
    status: int,
    accept: str,
    api: Api,
) -> None:
    headers = {**headers, "Accept": accept}
    response = api.request(method, path, data=data, headers=headers)
    answer = error(response, status)
    assert answer["instance"] == path
    request = PROBLEM in accept
    assert response.content_type == (PROBLEM if request else "application/json")
    if status == 405:
        assert response.header("Allow")


def test_request_ids_differ(api: Api) -> None:
    answers = [error(api.get("/v1/nowhere"), 404) for _ in range(3)]
    assert len({answer["request_id"] for answer in answers}) == 3


def test_head_of_an_error_has_no_body(api: Api) -> None:
    response = api.request("HEAD", "/v1/nowhere")
    assert response.status == 404
    assert response.content_type == "application/json"


def test_too_many_instances(make_server: Callable[..., Server]) -> None:
    api = Api(make_server("--max-instances", "1"))
    instance = api.create()
    response = api.post("/v1/envs/", {"env_id": "CartPole-v1"})
    error(response, 429, "too-many-instances")
    assert int(response.header("Retry-After") or "") >= 0
    no_content(instance.close())
    api.create()


def test_bad_creation_parameters(api: Api) -> None:
    for extra in (
        {"kwargs": [1]},
        {"kwargs": {"no_such_argument": 1}},
        {"seed": -1},
        {"seed": "x"},
        {"seed": 1.5},
        {"render_mode": 7},
        {"max_episode_steps": "x"},
        {"max_episode_steps": -3},
        {"disable_env_checker": "maybe"},
        {"wrappers": 7},
        {"wrappers": ["NoSuchWrapper"]},
        {"wrappers": [{"name": "TimeLimit", "kwargs": 3}]},
    ):
        body = {"env_id": "CartPole-v1", **extra}
        answer = error(api.post("/v1/envs/", body), 400)
        assert answer["code"] in ("bad-parameter", "unknown-env"), (extra, answer)
    error(api.post("/v1/envs/", {"env_id": 7}), 400)
    error(api.post("/v1/envs/", {"env_id": ["CartPole-v1"]}), 400)
    assert api.instances() == {}


def test_bad_reset_parameters(instance: Instance) -> None:
    for body in ({"seed": -1}, {"seed": "x"}, {"seed": 1.5}, {"options": [1]}):
        error(instance.post("reset/", body), 400, "bad-parameter")
    ok(instance.post("reset/", {"seed": None, "options": None}))


def test_messages_of_environments_are_repeated_only_where_clients_need_them(
    create: Create,
) -> None:
    """`message` and `detail` are equal by contract; `text` is what can be raised."""
    body = {"options": {"low": 1, "high": 0}}
    problem = error(create().post("reset/", body), 502, "env-error")
    output = "Lower bound (1.0) must be lower than higher bound (0.0)."
    assert problem["text"] == output
    # A traceback ends with it anyway.
    members = {name for name, value in problem.items() if output in str(value)}
    assert members - {"traceback"} == {"detail", "message", "text"}
    assert problem["title"] not in problem["message"]
