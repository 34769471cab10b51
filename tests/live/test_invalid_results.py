"""Invalid results of an environment are reported, and its instance continues."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support import api as calls
from tests.support.api import Api, Instance
from tests.support.envs.invalid_results import InvalidResults
from tests.support.server import Server

ROUTES: tuple[tuple[str, str, Any], ...] = (
    ("GET", "", None),
    ("GET", "render/", None),
    ("GET", "action_space/", None),
    ("GET", "action_space/sample", None),
    ("POST", "action_space/contains", {"value": 1}),
    ("GET", "observation_space/", None),
    ("GET", "observation_space/sample", None),
    ("POST", "observation_space/sample", {"seed": 1}),
    ("POST", "observation_space/sample", {"mask": [1]}),
    ("POST", "observation_space/contains", {"value": 1}),
    ("POST", "observation_space/contains", {"name": "Discrete"}),
)


@pytest.fixture(scope="module")
def odd_server() -> Iterator[Server]:
    """A server that knows the odd environments."""
    with Server("--import", "tests.support.envs.invalid_results") as started:
        yield started


@pytest.fixture
def odd(odd_server: Server) -> Iterator[Callable[..., Instance]]:
    """Return a factory of invalid instances, closed after the test."""
    made: list[Instance] = []

    def make(render_mode: str | None = None, **kwargs: str) -> Instance:
        options = {"disable_env_checker": True, "render_mode": render_mode}
        instance = Api(odd_server).create(
            "invalid/Results-v0", kwargs=kwargs, **options
        )
        made.append(instance)
        instance.reset()
        return instance

    yield make
    for instance in made:
        instance.close()


@pytest.mark.parametrize(
    "gives", [*InvalidResults.STEPS, *InvalidResults.ERRORS, "no output"]
)
def test_an_odd_step_is_the_environments_error(
    odd: Callable[..., Instance], gives: str
) -> None:
    instance = odd(gives=gives)
    calls.error(instance.post("step/", {"action": 1}), 502, "env-error")
    instance.reset()
    instance.step(0)


@pytest.mark.parametrize("gives", InvalidResults.FRAMES)
def test_an_odd_frame_is_the_environments_error(
    odd: Callable[..., Instance], gives: str
) -> None:
    instance = odd("rgb_array", gives=gives)
    headers = {"Accept": "application/json"}
    calls.error(instance.get("render/", headers=headers), 502, "env-error")
    instance.step(0)


@pytest.mark.parametrize(
    "has", sorted(set(InvalidResults.TRAITS) - {"no action", "deep action"})
)
def test_an_odd_environment_is_no_fault_of_the_servers(
    odd: Callable[..., Instance], has: str
) -> None:
    instance = odd(has=has)
    for method, path, body in ROUTES:
        more = {} if body is None else {"json_body": body}
        answer = instance.api.request(method, instance.path(path), **more)
        if answer.status >= 400:
            calls.error(answer, (400, 409, 501, 502))
    instance.step(0)


@pytest.mark.parametrize(
    ("has", "status", "code"),
    [
        ("half a character", 502, "env-error"),
        ("large", 400, "bad-parameter"),
        ("no action", 502, "env-error"),
        ("deep action", 502, "env-error"),
    ],
)
def test_environments_that_cannot_be_made_are_reported(
    odd_server: Server, has: str, status: int, code: str
) -> None:
    body = {
        "env_id": "invalid/Results-v0",
        "kwargs": {"has": has},
        "disable_env_checker": True,
    }
    calls.error(Api(odd_server).post("/v1/envs/", body), status, code)


@pytest.mark.parametrize("has", ["no metadata", "odd modes", "odd mode"])
def test_an_unsupported_render_mode_is_reported(odd_server: Server, has: str) -> None:
    body = {
        "env_id": "invalid/Results-v0",
        "kwargs": {"has": has},
        "disable_env_checker": True,
        "render_mode": "rgb_array",
    }
    answer = Api(odd_server).post("/v1/envs/", body)
    if answer.status == 200:
        instance = Instance(Api(odd_server), answer.json()["instance_id"])
        calls.no_content(instance.close())
    else:
        calls.error(answer, (400, 502))
