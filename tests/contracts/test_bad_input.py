"""Invalid bodies are answered by 400 with a message, and are never half executed."""

import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from tests.support.api import Api, Instance, error, no_content, ok
from tests.support.faults.invalid_bodies import (
    CLIMBING,
    NO_OBJECTS,
    NOT_JSON,
    ODD_DIRECTORIES,
    ODD_VALUES,
)
from tests.support.plain import plain_step
from tests.support.raw import RawConnection, Response, chunked
from tests.support.server import Server

Create = Callable[..., Instance]

READING = [
    "step/",
    "monitor/start/",
    "action_space/contains",
    "observation_space/contains",
]
READING_SHARED = ["/v1/envs/", "/v1/upload/"]
SAMPLING = ["action_space/sample", "observation_space/sample"]
IGNORING = ["reset/", "monitor/close/"]
CREATE = "/v1/envs/"


def post_everywhere(instance: Instance, data: bytes) -> Iterator[tuple[str, Response]]:
    """Send a body to every route that reads one."""
    for rest in READING:
        yield rest, instance.post(rest, data=data)
        if rest == "monitor/start/":
            no_content(instance.post("monitor/close/"))
    for path in READING_SHARED:
        yield path, instance.api.post(path, data=data)


def assert_untouched(instance: Instance, seed: int) -> None:
    """Check that the env, reset with the seed, has not been stepped since."""
    with gymnasium.make("CartPole-v1") as local:
        local.reset(seed=seed)
        for action in (1, 0, 1):
            assert instance.step(action) == plain_step(local.step(action))


@pytest.mark.parametrize("kind", NOT_JSON)
def test_bodies_that_are_not_json(kind: str, instance: Instance) -> None:
    instance.reset(seed=6)
    for route, response in post_everywhere(instance, NOT_JSON[kind]):
        answer = error(response, 400)
        assert answer["code"] in ("bad-json", "missing-parameter"), route
    assert_untouched(instance, 6)


@pytest.mark.parametrize("rest", SAMPLING)
def test_samples_are_not_taken_with_half_read_options(
    rest: str, instance: Instance
) -> None:
    """A request for a seed must not get a sample without one."""
    for body in filter(bytes.strip, NOT_JSON.values()):
        error(instance.post(rest, data=body), 400, "bad-json")


@pytest.mark.parametrize("kind", ODD_VALUES | NO_OBJECTS)
def test_samples_of_odd_options(kind: str, instance: Instance) -> None:
    body = (ODD_VALUES | NO_OBJECTS)[kind]
    for rest in SAMPLING:
        assert instance.post(rest, data=body).status in (200, 400)


@pytest.mark.parametrize("kind", NOT_JSON)
def test_unread_bodies(kind: str, instance: Instance) -> None:
    for rest in IGNORING:
        response = instance.post(rest, data=NOT_JSON[kind])
        assert response.status in (200, 204), (rest, response)
    error(instance.api.post("/v1/shutdown/", data=NOT_JSON[kind]), 403)
    no_content(instance.post("close/", data=NOT_JSON[kind]))


@pytest.mark.parametrize("kind", ODD_VALUES)
def test_values_that_no_route_can_use(kind: str, instance: Instance) -> None:
    instance.reset(seed=6)
    for route, response in post_everywhere(instance, ODD_VALUES[kind]):
        assert response.status < 500, (route, response)
        if response.status >= 400:
            error(response, (400, 404, 410))
        if route in ("step/", CREATE):
            error(response, 400)
    assert_untouched(instance, 6)


@pytest.mark.parametrize("kind", NO_OBJECTS)
def test_json_that_is_no_object(kind: str, instance: Instance) -> None:
    instance.reset(seed=6)
    for route, response in post_everywhere(instance, NO_OBJECTS[kind]):
        assert response.status < 500, (route, response)
        if route in ("step/", "monitor/start/", *READING_SHARED):
            error(response, 400)
    assert_untouched(instance, 6)


