"""Arguments of an environment may be as large as a body, by every door."""

import contextlib
import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gym_http_client import RemoteEnv, RemoteVectorEnv
from gym_http_wire.values import binary, typed
from tests.live.test_create_queue import without_hosts
from tests.support import api as calls
from tests.support.api import Api, Instance
from tests.support.identity import assert_identical
from tests.support.peers.zmq_peers import zmq_url
from tests.support.server import Server
from tests.support.wait import wait_until

ENV_ID = "keyword/Arguments-v0"
MAX_BODY = 3_000_000
PLAIN, TYPED, BINARY = (
    "application/json",
    "application/vnd.gym-http.typed+json",
    "application/vnd.gym-http.binary",
)
#: About 2 MB, 2.7 MB in typed JSON.
MAP = np.arange(1_000_000, dtype=np.int16).reshape(1000, 1000)
TABLE = {f"row {index}": [index, index / 3, None] for index in range(2000)}


@pytest.fixture(scope="module")
def roomy() -> Iterator[Server]:
    """A server that keeps arguments, and takes bodies of a few megabytes."""
    flags = ("--max-body", str(MAX_BODY), "--zmq", "tcp://127.0.0.1:0", "--import")
    with Server(*flags, "tests.support.envs.keyword_arguments") as started:
        yield started


@pytest.fixture
def made(roomy: Server) -> Iterator[Callable[..., Instance]]:
    """Return a function that makes an instance of a body, closed after the test."""
    with contextlib.ExitStack() as stack:

        def make(body: bytes, media_type: str = PLAIN, **headers: str) -> Instance:
            answer = post(roomy, body, media_type, **headers)
            instance = Instance(Api(roomy), calls.ok(answer)["instance_id"])
            stack.callback(instance.close)
            return instance

        yield make


def post(server: Server, body: bytes, media_type: str = PLAIN, **headers: str) -> Any:
    """Send a create request."""
    given = {"Content-Type": media_type} | {
        name.replace("_", "-"): text for name, text in headers.items()
    }
    return Api(server).post("/v1/envs/", data=body, headers=given)


def kept(instance: Instance) -> Any:
    """Return the arguments that the environment has received."""
    path = "attributes/kept/"
    answer = instance.get(path, headers={"Accept": BINARY})
    return binary.decode(answer.body)["value"]


def request(kwargs: Any, **members: Any) -> dict[str, Any]:
    return {"env_id": ENV_ID, "kwargs": kwargs, **members}


SIZE = {"size": (2, 3)}
BODIES = {
    "JSON": (json.dumps(request({"table": TABLE})).encode(), PLAIN, {"table": TABLE}),
    "typed JSON by member": (
        json.dumps(
            request(json.loads(typed.encode({"map": MAP, "pair": (1, 2)})), typed=True)
        ).encode(),
        PLAIN,
        {"map": MAP, "pair": (1, 2)},
    ),
    "typed JSON": (
        typed.encode(request({"map": MAP, "pair": (1, 2)})),
        TYPED,
        {"map": MAP, "pair": (1, 2)},
    ),
    "binary": (
        binary.encode(request({"map": MAP, "pair": (1, 2)})),
        BINARY,
        {"map": MAP, "pair": (1, 2)},
    ),
    "small binary": (
        binary.encode(
            request({"goal": np.zeros(2), "b": b"\0", "c": 2**70}, label="l")
        ),
        BINARY,
        {"goal": np.zeros(2), "b": b"\0", "c": 2**70},
    ),
    "small typed JSON": (
        typed.encode(request({"goal": np.zeros(2)})),
        TYPED,
        {"goal": np.zeros(2)},
    ),
}


