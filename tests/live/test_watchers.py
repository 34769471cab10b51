"""Watchers receive copies of an instance's answers without sending requests."""

import contextlib
import json
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gym_http_client
from gym_http_wire.values import binary as values
from gym_http_wire.values import typed
from tests.support import api as calls
from tests.support.api import Api, Instance
from tests.support.peers.agent_calls import answer_of, create_external, in_background
from tests.support.peers.external_env import ExternalEnv
from tests.support.peers.watcher import open_slow_watcher, open_stream, open_watcher
from tests.support.server import Server
from tests.support.wait import wait_until
from tests.support.websocket import (
    BINARY,
    PING,
    PONG,
    TEXT,
    Answer,
    WebSocket,
    value,
)

RESET, STEP, RENDER = 1, 2, 3
ACTION = value('{"dict":[["action","int"]]}', struct.pack("<q", 1))
EMPTY = value('{"dict":[]}')


@pytest.fixture
def instance(create_either: Callable[..., Instance]) -> Instance:
    """A CartPole on either kind of server."""
    return create_either()


def answered(answer: Any, op: str, number: int, body: Any, status: int = 200) -> bool:
    """Whether a copy is just this one."""
    wanted = {"op": op, "number": number, "dropped": 0, "status": status, "body": body}
    assert answer == wanted
    return True


def test_copies_equal_answers_over_http_and_streams(
    create_either: Callable[..., Instance],
) -> None:
    instance = create_either(render_mode="ansi", env_id="FrozenLake-v1")
    with open_watcher(instance) as watcher, open_stream(instance) as agent:
        body = instance.reset(seed=3)
        answered(watcher.copy(), "reset", 1, body)
        body = instance.step(1)
        assert "done" in body
        answered(watcher.copy(), "step", 2, body)
        body = agent.call(op="step", action=2)["body"]
        answered(watcher.copy(), "step", 3, body)
        body = agent.call(op="render")["body"]
        assert "S" in body
        answered(watcher.copy(), "render", 4, body)
        # A watcher changes nothing, and no client is notified.
        agent.call(op="describe")
        agent.call(op="action_sample")
        body = agent.call(op="reset")["body"]
        answered(watcher.copy(), "reset", 5, body)


def test_the_binary_dialect_copies_without_loss(
    create_either: Callable[..., Instance],
) -> None:
    instance = create_either()
    with (
        open_watcher(instance, BINARY) as watcher,
        open_stream(instance, BINARY) as agent,
    ):
        ask = [
            (RESET, value('{"dict":[["seed","int"]]}', struct.pack("<q", 3))),
            *[(STEP, ACTION)] * 8,
        ]
        for number, (op, body) in enumerate(ask, 1):
            answer = agent.call_binary(op, number, body)
            result = watcher.copy_binary()
            assert result[:4] == (op, number, 0, 200)
            # Both number signatures alike, since both began with the same answer.
            assert values.encode(result[4])[-24:] == answer.body[-24:]
        assert result[4]["observation"].dtype == np.float32
        # Answers over HTTP have a `done`; copies never have one.
        body = instance.step(1)
        result = watcher.copy_binary()
        assert set(result[4]) == {*body} - {"done"}
        assert result[4]["observation"].tolist() == pytest.approx(body["observation"])
        assert len(watcher.signatures) == 2


def quick_steps(agent: WebSocket, count: int) -> list[Answer]:
    """Take fast steps: all but the first with a signature's number."""
    named = struct.pack("<II", len(ACTION) - 16, 1) + ACTION[8:]
    again = struct.pack("<II", 0, 1) + ACTION[-8:]
    bodies = [named, *[again] * (count - 1)]
    return [agent.call_binary(STEP, n, body) for n, body in enumerate(bodies, 1)]


def observation(answer: Answer) -> list[float]:
    """Return the observation in the answer to a step of a CartPole."""
    (size,) = struct.unpack_from("<I", answer.body)
    return list(struct.unpack_from("<4f", answer.body, 8 + size))


