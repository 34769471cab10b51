"""The worker closes stalled requests, idle connections and clients that do not read."""

import select
import socket
import time

import pytest

from tests.support.gunicorn_server import (
    CHUNKED,
    DEADLINE,
    KEEPALIVE,
    SEND_TIMEOUT,
    SLACK,
    Gunicorn,
    check_problem,
    get,
    post,
    time_to_end,
)

pytestmark = pytest.mark.live

# Requests that do not end


@pytest.mark.parametrize(
    ("half", "path"),
    [
        (b"G", ""),
        (b"POST /echo HTTP/1.1\r\nHost: w\r\nContent-Length: 5\r\nX", ""),
        (b"POST /echo HTTP/1.1\r\nHost: w\r\nContent-Length: 5\r\n\r\n", "/echo"),
        (b"POST /echo HTTP/1.1\r\nHost: w\r\nContent-Length: 5\r\n\r\nhell", "/echo"),
        (post("/echo", b"one") + b"POST /sec", ""),
        (
            CHUNKED + b"5\r\nhello\r\n",
            "/echo",
        ),
    ],
    ids=["byte", "head", "no body", "body", "second", "chunked"],
)
def test_a_request_that_stops_is_cut(
    gunicorn: Gunicorn, half: bytes, path: str
) -> None:
    with gunicorn.client() as client:
        began = time.monotonic()
        client.send(half)
        if b"one" in half:
            assert client.read_response().body == b"one"
        problem = check_problem(client.read_response(), 408, "request-timeout")
        assert problem["instance"] == path
        assert client.read_to_end() == b""
        assert DEADLINE - 0.1 <= time.monotonic() - began < DEADLINE + SLACK


@pytest.mark.parametrize(
    "head",
    [b"GET /", b"POST /echo HTTP/1.1\r\nHost: w\r\nContent-Length: 9999\r\n\r\n"],
    ids=["head", "body"],
)
def test_trickling_does_not_help(gunicorn: Gunicorn, head: bytes) -> None:
    with gunicorn.client() as client:
        began = time.monotonic()
        client.send(head)
        while not client.readable(0.05):
            client.send(b"x")
            assert time.monotonic() - began < DEADLINE + SLACK
        assert time.monotonic() - began >= DEADLINE - 0.1
        check_problem(client.read_response(), 408, "request-timeout")


def test_time_spent_idle_is_not_the_next_requests(gunicorn: Gunicorn) -> None:
    with gunicorn.client() as client:
        for _ in range(2):
            assert client.call(post("/echo", b"x")).body == b"x"
            # Idle for longer than a request may take.
            assert not client.readable(DEADLINE + 0.3)
        began = time.monotonic()
        client.send(b"POST")
        assert client.read_response().status == 408
        assert time.monotonic() - began >= DEADLINE - 0.1


def test_each_request_has_a_deadline_of_its_own(gunicorn: Gunicorn) -> None:
    with gunicorn.client() as client:
        for _ in range(3):
            client.send(b"POST /echo HTTP/1.1\r\nHost: w\r\n")
            assert not client.readable(DEADLINE * 0.6)
            assert client.call(b"Content-Length: 1\r\n\r\nx").body == b"x"


def test_the_handlers_time_does_not_count(gunicorn: Gunicorn) -> None:
    with gunicorn.client() as client:
        for _ in range(2):
            assert client.call(get("/sleep/1.5")).status == 200


def test_time_before_the_body_is_read_does_not_count(gunicorn: Gunicorn) -> None:
    with gunicorn.client() as client:
        client.send(post("/late/1.5", bytes(20))[:-10])
        assert not client.readable(2.0)
        client.send(b"0123456789")
        assert client.read_response().body == b"20"


# Connections without a request


def test_a_connection_that_never_sends_is_closed_silently(gunicorn: Gunicorn) -> None:
    with gunicorn.client() as client:
        assert time_to_end(client, DEADLINE - 0.1, DEADLINE + SLACK) == b""


def test_an_idle_connection_is_closed_silently(gunicorn: Gunicorn) -> None:
    with gunicorn.client() as client:
        assert client.call(get("/health")).header("Connection") == "keep-alive"
        assert time_to_end(client, KEEPALIVE - 0.1, KEEPALIVE + SLACK) == b""


# Answers that clients do not read


def test_a_client_that_reads_nothing_is_cut(gunicorn: Gunicorn) -> None:
    with gunicorn.client() as client:
        client.send(get(f"/big/{64 << 20}"))
        poll = select.poll()
        poll.register(client, select.POLLHUP)
        assert poll.poll(1000 * (SEND_TIMEOUT + SLACK)), "still connected"


def test_a_client_that_reads_slowly_gets_everything(gunicorn: Gunicorn) -> None:
    size = 64 << 20
    with socket.create_connection(("127.0.0.1", gunicorn.port)) as client:
        client.sendall(get(f"/big/{size}", "Connection: close\r\n"))
        got, began = 0, time.monotonic()
        while data := client.recv(1 << 20):
            got += len(data)
            if time.monotonic() - began < 4 * SEND_TIMEOUT:
                select.select([], [], [], len(data) / (4 << 20))
        assert got > size