@pytest.mark.parametrize("form", BODIES)
def test_large_arguments_arrive_unchanged(
    roomy: Server, made: Callable[..., Instance], form: str
) -> None:
    body, media_type, arguments = BODIES[form]
    instance = made(body, media_type)
    assert_identical(kept(instance), {**SIZE, **arguments})
    (listed,) = Api(roomy).get("/v1/instances/").json()["instances"]
    if len(body) <= 16 * 1024 and media_type != BINARY:
        assert listed["arguments"] is None
        return
    digest = hashlib.sha256(body).hexdigest()
    assert listed["arguments"] == {"bytes": len(body), "sha256": digest}
    words = f"a request of {len(body)} bytes with the SHA-256 {digest}"
    (line,) = [each for each in roomy.stderr.splitlines() if instance.id in each]
    assert words in line


def test_wrappers_and_other_members_are_those_of_a_small_request(
    roomy: Server, made: Callable[..., Instance]
) -> None:
    bounds = {"min_reward": np.float32(-1), "max_reward": np.zeros(())}
    given = request(
        {"map": MAP},
        wrappers=["RecordEpisodeStatistics", {"name": "ClipReward", "kwargs": bounds}],
        label="a map",
        max_episode_steps=np.int64(7).item(),
        disable_env_checker=True,
        seed=5,
        render_mode=None,
    )
    instance = made(binary.encode(given), BINARY)
    spec = instance.get("").json()["spec"]
    names = [each["name"] for each in spec["additional_wrappers"]]
    assert names == ["RecordEpisodeStatistics", "ClipReward"]
    assert spec["max_episode_steps"] == 7
    (listed,) = Api(roomy).get("/v1/instances/").json()["instances"]
    assert listed["label"] == "a map"


@pytest.mark.parametrize(
    "options",
    [{"hosts": 2, "vectorization_mode": "sync"}, {"vectorization_mode": "async"}],
)
@pytest.mark.parametrize(
    "of", [lambda server: server.url, zmq_url], ids=["http", "zmq"]
)
def test_vectors_of_the_python_client(
    roomy: Server, of: Callable[[Server], str], options: dict[str, Any]
) -> None:
    options["autoreset_mode"] = "next_step"
    with contextlib.closing(
        RemoteVectorEnv(of(roomy), ENV_ID, num_envs=2, map=MAP, **options)
    ) as vector:
        for each in vector.call("kept"):
            assert_identical(each, {**SIZE, "map": MAP})


@pytest.mark.parametrize(
    "of", [lambda server: server.url, zmq_url], ids=["http", "zmq"]
)
def test_environments_of_the_python_client(
    roomy: Server, of: Callable[[Server], str]
) -> None:
    with contextlib.closing(RemoteEnv(of(roomy), ENV_ID, map=MAP, pair=(1, 2))) as env:
        assert_identical(env.kept, {**SIZE, "map": MAP, "pair": (1, 2)})


def test_a_module_with_threads(make_server: Callable[..., Server]) -> None:
    started = make_server("--import", "tests.support.envs.threaded")
    body = binary.encode(
        {"env_id": "hostile/ThreadedArguments-v0", "kwargs": {"map": MAP}}
    )
    instance = Instance(
        Api(started), calls.ok(post(started, body, BINARY))["instance_id"]
    )
    assert kept(instance).shape == MAP.shape
    calls.no_content(instance.close())


@pytest.mark.parametrize(
    ("body", "media_type", "status", "words"),
    [
        (b" " * (MAX_BODY + 1), PLAIN, 413, "(--max-body)"),
        (b"[" * 20_000, PLAIN, 400, "not a valid json"),
        (b'\x08\0\0\0\0\0\0\0"none"  ', BINARY, 400, "no dict in the binary form"),
        (binary.encode(request({"map": MAP}))[:-8], BINARY, 400, "it ends at byte"),
        (b"\xff" * 99, BINARY, 400, "no dict in the binary form"),
        (b"", BINARY, 400, "no dict in the binary form"),
        (
            json.dumps(request({}, label="l" * 20_000)).encode(),
            PLAIN,
            400,
            "bytes besides kwargs and wrappers: expected 16384 at most",
        ),
        (
            json.dumps(request([1] * 20_000)).encode(),
            PLAIN,
            400,
            "expected an object",
        ),
        (
            json.dumps(request({"a": "x" * 20_000}, wrappers=["Nothing"])).encode(),
            PLAIN,
            400,
            "wrappers[0]",
        ),
        (
            binary.encode(request({1: MAP})),
            BINARY,
            400,
            "expected an object with names",
        ),
        (
            json.dumps(
                request({"a": {"$t": "odd"}, "b": "x" * 20_000}, typed=True)
            ).encode(),
            PLAIN,
            400,
            'kwargs["a"] has an unknown $t',
        ),
        (
            binary.encode(request({"render_mode": "human"})),
            BINARY,
            400,
            "would open a window",
        ),
    ],
)
def test_what_cannot_be_read_is_refused(
    roomy: Server, body: bytes, media_type: str, status: int, words: str
) -> None:
    problem = calls.error(post(roomy, body, media_type), status)
    assert words in problem["message"]
    assert not Api(roomy).instances()


