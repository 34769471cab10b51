"""The answers to agents when an external environment fails, row by row."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.api import Api, Instance, error, ok
from tests.support.broker import (
    impatient_server,
    listed_env,
    server_with_broker,
    wait_until_unlisted,
)
from tests.support.peers.agent_calls import (
    REPLAY,
    answer_of,
    begin_step,
    close_external,
    create_and_reset,
    create_external,
    in_background,
    reconnect,
    reset_external,
    take_step,
)
from tests.support.peers.external_env import RESULT, ExternalEnv
from tests.support.server import Server
from tests.support.wait import wait_until


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    """A client of a server that waits long for lost environments."""
    with server_with_broker() as api:
        yield api


@pytest.fixture(scope="module")
def impatient() -> Iterator[Api]:
    """A client of a server that waits 0.3 s for lost environments."""
    with impatient_server() as api:
        yield api


def test_no_environment_is_connected(api: Api) -> None:
    answer = api.post("/v1/envs/", {"env_id": "external/game"})
    error(answer, 503, "external-away")
    assert answer.header("Retry-After") == "1"
    with ExternalEnv.to(api) as external:
        close_external(create_external(api, external), external)
    wait_until_unlisted(api)


def test_a_create_that_was_refused_is_made_under_its_key_later(api: Api) -> None:
    body, headers = {"env_id": "external/game"}, {"Idempotency-Key": "morning-1"}
    error(api.post("/v1/envs/", body, headers=headers), 503, "external-away")
    with ExternalEnv.to(api) as external:
        future = in_background(api.post, "/v1/envs/", body, headers=headers)
        external.answer("init")
        close_external(Instance(api, ok(answer_of(future))["instance_id"]), external)
    wait_until_unlisted(api)


def test_one_that_drops_while_it_begins_is_replaced(api: Api) -> None:
    body = {"env_id": "external/game", "wait_s": 20}
    with ExternalEnv.to(api) as first:
        future = in_background(api.post, "/v1/envs/", body)
        first.expect("init")
        first.drop()
        with ExternalEnv.to(api) as second:
            second.answer("init")
            instance = Instance(api, ok(answer_of(future))["instance_id"])
            reset_external(instance, second)
            take_step(instance, second)
            close_external(instance, second)
    wait_until_unlisted(api)


def test_one_that_drops_while_it_begins_is_replaced_by_a_free_one(api: Api) -> None:
    with ExternalEnv.to(api) as first, ExternalEnv.to(api) as second:
        wait_until(lambda: listed_env(api)["free"] == 2)
        future = in_background(api.post, "/v1/envs/", {"env_id": "external/game"})
        first.expect("init")
        first.drop()
        second.answer("init")
        instance = Instance(api, ok(answer_of(future))["instance_id"])
        close_external(instance, second)
    wait_until_unlisted(api)


def test_a_failed_vector_releases_its_connections(api: Api) -> None:
    """An environment that already began receives the agent's end."""
    body = {"env_id": "external/game", "num_envs": 2}
    with ExternalEnv.to(api) as first, ExternalEnv.to(api) as second:
        wait_until(lambda: listed_env(api)["free"] == 2)
        future = in_background(api.post, "/v1/envs/", body)
        first.answer("init")
        second.expect("init")
        second.drop()
        first.answer("close")
        error(answer_of(future), 503, "external-away")
        close_external(create_and_reset(api, first), first)
    wait_until_unlisted(api)


def test_a_connection_lost_during_a_create_is_not_waited_for(api: Api) -> None:
    with ExternalEnv.to(api) as external:
        future = in_background(api.post, "/v1/envs/", {"env_id": "external/game"})
        external.expect("init")
        external.drop()
        error(answer_of(future), 503, "external-away")
    wait_until_unlisted(api)


def test_a_silent_one(impatient: Api) -> None:
    with ExternalEnv.to(impatient) as external:
        instance = create_and_reset(impatient, external)
        future = begin_step(instance)
        late = external.expect("step")
        error(answer_of(future), 504, "external-deadline")
        error(answer_of(begin_step(instance)), 409, "reset-needed")
        external.send_message(id=late["id"], result={**RESULT, "reward": 99})
        future = in_background(instance.post, "reset/", {})
        external.answer("reset", observation=[1, 1])
        assert ok(answer_of(future))["observation"] == [1.0, 1.0]
        future = begin_step(instance)
        external.answer("step", **RESULT)
        assert ok(answer_of(future))["reward"] == 2.0
        close_external(instance, external)
    wait_until_unlisted(impatient)


