"""What agents are told when an environment that lives elsewhere fails, row by row."""

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest

from tests.support.agents import (
    asking,
    back,
    began,
    created,
    ended,
    heard,
    insisting,
    reset,
)
from tests.support.api import Api, Instance, error, ok
from tests.support.broker import listed, server_with_broker, settled
from tests.support.far import RESULT, Far
from tests.support.server import Server
from tests.support.wait import wait_until

REPLAY = ["reset", "seed", "replay"]


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    """A client of a server that waits long for who is lost."""
    with server_with_broker() as api:
        yield api


@pytest.fixture(scope="module")
def hasty() -> Iterator[Api]:
    """A client of a server that waits for nobody."""
    flags = ["--external-grace", "0.3", "--external-deadline", "0.5"]
    with server_with_broker(*flags, "--external-heartbeat", "0.3") as api:
        yield api


def step(instance: Instance, action: int = 1, key: str = "") -> Any:
    """Step in the background."""
    headers = {"Idempotency-Key": key} if key else {}
    return asking(instance.post, "step/", {"action": action}, headers=headers)


def step_again(instance: Instance, action: int = 1, key: str = "") -> Any:
    """Step in the background, once the far side is there."""
    headers = {"Idempotency-Key": key} if key else {}
    return insisting(instance.post, "step/", {"action": action}, headers=headers)


def stepped(instance: Instance, far: Far) -> None:
    """Take a step that succeeds, once the far side is there."""
    future = insisting(instance.post, "step/", {"action": 1})
    far.answer("step", **RESULT)
    ok(heard(future))


def lost(instance: Instance, far: Far, key: str = "") -> Any:
    """Let the far side drop in a step; give what it was asked."""
    future = step(instance, key=key)
    request = far.asked("step")
    far.drop()
    error(heard(future), 503, "external-away")
    return request


def test_none_is_connected(api: Api) -> None:
    answer = api.post("/v1/envs/", {"env_id": "external/game"})
    error(answer, 503, "external-away")
    assert answer.header("Retry-After") == "1"
    with Far.to(api) as far:
        ended(created(api, far), far)
    settled(api)


def test_a_create_that_was_refused_is_made_under_its_key_later(api: Api) -> None:
    body, headers = {"env_id": "external/game"}, {"Idempotency-Key": "morning-1"}
    error(api.post("/v1/envs/", body, headers=headers), 503, "external-away")
    with Far.to(api) as far:
        future = asking(api.post, "/v1/envs/", body, headers=headers)
        far.answer("init")
        ended(Instance(api, ok(heard(future))["instance_id"]), far)
    settled(api)


def test_one_that_drops_while_it_begins_is_replaced(api: Api) -> None:
    body = {"env_id": "external/game", "wait_s": 20}
    with Far.to(api) as first:
        future = asking(api.post, "/v1/envs/", body)
        first.asked("init")
        first.drop()
        with Far.to(api) as second:
            second.answer("init")
            instance = Instance(api, ok(heard(future))["instance_id"])
            reset(instance, second)
            stepped(instance, second)
            ended(instance, second)
    settled(api)


def test_one_that_drops_while_it_begins_is_replaced_by_a_free_one(api: Api) -> None:
    with Far.to(api) as first, Far.to(api) as second:
        wait_until(lambda: listed(api)["free"] == 2)
        future = asking(api.post, "/v1/envs/", {"env_id": "external/game"})
        first.asked("init")
        first.drop()
        second.answer("init")
        instance = Instance(api, ok(heard(future))["instance_id"])
        ended(instance, second)
    settled(api)


def test_a_vector_that_cannot_begin_leaves_nobody_taken(api: Api) -> None:
    """Who has begun already is told that the agent goes."""
    body = {"env_id": "external/game", "num_envs": 2}
    with Far.to(api) as first, Far.to(api) as second:
        wait_until(lambda: listed(api)["free"] == 2)
        future = asking(api.post, "/v1/envs/", body)
        first.answer("init")
        second.asked("init")
        second.drop()
        first.answer("close")
        error(heard(future), 503, "external-away")
        ended(began(api, first), first)
    settled(api)


def test_where_one_drops_while_it_begins_nobody_waits_unasked(api: Api) -> None:
    with Far.to(api) as far:
        future = asking(api.post, "/v1/envs/", {"env_id": "external/game"})
        far.asked("init")
        far.drop()
        error(heard(future), 503, "external-away")
    settled(api)


