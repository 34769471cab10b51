"""Connections when the worker stops, has too many, or passes one to the application."""

import contextlib
import resource
import selectors
import signal
import socket
import time
from collections.abc import Callable, Iterator

import pytest

from tests.support import processes
from tests.support.gunicorn_server import (
    SLACK,
    Gunicorn,
    check_problem,
    get,
    post,
)
from tests.support.wait import wait_until

pytestmark = pytest.mark.live

# Stopping


def test_sigterm_closes_idle_connections_at_once(
    start: Callable[..., Gunicorn],
) -> None:
    def time_to_stop() -> float:
        gunicorn = start(keepalive=60)
        with gunicorn.client() as idle:
            assert idle.call(get("/health")).header("Connection") == "keep-alive"
            duration = gunicorn.stop()
            assert idle.read_to_end() == b""
        return duration

    # Some attempts, since the end of an interpreter may itself take that long.
    assert any(time_to_stop() < 1.0 for _ in range(4))


def test_sigterm_lets_answers_finish(start: Callable[..., Gunicorn]) -> None:
    gunicorn = start(keepalive=60)
    with gunicorn.client() as busy, gunicorn.client() as half, gunicorn.client() as new:
        busy.send(get("/sleep/1.2"))
        half.send(post("/echo", b"hello")[:-2])
        began = time.monotonic()
        # Answered after them, so they have been begun.
        gunicorn.health_s()
        gunicorn.process.send_signal(signal.SIGTERM)
        wait_until(lambda: _refused(gunicorn.port), message="a closed listener")
        half.send(b"lo")
        late = half.read_response()
        assert (late.body, late.header("Connection")) == (b"hello", "close")
        answer = busy.read_response()
        assert (answer.status, answer.header("Connection")) == (200, "close")
        assert gunicorn.process.wait(10) == 0
        assert 1.0 < time.monotonic() - began < 1.2 + SLACK
        assert new.read_to_end() == b""


def _refused(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except (ConnectionRefusedError, ConnectionResetError):
        return True
    return False


def test_sigterm_waits_no_longer_than_the_grace(
    start: Callable[..., Gunicorn],
) -> None:
    gunicorn = start(graceful=2)
    with gunicorn.client() as busy:
        busy.send(get("/sleep/60"))
        gunicorn.health_s()
        assert 1.3 < gunicorn.stop() < 2 + SLACK
        assert busy.read_to_end() == b""
    assert "1 requests did not end in time" in gunicorn.log()


def test_the_worker_dies_with_its_arbiter(start: Callable[..., Gunicorn]) -> None:
    gunicorn = start()
    workers = processes.descendants(gunicorn.pid)
    assert len(workers) == 1
    with gunicorn.client() as client:
        # Inside a C call that holds the lock no code of the worker's could run.
        client.send(get("/stuck"))
        wait_until((gunicorn.folder / "stuck").exists)
        gunicorn.process.kill()
        wait_until(lambda: not processes.alive(workers), 2.0, "the worker's end")


# More connections than places


def test_waiting_connections_make_room(start: Callable[..., Gunicorn]) -> None:
    gunicorn = start(connections=10, deadline=30, keepalive=30)
    with contextlib.ExitStack() as stack:
        clients = []
        for index in range(40):
            clients.append(stack.enter_context(gunicorn.client()))
            clients[-1].send(post("/echo", b"hello")[: -2 if index % 2 else 9])
            if index % 8 == 0:
                assert gunicorn.health_s() < SLACK
        wait_until(lambda: sum(client.readable(0) for client in clients) >= 30)
        for client in clients[:30]:
            problem = check_problem(client.read_response(), 408, "request-timeout")
            assert "needed the connection" in problem["message"]
            assert client.read_to_end() == b""


def test_connections_that_were_served_are_the_last_to_go(
    start: Callable[..., Gunicorn],
) -> None:
    gunicorn = start(connections=10, deadline=30, keepalive=30)
    with contextlib.ExitStack() as stack:
        served = stack.enter_context(gunicorn.client())
        assert served.call(get("/health")).status == 200
        # It is not new any more, as those are that come now.
        assert not served.readable(0.15)
        silent = [stack.enter_context(gunicorn.client()) for _ in range(20)]
        assert gunicorn.health_s() < SLACK
        assert served.call(get("/health")).status == 200
        wait_until(lambda: sum(client.readable(0) for client in silent) >= 11)


def test_requests_being_served_are_never_cut(start: Callable[..., Gunicorn]) -> None:
    gunicorn = start(connections=10, deadline=30, keepalive=30)
    with contextlib.ExitStack() as stack:
        busy = [stack.enter_context(gunicorn.client()) for _ in range(10)]
        for client in busy:
            client.send(get("/sleep/1"))
        # Every place is taken by a request; later, by an idle connection.
        assert gunicorn.health_s() < 1 + SLACK
        assert [client.read_response().status for client in busy] == [200] * 10


def test_room_is_made_among_the_waiting(start: Callable[..., Gunicorn]) -> None:
    gunicorn = start(connections=10, deadline=30)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(gunicorn.client()) for _ in range(10)]
        for client in clients[:9]:
            client.send(get("/sleep/5"))
        clients[9].send(b"POST")
        assert gunicorn.health_s() < SLACK
        assert clients[9].read_response().status == 408
        assert [client.read_response().status for client in clients[:9]] == [200] * 9