def test_the_fast_path_is_watched_and_answers_the_same(instance: Instance) -> None:
    bodies = []
    for watched in (False, True):
        with contextlib.ExitStack() as stack:
            agent = stack.enter_context(open_stream(instance, BINARY))
            instance.reset(seed=3)
            watcher = stack.enter_context(open_watcher(instance)) if watched else None
            answers = quick_steps(agent, 8)
            bodies.append([answer.body for answer in answers])
            if watcher is None:
                continue
            assert watcher.copy()["op"] == "reset"
            for number, answer in enumerate(answers, 1):
                result = watcher.copy()
                assert (result["op"], result["number"]) == ("step", number)
                given = [float(np.float32(x)) for x in result["body"]["observation"]]
                assert given == observation(answer)
    assert bodies[0] == bodies[1]


def test_typed_json_on_request(instance: Instance) -> None:
    with open_watcher(instance, TEXT, "&form=typed") as watcher:
        instance.reset(seed=3)
        result = watcher.copy()
        value = typed.decode(json.dumps(result["body"]).encode())
        assert value["observation"].dtype == np.float32
    answer = WebSocket.to(instance, path=instance.path("stream?watch=1&form=png"))
    with answer:
        assert calls.error(answer.response, 400, "bad-parameter")["message"]
    with WebSocket.to(instance, path=instance.path("stream?watch=yes")) as refused:
        calls.error(refused.response, 400, "bad-parameter")


def test_each_step_of_batches_and_rollouts_is_broadcast(instance: Instance) -> None:
    with open_watcher(instance) as watcher:
        instance.reset(seed=3)
        watcher.copy()
        body = calls.ok(instance.post("step/", {"actions": [0, 1, 0]}))
        copies = [watcher.copy() for _ in range(3)]
        assert [each["op"] for each in copies] == ["step"] * 3
        assert [each["body"]["reward"] for each in copies] == body["rewards"]
        rows = [each["body"]["observation"] for each in copies]
        assert rows == body["observations"]
        calls.ok(instance.post("rollout/", {"actions": [[1, 1]], "seed": 3}))
        assert [watcher.copy()["op"] for _ in range(3)] == ["reset", "step", "step"]


def test_errors_are_broadcast_and_replays_are_not(
    create_toy: Callable[..., Instance],
) -> None:
    instance = create_toy()
    with open_watcher(instance) as watcher, open_stream(instance) as agent:
        for op, more in (("step", {"action": 0}), ("step", {"action": "left"})):
            answer = agent.call(op=op, **more)
            assert answer["status"] >= 400
            result = watcher.copy()
            assert (result["op"], result["status"]) == (op, answer["status"])
            assert result["body"] == answer["body"]
        key = {"Idempotency-Key": "k-1"}
        first = instance.post("reset/", {"seed": 1}, headers=key)
        again = instance.post("reset/", {"seed": 1}, headers=key)
        assert again.header("Idempotent-Replayed") == "true"
        answered(watcher.copy(), "reset", 3, calls.ok(first))
        body = instance.step(1)
        answered(watcher.copy(), "step", 4, body)


def test_errors_of_an_environment_are_broadcast(
    make_server: Callable[..., Server],
) -> None:
    api = Api(make_server("--import", "tests.support.envs.hostile"))
    instance = api.create("hostile/RaiseKeyError-v0")
    with open_watcher(instance) as watcher:
        instance.reset()
        watcher.copy()
        error = calls.error(instance.post("step/", {"action": 1}), 502, "env-error")
        answer = watcher.copy()
        assert (answer["op"], answer["status"]) == ("step", 502)
        assert answer["body"]["message"] == error["message"]
        # In the quick lane, and after some steps of a batch.
        instance.reset()
        assert watcher.copy()["op"] == "reset"
        with open_stream(instance, BINARY) as agent:
            quiet = ACTION[:-8] + bytes(8)
            named = struct.pack("<II", len(ACTION) - 16, 1) + quiet[8:]
            assert agent.call_binary(STEP, 1, named).status == 200
            for number, action in ((2, 0), (3, 0), (4, 1)):
                body = struct.pack("<IIq", 0, 1, action)
                status = agent.call_binary(STEP, number, body).status
                assert status == (502 if action else 200)
        assert [watcher.copy()["status"] for _ in range(4)] == [200, 200, 200, 502]
        instance.reset()
        assert watcher.copy()["op"] == "reset"
        calls.error(instance.post("step/", {"actions": [0, 0, 1]}), 502, "env-error")
        copies = [watcher.copy() for _ in range(3)]
        assert [each["status"] for each in copies] == [200, 200, 502]
        assert copies[2]["body"]["extras"]["steps"] == 2


