"""Several tokens: each sees its own instances and may do what its scopes permit."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gym_http_server.config.settings import Settings
from gym_http_server.operations.table import OPERATIONS
from gym_http_server.rundir.directory import RunDir
from gym_http_server.web.app import create_app
from tests.support.api import Api, Instance, error, no_content, ok
from tests.support.raw import Response
from tests.support.server import Server
from tests.support.token_file import api_of, token_of, write_file
from tests.support.websocket import TEXT, WebSocket

pytestmark = pytest.mark.live

UNKNOWN = "0badc0de"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with several tokens; its own client shows the admin's."""
    path = write_file(tmp_path_factory.mktemp("tokens"))
    with Server("--tokens", path, token=token_of("root")) as server:
        Api(server).post("/v1/external/", {})
        yield server


@pytest.fixture
def ada(shared: Server) -> Iterator[Instance]:
    """A CartPole that belongs to ada."""
    instance = api_of(shared, "ada").create()
    yield instance
    instance.close()


def rules(server: Server) -> set[tuple[str, str, bool]]:
    """Return method, path and kind of every route that the application has."""
    (path,) = server.run_dir.iterdir()
    app = create_app(Settings(), RunDir(str(path)))
    return {
        (method, rule.rule, bool(rule.websocket))
        for rule in app.url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }


@pytest.mark.parametrize("name", ["ada", "root"])
def test_instances_of_the_server_before_are_410_to_each_token(
    name: str, make_server: Callable[..., Server], tmp_path: Path
) -> None:
    options = ("--tokens", write_file(tmp_path), "--data-dir", str(tmp_path / "data"))
    before = make_server(*options, token=token_of("root"))
    lived = api_of(before, "ada").create()
    assert before.stop() == 0
    after = make_server(*options, "--port", str(before.port), token=token_of("root"))
    instance = Instance(api_of(after, name), lived.id)
    error(instance.post("reset/", {}), 410, "server-restarted")
    error(instance.close(), 410, "server-restarted")
    never = Instance(api_of(after, name), UNKNOWN)
    error(never.post("reset/", {}), 400, "unknown-instance")


#: Routes without an instance or a connection in their path, and the test that shows
#: what each token sees there. A new route has to be entered here, or to name an
#: instance by <instance_id>.
WITHOUT_INSTANCE = {
    "/v1/envs": "test_a_list_shows_the_own_instances",
    "/v1/instances": "test_the_list_of_figures_shows_the_own_instances",
    "/v1/batch/step": "test_a_batch_steps_no_foreign_instance",
    "/v1": "test_a_list_shows_the_own_instances",
    "/v1/registry": "test_scopes",
    "/v1/registry/<path:env_id>/thumbnail": "test_scopes",
    "/openenv/<path:env_id>/health": "open to all",
    "/openenv/<path:env_id>/metadata": "the same for all that may read",
    "/openenv/<path:env_id>/schema": "the same",
    "/openenv/<path:env_id>/ws": "test_openenv_access",
    "/v1/tickets": "test_a_ticket_has_the_identity_of_its_token",
    "/v1/upload": "test_scopes",
    "/v1/shutdown": "test_scopes",
    "/v1/external": "test_scopes",
    "/game/ws": "test_scopes",
    "/healthz": "open to all",
    "/readyz": "open to all",
    "/openapi.json": "the same for all",
    "/v1/external/client/<path:name>": "open to all",
    "/dashboard/<path:name>": "open to all",
    "/docs": "open to all",
    "/docs/<path:name>": "open to all",
    "": "open to all, or the same as /v1",
    "/v1/events": "test_events",
    "/v1/recordings": "test_monitor_directories_belong_to_tokens",
    "/v1/recordings/<recording:directory>": "the same",
    "/v1/recordings/<path:directory>/files/<name>": "the same",
    "/metrics": "sums of all, for tokens that may read",
}
BODIES: list[dict[str, Any]] = [
    {},
    {"json_body": {"action": 0, "directory": "d", "state": {}, "value": 1}},
    {"json_body": {"action": None}},
    {"data": b"{"},
    {"data": b"x", "headers": {"Content-Encoding": "gzip"}},
    {"json_body": {"seed": 1}, "headers": {"Idempotency-Key": "k1"}},
    {"headers": {"Accept": "application/problem+json"}},
    {"headers": {"Idempotency-Key": "no key"}},
]