def test_it_drops_between_steps_and_goes_on(api: Api) -> None:
    with Far.to(api) as far:
        instance = began(api, far)
        far.drop()
        answer = instance.post("step/", {"action": 1})
        error(answer, 503, "external-away")
        assert answer.header("Retry-After") == "1"
        with back(api, far) as again:
            # Nothing was asked, so nothing is in doubt.
            stepped(instance, again)
            ended(instance, again)
    settled(api)


def test_it_drops_in_a_step_and_does_not_come_back(hasty: Api) -> None:
    with Far.to(hasty) as far:
        instance = began(hasty, far)
        lost(instance, far)
        wait_until(lambda: instance.id not in hasty.instances())
        told = error(instance.post("step/", {"action": 1}), 410, "instance-ended")
        assert told["reason"] == "external-gone"
    settled(hasty)


def test_it_drops_between_steps_and_does_not_come_back(hasty: Api) -> None:
    with Far.to(hasty) as far:
        instance = began(hasty, far)
        far.drop()
        wait_until(lambda: instance.id not in hasty.instances())
        told = error(instance.post("reset/", {}), 410, "instance-ended")
        assert told["reason"] == "external-gone"
    settled(hasty)


@pytest.mark.parametrize("keys", [("", ""), ("k-1", "k-1")])
def test_with_replay_no_step_is_doubled(api: Api, keys: tuple[str, str]) -> None:
    with Far.to(api, capabilities=REPLAY) as far:
        instance = began(api, far)
        first = lost(instance, far, key=keys[0])
        error(heard(step(instance, key=keys[0])), 503, "external-away")
        with back(api, far, capabilities=REPLAY) as again:
            future = step_again(instance, key=keys[1])
            second = again.answer("step", **RESULT)
            assert second["id"] == first["id"]
            assert second["action"] == first["action"]
            assert ok(heard(future))["reward"] == 2.0
            stepped(instance, again)
            ended(instance, again)
    settled(api)


@pytest.mark.parametrize(
    ("action", "keys"), [(2, ("", "")), (1, ("k-2", "k-3"))], ids=["action", "key"]
)
def test_another_step_than_the_lost_one_is_refused(
    api: Api, action: int, keys: tuple[str, str]
) -> None:
    with Far.to(api, capabilities=REPLAY) as far:
        instance = began(api, far)
        lost(instance, far, key=keys[0])
        with back(api, far, capabilities=REPLAY) as again:
            refused = step_again(instance, action, key=keys[1])
            error(heard(refused), 409, "reset-needed")
            reset(instance, again)
            stepped(instance, again)
            ended(instance, again)
    settled(api)


def test_without_replay_nobody_knows(api: Api) -> None:
    with Far.to(api) as far:
        instance = began(api, far)
        lost(instance, far)
        with back(api, far) as again:
            error(heard(step_again(instance)), 502, "outcome-unknown")
            error(heard(step(instance)), 409, "reset-needed")
            reset(instance, again)
            stepped(instance, again)
            ended(instance, again)
    settled(api)


def test_a_page_that_is_reloaded_is_a_new_connection(api: Api) -> None:
    with Far.to(api) as far:
        instance = began(api, far)
        far.drop()
        with Far.to(api) as fresh:
            assert fresh.welcome["resumed"] is False
            assert fresh.welcome["connection"] != far.welcome["connection"]
            error(heard(step(instance)), 503, "external-away")
            other = began(api, fresh)
            ended(other, fresh)
        assert instance.close().status == 204
    settled(api)


def test_a_token_that_nobody_knows_is_a_new_connection(api: Api) -> None:
    with Far.to(api, resume="made up") as far:
        assert far.welcome["resumed"] is False
        assert far.welcome["resume"] != "made up"
    settled(api)


def test_a_token_of_another_environment_is_no_good(api: Api) -> None:
    with (
        Far.to(api) as far,
        Far.to(api, name="other", resume=far.welcome["resume"]) as thief,
    ):
        assert thief.welcome["resumed"] is False
        stepped(instance := began(api, far), far)
        ended(instance, far)
    settled(api)


def test_of_a_token_shown_twice_the_newer_wins_while_it_is_free(api: Api) -> None:
    with Far.to(api) as far, back(api, far) as newer:
        assert far.line.read_close()[0] == 1001
        assert listed(api)["free"] == 1
        ended(created(api, newer), newer)
    settled(api)


def test_of_a_token_shown_twice_the_newer_wins_in_a_step(api: Api) -> None:
    with Far.to(api, capabilities=REPLAY) as far:
        instance = began(api, far)
        future = step(instance)
        first = far.asked("step")
        with back(api, far, capabilities=REPLAY) as newer:
            assert newer.answer("step", **RESULT)["id"] == first["id"]
            ok(heard(future))
            ended(instance, newer)
    settled(api)