def test_a_late_watcher_begins_with_the_last_answer(instance: Instance) -> None:
    with open_watcher(instance) as watcher, open_stream(instance, BINARY) as agent:
        # Before the first answer there is nothing to begin with.
        body = instance.reset(seed=3)
        answered(watcher.copy(), "reset", 1, body)
        with open_watcher(instance) as late:
            answered(late.copy(), "reset", 0, body)
            body = instance.step(1)
            answered(late.copy(), "step", 1, body)
        agent.call_binary(STEP, 1, ACTION)
    # Fast steps, while no watcher is connected.
    with open_stream(instance, BINARY) as agent:
        answer = quick_steps(agent, 5)[-1]
        with open_watcher(instance, BINARY) as late:
            op, number, dropped, status, result = late.copy_binary()
            assert (op, number, dropped, status) == (STEP, 0, 0, 200)
            assert result["observation"].tolist() == observation(answer)


def test_vectors_and_external_environments_are_watched(
    make_server: Callable[..., Server],
) -> None:
    api = Api(make_server())
    vector = api.create(num_envs=3)
    with open_watcher(vector) as watcher:
        body = vector.reset(seed=3)
        answered(watcher.copy(), "reset", 1, body)
        body = vector.step([0, 1, 0])
        assert len(body["done"]) == 3
        answered(watcher.copy(), "step", 2, body)
    with ExternalEnv.to(api) as external:
        instance = create_external(api, external)
        with open_watcher(instance) as watcher:
            future = in_background(instance.post, "reset/")
            external.answer("reset", observation=[0, 1], info={})
            body = calls.ok(answer_of(future))
            answered(watcher.copy(), "reset", 1, body)
            future = in_background(instance.post, "step/", {"action": 1})
            external.expect("step")
            external.drop()
            error = calls.error(answer_of(future), 503)
            copy = watcher.copy()
            assert (copy["op"], copy["status"]) == ("step", 503)
            assert copy["body"]["code"] == error["code"]
        instance.close()


def test_a_watcher_that_sends_is_closed(create_either: Callable[..., Instance]) -> None:
    instance = create_either()
    with open_stream(instance) as agent:
        for protocol, opcode in ((TEXT, 1), (TEXT, 2), (BINARY, 1), (BINARY, 2)):
            with open_watcher(instance, protocol) as watcher:
                watcher.send_frame(PING, b"?")
                assert watcher.read_frame() == (PONG, b"?")
                watcher.send_frame(opcode, b'{"op": "reset"}')
                code, words = watcher.read_close()
                assert code == 1008
                assert "watching" in words
        assert calls.ok(instance.get(""))["episodes"] == 0
        assert agent.call(op="step", action=0)["status"] == 409
        with open_watcher(instance) as watcher:
            watcher.send_frame(8, struct.pack(">H", 1000))
            assert watcher.read_close()[0] == 1000


def test_a_slow_watcher_gets_the_latest_and_delays_no_agent(
    create_toy: Callable[..., Instance],
) -> None:
    instance = create_toy("toys/Big-v0", kwargs={"size": 300_000})
    count = 20
    with (
        open_slow_watcher(instance, BINARY) as watcher,
        open_stream(instance, BINARY) as agent,
    ):
        assert agent.call_binary(RESET, 1, EMPTY).status == 200
        for number in range(1, count + 1):
            answer = agent.call_binary(STEP, number + 1, ACTION)
            assert (answer.status, answer.body[-3]) == (200, 0)
            assert answer.body.count(number) >= 300_000
        assert calls.ok(instance.get(""))["steps"] == count
        # The first was being written, and of the others the last one waited.
        found = [watcher.copy_binary() for _ in range(2)]
        assert [each[:4] for each in found] == [
            (RESET, 1, 0, 200),
            (STEP, count + 1, count - 1, 200),
        ]
        assert not found[0][4]["observation"].any()
        assert (found[1][4]["observation"] == count).all()
        # And it continues without a loss.
        agent.call_binary(STEP, count + 2, ACTION)
        assert watcher.copy_binary()[:4] == (STEP, count + 2, 0, 200)


