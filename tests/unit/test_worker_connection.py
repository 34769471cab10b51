"""How a host sends an answer to a web worker that does not read."""

import socket
import threading
from collections.abc import Iterator

import pytest

from gym_http_server.envhost import host
from gym_http_server.envhost.host import WorkerConnection

LARGE = bytes(range(256)) * 16 * 1024


@pytest.fixture
def pair() -> Iterator[tuple[WorkerConnection, socket.socket]]:
    """A host's connection and the socket at its other end."""
    ours, theirs = socket.socketpair()
    connection = WorkerConnection(ours, 1024)
    with ours, theirs:
        yield connection, theirs


def test_the_host_is_marked_alive_until_the_web_worker_reads(
    pair: tuple[WorkerConnection, socket.socket],
) -> None:
    connection, theirs = pair
    marked = threading.Semaphore(0)
    received = bytearray()

    def read_late() -> None:
        for _ in range(3):
            assert marked.acquire(timeout=5.0)
        while len(received) < len(LARGE) and (data := theirs.recv(1 << 20)):
            received.extend(data)

    reader = threading.Thread(target=read_late)
    reader.start()
    connection.send_answer(LARGE, marked.release)
    reader.join(5.0)
    assert received == LARGE


def test_connections_of_a_web_worker_that_never_reads_are_closed(
    pair: tuple[WorkerConnection, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "SEND_SECONDS", 1)
    with pytest.raises(OSError, match="does not read"):
        pair[0].send_answer(LARGE, lambda: None)


def test_small_answers_are_sent_without_a_mark(
    pair: tuple[WorkerConnection, socket.socket],
) -> None:
    connection, theirs = pair
    connection.send_answer(b"small", lambda: pytest.fail("marked"))
    assert theirs.recv(100) == b"small"