def bytes_of(response: Response, instance_id: str) -> tuple[Any, ...]:
    """Return an answer without the requested ID and the time."""
    text = response.text.replace(instance_id, "ID")
    headers = [(name, value) for name, value in response.headers if name != "Date"]
    return response.status, headers, text


def test_every_route_hides_foreign_instances(shared: Server, ada: Instance) -> None:
    """The routes come from the application: none is forgotten."""
    bob = api_of(shared, "bob", **{"X-Request-Id": "same"})
    checked = 0
    for method, rule, websocket in sorted(rules(shared)):
        if "<instance_id>" not in rule:
            # test_relay_roles has the routes of runs.
            known = rule.rstrip("/") in WITHOUT_INSTANCE or rule.startswith("/v1/runs")
            known = known or "<connection>" in rule
            assert known, f"{rule} is checked by no test"
            continue
        if websocket:
            continue
        for more in BODIES:
            answers = []
            for instance_id in (ada.id, UNKNOWN):
                path = rule.replace("<instance_id>", instance_id)
                path = re.sub("<[a-z:]*value>", "1", path)
                response = bob.request(method, path, **more)
                answers.append(bytes_of(response, instance_id))
            assert answers[0] == answers[1], (method, rule, more)
            assert answers[0][0] >= 400, (method, rule, more)
            checked += 1
    assert checked > 200
    described = ok(ada.get(""))
    assert (described["steps"], described["episodes"]) == (0, 0)
    assert ok(ada.post("reset/", {"seed": 1}))


@pytest.mark.parametrize("query", ["", "?watch=1", "?session=a&lost=0.1"])
def test_streams_hide_foreign_instances(
    shared: Server, ada: Instance, query: str
) -> None:
    answers = []
    for instance_id in (ada.id, UNKNOWN):
        foreign = Instance(ada.api, instance_id)
        bearer = f"Bearer {token_of('bob')}"
        changes = {"authorization": bearer, "x_request_id": "same"}
        path = foreign.path(f"stream{query}")
        with WebSocket.to(foreign, path=path, **changes) as stream:
            answers.append(bytes_of(stream.response, instance_id))
    assert answers[0] == answers[1]
    assert answers[0][0] == 400
    with WebSocket.to(ada, authorization=f"Bearer {token_of('ada')}") as stream:
        assert stream.response.status == 101


def test_monitor_directories_belong_to_tokens(shared: Server, ada: Instance) -> None:
    def start(instance: Instance, directory: str, **how: bool) -> Response:
        return instance.post("monitor/start/", {"directory": directory, **how})

    def record(instance: Instance) -> None:
        instance.reset()
        while not instance.step(1)["terminated"]:
            pass
        no_content(instance.post("monitor/close/"))

    no_content(start(ada, "runs/first"))
    record(ada)
    file = shared.data_dir / "runs" / "first" / "episodes.jsonl"
    written = file.read_bytes()
    for name in ("bob", "root"):
        other = api_of(shared, name).create()
        for directory in ("runs/first", "/runs//first", "runs/first/inner"):
            for how in ({}, {"resume": True}, {"force": True}):
                refused = error(start(other, directory, **how), 400, "bad-parameter")
                assert "another token" in refused["message"]
        assert file.read_bytes() == written
        assert sorted(each.name for each in file.parent.iterdir()) == [
            ".owner",
            "episodes.jsonl",
            "recording.json",
        ]
        error(start(other, f"runs/{name}/.owner"), 400, "bad-parameter")
        described = api_of(shared, name).get("/v1/recordings/runs/first/")
        assert described.status == (200 if name == "root" else 404)
        path = "/v1/recordings/runs/first/files/episodes.jsonl"
        read = api_of(shared, name).get(path)
        assert read.status == described.status
        assert (read.body == written) == (name == "root")
        if name != "root":
            gone = api_of(shared, name).request("DELETE", path_of("runs/first"))
            error(gone, 404, "not-found")
        listed = ok(api_of(shared, name).get("/v1/recordings/"))["recordings"]
        seen = {each["directory"] for each in listed}
        assert ("runs/first" in seen) == (name == "root")
        # Folders beside it are open to all.
        no_content(start(other, f"runs/{name}"))
        record(other)
        no_content(other.close())
    # A file without an owner belongs to the first token that writes it.
    older = shared.data_dir / "older"
    older.mkdir()
    (older / "episodes.jsonl").write_text("{}\n")
    error(start(ada, "older"), 400, "bad-parameter")
    bobs = api_of(shared, "bob").create()
    no_content(start(bobs, "older", resume=True))
    error(start(ada, "older", force=True), 400, "bad-parameter")
    no_content(bobs.close())
    no_content(start(ada, "runs/first", resume=True))
    record(ada)
    assert file.read_bytes().startswith(written)
    assert file.read_bytes().count(b"\n") == 2
    no_content(api_of(shared, "ada").request("DELETE", path_of("runs/first")))
    assert not file.parent.exists()
    no_content(api_of(shared, "root").request("DELETE", path_of("runs/bob")))
    # Now it belongs to the token that records there first.
    bobs = api_of(shared, "bob").create()
    no_content(start(bobs, "runs/first"))
    error(start(ada, "runs/first", resume=True), 400, "bad-parameter")
    no_content(bobs.close())


