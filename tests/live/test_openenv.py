"""OpenEnv's clients use environments, each over a connection with an instance."""

import base64
import contextlib
import io
import json
import os
import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import jsonschema
import pytest
from PIL import Image

from tests.support.api import Api, Instance, error, ok
from tests.support.peers.openenv import OpenEnvClient
from tests.support.server import Server
from tests.support.wait import wait_until
from tests.support.websocket import CLOSE, PING, PONG, frame

pytestmark = pytest.mark.live

SLOTS = 4
STEP_DEADLINE_S = 1.5
#: Cut conversations of a run; make soak has 5,000 (`OPENENV_CUTS`).
CUTS = int(os.environ.get("OPENENV_CUTS", "150"))


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server with few slots."""
    with Server(
        *("--workers", "2", "--max-instances", str(SLOTS)),
        *("--step-deadline", str(STEP_DEADLINE_S)),
        *("--import", "tests.support.envs.toys"),
        *("--import", "tests.support.envs.hostile"),
    ) as started:
        yield started


@pytest.fixture
def api(server: Server) -> Iterator[Api]:
    api = Api(server)
    yield api
    wait_until_empty(api)


@pytest.fixture
def one_slot(api: Api) -> Iterator[None]:
    """Leave one slot free during the test."""
    others = [api.create() for _ in range(SLOTS - 1)]
    yield
    for each in others:
        each.close()


@pytest.fixture
def connect(server: Server, api: Api) -> Iterator[Callable[..., OpenEnvClient]]:
    """Return a factory of connections, closed after the test."""
    opened: list[OpenEnvClient] = []

    def connected(env_id: str = "CartPole-v1", **more: Any) -> OpenEnvClient:
        client = OpenEnvClient.connect(server, env_id, **more)
        opened.append(client)
        assert client.response.status == 101, client.response
        return client

    yield connected
    for client in opened:
        client.close()


@pytest.fixture
def client(connect: Callable[..., OpenEnvClient]) -> OpenEnvClient:
    """A connection to a CartPole."""
    return connect()


def wait_until_empty(api: Api) -> None:
    wait_until(lambda: api.instances() == {}, 20.0, "the end of all instances")


def listed(api: Api) -> list[dict[str, Any]]:
    """Return the instances with their figures."""
    rows: list[dict[str, Any]] = ok(api.get("/v1/instances/"))["instances"]
    return rows


def test_reset_step_state_and_close(client: OpenEnvClient, api: Api) -> None:
    assert api.instances() == {}
    assert client.state()["instance_id"] is None
    begun = client.reset(seed=42)
    instance_id = begun["metadata"]["instance_id"]
    assert api.instances() == {instance_id: "CartPole-v1"}
    other = api.create()
    first = other.reset(seed=42)
    assert begun == {
        "observation": {**first, "terminated": False, "truncated": False},
        "reward": None,
        "done": False,
        "metadata": {"instance_id": instance_id},
    }
    for action in (0, 1, 1):
        after = other.step(action)
        reward, done = after.pop("reward"), after.pop("done")
        assert client.step(action) == {
            "observation": after,
            "reward": reward,
            "done": done,
            "metadata": {"instance_id": instance_id},
        }
    other.close()
    assert client.state() == {
        "env_id": "CartPole-v1",
        "episode_id": f"{instance_id}-1",
        "instance_id": instance_id,
        "step_count": 3,
    }
    client.send_frame(1, b'{"type": "close"}')
    assert client.read_close() == (1000, "")


def test_it_is_listed_and_named(client: OpenEnvClient, api: Api) -> None:
    client.reset(episode_id="the first")
    client.step(0)
    (row,) = listed(api)
    assert (row["label"], row["steps"], row["state"]) == ("openenv", 1, "running")
    state = client.state()
    assert (state["episode_id"], state["step_count"]) == ("the first", 1)
    client.reset()
    assert client.state()["episode_id"] == f"{row['instance_id']}-2"


@pytest.mark.usefixtures("one_slot")
def test_other_kwargs_make_another_instance_in_the_slot(
    connect: Callable[..., OpenEnvClient], api: Api
) -> None:
    client = connect("FrozenLake-v1")
    first = client.reset(kwargs={"is_slippery": False}, seed=1)
    again = client.reset(kwargs={"is_slippery": False})
    assert again["metadata"] == first["metadata"]
    other = client.reset(kwargs={"is_slippery": True}, seed=2)
    assert other["metadata"] != first["metadata"]
    assert first["metadata"]["instance_id"] not in api.instances()
    assert len(api.instances()) == SLOTS
    assert client.step(1)["observation"]["info"]["prob"] < 1


@pytest.mark.usefixtures("one_slot")
def test_no_other_create_gets_the_slot_of_a_replaced_instance(
    connect: Callable[..., OpenEnvClient], api: Api
) -> None:
    client = connect("FrozenLake-v1")
    client.reset(kwargs={"is_slippery": False})
    with wanting_slots(api, 3) as answers:
        for number in range(10):
            client.reset(kwargs={"is_slippery": number % 2 == 0})
    assert set(answers) == {429}


@pytest.mark.usefixtures("one_slot")
def test_a_replacement_that_cannot_be_made_leaves_the_slot(
    connect: Callable[..., OpenEnvClient], api: Api
) -> None:
    client = connect("FrozenLake-v1")
    first = client.reset()["metadata"]["instance_id"]
    waiting = connect(query="?wait_s=20")
    waiting.send_frame(1, b'{"type": "reset", "data": {}}')
    refused = client.error("reset", {"kwargs": {"slippery": True}})
    assert (refused["code"], refused["problem"]) == ("FACTORY_ERROR", "bad-parameter")
    assert client.read_close() == (1000, "")
    assert waiting.receive()["type"] == "observation"
    assert first not in api.instances()


def test_an_instance_that_has_ended_has_no_slot_to_keep(
    connect: Callable[..., OpenEnvClient], api: Api
) -> None:
    client = connect("FrozenLake-v1")
    first = client.reset()["metadata"]["instance_id"]
    api.request("DELETE", f"/v1/envs/{first}/")
    other = client.reset(kwargs={"is_slippery": False})
    assert list(api.instances()) == [other["metadata"]["instance_id"]]


@contextlib.contextmanager
def wanting_slots(api: Api, count: int) -> Iterator[list[int]]:
    """Send creates from threads, without end; return their statuses."""
    answers: list[int] = []
    enough = threading.Event()

    def create() -> None:
        while not enough.is_set():
            answer = api.post("/v1/envs/", {"env_id": "CartPole-v1"})
            answers.append(answer.status)
            if answer.status == 200:
                Instance(api, answer.json()["instance_id"]).close()

    threads = [threading.Thread(target=create) for _ in range(count)]
    for each in threads:
        each.start()
    try:
        yield answers
    finally:
        enough.set()
        for each in threads:
            each.join()


def close_message(client: OpenEnvClient) -> None:
    client.send_frame(1, b'{"type": "close"}')


def close_frame(client: OpenEnvClient) -> None:
    client.send_frame(CLOSE, b"\3\xe8")
    assert client.read_close() == (1000, "")


def end_of_file(client: OpenEnvClient) -> None:
    client.finish_sending()


def connection_reset(client: OpenEnvClient) -> None:
    client._socket.setsockopt(
        socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
    )
    client.close()


@pytest.mark.parametrize(
    "end", [close_message, close_frame, end_of_file, connection_reset]
)
def test_the_instance_ends_with_the_connection(
    client: OpenEnvClient, api: Api, end: Callable[[OpenEnvClient], None]
) -> None:
    client.reset()
    assert len(api.instances()) == 1
    end(client)
    wait_until_empty(api)


def test_a_step_ends_with_the_connection(
    connect: Callable[..., OpenEnvClient], api: Api
) -> None:
    client = connect("hostile/Slow-v0")
    client.reset(kwargs={"seconds": 60.0})
    client.send_frame(1, b'{"type": "step", "data": {"action": 1}}')
    wait_until(lambda: listed(api)[0]["busy_s"], 10.0, "the step")
    client.finish_sending()
    wait_until_empty(api)
    ended = ok(api.get("/v1/instances/"))["ended"][0]
    assert ended["reason"] == "closed", "it waited for the step deadline"


@pytest.mark.parametrize("end", [close_frame, connection_reset])
def test_a_create_ends_with_the_connection(
    connect: Callable[..., OpenEnvClient],
    api: Api,
    end: Callable[[OpenEnvClient], None],
) -> None:
    client = connect("hostile/SlowInit-v0")
    client.send_frame(1, b'{"type": "reset", "data": {}}')
    wait_until(lambda: listed(api), 10.0, "the create")
    # It must not be mistaken for the end of the client.
    client.send_frame(PING)
    assert client.read_frame() == (PONG, b"")
    end(client)
    wait_until(lambda: not listed(api), 10.0, "the end of the create")


@pytest.mark.parametrize("name", ["toys/Echo-v0", "toys%2FEcho-v0", "toys%2fEcho-v0"])
def test_an_address_may_be_quoted(
    connect: Callable[..., OpenEnvClient], name: str
) -> None:
    client = connect(name)
    client.reset(kwargs={"space": "text"})
    assert client.step("abc")["observation"]["observation"] == "abc"
    assert client.state()["env_id"] == "toys/Echo-v0"


def test_an_action_is_wrapped_or_a_dict(connect: Callable[..., OpenEnvClient]) -> None:
    client = connect("toys/Echo-v0")
    client.reset(kwargs={"space": "dict"})
    action = {"go": 2, "by": [1.5, 0.0]}
    typed = {**action, "metadata": {}}
    client.send(text('{"type": "step", "data": {"go": 1e400, "by": [1.5, 0.0]}}'))
    assert client.receive()["data"]["code"] == "VALIDATION_ERROR"
    for data in (action, {"action": action}, typed, {"action": action, "metadata": {}}):
        answer = client.ask("step", data)
        assert answer["data"]["observation"]["observation"] == action, answer


def test_frames_on_request(client: OpenEnvClient) -> None:
    client.reset(seed=3)
    refused = client.error("step", {"action": 1, "render": True})
    assert refused["code"] == "VALIDATION_ERROR"
    assert "render_mode" in refused["message"]
    assert client.state()["step_count"] == 0
    client.reset(seed=3, render_mode="rgb_array")
    seen = client.step(1, render=True)["observation"]
    picture = Image.open(io.BytesIO(base64.b64decode(seen["frame"])))
    assert (picture.format, picture.size) == ("PNG", (600, 400))
    assert "frame" not in client.step(1)["observation"]
    begun = client.reset(render_mode="rgb_array", render=True)
    assert begun["observation"]["frame"].startswith("iVBOR")


def test_lists_of_pictures_are_refused_before_the_step(client: OpenEnvClient) -> None:
    client.reset(seed=3, render_mode="rgb_array_list")
    refused = client.error("step", {"action": 1, "render": True})
    assert refused["code"] == "VALIDATION_ERROR"
    assert "rgb_array_list" in refused["message"]
    assert client.state()["step_count"] == 0
    assert client.step(1)["reward"] == 1.0


def test_without_a_free_slot(connect: Callable[..., OpenEnvClient], api: Api) -> None:
    taken = [api.create() for _ in range(SLOTS)]
    client = connect()
    refused = client.error("reset", {})
    assert refused["code"] == "CAPACITY_REACHED"
    assert (refused["active_sessions"], refused["max_sessions"]) == (SLOTS, SLOTS)
    assert "--max-instances" in refused["message"]
    assert client.read_close() == (1000, "")
    # Their clients append this.
    waiting = connect(query="?wait_s=20/ws")
    waiting.send_frame(1, b'{"type": "reset", "data": {"seed": 1}}')
    waiting.send_frame(PING, b"while it waits")
    assert waiting.read_frame() == (PONG, b"while it waits")
    taken.pop().close()
    assert waiting.receive()["type"] == "observation"
    short = connect(query="?wait_s=0.5")
    began = time.monotonic()
    assert short.error("reset", {})["code"] == "CAPACITY_REACHED"
    assert 0.4 < time.monotonic() - began < 5.0
    gone = connect(query="?wait_s=20")
    gone.send_frame(1, b'{"type": "reset", "data": {"seed": 1}}')
    gone.close()
    for each in taken:
        each.close()
    assert len(api.instances()) <= 1


@pytest.mark.parametrize("query", ["?wait_s=51", "?wait_s=x", "?wait=1", "?wait_s=-1"])
def test_a_wait_that_is_none(server: Server, query: str) -> None:
    with OpenEnvClient.connect(server, query=query) as client:
        error(client.response, 400, "bad-parameter")


def test_pings_are_answered_during_calls(connect: Callable[..., OpenEnvClient]) -> None:
    creating = connect("hostile/SlowInit-v0")
    data = {"type": "reset", "data": {"kwargs": {"seconds": 0.5}}}
    creating.send_frame(1, json.dumps(data).encode())
    creating.send_frame(PING, b"create")
    assert creating.read_frame() == (PONG, b"create")
    assert creating.receive()["type"] == "observation"
    stepping = connect("hostile/Slow-v0")
    stepping.reset(kwargs={"seconds": 0.5})
    stepping.send_frame(1, b'{"type": "step", "data": {"action": 1}}')
    stepping.send_frame(PING, b"step")
    assert stepping.read_frame() == (PONG, b"step")
    assert stepping.receive()["data"]["reward"] == 1.0


def text(message: str) -> bytes:
    return frame(1, message.encode())


NO_MESSAGES = [
    ("", "INVALID_JSON"),
    ("{", "INVALID_JSON"),
    ("\0", "INVALID_JSON"),
    ("[" * 50_000, "INVALID_JSON"),
    ("3", "INVALID_JSON"),
    ("null", "INVALID_JSON"),
    ('["reset"]', "INVALID_JSON"),
    ("{}", "UNKNOWN_TYPE"),
    ('{"type": null}', "UNKNOWN_TYPE"),
    ('{"type": 5, "data": {}}', "UNKNOWN_TYPE"),
    ('{"type": "Reset"}', "UNKNOWN_TYPE"),
    ('{"type": "mcp", "data": {}}', "UNKNOWN_TYPE"),
    ('{"type": "state", "id": 3}', "VALIDATION_ERROR"),
    ('{"type": "reset", "data": 3}', "VALIDATION_ERROR"),
    ('{"type": "reset", "data": null}', "VALIDATION_ERROR"),
    ('{"type": "reset", "data": {"sead": 3}}', "VALIDATION_ERROR"),
    ('{"type": "reset", "data": {"seed": "3"}}', "VALIDATION_ERROR"),
    ('{"type": "reset", "data": {"kwargs": 3}}', "VALIDATION_ERROR"),
    ('{"type": "reset", "data": {"num_envs": 3}}', "VALIDATION_ERROR"),
    ('{"type": "reset", "data": {"seed": 1e400}}', "VALIDATION_ERROR"),
    ('{"type": "reset", "data": {"seed": 1%s}}' % ("0" * 5000), "VALIDATION_ERROR"),
    ('{"type": "reset", "data": {"options": {"x": -1e400}}}', "VALIDATION_ERROR"),
    ('{"type": "reset", "data": {"kwargs": {"x": "\\ud800"}}}', "INVALID_JSON"),
    ('{"type": "reset", "data": {"kwargs": %s}}' % ("[" * 5000), "INVALID_JSON"),
    ('{"type": "step"}', "VALIDATION_ERROR"),
    ('{"type": "step", "data": 1}', "VALIDATION_ERROR"),
    ('{"type": "step", "data": {}}', "VALIDATION_ERROR"),
    ('{"type": "step", "data": {"action": 1, "acton": 2}}', "VALIDATION_ERROR"),
    ('{"type": "step", "data": {"action": 7}}', "VALIDATION_ERROR"),
    ('{"type": "step", "data": {"action": 1e400}}', "VALIDATION_ERROR"),
    ('{"type": "step", "data": {"action": 1%s}}' % ("0" * 5000), "VALIDATION_ERROR"),
    ('{"type": "step", "data": {"action": 1, "x": 1e400}}', "VALIDATION_ERROR"),
    ('{"type": "step", "data": {"action": 1, "render": 1e400}}', "VALIDATION_ERROR"),
    ('{"type": "step", "data": {"action": -1}}', "VALIDATION_ERROR"),
    ('{"type": "step", "data": {"action": "left"}}', "VALIDATION_ERROR"),
    ('{"type": "step", "data": {"action": null}}', "VALIDATION_ERROR"),
    ('{"type": "step", "data": {"action": [[1, 2]]}}', "VALIDATION_ERROR"),
    ('{"type": "step", "data": {"action": 1, "render": 1}}', "VALIDATION_ERROR"),
]


def test_a_refused_message_changes_nothing(client: OpenEnvClient) -> None:
    """Each row of what is no message, or has other data: the connection lives."""
    begun = client.reset(seed=7)
    for message, code in NO_MESSAGES:
        client.send(text(message))
        answer = client.receive()
        given = answer["type"], answer["data"].get("code")
        assert given == ("error", code), message
        assert answer["data"]["message"], message
    assert client.state()["step_count"] == 0
    assert client.step(1)["metadata"] == begun["metadata"]


def test_before_the_first_reset(client: OpenEnvClient) -> None:
    refused = client.error("step", {"action": 1})
    assert (refused["code"], refused["problem"]) == ("EXECUTION_ERROR", "reset-needed")
    assert "reset" in refused["message"]
    assert client.reset(seed=1)["done"] is False


@pytest.mark.parametrize(
    ("env_id", "kwargs", "problem", "words"),
    [
        ("Nope-v1", {}, "unknown-env", "there is no environment 'Nope-v1': "),
        ("CartPole-v1", {"gravitas": 3}, "bad-parameter", "gravitas"),
        ("phys2d/CartPole-v1", {}, "dependency-missing", "pip install jax"),
        ("hostile/FailInit-v0", {}, "env-error", ""),
    ],
)
def test_an_environment_that_cannot_be_made(
    connect: Callable[..., OpenEnvClient],
    env_id: str,
    kwargs: dict[str, Any],
    problem: str,
    words: str,
) -> None:
    client = connect(env_id)
    refused = client.error("reset", {"kwargs": kwargs})
    assert (refused["code"], refused["problem"]) == ("FACTORY_ERROR", problem)
    assert words in refused["message"]
    assert client.read_close() == (1000, "")


def test_vectors_have_no_form(client: OpenEnvClient, api: Api) -> None:
    refused = client.error("reset", {"num_envs": 2})
    assert refused["code"] == "VALIDATION_ERROR"
    assert "vector" in refused["message"]
    assert api.instances() == {}
    assert client.reset()["done"] is False


def test_several_agents_have_no_form(
    connect: Callable[..., OpenEnvClient], api: Api
) -> None:
    client = connect("pettingzoo/classic.rps_v2")
    for _ in range(2):
        refused = client.error("reset", {})
        assert refused["code"] == "VALIDATION_ERROR"
        assert "has several agents" in refused["message"]
        assert api.instances() == {}
    schema = api.get("/openenv/pettingzoo/classic.rps_v2/schema")
    error(schema, 400, "bad-parameter")


def test_an_environment_that_raises(
    connect: Callable[..., OpenEnvClient], api: Api
) -> None:
    client = connect("toys/Raising-v0")
    client.reset()
    refused = client.error("step", {"action": "own"})
    assert (refused["code"], refused["problem"]) == ("EXECUTION_ERROR", "env-error")
    assert client.error("step", {"action": "own"})["problem"] == "reset-needed"
    assert client.reset()["reward"] is None
    assert len(api.instances()) == 1


@pytest.mark.parametrize(
    ("env_id", "problem"),
    [("Segfault", "env-crashed"), ("Exit0", "env-crashed"), ("Loop", "step-deadline")],
)
def test_an_environment_that_crashes_or_hangs(
    connect: Callable[..., OpenEnvClient], env_id: str, problem: str
) -> None:
    client = connect(f"hostile/{env_id}-v0")
    client.reset()
    refused = client.error("step", {"action": 1})
    assert (refused["code"], refused["problem"]) == ("EXECUTION_ERROR", problem)
    assert client.read_close() == (1000, "")


def test_an_instance_that_another_ends(client: OpenEnvClient, api: Api) -> None:
    instance_id = client.reset()["metadata"]["instance_id"]
    api.request("DELETE", f"/v1/envs/{instance_id}/")
    refused = client.error("step", {"action": 1})
    assert (refused["code"], refused["problem"]) == (
        *("EXECUTION_ERROR", "unknown-instance"),
    )
    assert client.read_close() == (1000, "")


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\x81\xff" + struct.pack(">Q", 16 * 1024 * 1024) + b"mask", 1009),
        (frame(2, b'{"type": "state"}'), 1003),
        (frame(1, b"\xff"), 1007),
        (frame(1, b'{"type": "state"}', mask=b""), 1002),
    ],
    # Not of the bytes, whose masks are random.
    ids=["too-large", "binary", "not-utf-8", "unmasked"],
)
def test_what_is_refused_as_on_streams(
    client: OpenEnvClient, data: bytes, code: int
) -> None:
    client.reset()
    client.send(data)
    assert client.read_close()[0] == code


def test_a_flood_waits_on_the_connection(
    connect: Callable[..., OpenEnvClient], api: Api
) -> None:
    """No more is read than is answered, and other clients are served meanwhile."""
    client = connect("hostile/Slow-v0")
    client.reset(kwargs={"seconds": 1.0})
    step = text('{"type": "step", "data": {"action": 1}}')
    filler = text('{"type": "step", "data": {"action": 9%s}}' % (" " * 60_000))
    client.send(step)
    client._socket.settimeout(0.3)
    with pytest.raises(TimeoutError):
        client.send(filler * 500)
    assert ok(api.get("/healthz")) == {"status": "ok"}


def test_malformed_and_cut_conversations(server: Server, api: Api) -> None:
    dice = random.Random(36)
    parts = [text(message) for message, _ in NO_MESSAGES if len(message) < 100]
    parts += [
        *[text('{"type": "reset", "data": {"seed": 1}}')] * 3,
        *[text('{"type": "step", "data": {"action": 1}}')] * 5,
        text('{"type": "state"}'),
        text('{"type": "close"}'),
        frame(PING, b"x"),
        frame(CLOSE),
        frame(1, b"{", fin=False),
        frame(0, b"}"),
        b"\x81\x00\xff\xff",
    ]

    held: list[int] = []

    def converse() -> None:
        with OpenEnvClient.connect(server) as client:
            whole = b"".join(dice.choices(parts, k=dice.randrange(1, 8)))
            cut = dice.randrange(len(whole) + 1)
            try:
                client.send(whole[:cut] + dice.randbytes(dice.choice([0, 0, 3])))
                if dice.random() < 0.5:
                    client.finish_sending()
                    client.read_to_end()
            except OSError:
                pass
        held.append(cut)

    rows = [
        threading.Thread(target=lambda: [converse() for _ in range(CUTS // 3)])
        for _ in range(3)
    ]
    for row in rows:
        row.start()
    for row in rows:
        row.join(600)
    # A thread that raises ends with fewer.
    assert len(held) == CUTS // 3 * 3
    wait_until_empty(api)
    metrics = api.get("/metrics").text
    assert not [line for line in metrics.splitlines() if 'status="5' in line]
    # Of environments that raise on purpose there are some.
    assert "a message of OpenEnv failed" not in server.stderr
    assert " ERROR " not in server.stderr
    assert listed(api) == []


def test_health_metadata_and_schema(client: OpenEnvClient, api: Api) -> None:
    assert ok(api.get("/openenv/CartPole-v1/health")) == {"status": "healthy"}
    error(api.get("/openenv/Nope-v1/health"), 404, "not-found")
    assert ok(api.get("/openenv/CartPole/health")) == {"status": "healthy"}
    about = ok(api.get("/openenv/toys%2FEcho-v0/metadata"))
    assert about["name"] == "toys/Echo-v0"
    assert "tests.support.envs.toys:Echo" in about["description"]
    for each in ("metadata", "schema"):
        unknown = error(api.get(f"/openenv/Nope-v1/{each}"), 400, "unknown-env")
        assert unknown["message"].startswith("there is no environment 'Nope-v1'")
        # A line break belongs to the ID, as any other character does.
        error(api.get(f"/openenv/No%0Ape-v1/{each}"), 400, "unknown-env")
    schema = ok(api.get("/openenv/CartPole-v1/schema"))
    for each in schema.values():
        jsonschema.Draft202012Validator.check_schema(each)
    jsonschema.validate({"action": 1, "metadata": {}}, schema["action"])
    for wrong in ({"action": 2}, {"action": "1"}, {}, {"action": 1, "x": 1}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema["action"])
    begun = client.reset(seed=1, render_mode="rgb_array", render=True)["observation"]
    jsonschema.validate(begun, schema["reset_observation"])
    jsonschema.validate(client.step(1)["observation"], schema["observation"])
    jsonschema.validate(client.state(), schema["state"])


def test_a_plain_request_is_no_connection(api: Api) -> None:
    error(api.get("/openenv/CartPole-v1/ws"), 426, "upgrade-required")
    error(api.post("/openenv/CartPole-v1/ws"), 405, "method-not-allowed")
