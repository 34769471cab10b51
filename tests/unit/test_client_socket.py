"""A client's connection leaves time to others, and counts what arrives in threads."""

import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import gevent  # type: ignore[import-untyped]
import pytest
from gevent.pool import Pool  # type: ignore[import-untyped]
from gevent.socket import wait_read  # type: ignore[import-untyped]

from gym_http_server.web.gunicorn_worker import client_socket
from gym_http_server.web.gunicorn_worker.client_socket import (
    SLOWEST_CLIENT,
    ClientSocket,
    ConnectionLimits,
    Wait,
)
from gym_http_server.web.gunicorn_worker.worker import Worker

LARGE = bytes(256 * 1024)
LIMITS = ConnectionLimits(request_deadline_s=5.0, keepalive_s=5.0, send_timeout_s=5.0)


@pytest.fixture
def pair() -> Iterator[tuple[ClientSocket, socket.socket]]:
    """A web worker's end of a connection, and the client's."""
    worker_end, client_end = socket.socketpair()
    worker_end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16 * len(LARGE))
    kind = (socket.AF_UNIX, socket.SOCK_STREAM)
    client = ClientSocket(LIMITS, *kind, fileno=worker_end.detach())
    with client, client_end:
        yield client, client_end
    gevent.get_hub().destroy(destroy_loop=True)


def test_other_connections_are_served_between_parts_of_a_large_answer(
    pair: tuple[ClientSocket, socket.socket],
) -> None:
    """Also if the client's buffers accept all of it, so that nothing ever waits."""
    client, _client_end = pair
    done: list[str] = []
    theirs, ours = socket.socketpair()

    def send() -> None:
        for part in range(4):
            client.sendall(LARGE)
            done.append(f"part {part}")

    def answer() -> None:
        wait_read(ours.fileno())
        done.append("another request")

    with theirs, ours:
        waiting = gevent.spawn(answer)
        gevent.sleep(0)
        theirs.send(b"x")
        gevent.joinall([gevent.spawn(send), waiting], timeout=20.0, raise_error=True)
    assert sorted(done) == ["another request", *(f"part {part}" for part in range(4))]
    assert done.index("another request") < 2


def test_what_has_arrived_is_received_without_waiting(
    pair: tuple[ClientSocket, socket.socket],
) -> None:
    client, client_end = pair
    memory = memoryview(bytearray(SLOWEST_CLIENT))
    assert client.recv_into_now(memory) is None
    before = client._timeout_s
    client_end.sendall(bytes(range(200)))
    assert client.recv_into_now(memory[:150]) == 150
    assert client.recv_into_now(memory[150:]) == 50
    assert bytes(memory[:200]) == bytes(range(200))
    # A client has more time, the more it has sent.
    assert client._timeout_s == pytest.approx(before + 200 / SLOWEST_CLIENT)
    client_end.close()
    assert client.recv_into_now(memory) == 0


def test_a_client_that_reads_a_large_answer_slowly_has_time_for_all_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each wait makes room for the next part, which the buffers then accept at once."""
    clock = SimpleNamespace(now=0.0)

    class Waiting(ClientSocket):
        def _wait(self, watcher: object, *given: object) -> None:
            clock.now += seconds
            client_end.recv(len(LARGE), socket.MSG_WAITALL)

    time = SimpleNamespace(monotonic=lambda: clock.now)
    monkeypatch.setattr(client_socket, "time", time)
    for rate, allowed in ((2.0, True), (0.5, False)):
        seconds = len(LARGE) / SLOWEST_CLIENT / rate
        worker_end, client_end = socket.socketpair()
        worker_end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16 * len(LARGE))
        kind = (socket.AF_UNIX, socket.SOCK_STREAM)
        with Waiting(LIMITS, *kind, fileno=worker_end.detach()) as client, client_end:
            client.send(LARGE)
            for _ in range(20):
                client.sendall(LARGE)
            assert (client._send_timeout_s > 0) == allowed
    gevent.get_hub().destroy(destroy_loop=True)


def test_no_wait_ends_if_a_place_became_free() -> None:
    """Also on a server without TLS, which has no relays to end either."""
    waiting = SimpleNamespace(waiting=Wait.FIRST_BYTE, cut_off=pytest.fail)
    waiting.at_relay_end = None
    worker = Worker.__new__(Worker)
    worker._clients, worker._pool = cast(Any, [waiting]), Pool(2)
    worker._servers = []
    worker._evict()