def test_a_directory_above_gives_no_access(shared: Server, ada: Instance) -> None:
    no_content(ada.post("monitor/start/", {"directory": "team/of-ada", "steps": True}))
    ada.reset()
    bob = api_of(shared, "bob")
    above, below = bob.create(record="team"), bob.create()
    new = {"directory": "team/of-ada/new"}
    error(below.post("monitor/start/", new), 400, "bad-parameter")
    no_content(below.post("monitor/start/", {"directory": "team/of-bob"}))
    for path in ("team/of-ada/", "team/of-ada/files/steps.gym/"):
        error(bob.get(f"/v1/recordings/{path}"), 404, "not-found")
        assert api_of(shared, "ada").get(f"/v1/recordings/{path}").status == 200
    error(bob.request("DELETE", path_of("team/of-ada")), 404, "not-found")
    for name, mine in (("ada", {"team/of-ada"}), ("bob", {"team", "team/of-bob"})):
        listed = ok(api_of(shared, name).get("/v1/recordings/"))["recordings"]
        seen = {each["directory"] for each in listed}
        assert {each for each in seen if each.startswith("team")} == mine
    # The recording goes on, and can be begun again.
    no_content(ada.post("monitor/close/"))
    again = {"directory": "team/of-ada", "steps": True, "resume": True}
    no_content(ada.post("monitor/start/", again))
    no_content(ada.post("monitor/close/"))
    for each in (above, below):
        no_content(each.close())


@pytest.mark.parametrize(
    "name",
    [
        *(".owner", "steps.gym", "steps.2.gym", "recording.json", "episodes.jsonl"),
        *("episode-000000.mp4", f"arguments-{'0' * 64}.bin"),
    ],
)
def test_no_directory_is_named_like_a_file_of_a_recording(
    name: str, ada: Instance
) -> None:
    for directory in (name, f"a/{name}", f"{name}/b"):
        start = ada.post("monitor/start/", {"directory": directory})
        assert repr(name) in error(start, 400, "bad-parameter")["message"]


def test_no_directory_has_the_path_of_a_file(ada: Instance) -> None:
    start = ada.post("monitor/start/", {"directory": "a/b/files/c"})
    message = error(start, 400, "bad-parameter")["message"]
    assert "is the path of a file of 'a/b'" in message
    for directory in ("files/c", "a/files"):
        no_content(ada.post("monitor/start/", {"directory": directory}))
        recording = ok(ada.api.get(path_of(directory)))
        assert recording["directory"] == directory
        no_content(ada.post("monitor/close/"))
        no_content(ada.api.request("DELETE", path_of(directory)))


def path_of(directory: str) -> str:
    """Return the path of a recording."""
    return f"/v1/recordings/{directory}/"


def test_a_list_shows_the_own_instances(shared: Server, ada: Instance) -> None:
    bobs = api_of(shared, "bob").create("Taxi-v3")
    assert api_of(shared, "ada").instances() == {ada.id: "CartPole-v1"}
    assert api_of(shared, "bob").instances() == {bobs.id: "Taxi-v3"}
    assert api_of(shared, "reader").instances() == {}
    assert Api(shared).instances() == {ada.id: "CartPole-v1", bobs.id: "Taxi-v3"}
    described = [
        ok(api_of(shared, name).get("/v1/"))
        for name in ("ada", "bob", "reader", "root")
    ]
    assert [each["instances"] for each in described] == [1, 1, 0, 2]
    scopes = [each["scopes"] for each in described]
    assert scopes[0] == ["create", "external:game", "read", "step"]
    assert scopes[2:] == [["read"], ["admin"]]
    bobs.close()


