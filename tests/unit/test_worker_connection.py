"""How a host sends an answer to a web worker that does not read."""

import socket
from collections.abc import Iterator

import pytest

from gym_http_server.envhost.host import WorkerConnection

LARGE = bytes(range(256)) * 16 * 1024


@pytest.fixture
def pair() -> Iterator[tuple[WorkerConnection, socket.socket]]:
    """A host's connection and the socket at its other end."""
    ours, theirs = socket.socketpair()
    connection = WorkerConnection(ours, 1024)
    with ours, theirs:
        yield connection, theirs


def test_a_large_answer_is_sent_as_the_web_worker_reads(
    pair: tuple[WorkerConnection, socket.socket],
) -> None:
    connection, theirs = pair
    assert not connection.send_answer(LARGE)
    assert not connection.send_answer(b"next")
    received = bytearray()
    while connection.unsent:
        received += theirs.recv(1 << 20)
        connection.flush()
    theirs.setblocking(False)
    while len(received) < len(LARGE) + 4:
        received += theirs.recv(1 << 20)
    assert received == LARGE + b"next"


def test_small_answers_are_sent_at_once(
    pair: tuple[WorkerConnection, socket.socket],
) -> None:
    connection, theirs = pair
    assert connection.send_answer(b"small")
    assert not connection.unsent
    assert theirs.recv(100) == b"small"


def test_an_answer_to_a_web_worker_that_has_ended_is_dropped(
    pair: tuple[WorkerConnection, socket.socket],
) -> None:
    connection, theirs = pair
    assert not connection.send_answer(LARGE)
    theirs.close()
    connection.flush()
    assert not connection.unsent
    with pytest.raises(BrokenPipeError):
        connection.send_answer(b"next")