def test_each_answer_is_broadcast_or_counted(create: Callable[..., Instance]) -> None:
    """Behind a long batch that filled all buffers, steps are taken as ever."""
    instance = create()
    with open_stream(instance, BINARY) as agent:
        instance.reset(seed=3)
        alone = [answer.body for answer in quick_steps(agent, 5)]
    with (
        open_slow_watcher(instance, TEXT) as watcher,
        open_stream(instance, BINARY) as agent,
    ):
        assert watcher.copy()["number"] == 0
        body = calls.ok(instance.post("rollout/", {"episodes": 200}))
        total = body["steps"] + 200 + 1 + 5
        instance.reset(seed=3)
        assert [answer.body for answer in quick_steps(agent, 5)] == alone
        seen = dropped = number = 0
        while number < total:
            copy = watcher.copy()
            seen, dropped = seen + 1, dropped + copy["dropped"]
            assert copy["number"] == number + copy["dropped"] + 1
            number = copy["number"]
        assert dropped > 0
        assert seen + dropped == total
        assert instance.step(1)
        assert watcher.copy()["number"] == total + 1


def test_a_watcher_that_reads_nothing_is_dropped(
    create_toy: Callable[..., Instance],
) -> None:
    instance = create_toy("toys/Big-v0", kwargs={"size": 1_000_000})
    with open_slow_watcher(instance, BINARY) as watcher, open_stream(instance) as agent:
        agent.call(op="reset")
        assert calls.ok(instance.get(""))["watchers"] == 1
        wait_until(lambda: calls.ok(instance.get(""))["watchers"] == 0, 8.0, "its end")
        assert agent.call(op="step", action=0)["status"] == 200
        assert watcher.read_to_end()


def test_closing_the_instance_closes_streams_with_a_reason(
    create_either: Callable[..., Instance],
) -> None:
    instance = create_either()
    with open_watcher(instance) as text, open_watcher(instance, BINARY) as binary:
        instance.close()
        for watcher in (text, binary):
            assert watcher.read_close() == (1001, "the instance was closed")


def test_64_watchers_and_no_more_beside_agents(instance: Instance) -> None:
    with contextlib.ExitStack() as stack:
        crowd = [stack.enter_context(open_watcher(instance)) for _ in range(64)]
        refused = WebSocket.to(instance, path=instance.path("stream?watch=1"))
        stack.enter_context(refused)
        error = calls.error(refused.response, 503, "too-many-streams")
        assert "64 watchers" in error["message"]
        agent = stack.enter_context(open_stream(instance))
        counted = calls.ok(instance.get(""))
        assert (counted["streams"], counted["watchers"]) == (1, 64)
        body = agent.call(op="reset")["body"]
        for watcher in crowd:
            answered(watcher.copy(), "reset", 1, body)
        crowd[0].close()
        wait_until(lambda: calls.ok(instance.get(""))["watchers"] == 63)
        stack.enter_context(open_watcher(instance))


def test_to_be_watched_is_not_to_be_used(make_server: Callable[..., Server]) -> None:
    api = Api(make_server("--idle-timeout", "1"))
    instance = api.create()
    with open_watcher(instance) as watcher:
        assert watcher.read_close()[0] == 1001
    calls.error(instance.post("reset/"), 410, "instance-ended")


def test_the_python_client_iterates(instance: Instance) -> None:
    client = gym_http_client.Server(instance.api.server.url)
    with client.watch(instance.id) as watching:
        body = instance.reset(seed=3)
        answer = next(watching)
        assert answer[:4] == ("reset", 1, 0, 200)
        assert answer.value["observation"].dtype == np.float32
        assert answer.value["observation"].tolist() == pytest.approx(
            body["observation"]
        )
        instance.post("step/", {"action": "left"})
        answer = next(watching)
        assert (answer.status, answer.value["code"]) == (400, "invalid-action")
        for _ in range(3):
            instance.step(1)
        instance.close()
        assert [each.op for each in watching] == ["step"] * 3
    with pytest.raises(gym_http_client.ServerError) as caught:
        client.watch(instance.id)
    assert caught.value.code == "unknown-instance"
