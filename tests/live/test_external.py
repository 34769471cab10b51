"""External environments connect to the server and behave like all others."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.api import Api, Instance, error, ok
from tests.support.broker import listed_env, server_with_broker, wait_until_unlisted
from tests.support.peers.agent_calls import (
    answer_of,
    close_external,
    create_and_reset,
    create_external,
    in_background,
)
from tests.support.peers.external_env import (
    BOX,
    RESULT,
    THREE,
    ExternalEnv,
    open_websocket,
    refused_handshake,
)
from tests.support.server import Server
from tests.support.wait import wait_until

MakeServer = Callable[..., Server]


@pytest.fixture(scope="module", params=["handed over", "relayed"])
def api(request: pytest.FixtureRequest) -> Iterator[Api]:
    """A client of a server that external environments connect to."""
    flags = ["--stream-relay"] if request.param == "relayed" else []
    with server_with_broker("--external-grace", "5", *flags) as api:
        yield api


def test_it_is_created_stepped_given_back_and_taken_again(api: Api) -> None:
    with ExternalEnv.to(api) as external:
        (result,) = ok(api.get("/v1/registry/?search=external/game"))["envs"]
        assert result["available"] is True
        result = listed_env(api)
        assert result["action_space"] == THREE
        assert (result["free"], result["taken"]) == (1, 0)
        for _ in range(2):
            future = in_background(
                api.post,
                "/v1/envs/",
                {"env_id": "external/game", "kwargs": {"level": 3}},
            )
            begun = external.answer("init")
            assert begun["kwargs"] == {"level": 3}
            assert begun["render_mode"] is None
            instance = Instance(api, ok(answer_of(future))["instance_id"])
            result = listed_env(api)
            assert (result["free"], result["taken"]) == (0, 1)
            assert api.instances()[instance.id] == "external/game"

            future = in_background(instance.post, "reset/", {"seed": 5})
            request = external.answer("reset", observation=[0, 1], info={"a": [1]})
            assert (request["seed"], request["options"]) == (5, None)
            assert 0 < request["deadline_s"] <= 30
            assert ok(answer_of(future)) == {
                "observation": [0.0, 1.0],
                "info": {"a": [1]},
            }

            future = in_background(instance.post, "step/", {"action": 2})
            request = external.answer("step", **RESULT)
            assert request["action"] == 2
            answer = ok(answer_of(future))
            assert answer == {**RESULT, "reward": 2.0, "done": False}
            close_external(instance, external)
            wait_until(lambda: listed_env(api)["free"] == 1)
    wait_until_unlisted(api)


def test_ids_increase_over_the_life_of_a_connection(api: Api) -> None:
    with ExternalEnv.to(api) as external:
        ids = []
        for _ in range(2):
            future = in_background(
                api.post, "/v1/envs/", {"env_id": "external/game", "wait_s": 5}
            )
            ids.append(external.answer("init")["id"])
            instance = Instance(api, ok(answer_of(future))["instance_id"])
            future = in_background(instance.close)
            ids.append(external.answer("close")["id"])
            assert answer_of(future).status == 204
        assert ids == sorted(set(ids))
    wait_until_unlisted(api)


def test_missing_capabilities_are_reported(api: Api) -> None:
    with ExternalEnv.to(api, capabilities=[]) as external:
        instance = create_external(api, external)
        error(instance.post("reset/", {"seed": 1}), 501, "unsupported")
        error(instance.post("reset/", {"options": {"x": 1}}), 501, "unsupported")
        future = in_background(instance.post, "reset/", {})
        external.answer("reset", observation=[0, 1])
        assert ok(answer_of(future))["info"] == {"continued": True}
        lack = error(instance.get("render/"), 409, "no-render-mode")["message"]
        assert lack.endswith("the render_modes in its metadata are []")
        error(instance.get("generator/"), 501, "unsupported")
        error(instance.get("attributes/level/"), 404, "no-attribute")
        body = ok(instance.get(""))
        assert body["env_id"] == "external/game"
        close_external(instance, external)
    wait_until_unlisted(api)


def test_a_step_before_a_reset_is_refused(api: Api) -> None:
    with ExternalEnv.to(api) as external:
        instance = create_external(api, external)
        error(instance.post("step/", {"action": 1}), 409, "reset-needed")
        close_external(instance, external)
    wait_until_unlisted(api)


def test_it_renders(api: Api) -> None:
    modes = {"render_modes": ["ansi"], "capabilities": ["reset", "render"]}
    with ExternalEnv.to(api, **modes) as external:
        body = {"env_id": "external/game", "render_mode": "rgb_array"}
        assert "['ansi']" in error(api.post("/v1/envs/", body), 400)["message"]
        instance = create_and_reset(api, external, render_mode="ansi")
        future = in_background(instance.get, "render/")
        external.answer("render", rendered="#..\n.o.")
        assert answer_of(future).text == "#..\n.o."
        close_external(instance, external)
    wait_until_unlisted(api)


def test_an_environment_that_cannot_begin_is_released(api: Api) -> None:
    with ExternalEnv.to(api) as external:
        future = in_background(api.post, "/v1/envs/", {"env_id": "external/game"})
        external.answer("init", action_space={"type": "Cube"})
        assert external.expect_fault()["field"] == "action_space"
        external.answer("close")
        problem = error(answer_of(future), 502, "bad-answer")
        assert problem["field"] == "action_space"
        close_external(create_external(api, external), external)
    wait_until_unlisted(api)


def test_init_may_answer_with_other_spaces(api: Api) -> None:
    with ExternalEnv.to(api) as external:
        future = in_background(
            api.post, "/v1/envs/", {"env_id": "external/game", "wait_s": 5}
        )
        external.answer("init", observation_space=THREE)
        instance = Instance(api, ok(answer_of(future))["instance_id"])
        assert ok(instance.get("observation_space/"))["info"]["name"] == "Discrete"
        future = in_background(instance.post, "reset/", {})
        external.answer("reset", observation=2)
        assert ok(answer_of(future))["observation"] == 2
        close_external(instance, external)
    wait_until_unlisted(api)


def test_rewards_may_have_channels(api: Api) -> None:
    with ExternalEnv.to(api, reward_channels=["food", "pain"]) as external:
        instance = create_and_reset(api, external)
        future = in_background(instance.post, "step/", {"action": 0})
        external.answer("step", **{**RESULT, "reward": [1.5, -0.25]})
        answer = ok(answer_of(future))
        assert answer["reward"] == 1.25
        assert answer["info"]["reward_channels"] == {"food": 1.5, "pain": -0.25}
        future = in_background(instance.post, "step/", {"action": 0})
        external.answer("step", **{**RESULT, "reward": [1e308, 1e308]})
        assert error(answer_of(future), 502, "bad-answer")["field"] == "reward"
        assert external.expect_fault()["field"] == "reward"
        close_external(instance, external)
    wait_until_unlisted(api)


def test_agents_read_its_metadata(api: Api) -> None:
    modes = {"capabilities": ["reset", "render"], "render_modes": ["ansi"]}
    with ExternalEnv.to(api, metadata={"render_fps": 30}, **modes) as external:
        instance = create_external(api, external)
        body = ok(instance.get(""))["metadata"]
        assert body == {"render_fps": 30, "render_modes": ["ansi"]}
        close_external(instance, external)
    wait_until_unlisted(api)


def test_wrappers_and_limits_of_steps_are_put_around(api: Api) -> None:
    with ExternalEnv.to(api) as external:
        instance = create_and_reset(api, external, max_episode_steps=1)
        future = in_background(instance.post, "step/", {"action": 0})
        external.answer("step", **RESULT)
        assert ok(answer_of(future))["truncated"] is True
        close_external(instance, external)
    wait_until_unlisted(api)


def test_an_unknown_name_is_refused_with_the_connected_ones(api: Api) -> None:
    def refusal() -> str:
        answer = api.post("/v1/envs/", {"env_id": "external/gmae"})
        return str(error(answer, 503, "external-away")["message"])

    wait_until(
        lambda: "is not connected (no external environment is): start" in refusal()
    )
    with contextlib.ExitStack() as stack:
        external = stack.enter_context(ExternalEnv.to(api))
        instance = create_external(api, external)
        assert "external/gmae is not connected (connected: external/game)" in refusal()
        for number in range(6):
            stack.enter_context(ExternalEnv.to(api, name=f"a{number}"))
        first = ", ".join(f"external/a{number}" for number in range(5))
        assert f"(connected: {first} and 2 more): start its program" in refusal()
        close_external(instance, external)
    wait_until_unlisted(api, "")


def test_a_create_waits_for_one_to_connect(api: Api) -> None:
    error(api.post("/v1/envs/", {"env_id": "external/game"}), 503, "external-away")
    future = in_background(
        api.post, "/v1/envs/", {"env_id": "external/game", "wait_s": 20}
    )
    with ExternalEnv.to(api) as external:
        external.answer("init")
        close_external(Instance(api, ok(answer_of(future))["instance_id"]), external)
    wait_until_unlisted(api)


@pytest.mark.parametrize("wait_s", [-1, 50, "long", True])
def test_a_wait_has_to_be_one(api: Api, wait_s: Any) -> None:
    body = {"env_id": "external/game", "wait_s": wait_s}
    error(api.post("/v1/envs/", body), 400, "bad-parameter")


def test_only_external_environments_are_waited_for(api: Api) -> None:
    body = {"env_id": "CartPole-v1", "wait_s": 1}
    problem = error(api.post("/v1/envs/", body), 400, "bad-parameter")
    assert problem["message"].startswith(
        "wait_s is 1, and 'CartPole-v1' is no external environment: expected no wait_s"
    )


def test_a_vector_takes_all_its_connections_or_none_and_steps_them_at_once(
    api: Api,
) -> None:
    with contextlib.ExitStack() as stack:
        externals = [stack.enter_context(ExternalEnv.to(api)) for _ in range(2)]
        body = {"env_id": "external/game", "num_envs": 3}
        answer = api.post("/v1/envs/", body)
        lack = error(answer, 503, "external-away")["message"]
        assert "needs 3 free connections, and 2 are free: try again" in lack
        assert lack.endswith("`gym-http-server ls` lists the instances that hold one")
        assert listed_env(api)["free"] == 2
        externals.append(stack.enter_context(ExternalEnv.to(api)))
        future = in_background(api.post, "/v1/envs/", body)
        requests = [external.expect("init") for external in externals]
        for external, request in zip(externals, requests, strict=True):
            external.send_message(id=request["id"], result={})
        instance = Instance(api, ok(answer_of(future))["instance_id"])

        future = in_background(instance.post, "reset/", {"seed": 7})
        requests = [external.expect("reset") for external in externals]
        seeds = sorted(request["seed"] for request in requests)
        assert seeds == [7, 8, 9]
        for external, request in zip(externals, requests, strict=True):
            place = (request["seed"] - 7) / 4
            external.send_message(id=request["id"], result={"observation": [place, 0]})
        assert ok(answer_of(future))["observation"] == [[0, 0], [0.25, 0], [0.5, 0]]

        future = in_background(instance.post, "step/", {"action": [0, 1, 2]})
        # All receive their requests before any has answered.
        requests = [external.expect("step") for external in externals]
        assert sorted(request["action"] for request in requests) == [0, 1, 2]
        for external, request in reversed(list(zip(externals, requests, strict=True))):
            external.send_message(
                id=request["id"], result={**RESULT, "reward": request["action"]}
            )
        assert ok(answer_of(future))["reward"] == [0.0, 1.0, 2.0]

        future = in_background(instance.close)
        for external in externals:
            external.answer("close")
        assert answer_of(future).status == 204
    wait_until_unlisted(api)


def test_each_agent_has_a_connection_of_its_own(api: Api) -> None:
    with ExternalEnv.to(api) as one, ExternalEnv.to(api) as other:
        assert one.welcome["connection"] != other.welcome["connection"]
        first, second = create_and_reset(api, one), create_and_reset(api, other)
        error(api.post("/v1/envs/", {"env_id": "external/game"}), 503, "external-away")
        future = in_background(second.post, "step/", {"action": 1})
        other.answer("step", **RESULT)
        ok(answer_of(future))
        close_external(first, one)
        close_external(second, other)
    wait_until_unlisted(api)


@pytest.mark.parametrize(
    ("hello", "code", "words"),
    [
        ({"protocol": 2}, "bad-protocol", "expected 1"),
        ({"name": "-game"}, "bad-hello", "a letter or digit"),
        ({"name": "g" * 65}, "bad-hello", "up to 63"),
        ({"name": None}, "bad-hello", "name"),
        ({"action_space": {"type": "Discrete", "n": 0}}, "bad-space", "action_space"),
        ({"observation_space": {"type": "Cube"}}, "bad-space", "observation_space"),
        ({"dialect": "esperanto"}, "bad-hello", "expected one of json"),
        ({"reward_channels": ["a", "a"]}, "bad-hello", "no two alike"),
        ({"realtime": {"hz": 0}}, "bad-hello", "above 0"),
        ({"type": "hallo"}, "bad-hello", "no hello"),
    ],
)
def test_nonsense_is_answered_and_ends_the_connection(
    api: Api, hello: dict[str, Any], code: str, words: str
) -> None:
    with ExternalEnv(api, **hello) as external:
        assert external.welcome["type"] == "refused"
        assert external.welcome["code"] == code
        assert words in external.welcome["message"]
        status, reason = external.websocket.read_close()
        assert status == 1008
        assert reason
    assert listed_env(api) is None


def test_pings_of_its_own_are_answered(api: Api) -> None:
    with ExternalEnv.to(api) as external:
        external.send_message(type="ping")
        assert external.receive() == {"type": "pong"}
        instance = create_external(api, external)
        external.send_message(type="ping")
        assert external.receive() == {"type": "pong"}
        close_external(instance, external)
    wait_until_unlisted(api)


def test_requests_without_an_upgrade_are_refused(api: Api) -> None:
    error(api.get("/v1/external/"), 426, "upgrade-required")
    error(
        refused_handshake(api, origin="https://elsewhere.example"),
        403,
        "origin-refused",
    )


def test_a_name_must_be_one(api: Api) -> None:
    error(api.post("/v1/envs/", {"env_id": "external/a b"}), 400, "unknown-env")


def test_tokens_and_tickets(make_server: MakeServer) -> None:
    token = "a-token-of-the-tests"
    api = Api(make_server("--token", token, token=token))
    error(refused_handshake(api, authorization=None), 401, "unauthorized")
    with ExternalEnv.to(api):
        assert listed_env(api)["free"] == 1
    ticket = ok(api.post("/v1/tickets/"))["ticket"]
    path = f"/v1/external/?ticket={ticket}"
    websocket = open_websocket(api, path=path, authorization=None)
    assert websocket.response.status == 101
    websocket.close()
    error(refused_handshake(api, path=path, authorization=None), 401, "ticket-refused")


def test_there_is_a_limit_to_connections(make_server: MakeServer) -> None:
    api = Api(make_server("--max-external", "1"))
    with ExternalEnv.to(api), ExternalEnv(api) as late:
        assert late.welcome["code"] == "too-many-external"


def test_spaces_of_the_hello_are_in_the_registry(api: Api) -> None:
    with ExternalEnv.to(api, name="other"):
        answer = listed_env(api, "other")
        assert answer["observation_space"] == BOX
        assert answer["capabilities"] == ["reset", "seed"]
    wait_until(lambda: listed_env(api, "other") is None)
