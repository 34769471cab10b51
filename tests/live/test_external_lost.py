"""Connections of external environments that are lost, and that come back."""

from collections.abc import Iterator

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
    lose_in_step,
    reconnect,
    reset_external,
    retry_in_background,
    take_step,
)
from tests.support.peers.external_env import RESULT, ExternalEnv
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


def test_it_drops_between_steps_and_goes_on(api: Api) -> None:
    with ExternalEnv.to(api) as external:
        instance = create_and_reset(api, external)
        external.drop()
        answer = instance.post("step/", {"action": 1})
        error(answer, 503, "external-away")
        assert answer.header("Retry-After") == "1"
        with reconnect(api, external) as again:
            # No request was sent, so none is in doubt.
            take_step(instance, again)
            close_external(instance, again)
    wait_until_unlisted(api)


def test_it_drops_in_a_step_and_does_not_come_back(impatient: Api) -> None:
    with ExternalEnv.to(impatient) as external:
        instance = create_and_reset(impatient, external)
        lose_in_step(instance, external)
        wait_until(lambda: instance.id not in impatient.instances())
        problem = error(instance.post("step/", {"action": 1}), 410, "instance-ended")
        assert problem["reason"] == "external-gone"
    wait_until_unlisted(impatient)


def test_it_drops_between_steps_and_does_not_come_back(impatient: Api) -> None:
    with ExternalEnv.to(impatient) as external:
        instance = create_and_reset(impatient, external)
        external.drop()
        wait_until(lambda: instance.id not in impatient.instances())
        problem = error(instance.post("reset/", {}), 410, "instance-ended")
        assert problem["reason"] == "external-gone"
    wait_until_unlisted(impatient)


@pytest.mark.parametrize("keys", [("", ""), ("k-1", "k-1")])
def test_with_replay_no_step_is_doubled(api: Api, keys: tuple[str, str]) -> None:
    with ExternalEnv.to(api, capabilities=REPLAY) as external:
        instance = create_and_reset(api, external)
        first = lose_in_step(instance, external, key=keys[0])
        error(answer_of(begin_step(instance, key=keys[0])), 503, "external-away")
        with reconnect(api, external, capabilities=REPLAY) as again:
            future = begin_step(instance, key=keys[1], again=True)
            second = again.answer("step", **RESULT)
            assert second["id"] == first["id"]
            assert second["action"] == first["action"]
            assert ok(answer_of(future))["reward"] == 2.0
            take_step(instance, again)
            close_external(instance, again)
    wait_until_unlisted(api)


@pytest.mark.parametrize(
    ("action", "keys"), [(2, ("", "")), (1, ("k-2", "k-3"))], ids=["action", "key"]
)
def test_another_step_than_the_lost_one_is_refused(
    api: Api, action: int, keys: tuple[str, str]
) -> None:
    with ExternalEnv.to(api, capabilities=REPLAY) as external:
        instance = create_and_reset(api, external)
        lose_in_step(instance, external, key=keys[0])
        with reconnect(api, external, capabilities=REPLAY) as again:
            refused = begin_step(instance, action, key=keys[1], again=True)
            error(answer_of(refused), 409, "reset-needed")
            reset_external(instance, again)
            take_step(instance, again)
            close_external(instance, again)
    wait_until_unlisted(api)


def test_without_replay_the_outcome_is_unknown(api: Api) -> None:
    with ExternalEnv.to(api) as external:
        instance = create_and_reset(api, external)
        lose_in_step(instance, external)
        with reconnect(api, external) as again:
            error(answer_of(begin_step(instance, again=True)), 502, "outcome-unknown")
            error(answer_of(begin_step(instance)), 409, "reset-needed")
            reset_external(instance, again)
            take_step(instance, again)
            close_external(instance, again)
    wait_until_unlisted(api)


def test_a_page_that_is_reloaded_is_a_new_connection(api: Api) -> None:
    with ExternalEnv.to(api) as external:
        instance = create_and_reset(api, external)
        external.drop()
        with ExternalEnv.to(api) as fresh:
            assert fresh.welcome["resumed"] is False
            assert fresh.welcome["connection"] != external.welcome["connection"]
            error(answer_of(begin_step(instance)), 503, "external-away")
            other = create_and_reset(api, fresh)
            close_external(other, fresh)
        assert instance.close().status == 204
    wait_until_unlisted(api)


def test_an_unknown_token_is_a_new_connection(api: Api) -> None:
    with ExternalEnv.to(api, resume="made up") as external:
        assert external.welcome["resumed"] is False
        assert external.welcome["resume"] != "made up"
    wait_until_unlisted(api)


def test_a_token_of_another_environment_is_no_good(api: Api) -> None:
    with (
        ExternalEnv.to(api) as external,
        ExternalEnv.to(api, name="other", resume=external.welcome["resume"]) as second,
    ):
        assert second.welcome["resumed"] is False
        take_step(instance := create_and_reset(api, external), external)
        close_external(instance, external)
    wait_until_unlisted(api)


def test_of_a_token_shown_twice_the_newer_wins_while_it_is_free(api: Api) -> None:
    with ExternalEnv.to(api) as external, reconnect(api, external) as newer:
        assert external.websocket.read_close()[0] == 1001
        assert listed_env(api)["free"] == 1
        close_external(create_external(api, newer), newer)
    wait_until_unlisted(api)


def test_of_a_token_shown_twice_the_newer_wins_in_a_step(api: Api) -> None:
    with ExternalEnv.to(api, capabilities=REPLAY) as external:
        instance = create_and_reset(api, external)
        future = begin_step(instance)
        first = external.expect("step")
        with reconnect(api, external, capabilities=REPLAY) as newer:
            assert newer.answer("step", **RESULT)["id"] == first["id"]
            ok(answer_of(future))
            close_external(instance, newer)
    wait_until_unlisted(api)


def test_only_lost_environments_of_a_vector_get_the_request_again(api: Api) -> None:
    with (
        ExternalEnv.to(api, capabilities=REPLAY) as one,
        ExternalEnv.to(api, capabilities=REPLAY) as two,
    ):
        body = {"env_id": "external/game", "num_envs": 2}
        future = in_background(api.post, "/v1/envs/", body)
        for external in (one, two):
            external.answer("init")
        instance = Instance(api, ok(answer_of(future))["instance_id"])
        future = in_background(instance.post, "reset/", {})
        for external in (one, two):
            external.answer("reset", observation=[0, 0])
        ok(answer_of(future))

        future = in_background(instance.post, "step/", {"action": [1, 2]})
        first = two.expect("step")
        one.answer("step", **{**RESULT, "reward": 5})
        two.drop()
        error(answer_of(future), 503, "external-away")
        with reconnect(api, two, capabilities=REPLAY) as again:
            future = retry_in_background(instance.post, "step/", {"action": [1, 2]})
            assert again.answer("step", **RESULT)["id"] == first["id"]
            assert ok(answer_of(future))["reward"] == [5.0, 2.0]
            future = in_background(instance.post, "step/", {"action": [0, 0]})
            for external in (one, again):
                assert external.answer("step", **RESULT)["action"] == 0
            ok(answer_of(future))
            future = in_background(instance.close)
            for external in (one, again):
                external.answer("close")
            assert answer_of(future).status == 204
    wait_until_unlisted(api)
