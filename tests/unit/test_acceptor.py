"""An acceptor leaves turns to the rest of its loop, and pauses without descriptors."""

import contextlib
import os
import resource
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from gym_http_server.processes.acceptor import MOST_ACCEPTED, Acceptor
from gym_http_server.processes.poller import Poller
from gym_http_server.rundir.sockets import listen


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    """A listener in a short folder."""
    with listen(str(tmp_path / "s"), 512) as made:
        yield made


def connect(listener: socket.socket, stack: contextlib.ExitStack) -> None:
    """Open a connection that stays open."""
    sock = stack.enter_context(socket.socket(socket.AF_UNIX))
    sock.connect(listener.getsockname())


def test_one_turn_accepts_a_bounded_number(listener: socket.socket) -> None:
    poller, taken = Poller(), list[socket.socket]()
    acceptor = Acceptor(listener, poller, taken.append, "tester")
    poller.add(listener, acceptor.accept)
    with contextlib.ExitStack() as stack:
        for _ in range(MOST_ACCEPTED + 3):
            connect(listener, stack)
        counts = []
        for _ in range(3):
            poller.serve(0)
            counts.append(len(taken))
        assert counts == [MOST_ACCEPTED, MOST_ACCEPTED + 3, MOST_ACCEPTED + 3]
    for each in taken:
        each.close()


def test_it_pauses_without_descriptors(
    listener: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    poller, taken = Poller(), list[socket.socket]()
    acceptor = Acceptor(listener, poller, taken.append, "tester")
    poller.add(listener, acceptor.accept)
    with contextlib.ExitStack() as stack:
        connect(listener, stack)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        lowest = os.dup(0)
        os.close(lowest)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
        try:
            poller.serve(0)
            assert acceptor.paused
            # Nothing is reported until it is resumed.
            assert poller.poll(0) == []
            acceptor.resume()
            poller.serve(0)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert acceptor.paused
        assert not taken
        acceptor.resume()
        poller.serve(0)
        assert len(taken) == 1
        assert not acceptor.paused
        taken[0].close()
    assert [each.getMessage() for each in caplog.records] == [
        "the tester cannot accept connections: Too many open files"
    ]
