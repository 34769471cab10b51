"""Measures what observers cost: recordings, the list of instances, metrics."""

from __future__ import annotations

import http.client
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from urllib.parse import urlsplit

from benchmarks.measuring import Plan, in_turn, median
from benchmarks.pinning import Mode, available, places
from benchmarks.report import Row, row
from benchmarks.servers import our_server
from gym_http_client.bench.agents import StreamAgent
from gym_http_client.bench.players import Players
from gym_http_client.calls.client import Client

__all__ = ["milliseconds", "observe_500", "record_steps"]

_INSTANCES = 500
_REQUESTS = 20


def record_steps(plan: Plan) -> list[Row]:
    """Measure an agent whose steps are recorded."""
    plan.say("record_steps: starting")
    placed = places(Mode.SPLIT) or places(Mode.SAME)
    assert placed
    with (
        our_server(placed.servers) as server,
        Players(StreamAgent, server.url, 1, placed.clients) as players,
        Client(server.url) as client,
    ):
        (instance_id,) = client.env_list_all()

        def recorded() -> float:
            with _recording(client, instance_id):
                return alone()

        def alone() -> float:
            rate = players.play(plan.seconds).rate
            plan.say(f"  {rate:10.1f} steps/s")
            return rate

        ours, theirs = in_turn(plan, recorded, alone)
    name, baseline = "record_steps", "no recording"
    return [row(name, Mode.SPLIT, median(ours), "steps/s", baseline, median(theirs))]


@contextmanager
def _recording(client: Client, instance_id: str) -> Iterator[None]:
    client.env_monitor_start(instance_id, "benchmark", force=True, steps=True)
    try:
        yield
    finally:
        client.env_monitor_close(instance_id)


def observe_500(plan: Plan) -> list[Row]:
    """Measure the list of 500 idle instances, and their metrics."""
    plan.say(f"observe_500: making {_INSTANCES} instances")
    flags = ("--max-instances", str(_INSTANCES))
    with our_server(available(), *flags) as server, Client(server.url) as client:
        for _ in range(_INSTANCES):
            client.env_create("CartPole-v1")
        measure = partial(milliseconds, server.url)
        rounds = [
            [measure(path) for path in ("/v1/instances/", "/metrics", "/v1/")]
            for _ in range(plan.rounds)
        ]
    listed, metrics, least = (median(times) for times in zip(*rounds, strict=True))
    found = (("list_500", listed), ("metrics_500", metrics))
    return [
        row(name, Mode.FREE, milliseconds, "ms", "GET /v1/", least)
        for name, milliseconds in found
    ]


def milliseconds(url: str, path: str) -> float:
    """Return the median time of a request over a kept connection."""
    times = []
    with closing(http.client.HTTPConnection(urlsplit(url).netloc)) as connection:
        for _ in range(_REQUESTS):
            began = time.perf_counter()
            connection.request("GET", path)
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            answer.read()
            times.append(1000 * (time.perf_counter() - began))
    return median(times)
