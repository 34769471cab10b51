"""Fast and slow watchers of external environments."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tests.support.api import Api, Instance, error, ok
from tests.support.peers.agent_calls import (
    answer_of,
    close_external,
    create_external,
    in_background,
)
from tests.support.peers.external_env import ExternalEnv
from tests.support.peers.watcher import open_slow_watcher, open_watcher
from tests.support.server import Server
from tests.support.wait import wait_until
from tests.support.websocket import BINARY, PING, PONG, TEXT

RESET, STEP = 1, 2
SIZE = 150_000
#: Each observation is more than the buffers of a connection hold.
MANY = {"type": "Box", "low": 0, "high": 255, "shape": [SIZE], "dtype": "uint8"}


@pytest.fixture
def api(make_server: Callable[..., Server]) -> Api:
    return Api(make_server())


@contextlib.contextmanager
def watched_external(api: Api) -> Iterator[tuple[ExternalEnv, Instance]]:
    """Yield an environment with large observations, and an instance of it."""
    with ExternalEnv.to(api, observation_space=MANY) as external:
        instance = create_external(api, external)
        yield external, instance
        close_external(instance, external)


def reset(external: ExternalEnv, instance: Instance) -> None:
    """Begin an episode, with an observation of nothing but 0."""
    future = in_background(instance.post, "reset/", {"seed": 1})
    external.answer("reset", observation=[0] * SIZE)
    ok(answer_of(future))


def step(external: ExternalEnv, instance: Instance, count: int) -> Any:
    """Take a step, whose observation is only its count."""
    future = in_background(instance.post, "step/", {"action": 1})
    given = {"reward": count, "terminated": False, "truncated": False}
    external.answer("step", observation=[count] * SIZE, **given)
    return ok(answer_of(future))


def test_a_slow_watcher_gets_the_latest_and_delays_no_agent(api: Api) -> None:
    count = 6
    with (
        watched_external(api) as (external, instance),
        open_slow_watcher(instance, BINARY) as watcher,
    ):
        with open_watcher(instance, BINARY) as quick:
            reset(external, instance)
            assert quick.copy_binary()[:4] == (RESET, 1, 0, 200)
            for number in range(1, count + 1):
                assert step(external, instance, number)["reward"] == number
                op, answer, dropped, status, given = quick.copy_binary()
                assert (op, answer, dropped, status) == (STEP, number + 1, 0, 200)
                assert given["observation"][-1] == number
        assert ok(instance.get(""))["steps"] == count
        # The first was being written, and of the others the last one waited.
        first, last = watcher.copy_binary(), watcher.copy_binary()
        assert first[:4] == (RESET, 1, 0, 200)
        assert not first[4]["observation"].any()
        assert last[:4] == (STEP, count + 1, count - 1, 200)
        assert last[4]["observation"].dtype == np.uint8
        assert (last[4]["observation"] == count).all()
        # And it continues without a loss.
        step(external, instance, count + 1)
        assert watcher.copy_binary()[:4] == (STEP, count + 2, 0, 200)


def test_problems_reach_a_slow_watcher_too(api: Api) -> None:
    with (
        watched_external(api) as (external, instance),
        open_slow_watcher(instance, TEXT) as watcher,
    ):
        reset(external, instance)
        step(external, instance, 1)
        future = in_background(instance.post, "step/", {"action": 1})
        external.answer(
            "step", observation=[7], reward=0, terminated=False, truncated=False
        )
        problem = error(answer_of(future), 502, "bad-answer")
        assert external.expect_fault()["field"] == "observation"
        assert watcher.copy()["op"] == "reset"
        copy = watcher.copy()
        assert (copy["op"], copy["dropped"], copy["status"]) == ("step", 1, 502)
        assert copy["body"]["message"] == problem["message"]
        reset(external, instance)
        assert watcher.copy()["body"]["observation"] == [0] * SIZE


def test_a_watcher_that_reads_nothing_is_dropped_and_the_environment_stays(
    api: Api,
) -> None:
    neighbour = api.create()
    neighbour.reset()
    with (
        watched_external(api) as (external, instance),
        open_slow_watcher(instance, BINARY) as watcher,
    ):
        reset(external, instance)
        assert ok(instance.get(""))["watchers"] == 1
        count = 0

        def gone() -> bool:
            nonlocal count
            count += 1
            assert (
                step(external, instance, count % 256)["observation"][0] == count % 256
            )
            assert neighbour.step(0)["reward"]
            neighbour.reset()
            return bool(ok(instance.get(""))["watchers"] == 0)

        wait_until(gone, 15.0, "the watcher to be dropped")
        assert watcher.read_to_end()
        step(external, instance, 1)
    neighbour.close()


def test_a_slow_watcher_does_not_cost_the_environment_its_life(
    make_server: Callable[..., Server],
) -> None:
    """Pings continue while the host waits for a watcher that reads nothing."""
    api = Api(make_server("--external-heartbeat", "0.5"))
    with watched_external(api) as (external, instance):
        reset(external, instance)
        with open_slow_watcher(instance, BINARY):

            def gone() -> bool:
                opcode, payload = external.websocket.read_frame()
                assert opcode == PING, (opcode, payload)
                external.websocket.send_frame(PONG, payload)
                return bool(ok(instance.get(""))["watchers"] == 0)

            wait_until(gone, 15.0, "the watcher to be dropped")
        step(external, instance, 1)


def test_a_late_slow_watcher_begins_with_the_latest(api: Api) -> None:
    with watched_external(api) as (external, instance):
        reset(external, instance)
        for number in (1, 2):
            step(external, instance, number)
        with open_slow_watcher(instance, BINARY) as late:
            answer = late.copy_binary()
            assert answer[:4] == (STEP, 0, 0, 200)
            assert (answer[4]["observation"] == 2).all()
            step(external, instance, 3)
            assert late.copy_binary()[:4] == (STEP, 1, 0, 200)