def test_the_list_of_figures_shows_the_own_instances(
    shared: Server, ada: Instance
) -> None:
    bobs = api_of(shared, "bob").create("Taxi-v3")
    closed = api_of(shared, "bob").create("Taxi-v3")
    no_content(closed.close())
    seen = {}
    for name in ("ada", "bob", "reader", "root"):
        listed = ok(api_of(shared, name).get("/v1/instances/"))
        living = {each["instance_id"]: each["owner"] for each in listed["instances"]}
        ended = {each["instance_id"]: each["owner"] for each in listed["ended"]}
        assert set(ended.values()) <= {name} or name == "root"
        seen[name] = living, closed.id in ended
    assert seen == {
        "ada": ({ada.id: "ada"}, False),
        "bob": ({bobs.id: "bob"}, True),
        "reader": ({}, False),
        "root": ({ada.id: "ada", bobs.id: "bob"}, True),
    }
    error(api_of(shared, "maker").get("/v1/instances/"), 403, "scope-missing")
    bobs.close()


def test_the_log_of_an_ended_instance_is_its_owners(shared: Server) -> None:
    bobs = api_of(shared, "bob").create("Taxi-v3")
    no_content(bobs.close())
    for name, status in (("ada", 400), ("reader", 400), ("bob", 200), ("root", 200)):
        log = Instance(api_of(shared, name), bobs.id).get("log/")
        assert log.status == status, (name, log)


def test_an_admin_may_use_all_instances(shared: Server, ada: Instance) -> None:
    root = Instance(Api(shared), ada.id)
    root.reset(seed=1)
    root.step(1)
    no_content(root.close())
    error(ada.get(""), 400, "unknown-instance")


def test_an_ended_instance_is_unknown_to_others(shared: Server) -> None:
    bobs = api_of(shared, "bob").create()
    with WebSocket.to(bobs, authorization=f"Bearer {token_of('bob')}"):
        pass
    no_content(bobs.close())
    for name in ("ada", "bob"):
        foreign = Instance(api_of(shared, name), bobs.id)
        error(foreign.post("reset/"), 400, "unknown-instance")
        error(foreign.close(), 400, "unknown-instance")


def test_a_crash_is_reported_to_the_owner_alone(shared: Server) -> None:
    ada = api_of(shared, "ada").create()
    shared.host(ada.id).kill()
    error(ada.post("reset/"), (410, 502))
    error(ada.post("reset/"), 410, "instance-ended")
    foreign = Instance(api_of(shared, "bob"), ada.id)
    error(foreign.post("reset/"), 400, "unknown-instance")
    error(Instance(Api(shared), ada.id).post("reset/"), 410, "instance-ended")


def test_a_batch_steps_no_foreign_instance(shared: Server, ada: Instance) -> None:
    ada.reset(seed=1)
    bob = api_of(shared, "bob", **{"X-Request-Id": "same"})
    found = []
    for instance_id in (ada.id, UNKNOWN):
        requests = [{"instance_id": instance_id, "action": 1, "key": "k"}]
        response = bob.post("/v1/batch/step/", {"steps": requests})
        found.append(bytes_of(response, instance_id))
    assert found[0] == found[1]
    assert ok(ada.get(""))["steps"] == 0


def test_a_key_of_another_token_is_another_key(shared: Server) -> None:
    made = set()
    for name in ("ada", "bob", "ada", "bob"):
        api = api_of(shared, name, **{"Idempotency-Key": "the-same-key"})
        answer = ok(api.post("/v1/envs/", {"env_id": "CartPole-v1"}))
        made.add((name, answer["instance_id"]))
    assert len(made) == 2
    assert len({instance_id for _, instance_id in made}) == 2
    for name, instance_id in made:
        no_content(Instance(api_of(shared, name), instance_id).close())


def test_an_admin_makes_instances_for_others(shared: Server) -> None:
    given = Api(shared).create(**{"for": "stepper"})
    stepper = Instance(api_of(shared, "stepper"), given.id)
    stepper.reset(seed=1)
    assert stepper.step(0)["terminated"] is False
    error(Instance(api_of(shared, "ada"), given.id).get(""), 400, "unknown-instance")
    no_content(stepper.close())


