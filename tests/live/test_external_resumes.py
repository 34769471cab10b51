"""Calls of agents while an external environment is disconnected for a short time."""

import json
import struct
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.api import Api, error, ok
from tests.support.broker import server_with_broker, wait_until_unlisted
from tests.support.peers.agent_calls import (
    REPLAY,
    answer_of,
    close_external,
    create_and_reset,
    in_background,
    reconnect,
)
from tests.support.peers.external_env import RESULT, ExternalEnv
from tests.support.websocket import TEXT, Answer, WebSocket, frame, value

STEP = 2


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    """A client of a server with a broker."""
    with server_with_broker() as api:
        yield api


def say_step(
    stream: WebSocket, number: int, action: int, *, knowing: bool = False
) -> None:
    """Request a step, and acknowledge all earlier answers or not."""
    given = value('{"dict":[["action","int"]]}', struct.pack("<q", action))
    stream.send_binary(STEP, number, given, status=int(knowing))


def problem(answer: Answer) -> Any:
    """Read a problem; return its status with it."""
    return {"status": answer.status, **json.loads(answer.body)}


def test_a_call_that_is_lost_goes_on_when_the_environment_is_back(api: Api) -> None:
    with ExternalEnv.to(api, capabilities=REPLAY) as external:
        instance = create_and_reset(api, external)
        future = in_background(instance.post, "step/", {"action": 1})
        first = external.expect("step")
        external.drop()
        with reconnect(api, external, capabilities=REPLAY) as again:
            second = again.answer("step", **RESULT)
            assert (second["id"], second["action"]) == (first["id"], 1)
            assert second["deadline_s"] < first["deadline_s"]
            assert ok(answer_of(future))["reward"] == 2.0
            close_external(instance, again)
    wait_until_unlisted(api)


def test_a_call_that_is_lost_is_in_doubt_at_once_without_replay(api: Api) -> None:
    with ExternalEnv.to(api) as external:
        instance = create_and_reset(api, external)
        future = in_background(instance.post, "step/", {"action": 1})
        external.expect("step")
        external.drop()
        with reconnect(api, external) as again:
            error(answer_of(future), 502, "outcome-unknown")
            error(instance.post("step/", {"action": 1}), 409, "reset-needed")
            close_external(instance, again)
    wait_until_unlisted(api)


def test_looking_is_done_again_when_the_environment_is_back(api: Api) -> None:
    modes = {"render_modes": ["ansi"], "capabilities": ["reset", "render"]}
    with ExternalEnv.to(api, **modes) as external:
        instance = create_and_reset(api, external, render_mode="ansi")
        future = in_background(instance.get, "render/")
        first = external.expect("render")
        external.drop()
        with reconnect(api, external, **modes) as again:
            assert again.answer("render", rendered="#")["id"] > first["id"]
            assert answer_of(future).text == "#"
            close_external(instance, again)
    wait_until_unlisted(api)


def test_a_call_waits_half_a_second_for_an_environment_that_is_away(api: Api) -> None:
    with ExternalEnv.to(api) as external:
        instance = create_and_reset(api, external)
        external.drop()
        began_at = time.monotonic()
        answer = instance.post("step/", {"action": 1})
        assert 0.4 < time.monotonic() - began_at < 5
        error(answer, 503, "external-away")
        assert answer.header("Retry-After") == "1"
        with reconnect(api, external) as again:
            # Once the host has answered a step, it has the connection.
            future = in_background(instance.post, "step/", {"action": 1})
            again.answer("step", **RESULT)
            ok(answer_of(future))
            close_external(instance, again)
    wait_until_unlisted(api)


def test_one_that_is_back_is_seen_by_the_next_call(api: Api) -> None:
    with ExternalEnv.to(api) as external:
        instance = create_and_reset(api, external)
        for _ in range(20):
            external.drop()
            external = reconnect(api, external)
            future = in_background(instance.post, "step/", {"action": 1})
            external.answer("step", **RESULT)
            ok(answer_of(future))
        close_external(instance, external)
        external.drop()
    wait_until_unlisted(api)