def test_a_silent_one_does_not_cost_the_host_its_life(impatient: Api) -> None:
    with ExternalEnv.to(impatient) as external:
        instance = create_and_reset(impatient, external)
        future = in_background(instance.post, "reset/", {})
        external.expect("reset")
        error(answer_of(future), 504, "external-deadline")
        assert instance.id in impatient.instances()
        reset_external(instance, external)
        close_external(instance, external)
    wait_until_unlisted(impatient)


def test_one_that_does_not_begin_in_time(impatient: Api) -> None:
    with ExternalEnv.to(impatient) as external:
        future = in_background(impatient.post, "/v1/envs/", {"env_id": "external/game"})
        external.expect("init")
        error(answer_of(future), 504, "external-deadline")
    wait_until_unlisted(impatient)


def test_it_reports_an_error(api: Api) -> None:
    with ExternalEnv.to(api) as external:
        instance = create_and_reset(api, external)
        future = begin_step(instance)
        external.send_message(
            id=external.expect("step")["id"], error={"message": "the crate is stuck"}
        )
        problem = error(answer_of(future), 502, "env-error")
        assert problem["message"] == "the crate is stuck"
        error(answer_of(begin_step(instance)), 409, "reset-needed")
        reset_external(instance, external)
        take_step(instance, external)
        close_external(instance, external)
    wait_until_unlisted(api)


def test_it_refuses_an_action_and_goes_on(api: Api) -> None:
    with ExternalEnv.to(api) as external:
        instance = create_and_reset(api, external)
        future = begin_step(instance)
        words = {"message": "there is a wall", "code": "invalid-action"}
        external.send_message(id=external.expect("step")["id"], error=words)
        error(answer_of(future), 400, "invalid-action")
        take_step(instance, external)
        close_external(instance, external)
    wait_until_unlisted(api)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"observation": [0.1]}, "observation"),
        ({"observation": [0.1, 7]}, "observation"),
        ({"observation": "up"}, "observation"),
        ({"observation": None}, "observation"),
        ({"reward": None}, "reward"),
        ({"reward": True}, "reward"),
        ({"reward": "1"}, "reward"),
        ({"reward": [1]}, "reward"),
        ({"terminated": 1}, "terminated"),
        ({"truncated": None}, "truncated"),
        ({"info": [1]}, "info"),
    ],
)
def test_a_bad_answer(api: Api, changes: dict[str, Any], field: str) -> None:
    with ExternalEnv.to(api) as external:
        instance = create_and_reset(api, external)
        future = begin_step(instance)
        external.answer("step", **{**RESULT, **changes})
        problem = error(answer_of(future), 502, "bad-answer")
        assert problem["field"] == field
        assert field in problem["message"]
        fault = external.expect_fault()
        assert fault["field"] == field
        error(answer_of(begin_step(instance)), 409, "reset-needed")
        reset_external(instance, external)
        close_external(instance, external)
    wait_until_unlisted(api)


@pytest.mark.parametrize(
    "message",
    [
        {"id": "first"},
        {"result": {}},
        {"id": 1, "result": {}, "error": {"message": "both"}},
        {"type": "greeting"},
        {"id": 4_000_000_000, "result": {}},
        {"id": 3, "result": 5},
        {"id": 3, "error": "words"},
    ],
)
def test_an_unsolicited_message_in_a_step(api: Api, message: dict[str, Any]) -> None:
    with ExternalEnv.to(api) as external:
        instance = create_and_reset(api, external)
        future = begin_step(instance)
        request = external.expect("step")
        assert request["id"] == 3
        external.send_message(**message)
        if message.get("id") == 1:
            # An answer to an old request is late, whatever its content.
            external.send_message(id=3, result=RESULT)
            ok(answer_of(future))
        else:
            error(answer_of(future), 502, "bad-answer")
            assert external.expect_fault()["message"]
        close_external(instance, external)
    wait_until_unlisted(api)


def test_an_unsolicited_message_between_steps(api: Api) -> None:
    with ExternalEnv.to(api) as external:
        external.send_message(id=5, result={})
        assert external.expect_fault()["id"] == 5
        instance = create_and_reset(api, external)
        external.send_message(id=50, result={})
        assert external.expect_fault()["id"] == 50
        take_step(instance, external)
        close_external(instance, external)
    wait_until_unlisted(api)