@pytest.mark.parametrize("seed", ["NaN", "1e999", "-1", "0.5", '"1"', "[1]", "true"])
def test_invalid_seeds(seed: str, instance: Instance) -> None:
    response = instance.post("reset/", data=b'{"seed": %s}' % seed.encode())
    if seed in ("NaN", "1e999"):
        assert response.status in (200, 400), "not JSON, so it may be ignored"
    else:
        error(response, 400)


@pytest.mark.parametrize("seed", [0, 1, 2**31, 2**32 - 1, 2**32, 2**63, 2**64])
def test_seeds_are_local_seeds(seed: int, instance: Instance) -> None:
    """Python's integers have no end; seeds beyond 64 bits may be refused."""
    response = instance.post("reset/", {"seed": seed})
    if seed >= 2**63 and response.status == 400:
        error(response, 400)
        return
    with gymnasium.make("CartPole-v1") as local:
        expected = [float(str(x)) for x in local.reset(seed=seed)[0]]
    assert ok(response)["observation"] == expected


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "gzip, identity"])
def test_compressed_bodies_are_refused(coding: str, instance: Instance) -> None:
    instance.reset(seed=6)
    plain = b'{"action": 1, "env_id": "CartPole-v1", "directory": "x"}'
    packed = {"gzip": gzip.compress(plain), "deflate": zlib.compress(plain)}
    headers = {"Content-Encoding": coding}
    for rest in (*READING, *SAMPLING, *IGNORING, "close/"):
        response = instance.post(rest, data=packed.get(coding, plain), headers=headers)
        error(response, 415, "content-encoding")
    for path in READING_SHARED:
        response = instance.api.post(path, data=plain, headers=headers)
        error(response, 415, "content-encoding")
    assert_untouched(instance, 6)


def test_identity_is_no_compression(instance: Instance) -> None:
    instance.reset()
    ok(instance.post("step/", {"action": 1}, headers={"Content-Encoding": "identity"}))


@pytest.mark.parametrize("directory", CLIMBING, ids=ascii)
def test_directories_that_climb(directory: str, instance: Instance) -> None:
    server = instance.api.server
    before = outside(server)
    for extra in ({}, {"force": True}, {"resume": True}):
        body = {"directory": directory, **extra}
        error(instance.post("monitor/start/", body), 400)
    assert outside(server) == before


@pytest.mark.parametrize("directory", ODD_DIRECTORIES, ids=lambda d: ascii(d[:20]))
def test_odd_directories_stay_inside(directory: str, instance: Instance) -> None:
    server = instance.api.server
    before = outside(server)
    response = instance.post("monitor/start/", {"directory": directory, "force": True})
    if response.status == 204:
        instance.reset()
        while not instance.step(1)["done"]:
            pass
    else:
        error(response, 400)
    no_content(instance.post("monitor/close/"))
    assert outside(server) == before


def test_directories_do_not_follow_links(instance: Instance, tmp_path: Path) -> None:
    server = instance.api.server
    target = tmp_path / "episodes.jsonl"
    target.write_text("kept")
    (server.data_dir / "link").symlink_to(tmp_path)
    for directory in ("link", "link/below"):
        for extra in ({}, {"force": True}, {"resume": True}):
            body = {"directory": directory, **extra}
            error(instance.post("monitor/start/", body), 400)
    assert target.read_text() == "kept"
    assert [path.name for path in tmp_path.iterdir()] == ["episodes.jsonl"]


def outside(server: Server) -> set[str]:
    """List the entries beside the data directory."""
    return {path.name for path in server.base.iterdir()} - {"stdout", "stderr"}


LIMIT = 2000


@pytest.fixture(scope="module")
def limited() -> Iterator[Server]:
    with Server("--max-body", str(LIMIT), "--request-deadline", "2") as server:
        yield server


@pytest.fixture
def small(limited: Server) -> Iterator[Instance]:
    instance = Api(limited).create()
    instance.reset(seed=6)
    yield instance
    instance.close()