def test_later_requests_do_not_pass_one_that_is_to_come_again(api: Api) -> None:
    with ExternalEnv.to(api, capabilities=REPLAY) as external:
        instance = create_and_reset(api, external)
        external.drop()
        with WebSocket.to(instance) as stream:
            for number in (1, 2):
                say_step(stream, number, number - 1, knowing=number == 1)
            failure = [problem(stream.receive_binary()) for _ in range(2)]
            assert [each["status"] for each in failure] == [503, 503]
            assert "request 1 of this session" in failure[1]["message"]
            with reconnect(api, external, capabilities=REPLAY) as again:
                # Sent before the answers arrived, and come late.
                say_step(stream, 3, 2)
                # Sent again before its turn.
                say_step(stream, 2, 1)
                for _ in range(2):
                    told_late = problem(stream.receive_binary())
                    assert (told_late["status"], told_late["code"]) == (
                        503,
                        "external-away",
                    )
                    assert "request 1 of this session" in told_late["message"]
                for number in (1, 2, 3):
                    say_step(stream, number, number - 1, knowing=number == 1)
                actions = [again.answer("step", **RESULT)["action"] for _ in range(3)]
                assert actions == [0, 1, 2]
                answers = [stream.receive_binary() for _ in range(3)]
                assert [each[:2] for each in answers] == [(1, 200), (2, 200), (3, 200)]
                close_external(instance, again)
    wait_until_unlisted(api)


def test_a_client_may_acknowledge_a_request_in_doubt(api: Api) -> None:
    with ExternalEnv.to(api, capabilities=REPLAY) as external:
        instance = create_and_reset(api, external)
        external.drop()
        with WebSocket.to(instance) as stream:
            for number in (1, 2):
                say_step(stream, number, 0)
                assert stream.receive_binary().status == 503
            with reconnect(api, external, capabilities=REPLAY) as again:
                say_step(stream, 3, 2, knowing=True)
                assert again.answer("step", **RESULT)["action"] == 2
                assert stream.receive_binary()[:2] == (3, 200)
                for number in (1, 2):
                    say_step(stream, number, 0)
                    failure = problem(stream.receive_binary())
                    assert (failure["status"], failure["code"]) == (409, "answer-gone")
                say_step(stream, 4, 1, knowing=True)
                again.answer("step", **RESULT)
                assert stream.receive_binary()[:2] == (4, 200)
                close_external(instance, again)
    wait_until_unlisted(api)


def test_a_request_that_waits_for_an_earlier_one_may_come_by_http(api: Api) -> None:
    with ExternalEnv.to(api, capabilities=REPLAY) as external:
        instance = create_and_reset(api, external)
        external.drop()
        with WebSocket.to(instance, session="walk") as stream:
            say_step(stream, 1, 0, knowing=True)
            say_step(stream, 2, 1)
            assert {stream.receive_binary().status for _ in range(2)} == {503}
        with reconnect(api, external, capabilities=REPLAY) as again:
            keys = [{"Idempotency-Key": f"walk-{number}"} for number in (1, 2)]
            early = instance.post("step/", {"action": 1}, headers=keys[1])
            error(early, 503, "external-away")
            assert early.header("Retry-After") == "1"
            for action in (0, 1):
                future = in_background(
                    instance.post, "step/", {"action": action}, headers=keys[action]
                )
                assert again.answer("step", **RESULT)["action"] == action
                ok(answer_of(future))
            close_external(instance, again)
    wait_until_unlisted(api)


def test_pipelined_requests_do_not_overtake_a_refused_one(api: Api) -> None:
    with ExternalEnv.to(api, capabilities=REPLAY) as external:
        instance = create_and_reset(api, external)
        external.drop()
        with WebSocket.to(instance, sec_websocket_protocol=TEXT) as stream:
            step = json.dumps({"op": "step", "action": 0}).encode()
            stream.send(frame(1, step) * 3)
            found = [stream.receive() for _ in range(3)]
            assert [each["status"] for each in found] == [503, 503, 503]
            for each in found[1:]:
                assert "request 1 of this session" in each["body"]["message"]
            with reconnect(api, external, capabilities=REPLAY) as again:
                # A client that sends further requests has read the answers.
                stream.send_message(op="step", action=2)
                assert again.answer("step", **RESULT)["action"] == 2
                assert stream.receive()["number"] == 4
                close_external(instance, again)
    wait_until_unlisted(api)