def test_a_silent_one(hasty: Api) -> None:
    with Far.to(hasty) as far:
        instance = began(hasty, far)
        future = step(instance)
        late = far.asked("step")
        error(heard(future), 504, "external-deadline")
        error(heard(step(instance)), 409, "reset-needed")
        far.say(id=late["id"], result={**RESULT, "reward": 99})
        future = asking(instance.post, "reset/", {})
        far.answer("reset", observation=[1, 1])
        assert ok(heard(future))["observation"] == [1.0, 1.0]
        future = step(instance)
        far.answer("step", **RESULT)
        assert ok(heard(future))["reward"] == 2.0
        ended(instance, far)
    settled(hasty)


def test_a_silent_one_does_not_cost_the_host_its_life(hasty: Api) -> None:
    with Far.to(hasty) as far:
        instance = began(hasty, far)
        future = asking(instance.post, "reset/", {})
        far.asked("reset")
        error(heard(future), 504, "external-deadline")
        assert instance.id in hasty.instances()
        reset(instance, far)
        ended(instance, far)
    settled(hasty)


def test_one_that_does_not_begin_in_time(hasty: Api) -> None:
    with Far.to(hasty) as far:
        future = asking(hasty.post, "/v1/envs/", {"env_id": "external/game"})
        far.asked("init")
        error(heard(future), 504, "external-deadline")
    settled(hasty)


def test_it_reports_an_error(api: Api) -> None:
    with Far.to(api) as far:
        instance = began(api, far)
        future = step(instance)
        far.say(id=far.asked("step")["id"], error={"message": "the crate is stuck"})
        told = error(heard(future), 502, "env-error")
        assert told["message"] == "the crate is stuck"
        error(heard(step(instance)), 409, "reset-needed")
        reset(instance, far)
        stepped(instance, far)
        ended(instance, far)
    settled(api)


def test_it_refuses_an_action_and_goes_on(api: Api) -> None:
    with Far.to(api) as far:
        instance = began(api, far)
        future = step(instance)
        words = {"message": "there is a wall", "code": "invalid-action"}
        far.say(id=far.asked("step")["id"], error=words)
        error(heard(future), 400, "invalid-action")
        stepped(instance, far)
        ended(instance, far)
    settled(api)


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
    with Far.to(api) as far:
        instance = began(api, far)
        future = step(instance)
        far.answer("step", **{**RESULT, **changes})
        told = error(heard(future), 502, "bad-answer")
        assert told["field"] == field
        assert field in told["message"]
        fault = far.hear_fault()
        assert fault["field"] == field
        error(heard(step(instance)), 409, "reset-needed")
        reset(instance, far)
        ended(instance, far)
    settled(api)


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
    with Far.to(api) as far:
        instance = began(api, far)
        future = step(instance)
        request = far.asked("step")
        assert request["id"] == 3
        far.say(**message)
        if message.get("id") == 1:
            # An answer to what was asked long ago is late, whatever is in it.
            far.say(id=3, result=RESULT)
            ok(heard(future))
        else:
            error(heard(future), 502, "bad-answer")
            assert far.hear_fault()["message"]
        ended(instance, far)
    settled(api)


def test_an_unsolicited_message_between_steps(api: Api) -> None:
    with Far.to(api) as far:
        far.say(id=5, result={})
        assert far.hear_fault()["id"] == 5
        instance = began(api, far)
        far.say(id=50, result={})
        assert far.hear_fault()["id"] == 50
        stepped(instance, far)
        ended(instance, far)
    settled(api)


@pytest.mark.parametrize("taken", [False, True], ids=["free", "taken"])
@pytest.mark.parametrize(
    ("opcode", "payload", "code"),
    [(1, b"{nonsense", 1003), (2, b"\0\1\2", 1003), (1, b"\xff", 1007), (3, b"", 1002)],
)
def test_garbage_ends_the_connection(
    api: Api, opcode: int, payload: bytes, code: int, taken: bool
) -> None:
    with Far.to(api) as far:
        instance = began(api, far) if taken else None
        future = step(instance) if instance else None
        if taken:
            far.asked("step")
        far.line.send_frame(opcode, payload)
        said, frame = far.line.read_frame()
        if said == 1:
            said, frame = far.line.read_frame()
        assert (said, int.from_bytes(frame[:2], "big")) == (8, code)
        if future and instance:
            error(heard(future), 502, "bad-answer")
            error(heard(step(instance)), (503, 409))
            assert instance.close().status == 204
    settled(api)