def test_a_key_makes_one_instance(roomy: Server, made: Callable[..., Instance]) -> None:
    body = BODIES["binary"][0]
    first = made(body, BINARY, Idempotency_Key="large-1")
    answer = post(roomy, body, BINARY, Idempotency_Key="large-1")
    assert answer.header("Idempotent-Replayed") == "true"
    assert answer.json()["instance_id"] == first.id
    # The members are the same, and an argument differs.
    other = body[:-1] + bytes([body[-1] ^ 1])
    answer = post(roomy, other, BINARY, Idempotency_Key="large-1")
    calls.error(answer, 422, "key-reused")


def test_waiting_arguments_take_memory_and_no_more_than_allowed(
    roomy: Server, made: Callable[..., Instance]
) -> None:
    body = BODIES["typed JSON"][0]
    answers: list[Any] = []
    with without_hosts(roomy):
        # 8 times --max-body have room for 8 of them.
        threads = [
            threading.Thread(
                target=lambda: answers.append(post(roomy, body, TYPED)), daemon=True
            )
            for _ in range(9)
        ]
        for each in threads:
            each.start()
        wait_until(lambda: answers, 20.0, "a refusal")
        problem = calls.error(answers[0], 429, "share-used-up")
        assert answers[0].header("Retry-After") == "1"
        assert "8 times --max-body" in problem["message"]
        assert len(waiting(roomy)) == 8
    for each in threads:
        each.join()
    assert [each.status for each in answers] == [429] + [200] * 8
    for each in answers[1:]:
        Instance(Api(roomy), each.json()["instance_id"]).close()
    wait_until(lambda: not waiting(roomy), 5.0, "the memory to be freed")


def test_repeated_requests_take_no_memory_while_the_first_is_made(
    roomy: Server, tmp_path: Path
) -> None:
    until = tmp_path / "until"
    kwargs = {"until": str(until), "table": TABLE}
    body = json.dumps({"env_id": ENV_ID, "kwargs": kwargs}).encode()
    with ThreadPoolExecutor(4) as pool:

        def create(_: int) -> Any:
            return post(roomy, body, Idempotency_Key="repeated-1")

        answers = [pool.submit(create, 0)]
        wait_until(lambda: roomy.instance_folders() and not waiting(roomy), 10.0)
        before = roomy.supervisor_descriptors()
        answers += [pool.submit(create, index) for index in range(3)]
        try:
            # A connection for each.
            most = before + 3
            wait_until(lambda: roomy.supervisor_descriptors() >= most, 10.0)
            wait_until(lambda: roomy.supervisor_descriptors() == most, 10.0)
            assert not waiting(roomy)
        finally:
            until.touch()
        made = {calls.ok(each.result())["instance_id"] for each in answers}
    assert len(made) == 1
    Instance(Api(roomy), made.pop()).close()


def waiting(server: Server) -> list[str]:
    """Return the memory with arguments that the supervisor holds."""
    folder = f"/proc/{server.supervisor.pid}/fd"
    found = []
    for name in os.listdir(folder):
        with contextlib.suppress(OSError):
            found.append(os.readlink(f"{folder}/{name}"))
    return [each for each in found if each.startswith("/memfd:arguments")]