def test_new_connections_do_not_make_room(start: Callable[..., Gunicorn]) -> None:
    gunicorn = start(connections=2, deadline=30)
    with gunicorn.client() as busy:
        busy.send(get("/sleep/3"))
        closed = 0
        for _ in range(20):
            with gunicorn.client() as client, gunicorn.client():
                # The second one connects before the first one's request.
                closed += client.readable(0.03)
        assert closed < 10
        assert busy.read_response().status == 200


def test_closed_connections_are_forgotten(gunicorn: Gunicorn) -> None:
    def count() -> int:
        return int(gunicorn.call(get("/clients")).body)

    for _ in range(50):
        gunicorn.health_s()
    wait_until(lambda: count() < 10)


def test_few_files_are_places_for_few(start: Callable[..., Gunicorn]) -> None:
    with _files(128):
        gunicorn = start(connections=1000, deadline=30)
    with contextlib.ExitStack() as stack:
        for _ in range(200):
            stack.enter_context(gunicorn.client()).send(b"POST")
        assert gunicorn.health_s() < SLACK
    assert "Too many open files" not in gunicorn.log()


def test_2100_half_sent_requests(start: Callable[..., Gunicorn]) -> None:
    deadline, count = 4.0, 2100
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with _files(hard):
        gunicorn = start(connections=1000, workers=2, deadline=deadline, keepalive=75)
        half = post("/echo", b"hello")[:-2]
        with contextlib.ExitStack() as stack:
            waiting = stack.enter_context(selectors.DefaultSelector())
            slowest = 0.0
            for index in range(count):
                client = stack.enter_context(gunicorn.client())
                client.send(half)
                waiting.register(client, selectors.EVENT_READ, time.monotonic())
                if index % 100 == 0:
                    slowest = max(slowest, gunicorn.health_s())
            while waiting.get_map():
                slowest = max(slowest, gunicorn.health_s())
                for key, _ in waiting.select(0.05):
                    waiting.unregister(key.fileobj)
                    assert time.monotonic() - key.data < deadline + SLACK
                    client = key.fileobj  # type: ignore[assignment]
                    assert client.read_response().status == 408
                    assert client.read_to_end() == b""
            assert slowest < 0.75 * deadline


@contextlib.contextmanager
def _files(count: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# Connections that an application takes over


@pytest.mark.parametrize("descriptor", ["replaced", "left"])
def test_a_connection_that_was_taken_is_forgotten(
    start: Callable[..., Gunicorn], descriptor: str
) -> None:
    gunicorn = start(deadline=0.5, keepalive=1, send_timeout=0.5)
    with gunicorn.client() as client:
        client.send(get(f"/take/{descriptor}"))
        end = time.monotonic() + 3
        while time.monotonic() < end:
            assert gunicorn.call(post("/give", b"HTTP/1.0 299 Down\r\n\r\n")).status
            client.send(b"up")
            assert wait_until(lambda: gunicorn.call(get("/get")).body) == b"up"
            assert not client.readable(0.2) or client._socket.recv(100)
        assert gunicorn.stop() < SLACK