def test_for_names_a_known_token(shared: Server, server: Server) -> None:
    request = {"env_id": "CartPole-v1", "for": "nobody"}
    problem = error(Api(shared).post("/v1/envs/", request), 400, "bad-parameter")
    assert "'nobody'" in problem["message"]
    request["for"] = "ada"
    problem = error(
        api_of(shared, "bob").post("/v1/envs/", request), 403, "scope-missing"
    )
    assert "'bob'" in problem["message"]
    request["for"] = "bob"
    mine = ok(api_of(shared, "bob").post("/v1/envs/", request))["instance_id"]
    no_content(Instance(api_of(shared, "bob"), mine).close())
    # A server without such names answers the same.
    error(Api(server).post("/v1/envs/", request), 400, "bad-parameter")


def test_a_quota_names_its_token(shared: Server, ada: Instance) -> None:
    bob = api_of(shared, "bob")
    first, second = bob.create(), bob.create()
    for api, more in ((bob, {}), (Api(shared), {"for": "bob"})):
        response = api.post("/v1/envs/", {"env_id": "CartPole-v1", **more})
        problem = error(response, 429, "too-many-instances")
        assert "'bob'" in problem["message"]
        assert " 2 " in problem["message"]
        assert response.header("Retry-After")
    ada.reset()
    no_content(first.close())
    third = bob.create()
    for each in (second, third):
        no_content(each.close())


#: As docs/api.md says it: the names of tokens by what their scopes allow.
LIST, LOOK, STEP = {"reader", "ada"}, {"reader", "stepper", "ada"}, {"stepper", "ada"}
CREATE, END = {"maker", "ada"}, {"stepper", "maker", "ada"}
CONNECT, RUN = {"arcade", "ada"}, {"runner"}
EVERY = {"reader", "stepper", "maker", "arcade", "runner", "ada"}
SCOPES = [
    # method, path, names whose scopes permit it
    ("GET", "/v1/envs/", LIST),
    ("POST", "/v1/envs/", CREATE),
    ("GET", "/v1/events/", LIST),
    ("GET", "/v1/instances/", LIST),
    ("GET", "/v1/recordings/", LIST),
    ("GET", "/v1/recordings/none/", LIST),
    ("GET", "/v1/recordings/none/files/none/", LIST),
    ("DELETE", "/v1/recordings/none/", END),
    ("GET", "/metrics/", LIST),
    *(
        ("GET", f"/v1/envs/{UNKNOWN}/{rest}", LOOK)
        for rest in (
            *("", "log/", "episodes/", "keys/", "monitor/", "stream/"),
            *("action_space/", "observation_space/"),
            *("updates/", "realtime/", "realtime/trace/"),
        )
    ),
    *(
        ("GET", f"/v1/envs/{UNKNOWN}/{rest}", STEP)
        for rest in (
            *("render/", "action_space/sample/", "observation_space/sample/"),
            *("action_space/contains/1/", "generator/", "attributes/gravity/"),
        )
    ),
    *(
        ("POST", f"/v1/envs/{UNKNOWN}/{rest}", STEP)
        for rest in (
            *("reset/", "step/", "rollout/", "render/", "generator/"),
            *("action_space/sample/", "observation_space/sample/"),
            *("action_space/contains/", "observation_space/contains/"),
            *("monitor/start/", "monitor/close/"),
            *("attributes/gravity/", "attributes/gravity/call/"),
            *("action/", "realtime/", "realtime/pause/", "realtime/resume/"),
        )
    ),
    ("POST", f"/v1/envs/{UNKNOWN}/close/", END),
    ("DELETE", f"/v1/envs/{UNKNOWN}/", END),
    ("POST", "/v1/batch/step/", STEP),
    ("POST", "/v1/shutdown/", set()),
    ("POST", "/v1/external/", CONNECT),
    ("GET", "/v1/external/", CONNECT),
    ("GET", "/game/ws/", CONNECT),
    ("GET", "/v1/external/0badc0de/request/?wait_s=0", CONNECT),
    ("POST", "/v1/external/0badc0de/answer/", CONNECT),
    ("GET", "/v1/runs/", RUN),
    ("POST", "/v1/runs/", RUN),
    ("GET", "/v1/", EVERY),
    ("GET", "/v1/registry/", EVERY),
    ("GET", "/v1/registry/none/thumbnail/", CREATE),
    ("POST", "/v1/upload/", EVERY),
    ("GET", "/v1/nothing/", EVERY),
]
#: Paths that are open to all or to every token, or that test_relay_roles and
#: test_openenv_access check; or that only nodes of a fleet call.
UNCHECKED = re.compile(
    r"/|/(healthz|readyz|docs|dashboard|openapi\.json)/.*|/v1/external/client/.*|"
    r"/v1/tickets/|/v1/runs/<run>/.*|/openenv/.*|/v1/nodes/.*"
).fullmatch


