"""Environments that connect to the server's own sockets in a loop hurt nobody."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.api import Api, no_content, ok
from tests.support.intruder_calls import INTRUDER, attempt
from tests.support.server import Server

SECONDS = 4.0

pytestmark = pytest.mark.alone


@pytest.fixture(scope="module")
def intruded() -> Iterator[Server]:
    """A server with broker and relay, whose environments may try anything."""
    with Server("--sandbox", "off", "--import", "tests.support.envs.intruder") as made:
        api = Api(made)
        api.post("/v1/external/", {})
        ok(api.get("/v1/runs/"))
        # The first list surveys the registry, which takes long.
        ok(api.get("/v1/registry/?search=external"))
        yield made


@pytest.mark.parametrize(
    ("socket", "name"),
    [
        ("supervisor", "supervisor"),
        ("broker", "broker"),
        ("relay", "relay"),
        ("control", "launcher"),
    ],
)
def test_connecting_in_a_loop_delays_nobody_and_floods_no_log(
    intruded: Server, socket: str, name: str
) -> None:
    api = Api(intruded)
    (path,) = intruded.run_dir.glob(f"*/{socket}.sock")
    intruders = [api.create(INTRUDER) for _ in range(2)]
    words = f"refused a connection of an environment to the {name}"
    before = intruded.stderr.count(words)
    slowest, answers = 0.0, 0
    with ThreadPoolExecutor() as pool:
        loops = [
            pool.submit(attempt, each, "connect_often", str(path), SECONDS)
            for each in intruders
        ]
        while not all(each.done() for each in loops):
            began = time.monotonic()
            # Each of the three processes answers one of them.
            ok(api.get("/v1/instances/"))
            ok(api.get("/v1/registry/?search=external"))
            ok(api.get("/v1/runs/"))
            slowest = max(slowest, time.monotonic() - began)
            answers += 1
        assert min(each.result() for each in loops) > 100
    assert slowest < SECONDS * 0.75
    # One a second, of which each says how many others there were.
    assert 1 <= intruded.stderr.count(words) - before <= SECONDS + 2
    for each in intruders:
        no_content(each.close())