def padded(size: int) -> bytes:
    """Return a step's body of so many bytes, still valid when it is cut."""
    return json.dumps({"action": 1}).encode().ljust(size)


PACKED = chunked(gzip.compress(padded(13), mtime=0))


def send(instance: Instance, head: str, body: bytes, *, end: bool = False) -> Any:
    """Send a step with the framing headers given; None if it gets no answer."""
    start = f"POST {instance.path('step/')} HTTP/1.1\r\nHost: localhost\r\n"
    with RawConnection(instance.api.server.port) as connection:
        connection.send(f"{start}{head}\r\n\r\n".encode() + body)
        if end:
            connection.finish_sending()
        try:
            return connection.read_response()
        except ConnectionError:
            return None


def test_bodies_at_the_limit(small: Instance) -> None:
    ok(small.post("step/", data=padded(LIMIT)))
    response = send(small, "Transfer-Encoding: chunked", chunked(padded(LIMIT), 100))
    ok(response)


@pytest.mark.parametrize("size", [LIMIT + 1, 2 * LIMIT, 1_000_000])
@pytest.mark.parametrize("framing", ["length", "chunks", "one chunk"])
def test_bodies_beyond_the_limit(framing: str, size: int, small: Instance) -> None:
    """A cut body would still be valid JSON: it must not be taken for the whole."""
    body = padded(size)
    head = "Transfer-Encoding: chunked"
    if framing == "length":
        response = send(small, f"Content-Length: {size}", body)
    else:
        response = send(small, head, chunked(body, 97 if framing == "chunks" else size))
    error(response, 413, "body-too-large")
    assert_untouched(small, 6)


@pytest.mark.parametrize("path", ["/v1/envs/", "reset/", "close/", "monitor/close/"])
def test_the_limit_holds_for_ignored_bodies(path: str, small: Instance) -> None:
    target = path if path.startswith("/") else small.path(path)
    error(small.api.post(target, data=b" " * (LIMIT + 1)), 413, "body-too-large")
    assert_untouched(small, 6)


@pytest.mark.parametrize(
    ("head", "body", "end"),
    [
        ("Content-Length: 5", padded(50), False),
        ("Content-Length: 99", padded(50), True),
        ("Content-Length: 99", padded(50), False),
        ("Content-Length: 13\r\nContent-Length: 14", padded(13), False),
        ("Content-Length: -1", padded(13), False),
        ("Content-Length: +13", padded(13), False),
        ("Content-Length: 1_3", padded(13), False),
        ("Content-Length: 0x0d", padded(13), False),
        ("Content-Length: thirteen", padded(13), False),
        ("Content-Length: " + "9" * 30, padded(13), False),
        (
            "Content-Length: 13\r\nTransfer-Encoding: chunked",
            chunked(padded(13)),
            False,
        ),
        ("Transfer-Encoding: chunked, chunked", chunked(padded(13)), False),
        ("Transfer-Encoding: gzip, chunked", PACKED, False),
        ("Transfer-Encoding: chunked", b"zz\r\n" + padded(13), False),
        ("Transfer-Encoding: chunked", b"-d\r\n" + padded(13), False),
        ("Transfer-Encoding: chunked", b"f" * 16 + b"\r\n" + padded(13), True),
        ("Transfer-Encoding: chunked", b"d\r\n" + padded(13) + b"\r\n", True),
        ("Transfer-Encoding: chunked", b"d\r\n" + padded(13) + b"\r\n", False),
        ("Transfer-Encoding: chunked", b"5\r\n" + padded(13) + b"\r\n0\r\n\r\n", False),
    ],
)
def test_lying_lengths(head: str, body: bytes, end: bool, small: Instance) -> None:
    """A framing error is answered, or the connection is closed; nothing is stepped."""
    response = send(small, head, body, end=end)
    if response is not None:
        error(response, (400, 408, 413, 501))
    assert_untouched(small, 6)
