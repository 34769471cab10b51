"""Three servers of a fleet on loopback, which clients use as one."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.support.api import Api, Instance, error, no_content, ok
from tests.support.fleet import TOKEN, Redis, fleet
from tests.support.server import Server

pytestmark = [pytest.mark.live, pytest.mark.toolchain]

NAMES = ("one", "two", "three")


@dataclass
class Fleet:
    """Servers, and their store."""

    redis: Redis
    servers: list[Server]

    @property
    def apis(self) -> list[Api]:
        """A client of each server."""
        return list(map(Api, self.servers))


@pytest.fixture(scope="module")
def nodes() -> Iterator[Fleet]:
    """A fleet of three servers."""
    with fleet(*NAMES) as (redis, servers):
        yield Fleet(redis, servers)


@pytest.fixture
def made(nodes: Fleet) -> Iterator[list[Instance]]:
    """Instances, made through each server in turn, on at least two of them."""
    made = []
    while len(made) < 6 or len({each.id[:3] for each in made}) < 2:
        made.append(nodes.apis[len(made) % 3].create())
    yield made
    for each in made:
        no_content(each.api.post(f"/v1/envs/{each.id}/close/"))


def test_each_server_answers_for_all_instances(
    nodes: Fleet, made: list[Instance]
) -> None:
    for each in made:
        path = f"/v1/envs/{each.id}/"
        observations = []
        for api in nodes.apis:
            first = ok(api.post(path + "reset/", {"seed": 7}))
            then = ok(api.post(path + "step/", {"action": 1}))
            observations.append((first, then))
        assert observations[0] == observations[1] == observations[2]


def test_each_server_lists_all_instances(nodes: Fleet, made: list[Instance]) -> None:
    for api in nodes.apis:
        answer = api.get("/v1/envs/")
        assert answer.header("Gym-Missing-Nodes") is None
        listed = ok(answer)["all_envs"]
        assert listed == {each.id: "CartPole-v1" for each in made}


def test_a_step_with_a_key_is_executed_once_whichever_servers_get_it(
    nodes: Fleet, made: list[Instance]
) -> None:
    path = f"/v1/envs/{made[0].id}/"
    ok(nodes.apis[0].post(path + "reset/", {"seed": 7}))
    answers = [
        api.post(path + "step/", {"action": 1}, headers={"Idempotency-Key": "k"})
        for api in nodes.apis
    ]
    assert len({bytes(each.body) for each in answers}) == 1
    replayed = [each.header("Idempotent-Replayed") for each in answers]
    assert replayed == [None, "true", "true"]


def test_errors_are_those_of_one_server(nodes: Fleet, made: list[Instance]) -> None:
    path = f"/v1/envs/{made[0].id}/step/"
    answers = [api.post(path, {"action": 7}) for api in nodes.apis]
    bodies = {error(each, 400, "invalid-action")["detail"] for each in answers}
    assert len(bodies) == 1
    named = [
        api.post(path, {"action": 7}, headers={"X-Request-Id": "r-1"}).header(
            "X-Request-Id"
        )
        for api in nodes.apis
    ]
    assert named == ["r-1"] * 3


def test_a_number_that_no_server_has_had_is_unknown(nodes: Fleet) -> None:
    taken = nodes.redis.command("keys", "{gym}:number:*")
    free = next(n for n in ("abc", "abe", "abf", "ac0") if f":{n}" not in taken)
    for api in nodes.apis:
        path = f"/v1/envs/{free}00000/step/"
        error(api.post(path, {"action": 1}), 400, "unknown-instance")


def test_a_caller_cannot_pose_as_a_server(nodes: Fleet) -> None:
    forged = {"Authorization": "Fleet root - 0123456789"}
    api = nodes.apis[0]
    # Without tokens, the caller needs none.
    ok(api.get("/v1/envs/", headers=forged))
    assert "its signature is wrong" in nodes.servers[0].stderr


def test_the_fleet_token_is_in_no_log_store_or_process_list(nodes: Fleet) -> None:
    kept = [each.log() for each in nodes.servers]
    for server in nodes.servers:
        kept += [" ".join(each.cmdline()) for each in server.members()]
    for key in nodes.redis.command("keys", "*").split():
        kept.append(key + nodes.redis.command("dump", key))
    kept.append(nodes.redis.command("hgetall", "{gym}:records"))
    assert not any(TOKEN in each for each in kept)
