"""Metrics, read by prometheus-client's own parsers."""

from collections.abc import Iterator

import pytest
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse

from gym_http_client import RemoteEnv
from tests.support.api import Api, error
from tests.support.processes import titled
from tests.support.server import Server
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
    """Those that must not fall."""
    kinds = ("_total", "_count", "_sum", "_bucket")
    return {key: value for key, value in values.items() if key[0].endswith(kinds)}


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
    title = f"{crashed.id} CartPole-v1"
    (host,) = (each for each in api.server.members() if titled(each, title))
    host.kill()
    reasons = ("gym_instances_ended_total", ("CartPole-v1", "crashed"))
    wait_until(lambda: metrics(api).get(reasons), 10.0, "the end of the instance")
    for each in (rest, batch, vector):
        each.close()
    after = metrics(api)
    for key, value in sums(last).items():
        assert after[key] >= value, key
    assert after["gym_slots_taken", ()] == 0
    assert rise("gym_instances_ended_total", "CartPole-v1", "closed") == 4


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
