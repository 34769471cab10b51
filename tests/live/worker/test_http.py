"""Errors of the worker, unread bodies, and unusual requests that HTTP allows."""

import contextlib
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.gunicorn_server import (
    CHUNKED,
    DEADLINE,
    SLACK,
    Gunicorn,
    check_problem,
    environment,
    get,
    post,
)
from tests.support.raw import chunked

pytestmark = pytest.mark.live

# Errors without an application


@pytest.mark.parametrize(
    ("request_", "status", "code"),
    [
        (b"\x16\x03\x01\x02\x00\x01\r\n\r\n", 400, "malformed-request"),
        (b"GET /\r\n\r\n", 400, "malformed-request"),
        (b"GET / HTTP/1.1\r\nHost: w\r\nno colon\r\n\r\n", 400, "malformed-request"),
        (
            b"GET / HTTP/1.1\r\nHost: w\r\nContent-Length: x\r\n\r\n",
            400,
            "malformed-request",
        ),
        (post("/echo", b"").replace(b": 0", b": 0\r\nContent-Length: 1"), 400, None),
        (b"GET /%s HTTP/1.1\r\nHost: w\r\n\r\n" % (b"x" * 9000), 414, "uri-too-long"),
        (get("/", f"X: {'x' * 9000}\r\n"), 431, "headers-too-large"),
        (get("/", "X: x\r\n" * 200), 431, "headers-too-large"),
        (get("/", f"X: {'x' * 8000}\r\n" * 8), 431, "headers-too-large"),
        (get("/", "Expect: money\r\n"), 417, "expectation-failed"),
        (get("/", "Transfer-Encoding: odd\r\n"), 501, "transfer-coding"),
        (
            CHUNKED + b"nonsense\r\n",
            400,
            "malformed-request",
        ),
        (get("/raise/ValueError"), 500, "internal"),
        (get("/raise/SystemExit"), 500, "internal"),
        (get("/raise/OSError"), 500, "internal"),
    ],
)
def test_errors_are_json(
    gunicorn: Gunicorn, request_: bytes, status: int, code: str | None
) -> None:
    with gunicorn.client() as client:
        response = client.call(request_)
        check_problem(response, status, code or "malformed-request")
        assert client.read_to_end() == b""


@pytest.mark.parametrize("media", ["problem+json", "Problem+JSON;charset=utf-8"])
def test_an_error_can_be_problem_json(media: str, gunicorn: Gunicorn) -> None:
    extra = f"Accept: application/{media}\r\n"
    response = gunicorn.call(get("/raise/ValueError", extra))
    assert response.content_type == "application/problem+json"
    assert response.json()["instance"] == "/raise/ValueError"


def test_an_error_has_no_body_for_head(gunicorn: Gunicorn) -> None:
    with gunicorn.client() as client:
        client.send(b"HEAD /raise/ValueError HTTP/1.1\r\nHost: w\r\n\r\n")
        assert client.read_response(head=True).status == 500
        assert client.read_to_end() == b""


# Bodies beyond what the application reads

LARGE = bytes(40 << 20)


@pytest.mark.parametrize("path", ["/limit", "/health"])
@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_an_early_answer_arrives(gunicorn: Gunicorn, path: str, framing: str) -> None:
    head = CHUNKED.replace(b"/echo", path.encode())
    coded = head + chunked(LARGE, 1 << 20)
    with gunicorn.client() as client:
        response = client.call(post(path, LARGE) if framing == "length" else coded)
        assert response.status == (413 if path == "/limit" else 200)
        assert response.header("Connection") == "close"
        assert client.read_to_end() == b""


@pytest.mark.parametrize("count", [1, 4])
def test_bodies_without_end_are_cut(gunicorn: Gunicorn, count: int) -> None:
    with ThreadPoolExecutor(count) as pool:
        floods = [pool.submit(_flood, gunicorn) for _ in range(count)]
        slowest = 0.0
        while not all(flood.done() for flood in floods):
            slowest = max(slowest, gunicorn.health_s())
        for flood in floods:
            assert DEADLINE - 0.1 < flood.result() < DEADLINE + SLACK
    assert slowest < 1.0


LINGERING = """
    import socket
    import gevent
    from gym_http_server.web.gunicorn_worker import client_socket
    from gym_http_server.web.gunicorn_worker.client_socket import ClientSocket

    class Endless(ClientSocket):
        def recv(self, size, flags=0):
            return b"x"

    ours, theirs = socket.socketpair()
    limits = client_socket.ConnectionLimits(0.1, 1, 1)
    client = Endless(limits, ours.family, fileno=ours.detach())
    other = gevent.spawn(lambda: "ran")
    client.close_lingering()
    print(other.value)
"""


def test_a_body_without_end_leaves_time_for_others() -> None:
    command = [sys.executable, "-c", textwrap.dedent(LINGERING)]
    done = subprocess.run(command, env=environment(), capture_output=True, check=True)
    assert done.stdout == b"ran\n"


def _flood(gunicorn: Gunicorn) -> float:
    with gunicorn.client() as client:
        began = time.monotonic()
        client.send(
            b"POST /limit HTTP/1.1\r\nHost: w\r\nContent-Length: 999999999999\r\n\r\n"
        )
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            while time.monotonic() - began < DEADLINE + 2 * SLACK:
                client.send(LARGE[: 1 << 20])
        return time.monotonic() - began


@pytest.mark.parametrize("path", ["/health", "/limit"])
def test_a_small_unread_body_costs_nothing(gunicorn: Gunicorn, path: str) -> None:
    with gunicorn.client() as client:
        for _ in range(3):
            response = client.call(post(path, bytes(5000)))
            assert response.header("Connection") == "keep-alive"


# What HTTP allows


def test_bodies_in_chunks(gunicorn: Gunicorn) -> None:
    head = CHUNKED
    with gunicorn.client() as client:
        for _ in range(3):
            assert client.call(head + chunked(b"many small chunks")).body == (
                b"many small chunks"
            )


def test_expect_100_continue(gunicorn: Gunicorn) -> None:
    with gunicorn.client() as client:
        for _ in range(2):
            head = post("/echo", b"hello", "Expect: 100-continue\r\n")[:-5]
            assert client.call(head).status == 100
            assert client.call(b"hello").body == b"hello"


def test_http_1_0(gunicorn: Gunicorn) -> None:
    with gunicorn.client() as client:
        kept = b"GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
        assert client.call(kept).header("Connection") == "keep-alive"
        assert client.call(kept).header("Connection") == "keep-alive"
        closed = client.call(b"GET /health HTTP/1.0\r\n\r\n")
        assert closed.header("Connection") == "close"
        assert client.read_to_end() == b""


def test_get_with_a_body_and_pipelining(gunicorn: Gunicorn) -> None:
    requests = [
        post("/echo", b"one"),
        post("/echo", b"two").replace(b"POST", b"GET"),
        post("/health", b"not read"),
        CHUNKED + chunked(b"3"),
        post("/echo", b"four"),
    ]
    with gunicorn.client() as client:
        client.send(b"".join(requests))
        bodies = [client.read_response().body for _ in requests]
        assert bodies == [b"one", b"two", b"", b"3", b"four"]
        assert not client.readable(0)


def test_a_client_may_close_its_sending_half(gunicorn: Gunicorn) -> None:
    with gunicorn.client() as client:
        client.send(get("/sleep/0.3"))
        client.finish_sending()
        assert client.read_response().status == 200
