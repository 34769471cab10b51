"""The server reports what a monitor recorded, and where."""

import json
from collections.abc import Callable, Iterator
from urllib.parse import unquote

import gymnasium
import pytest

from gym_http_client import Client
from gym_http_server.host.monitor import MAX_REPORTED
from tests.support.api import Api, Instance, error, no_content, ok
from tests.support.server import Server
from tests.support.websocket import TEXT, WebSocket

Create = Callable[..., Instance]
NOTHING = {
    "active": False,
    "directory": None,
    "episodes": [],
    "episodes_lost": 0,
    "episodes_written": 0,
}
PAGE = "https://page.example"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server with the sandbox on, whose hosts cannot read the data directory."""
    with Server("--sandbox", "on", "--allow-origin", PAGE) as running:
        yield running


@pytest.fixture
def instance(server: Server) -> Iterator[Instance]:
    made = Api(server).create(max_episode_steps=2)
    yield made
    made.close()


def test_the_report_equals_the_file(instance: Instance) -> None:
    assert ok(instance.get("monitor/")) == NOTHING
    request = "/tmp/Über uns/100%"
    response = instance.post("monitor/start/", {"directory": request})
    no_content(response)
    directory = request.removeprefix("/")
    answer = response.header("Gym-Monitor-Directory") or ""
    assert answer.isascii()
    assert unquote(answer) == directory
    with gymnasium.make("CartPole-v1", max_episode_steps=2) as local:
        expected = []
        for seed in (3, 4):
            local.reset(seed=seed)
            instance.reset(seed=seed)
            total = 0.0
            for _ in range(2):
                total += float(local.step(1)[1])
                instance.step(1)
            expected.append((seed, 2, total, False, True))
    report = ok(instance.get("monitor"))
    names = ("seed", "length", "return", "terminated", "truncated")
    seen = [tuple(each[name] for name in names) for each in report["episodes"]]
    assert seen == expected
    assert (report["active"], report["directory"]) == (True, directory)
    assert (report["episodes_written"], report["episodes_lost"]) == (2, 0)
    file = instance.api.server.data_dir / directory / "episodes.jsonl"
    lines = file.read_text().splitlines()
    assert [json.loads(line) for line in lines] == report["episodes"]
    no_content(instance.post("monitor/close/"))
    assert ok(instance.get("monitor/")) == report | {"active": False}
    with Client(instance.api.server.url) as client:
        assert client.env_monitor(instance.id) == report | {"active": False}


def test_the_report_has_the_last_episodes(instance: Instance) -> None:
    more = MAX_REPORTED + 5
    no_content(instance.post("monitor/start/", {"directory": "many"}))
    for left in (MAX_REPORTED, more - MAX_REPORTED):
        ok(instance.post("rollout/", {"episodes": left, "max_steps": 1}))
    no_content(instance.post("monitor/close/"))
    report = ok(instance.get("monitor/"))
    assert report["episodes_written"] == more
    assert len(report["episodes"]) == MAX_REPORTED


def test_a_monitor_that_was_started_over_a_stream(instance: Instance) -> None:
    with WebSocket.to(instance, "", sec_websocket_protocol=TEXT) as stream:
        assert stream.call(op="monitor_start", directory="streamed")["status"] == 204
    report = ok(instance.get("monitor/"))
    assert report == NOTHING | {"active": True, "directory": "streamed"}


def test_pages_may_read_the_header(instance: Instance) -> None:
    response = instance.post(
        "monitor/start/", {"directory": "page"}, headers={"Origin": PAGE}
    )
    exposed = response.header("Access-Control-Expose-Headers") or ""
    assert "Gym-Monitor-Directory" in exposed.split(", ")


def test_vectors_and_instances_that_are_not_there(server: Server) -> None:
    vector = Api(server).create(num_envs=2)
    assert ok(vector.get("monitor/")) == NOTHING
    vector.close()
    error(vector.get("monitor/"), 400, "unknown-instance")
