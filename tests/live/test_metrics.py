"""Metrics, read by prometheus-client's own parsers."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse

from gym_http_client import RemoteEnv
from tests.support.api import Api, error, no_content, ok
from tests.support.processes import titled
from tests.support.runs import Run, done
from tests.support.server import Server
from tests.support.token_file import api_of, write_file
from tests.support.wait import wait_until
from tests.support.websocket import TEXT, WebSocket

pytestmark = pytest.mark.live

Values = dict[tuple[str, tuple[str, ...]], float]


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    with Server() as server:
        yield Api(server)


def metrics(api: Api) -> Values:
    """Values by name and labels' values, the labels in order of their names."""
    answer = api.get("/metrics")
    assert answer.status == 200
    return {
        (
            each.name,
            tuple(each.labels[name] for name in sorted(each.labels)),
        ): each.value
        for family in parse(answer.text)
        for each in family.samples
    }


def sums(values: Values) -> Values:
    """Those that must not fall; those of one process end with it."""
    kinds = ("_total", "_count", "_sum", "_bucket")
    return {
        key: value
        for key, value in values.items()
        if key[0].endswith(kinds) and not key[0].startswith("process_")
    }


def test_metrics_agree_with_what_was_done_through_every_door(api: Api) -> None:
    before = metrics(api)
    cart = ("CartPole-v1",)

    def rise(name: str, *labels: str) -> float:
        key = name, labels or cart
        return metrics(api).get(key, 0.0) - before.get(key, 0.0)

    rest, batch, crashed = api.create(), api.create(), api.create()
    for each in (rest, batch, crashed):
        each.reset(seed=1)
    rest.step(0)
    batch.post("step/", {"actions": [0, 1, 0]})
    with WebSocket.to(rest, sec_websocket_protocol=TEXT) as stream:
        stream.call(op="step", action=1)
        assert rise("gym_streams") == 1
    env = RemoteEnv(api.server.url, "CartPole-v1")
    env.reset(seed=1)
    steps, over = 0, False
    while not over:
        *_, over, _, _ = env.step(1)
        steps += 1
    env.close()
    vector = api.create(num_envs=4)
    vector.reset(seed=1)
    vector.step([0, 1, 0, 1])
    crashed.step(0)
    last = metrics(api)
    assert rise("gym_instances_made_total") == 5
    assert rise("gym_episodes_total") == 1
    # REST 1, batch 3, stream 1, the one that crashes 1, and four at once.
    assert rise("gym_steps_total") == steps + 6 + 4
    assert rise("gym_step_seconds_count") == steps + 6 + 1
    api.server.host(crashed.id).kill()
    reasons = ("gym_instances_ended_total", ("CartPole-v1", "crashed"))
    wait_until(lambda: metrics(api).get(reasons), 10.0, "the end of the instance")
    for each in (rest, batch, vector):
        each.close()
    after = metrics(api)
    for key, value in sums(last).items():
        assert after[key] >= value, key
    assert after["gym_slots_taken", ()] == 0
    assert rise("gym_instances_ended_total", "CartPole-v1", "closed") == 4


def test_requests_are_counted_by_route_and_outlive_their_worker(
    make_server: Callable[..., Server],
) -> None:
    api = Api(make_server())

    def of(route: str, status: int) -> float:
        # Labels in the order of their names.
        labels = ("GET", route, str(status))
        return metrics(api).get(("gym_http_request_seconds_count", labels), 0.0)

    routes = ("/v1/envs/", 200), ("/v1/envs/<instance_id>/", 400), ("other", 404)
    before = [of(*each) for each in routes]
    for _ in range(3):
        api.get("/v1/envs/")
    for number in range(3):
        error(api.get(f"/v1/envs/0000000{number}/"), 400)
        error(api.get(f"/v1/no/such/{number}/route/"), 404)
    assert [of(*each) for each in routes] == [count + 3 for count in before]
    workers = [each for each in api.server.members() if titled(each, "web worker")]
    for each in workers:
        each.kill()

    def replaced() -> bool:
        found = {each for each in api.server.members() if titled(each, "web worker")}
        return len(found) == len(workers) and not found & set(workers)

    wait_until(replaced, 20.0, "other web workers")
    wait_until(lambda: api.get("/readyz").status == 200, 20.0, "a web worker")
    assert [of(*each) for each in routes] == [count + 3 for count in before]


def test_clocks_tell_how_late_their_ticks_are(api: Api) -> None:
    clock = {"mode": "free_running", "hz": 50, "default_action": [0.0]}
    made = api.create("Pendulum-v1", realtime=clock, render_mode="rgb_array")
    made.reset(seed=1)

    def listed() -> Any:
        return ok(api.get(f"/v1/instances/?search={made.id}"))["instances"][0]

    wait_until(lambda: listed()["realtime"]["ticks"] >= 5, 10.0, "five ticks")
    found = listed()
    assert found["render_mode"] == "rgb_array"
    assert found["realtime"]["hz"] == 50
    lateness = found["realtime"]["lateness_ms"]
    assert 0 < lateness["p50"] <= lateness["p99"]
    values = metrics(api)
    assert values["gym_tick_lateness_seconds_count", ("Pendulum-v1",)] >= 5
    assert values["gym_tick_lateness_seconds_sum", ("Pendulum-v1",)] > 0
    made.close()