def test_no_operation_is_left_out() -> None:
    checked = {
        (method, re.sub(f"{UNKNOWN}|0badc0de|none|gravity|(?<=contains/)1", "<>", path))
        for method, path, _ in SCOPES
    }
    every = {
        (row.method, re.sub("<[^>]*>", "<>", row.path))
        for row in OPERATIONS.values()
        if not UNCHECKED(row.path)
    }
    assert every <= {(method, path.partition("?")[0]) for method, path in checked}


@pytest.mark.parametrize(("method", "path", "allowed"), SCOPES)
def test_scopes(method: str, path: str, allowed: set[str], shared: Server) -> None:
    for name in ("reader", "stepper", "maker", "arcade", "runner", "ada", "root"):
        body = {} if method == "POST" else None
        more: dict[str, Any] = {} if body is None else {"json_body": body}
        response = api_of(shared, name).request(method, path, **more)
        if name in allowed or name == "root":
            assert response.status not in (401, 403, 500) or "shutdown" in path
            assert b"scope-missing" not in response.body, (name, response)
        else:
            problem = error(response, 403, "scope-missing")
            assert f"'{name}'" in problem["message"]


def test_streams_need_the_scope_of_their_kind(shared: Server) -> None:
    given = {
        name: Api(shared).create(**{"for": name}) for name in ("reader", "stepper")
    }
    expected = {
        ("reader", "?watch=1"): 101,
        ("reader", ""): 403,
        ("stepper", "?watch=1"): 403,
        ("stepper", ""): 101,
    }
    for (name, query), status in expected.items():
        instance = given[name]
        path = instance.path(f"stream{query}")
        bearer = f"Bearer {token_of(name)}"
        with WebSocket.to(
            instance, path=path, authorization=bearer, sec_websocket_protocol=TEXT
        ) as stream:
            assert stream.response.status == status, (name, query)
    for instance in given.values():
        no_content(instance.close())


def test_a_ticket_has_the_identity_of_its_token(shared: Server, ada: Instance) -> None:
    for name, status in (("ada", 101), ("root", 101), ("bob", 400), ("runner", 403)):
        ticket = ok(api_of(shared, name).post("/v1/tickets/"))["ticket"]
        path = ada.path(f"stream?ticket={ticket}")
        with WebSocket.to(ada, path=path, authorization=None) as stream:
            assert stream.response.status == status, name
    (folder,) = shared.run_dir.glob("*/tickets")
    assert list(folder.iterdir()) == []


def test_tokens_appear_in_no_answer(
    tmp_path: Path, make_server: Callable[..., Server]
) -> None:
    """Neither logs nor /proc nor the run directory have one, nor the hashes."""
    path = write_file(tmp_path)
    server = make_server("--tokens", path, token=token_of("root"))
    instance = api_of(server, "ada").create()
    ok(api_of(server, "ada").post("/v1/tickets/"))
    error(api_of(server, "nobody").get("/v1/envs/"), 401)
    hashes = [each.split()[1] for each in Path(path).read_text().splitlines()[2:]]
    secrets = [token_of(name) for name in ("ada", "root", "nobody")] + hashes
    found = []
    for member in server.members():
        for name in ("environ", "cmdline"):
            found.append(Path(f"/proc/{member.pid}/{name}").read_bytes())
    for each in server.run_dir.rglob("*"):
        found.append(str(each).encode())
        if each.is_file():
            found.append(each.read_bytes())
        elif each.is_symlink():
            found.append(str(each.readlink()).encode())
    no_content(instance.close())
    assert server.stop() == 0
    found.append(server.log().encode())
    for secret in secrets:
        assert all(secret.encode() not in each for each in found), secret
    assert "wrong token from 127.0.0.1" in server.log()
