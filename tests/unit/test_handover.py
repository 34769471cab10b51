"""A web worker relays a stream both ways, and holds little for a slow reader."""

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import gevent  # type: ignore[import-untyped]
import pytest

from gym_http_server.web.backends import handover
from gym_http_server.web.backends.handover import relay_both_ways

WAIT_S = 10.0
EARLY = b"what the process sent before"
#: More than all buffers on the way.
LARGE = os.urandom(4 * 1024 * 1024)


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The client's end of a relay, and that of the process; small buffers between."""
    client, worker = socket.socketpair()
    process, other = socket.socketpair()
    for each in (client, worker, process, other):
        each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16 * 1024)
    client.settimeout(WAIT_S)
    process.settimeout(WAIT_S)

    def relay() -> None:
        relay_both_ways(worker, SimpleNamespace(socket=other, early=EARLY))
        gevent.get_hub().destroy(destroy_loop=True)

    thread = threading.Thread(target=relay)
    thread.start()
    with client, worker, process, other:
        assert receive(client, len(EARLY)) == EARLY
        yield client, process
        client.shutdown(socket.SHUT_RDWR)
        thread.join(WAIT_S)
        assert not thread.is_alive()
        assert process.recv(1) == b""
        assert other.fileno() == -1


def receive(end: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size and (piece := end.recv(size - len(data))):
        data += piece
    return bytes(data)


@pytest.mark.parametrize("reader", ["client", "process"])
def test_a_slow_reader_gets_all_and_holds_its_sender(
    ends: tuple[socket.socket, socket.socket], reader: str
) -> None:
    slow, sender = ends if reader == "client" else reversed(ends)
    sender.settimeout(0.5)
    sent = 0
    with contextlib.suppress(TimeoutError):
        while sent < len(LARGE):
            sent += sender.send(LARGE[sent : sent + 64 * 1024])
    assert 0 < sent < handover.RECEIVE_BYTES + 512 * 1024
    # The other direction is open meanwhile.
    slow.sendall(b"ping")
    assert receive(sender, 4) == b"ping"
    sender.settimeout(WAIT_S)
    rest = threading.Thread(target=sender.sendall, args=(LARGE[sent:],))
    rest.start()
    assert receive(slow, len(LARGE)) == LARGE
    rest.join(WAIT_S)
    # It is again as it was.
    sender.sendall(b"pong")
    assert receive(slow, 4) == b"pong"


def test_a_relay_ends_with_its_process(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    client, process = ends
    process.sendall(b"last words")
    process.shutdown(socket.SHUT_WR)
    assert receive(client, 10) == b"last words"
    assert client.recv(1) == b""