def test_a_clock_that_stood_still_says_so_everywhere(api: Api) -> None:
    """Lateness of ticks that happen hides it: the next one may be in time again."""
    clock = {"mode": "free_running", "hz": 50, "default_action": 0, "on_done": "reset"}
    made = api.create("CartPole-v1", realtime=clock)
    before = metrics(api)
    made.reset(seed=1)

    def timing() -> Any:
        return ok(made.get("realtime/"))

    wait_until(lambda: timing()["ticks"] >= 5, 10.0, "five ticks")
    below = api.server.supervisor.children(recursive=True)
    (host,) = (each for each in below if titled(each, f"{made.id} CartPole-v1"))
    host.suspend()
    try:
        until = time.monotonic() + 1.5
        wait_until(lambda: time.monotonic() > until, 10.0, "time")
    finally:
        host.resume()
    ticks = timing()["ticks"]
    wait_until(lambda: timing()["ticks"] > ticks, 10.0, "the next tick")
    found = timing()
    assert found["stall_ns"] >= 1.5e9
    assert found["lateness_all_ns"]["max"] >= 1.4e9
    assert found["lateness_all_ns"]["count"] == found["ticks"] + found["skipped"]
    (listed,) = ok(api.get(f"/v1/instances/?search={made.id}"))["instances"]
    assert listed["realtime"]["stall_ms"] >= 1500
    # The longest that a count stands for.
    assert listed["realtime"]["lateness_all_ms"]["p99"] == 100
    assert listed["realtime"]["lateness_all_ms"]["mean"] > 100
    values, cart = metrics(api), ("CartPole-v1",)

    def rise(name: str) -> float:
        return values[name, cart] - before.get((name, cart), 0.0)

    # 70 ticks and more, of which each was later than the one after it.
    assert rise("gym_tick_lateness_all_seconds_sum") > 40
    missing = rise("gym_tick_lateness_all_seconds_count")
    assert missing - rise("gym_tick_lateness_seconds_count") >= 70
    made.close()


def test_queues_of_training_runs_are_summed_up(api: Api) -> None:
    assert metrics(api)["gym_relay_runs", ()] == 0
    run = Run.create(api, "measured")
    session = run.session()
    for number in (1, 2):
        done(api.request("POST", run.samples(session, number), data=b"x" * 100))
    values = metrics(api)
    assert values["gym_relay_runs", ()] == 1
    assert values["gym_relay_queue_batches", ()] == 2
    assert values["gym_relay_queue_bytes", ()] >= 200
    assert values["gym_external_free", ()] == 0


def test_openmetrics_are_sent_on_request(api: Api) -> None:
    accept = "application/openmetrics-text; version=1.0.0"
    answer = api.request("GET", "/metrics", headers={"Accept": accept})
    assert str(answer.header("Content-Type")).startswith("application/openmetrics-text")
    names = {family.name for family in parse_openmetrics(answer.text)}
    assert {"gym_slots", "gym_steps", "gym_step_seconds"} <= names


def test_names_of_instances_and_paths_are_no_labels(api: Api) -> None:
    instance = api.create(label="a-label")
    text = api.get("/metrics").text
    instance.close()
    assert instance.id not in text
    assert "a-label" not in text


def test_metrics_need_the_token() -> None:
    with Server("--token", "a-token-of-a-test", token="a-token-of-a-test") as server:
        api = Api(server)
        assert api.get("/metrics").status == 200
        answer = api.request("GET", "/metrics", headers={"Authorization": ""})
        error(answer, 401, "unauthorized")


def test_a_token_gets_names_of_its_own_instances_only(
    make_server: Callable[..., Server], tmp_path: Path
) -> None:
    server = make_server("--tokens", write_file(tmp_path))
    root, ada, bob, reader = (
        api_of(server, name) for name in ("root", "ada", "bob", "reader")
    )
    cart = ada.create("CartPole-v1")
    ended, pendulum = bob.create("Acrobot-v1"), bob.create("Pendulum-v1")
    for made, action in ((cart, 1), (ended, 1), (pendulum, [0.0])):
        made.reset(seed=1)
        made.step(action)
    no_content(ended.close())
    for api, named in (
        (root, {"CartPole-v1": 1, "Acrobot-v1": 1, "Pendulum-v1": 1}),
        (ada, {"CartPole-v1": 1, "other": 2}),
        (bob, {"Acrobot-v1": 1, "Pendulum-v1": 1, "other": 1}),
        (reader, {"other": 3}),
    ):
        values = metrics(api)
        for name in ("gym_steps_total", "gym_instances_made_total"):
            assert {
                labels[0]: value
                for (key, labels), value in values.items()
                if key == name
            } == named
        hidden = {"CartPole", "Acrobot", "Pendulum"} - {each[:-3] for each in named}
        assert not any(each in api.get("/metrics").text for each in hidden)