@pytest.mark.parametrize("taken", [False, True], ids=["free", "taken"])
@pytest.mark.parametrize(
    ("opcode", "payload", "code"),
    [(1, b"{nonsense", 1003), (2, b"\0\1\2", 1003), (1, b"\xff", 1007), (3, b"", 1002)],
)
def test_garbage_ends_the_connection(
    api: Api, opcode: int, payload: bytes, code: int, taken: bool
) -> None:
    with ExternalEnv.to(api) as external:
        instance = create_and_reset(api, external) if taken else None
        future = begin_step(instance) if instance else None
        if taken:
            external.expect("step")
        external.websocket.send_frame(opcode, payload)
        assert external.expect_fault()["field"] == "message"
        assert external.websocket.read_close()[0] == code
        if future and instance:
            error(answer_of(future), 502, "bad-answer")
            error(answer_of(begin_step(instance)), (503, 409))
            assert instance.close().status == 204
    wait_until_unlisted(api)


def test_too_many_bytes_end_the_connection(make_server: Callable[..., Server]) -> None:
    api = Api(make_server("--max-answer", "2048"))
    with ExternalEnv.to(api) as external:
        assert external.welcome["limits"] == {"max_message": 2048}
        instance = create_and_reset(api, external)
        future = begin_step(instance)
        number = external.expect("step")["id"]
        external.send_message(
            id=number, result={**RESULT, "info": {"much": "x" * 3000}}
        )
        error(answer_of(future), 502, "bad-answer")
        assert external.expect_fault()["field"] == "message"
        assert external.websocket.read_close()[0] == 1009
        assert instance.close().status == 204


def test_an_environment_that_ignores_pings_is_removed(impatient: Api) -> None:
    with ExternalEnv.to(impatient) as free:
        assert free.websocket.read_frame()[0] == 9
        assert free.websocket.read_close() == (1001, "no answer to a ping")
        wait_until_unlisted(impatient)
    with ExternalEnv.to(impatient) as external:
        instance = create_and_reset(impatient, external)
        assert external.websocket.read_frame()[0] == 9
        assert external.websocket.read_close() == (1001, "no answer to a ping")
        wait_until(lambda: instance.id not in impatient.instances())
    wait_until_unlisted(impatient)


def test_an_environment_that_answers_pings_stays(impatient: Api) -> None:
    with ExternalEnv.to(impatient) as external:
        instance = create_and_reset(impatient, external)
        for _ in range(4):
            opcode, payload = external.websocket.read_frame()
            assert opcode == 9
            external.websocket.send_frame(10, payload)
        take_step(instance, external)
        close_external(instance, external)
    wait_until_unlisted(impatient)


def test_the_host_dies(api: Api) -> None:
    with ExternalEnv.to(api) as external:
        instance = create_and_reset(api, external)
        api.server.host(instance.id).kill()
        assert external.websocket.read_to_end() == b""
        wait_until(lambda: instance.id not in api.instances())
        # It connects anew; its token is known no more.
        with ExternalEnv.to(api, resume=external.welcome["resume"]) as again:
            assert again.welcome["resumed"] is False
            close_external(create_external(api, again), again)
    wait_until_unlisted(api)


def test_the_broker_dies(make_server: Callable[..., Server]) -> None:
    api = Api(make_server())
    with (
        ExternalEnv.to(api, capabilities=REPLAY) as external,
        ExternalEnv.to(api) as free,
    ):
        (broker,) = api.server.services("broker")
        instance = create_and_reset(api, external, wait_s=0)
        broker.kill()
        assert free.websocket.read_to_end() == b""
        # Environments in use do not notice.
        take_step(instance, external)
        with ExternalEnv.to(api) as again:
            wait_until(lambda: listed_env(api) and listed_env(api)["taken"] == 1)
            assert listed_env(api)["free"] == 1
            # The new broker knows the environment of this token.
            external.drop()
            with reconnect(api, external, capabilities=REPLAY) as newer:
                take_step(instance, newer)
                close_external(instance, newer)
            again.drop()


def test_the_server_stops(make_server: Callable[..., Server]) -> None:
    server = make_server()
    api = Api(server)
    with ExternalEnv.to(api) as external, ExternalEnv.to(api) as free:
        create_and_reset(api, external)
        server.stop()
        assert free.websocket.read_close()[0] == 1001
