"""Servers of a fleet that are cut off, stopped, or killed, and what the others say.

CHAOS_TIMES=2 also waits out the times after which a server is fenced, and lost.
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator

import pytest

from tests.support.api import Api, Instance, error, no_content, ok
from tests.support.fleet import (
    LinkedNode,
    Redis,
    linked_fleet,
    own_record,
    refusal,
    stopped,
    wait_until_known,
)
from tests.support.server import Server
from tests.support.wait import wait_until

pytestmark = [pytest.mark.live, pytest.mark.toolchain]

WHOLE = float(os.environ.get("CHAOS_TIMES", "1")) > 1
NAMES = ("one", "two", "three")
AWAY = (503, "node-away", None)
LOST = (410, "instance-ended", "node-lost")

Fleet = tuple[Redis, list[LinkedNode]]


def whole(test: Callable[..., None]) -> Callable[..., None] | None:
    """Keep a test that takes minutes out of a run without CHAOS_TIMES."""
    return test if WHOLE else None


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    """Three servers that reach each other and their store through proxies."""
    with linked_fleet(*NAMES, args=("--max-instances", "64")) as (redis, linked):
        yield redis, linked
        wait_until_known(redis, [each.server for each in linked])


def numbers(server: Server) -> tuple[str, ...]:
    """Return the numbers of a server."""
    return tuple(own_record(server)["numbers"])


@pytest.mark.timeout(180)
def test_a_server_that_is_cut_off_from_the_others_is_away_and_not_lost(
    fleet: Fleet,
) -> None:
    _, (one, two, _) = fleet
    here, there = Api(one.server), Api(two.server)
    made = here.create(node="two")
    made.reset(seed=1)
    before = numbers(two.server)
    two.nodes.sever()
    until = time.monotonic() + (45.0 if WHOLE else 3.0)
    while time.monotonic() < until:
        assert refusal(made.post("reset/")) == AWAY
        # Who reaches it goes on.
        ok(there.post(made.path("reset/"), {"seed": 1}))
        # Creates are placed elsewhere.
        other = here.create()
        assert other.id[:3] != made.id[:3]
        no_content(other.close())
    two.nodes.mend()
    ok(made.post("reset/"))
    assert numbers(two.server) == before
    no_content(made.close())


@whole
@pytest.mark.timeout(120)
def test_a_server_that_is_cut_off_from_the_store_is_fenced(fleet: Fleet) -> None:
    _, (one, two, three) = fleet
    here, there = Api(one.server), Api(two.server)
    made = here.create(node="two")
    before = numbers(two.server)
    two.store.sever()
    began = time.monotonic()
    key = {"Idempotency-Key": "fenced"}
    body = {"env_id": "CartPole-v1"}
    while time.monotonic() < began + 45.0:
        # Nobody loses it, since it can be reached.
        ok(made.post("reset/", {"seed": 1}))
        ok(Api(three.server).post(made.path("reset/"), {"seed": 1}))
        error(there.post("/v1/envs/", body, headers=key), 503, "fleet-away")
        if time.monotonic() > began + 15.0:
            new = there.create()
            assert new.id[:3] != made.id[:3]
            no_content(new.close())
    two.store.mend()
    wait_until(
        lambda: there.post("/v1/envs/", body | {"node": "two"}).status == 200, 10.0
    )
    assert numbers(two.server) == before
    ok(made.post("reset/", {"seed": 1}))
    for each in here.instances():
        no_content(here.post(f"/v1/envs/{each}/close/"))


@whole
@pytest.mark.timeout(200)
@pytest.mark.parametrize("seconds", [3, 10, 60])
def test_a_server_that_was_stopped(fleet: Fleet, seconds: int) -> None:
    _, (one, two, three) = fleet
    here = Api(one.server)
    made = here.create(node="three")
    first = ok(made.post("reset/", {"seed": 5}))
    before = numbers(three.server)
    seen = []
    with stopped(three.server):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for each in (here, Api(two.server)):
                with contextlib.suppress(OSError):
                    seen.append(refusal(each.get(made.path("action_space/"))))
            # Neither waits for it.
            no_content(here.create().close())
    print(f"stopped for {seconds} s:", *dict.fromkeys(seen))
    if seconds == 60:
        assert seen[-1] == LOST
        wait_until(lambda: numbers(three.server) != before, 20.0)
        # It has ended the instance, too.
        for each in (here, Api(three.server)):
            assert refusal(each.post(made.path("reset/"))) == LOST
        there, body = Api(three.server), {"env_id": "CartPole-v1", "node": "three"}
        answer = wait_until(
            lambda: (a := there.post("/v1/envs/", body)).status == 200 and a
        )
        new = Instance(there, ok(answer)["instance_id"])
        assert new.id[:3] not in before
        no_content(new.close())
    else:
        assert LOST not in seen
        again = ok(made.post("reset/", {"seed": 5}))
        assert again == first
        assert numbers(three.server) == before
        no_content(made.close())


@whole
@pytest.mark.timeout(200)
def test_a_server_that_was_killed_is_lost(fleet: Fleet) -> None:
    redis, (one, two, three) = fleet
    here = Api(one.server)
    made = here.create(node="three")
    made.reset()
    os.kill(three.server.pid, signal.SIGKILL)
    three.server.wait_exit()
    assert refusal(made.post("reset/")) == AWAY
    began = time.monotonic()
    wait_until(lambda: refusal(made.post("reset/")) == LOST, 90.0)
    print(f"lost after {time.monotonic() - began:.1f} s")
    three.server.launch_again()
    wait_until_known(redis, [each.server for each in (one, two, three)])
    assert refusal(made.post("reset/")) == LOST
    new = here.create(node="three")
    assert new.id[:3] != made.id[:3]
    no_content(new.close())
