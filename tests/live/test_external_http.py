"""External environments that can only use HTTP, and connect by long polling."""

from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import pytest

from gym_http_client import serve_env
from tests.support.api import Api, error, no_content, ok
from tests.support.broker import listed_env, wait_until_unlisted
from tests.support.peers.agent_calls import (
    answer_of,
    close_external,
    create_and_reset,
    in_background,
)
from tests.support.peers.external_env import BOX, RESULT, THREE
from tests.support.server import Server
from tests.support.wait import wait_until

HELLO = {"type": "hello", "protocol": 1, "name": "game", "capabilities": ["reset"]}
HELLO |= {"observation_space": BOX, "action_space": THREE}


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    """A client of a server with short timeouts."""
    flags = ["--external-heartbeat", "0.5", "--external-grace", "1"]
    with Server(*flags) as server:
        api = Api(server)
        Caller(api)
        wait_until_unlisted(api)
        yield api


class Caller:
    """An external environment that polls over HTTP."""

    def __init__(self, api: Api, **hello: Any) -> None:
        self.api = api
        self.welcome = ok(api.post("/v1/external/", {**HELLO, **hello}))
        self.path = f"/v1/external/{self.welcome['connection']}"

    def expect(self, kind: str) -> Any:
        while (answer := self.api.get(f"{self.path}/request?wait_s=2")).status == 204:
            pass
        assert answer.content_type == "application/json"
        message = answer.json()
        assert message["type"] == kind, message
        return message

    def send_message(self, **message: Any) -> None:
        no_content(self.api.post(f"{self.path}/answer", message))

    def answer(self, kind: str, **result: Any) -> Any:
        request = self.expect(kind)
        self.send_message(id=request["id"], result=result)
        return request


def test_it_is_stepped_released_and_taken_again(api: Api) -> None:
    external = Caller(api)
    assert listed_env(api)["free"] == 1
    for _ in range(2):
        instance = create_and_reset(api, external)
        future = in_background(instance.post, "step/", {"action": 2})
        assert external.answer("step", **RESULT)["action"] == 2
        body = ok(answer_of(future))
        assert (body["observation"], body["reward"]) == (RESULT["observation"], 2.0)
        close_external(instance, external)
    wait_until_unlisted(api)


def test_a_request_comes_until_it_is_answered(api: Api) -> None:
    external = Caller(api)
    instance = create_and_reset(api, external)
    future = in_background(instance.post, "step/", {"action": 1})
    assert external.expect("step") == external.expect("step")
    external.answer("step", **RESULT)
    ok(answer_of(future))
    no_content(api.get(f"{external.path}/request?wait_s=0"))
    close_external(instance, external)
    wait_until_unlisted(api)


def test_a_fault_is_fetched(api: Api) -> None:
    external = Caller(api)
    instance = create_and_reset(api, external)
    future = in_background(instance.post, "step/", {"action": 1})
    external.answer("step", **{**RESULT, "reward": "much"})
    error(answer_of(future), 502, "bad-answer")
    assert external.expect("fault")["field"] == "reward"
    close_external(instance, external)
    wait_until_unlisted(api)


def test_an_environment_that_stops_polling_is_removed(api: Api) -> None:
    external = Caller(api)
    instance = create_and_reset(api, external)
    wait_until(lambda: instance.id not in api.instances(), 10)
    problem = error(instance.post("step/", {"action": 1}), 410, "instance-ended")
    assert problem["reason"] == "external-gone"
    error(api.get(f"{external.path}/request?wait_s=0"), 404, "not-found")
    error(
        api.post(f"{external.path}/answer", {"id": 1, "result": {}}), 404, "not-found"
    )


def test_it_resumes_with_its_token(api: Api) -> None:
    replay = {"capabilities": ["reset", "replay"]}
    external = Caller(api, **replay)
    instance = create_and_reset(api, external)
    future = in_background(instance.post, "step/", {"action": 1})
    first = external.expect("step")
    again = Caller(api, resume=external.welcome["resume"], **replay)
    assert again.welcome["resumed"] is True
    assert again.answer("step", **RESULT)["id"] == first["id"]
    ok(answer_of(future))
    close_external(instance, again)
    wait_until_unlisted(api)


def test_nonsense_is_refused(api: Api) -> None:
    for change, code in (
        ({"name": "-"}, "bad-hello"),
        ({"protocol": 2}, "bad-protocol"),
        ({"action_space": {"type": "Circle"}}, "bad-space"),
    ):
        error(api.post("/v1/external/", {**HELLO, **change}), 400, code)
    error(api.post("/v1/external/", data=b"{"), 400, "bad-hello")
    error(api.get("/v1/external/deadbeef/request"), 404, "not-found")
    external = Caller(api)
    for wait_s in ("-1", "51", "long"):
        refused = api.get(f"{external.path}/request?wait_s={wait_s}")
        error(refused, 400, "bad-parameter")
    wait_until_unlisted(api)


def test_providers_get_the_reason(api: Api) -> None:
    env, url = gymnasium.make("CartPole-v1"), api.server.url
    with pytest.raises(ConnectionRefusedError, match="bad-hello: name is 'two words'"):
        serve_env(env, url, name="two words", transport="http")
    env.close()


def test_external_environments_are_counted(make_server: Callable[..., Server]) -> None:
    api = Api(make_server("--max-external", "1"))
    Caller(api)
    answer = api.post("/v1/external/", HELLO)
    error(answer, 503, "too-many-external")
    assert answer.header("Retry-After") == "1"


def test_an_answer_may_be_as_long_as_the_welcome_says(
    make_server: Callable[..., Server],
) -> None:
    most = 100_000
    flags = ["--max-body", "2048", "--max-answer", str(most), "--external-grace", "1"]
    api = Api(make_server(*flags))
    external = Caller(api)
    assert external.welcome["limits"]["max_message"] == most
    instance = create_and_reset(api, external)
    future = in_background(instance.post, "step/", {"action": 1})
    long = {"score": "x" * 50_000}
    external.answer("step", **{**RESULT, "info": long})
    assert ok(answer_of(future))["info"] == long
    answer = api.post(f"{external.path}/answer", data=b" " * (most + 1))
    error(answer, 413, "body-too-large")
    error(api.post("/v1/external/", data=b" " * 2049), 413, "body-too-large")
    close_external(instance, external)


def test_it_needs_the_token(make_server: Callable[..., Server]) -> None:
    token = "a-token-of-the-tests"
    server = make_server("--token", token)
    error(Api(server).post("/v1/external/", HELLO), 401, "unauthorized")