def test_too_many_bytes_end_the_connection(make_server: Callable[..., Server]) -> None:
    api = Api(make_server("--max-answer", "2048"))
    with Far.to(api) as far:
        assert far.welcome["limits"] == {"max_message": 2048}
        instance = began(api, far)
        future = step(instance)
        number = far.asked("step")["id"]
        far.say(id=number, result={**RESULT, "info": {"much": "x" * 3000}})
        error(heard(future), 502, "bad-answer")
        assert instance.close().status == 204


def test_who_does_not_answer_pings_is_gone(hasty: Api) -> None:
    with Far.to(hasty) as free:
        assert free.line.read_frame()[0] == 9
        settled(hasty)
    with Far.to(hasty) as far:
        instance = began(hasty, far)
        assert far.line.read_frame()[0] == 9
        wait_until(lambda: instance.id not in hasty.instances())
    settled(hasty)


def test_who_answers_pings_stays(hasty: Api) -> None:
    with Far.to(hasty) as far:
        instance = began(hasty, far)
        for _ in range(4):
            opcode, payload = far.line.read_frame()
            assert opcode == 9
            far.line.send_frame(10, payload)
        stepped(instance, far)
        ended(instance, far)
    settled(hasty)


def test_the_host_dies(api: Api) -> None:
    with Far.to(api) as far:
        instance = began(api, far)
        (host,) = [each for each in api.server.members() if _holds(each, instance.id)]
        os.kill(host.pid, signal.SIGKILL)
        assert far.line.read_to_end() == b""
        wait_until(lambda: instance.id not in api.instances())
        # It connects anew; its token is known no more.
        with Far.to(api, resume=far.welcome["resume"]) as again:
            assert again.welcome["resumed"] is False
            ended(created(api, again), again)
    settled(api)


def _holds(process: psutil.Process, instance_id: str) -> bool:
    with contextlib.suppress(psutil.Error):
        return instance_id in process.cwd()
    return False


def test_the_broker_dies(make_server: Callable[..., Server]) -> None:
    api = Api(make_server())
    before = api.server.members()
    with Far.to(api, capabilities=REPLAY) as far, Far.to(api) as free:
        (broker,) = api.server.members() - before
        instance = began(api, far, wait_s=0)
        os.kill(broker.pid, signal.SIGKILL)
        assert free.line.read_to_end() == b""
        # Who was taken does not notice.
        stepped(instance, far)
        with Far.to(api) as again:
            wait_until(lambda: listed(api) and listed(api)["taken"] == 1)
            assert listed(api)["free"] == 1
            # The new broker knows whose token this is.
            far.drop()
            with back(api, far, capabilities=REPLAY) as newer:
                stepped(instance, newer)
                ended(instance, newer)
            again.drop()


def test_the_server_stops(make_server: Callable[..., Server]) -> None:
    server = make_server()
    api = Api(server)
    with Far.to(api) as far, Far.to(api) as free:
        began(api, far)
        server.stop()
        assert free.line.read_close()[0] == 1001


def test_of_a_vector_only_who_was_lost_is_asked_again(api: Api) -> None:
    with (
        Far.to(api, capabilities=REPLAY) as one,
        Far.to(api, capabilities=REPLAY) as two,
    ):
        body = {"env_id": "external/game", "num_envs": 2}
        future = asking(api.post, "/v1/envs/", body)
        for far in (one, two):
            far.answer("init")
        instance = Instance(api, ok(heard(future))["instance_id"])
        future = asking(instance.post, "reset/", {})
        for far in (one, two):
            far.answer("reset", observation=[0, 0])
        ok(heard(future))

        future = asking(instance.post, "step/", {"action": [1, 2]})
        first = two.asked("step")
        one.answer("step", **{**RESULT, "reward": 5})
        two.drop()
        error(heard(future), 503, "external-away")
        with back(api, two, capabilities=REPLAY) as again:
            future = insisting(instance.post, "step/", {"action": [1, 2]})
            assert again.answer("step", **RESULT)["id"] == first["id"]
            assert ok(heard(future))["reward"] == [5.0, 2.0]
            future = asking(instance.post, "step/", {"action": [0, 0]})
            for far in (one, again):
                assert far.answer("step", **RESULT)["action"] == 0
            ok(heard(future))
            future = asking(instance.close)
            for far in (one, again):
                far.answer("close")
            assert heard(future).status == 204
    settled(api)
