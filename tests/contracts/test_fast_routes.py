"""The fast routes in front of Flask's dispatch change only the time."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from flask.testing import FlaskClient

from gym_http_client.relay import RelayCalls
from gym_http_server.config.settings import Settings
from gym_http_server.rundir.directory import RunDir
from gym_http_server.web.app import create_app
from tests.support.api import Api, Instance
from tests.support.server import Server

UPGRADE = {"Connection": "Upgrade", "Upgrade": "websocket"}
REQUESTS: list[tuple[str, str, dict[str, Any]]] = [
    ("POST", "reset/", {"json": {"seed": 1}}),
    ("POST", "reset", {"data": b'""'}),
    ("POST", "step/", {"json": {"action": 1}}),
    ("POST", "step", {"json": {"action": "0", "render": True}}),
    ("POST", "step/", {"json": {"action": 7}}),
    ("POST", "step/", {"json": {}}),
    ("POST", "step/", {"data": b"{"}),
    ("POST", "step/", {"data": b"x", "headers": {"Content-Encoding": "gzip"}}),
    ("GET", "step/", {}),
    ("PUT", "step/", {"data": b"1"}),
    ("GET", "action_space", {}),
    ("GET", "observation_space/", {}),
    ("POST", "action_space/sample", {"json": {"seed": 3}}),
    ("GET", "action_space/contains/1", {}),
    ("GET", "action_space/contains/x/", {}),
    ("POST", "observation_space/contains", {"json": {"name": "Box"}}),
    ("GET", "render/", {}),
    ("GET", "nothing/here", {}),
    ("POST", "monitor/close/", {}),
    ("POST", "step/", {"json": {"action": 1}, "headers": {"Origin": "http://evil"}}),
    ("POST", "step/", {"json": {"action": 1}, "headers": {"Host": "evil.example"}}),
    ("GET", "", {"headers": {"Accept": "application/problem+json", "Host": "x.y"}}),
    ("GET", "action_space/", {"headers": UPGRADE}),
    ("POST", "step/", {"json": {"action": True}, "headers": UPGRADE}),
    ("GET", "step/", {"headers": UPGRADE}),
    ("OPTIONS", "step/", {}),
    ("GET", "monitor", {}),
]


@pytest.fixture
def clients(server: Server) -> Iterator[dict[bool, FlaskClient]]:
    """Clients of two applications on one server, with fast routes and without."""
    (path,) = server.run_dir.iterdir()
    run = RunDir(str(path))
    apps = {
        fast: create_app(Settings(), run, fast_routes=fast) for fast in (True, False)
    }
    yield {fast: app.test_client() for fast, app in apps.items()}
    for app in apps.values():
        web = app.extensions["gym_http_server"]
        web.requests.close()
        web.relay.close_idle()
        for instance_id in Api(server).instances():
            web.hosts.pool.drop(run.host_socket(instance_id))


def test_both_dispatchers_answer_the_same_bytes(
    create: Callable[..., Instance], clients: dict[bool, FlaskClient]
) -> None:
    instances = {fast: create("CartPole-v1").id for fast in clients}
    for method, rest, options in REQUESTS:
        for known in (True, False):
            answers = []
            for fast, client in clients.items():
                instance_id = instances[fast] if known else "0" * 8
                path = f"/v1/envs/{instance_id}/{rest}"
                answer = client.open(path, method=method, **options)
                text = answer.get_data(as_text=True).replace(instance_id, "ID")
                text = re.sub(r'"request_id":"\w+"', "", text)
                headers = {**answer.headers, "X-Request-Id": "ID"}
                answers.append((answer.status, sorted(headers.items()), text))
            assert answers[0] == answers[1], (method, rest)


RUN_REQUESTS: list[tuple[str, str, dict[str, Any]]] = [
    ("GET", "samples/?after=0", {}),
    ("GET", "samples?after=0&max_bytes=1", {}),
    ("GET", "samples/?after=1", {}),
    ("GET", "samples/?after=x", {}),
    ("GET", "samples/?unknown=1", {}),
    ("GET", "samples//?after=0", {}),
    ("HEAD", "samples/?after=0", {}),
    ("PUT", "samples/", {"data": b"1"}),
    ("POST", "samples/?session=s&number=1", {"data": b"x"}),
    ("POST", "samples/", {"data": b"x", "headers": {"Content-Encoding": "gzip"}}),
    ("POST", "samples/lease/", {"json": {"max_batches": 0}}),
    ("GET", "weights", {}),
    ("PUT", "weights/", {"data": b"1"}),
    ("GET", "weights/9/", {}),
    ("GET", "records/?after=0", {}),
    ("GET", "state/", {"headers": {"Origin": "http://evil"}}),
    ("GET", "state/", {"headers": {"Host": "evil.example"}}),
    ("GET", "state/", {"headers": {"Authorization": "Bearer ghr_none"}}),
    ("OPTIONS", "samples/", {}),
    ("DELETE", "samples/", {}),
    ("GET", "nothing/", {}),
]


def test_both_dispatchers_answer_the_same_about_runs(
    server: Server, clients: dict[bool, FlaskClient]
) -> None:
    with RelayCalls(server.url, "dispatched") as calls:
        calls.create()
        session = calls.create_session("w")["session"]
        calls.put_batch(b"some bytes", session=session, number=1, policy=0, count=1)
        for method, rest, options in RUN_REQUESTS:
            for run in ("dispatched", "unknown", "..", "a%20b", "%64ispatched"):
                answers = []
                for client in clients.values():
                    path = f"/v1/runs/{run}/{rest}"
                    answer = client.open(path, method=method, **options)
                    text = answer.get_data()
                    text = re.sub(rb'"request_id":"\w+"', b"", text)
                    headers = {**answer.headers, "X-Request-Id": "ID"}
                    answers.append((answer.status, sorted(headers.items()), text))
                assert answers[0] == answers[1], (method, run, rest)
        calls.delete()


@pytest.mark.parametrize(
    ("argument", "table", "least"),
    [("instance_id", "_views", 15), ("run", "_run_views", 12)],
)
def test_fast_routes_have_every_route_of_an_instance_or_a_run(
    argument: str, table: str, least: int, clients: dict[bool, FlaskClient]
) -> None:
    application = clients[True].application
    behind = {
        (method, rule.rule.partition(f"<{argument}>")[2].strip("/"))
        for rule in application.url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
        if rule.arguments == {argument}
    }
    assert set(getattr(application.wsgi_app, table)) == behind
    assert len(behind) >= least
