"""Connections of clients, spread over the web workers."""

import contextlib
import signal
from collections.abc import Callable

import psutil
import pytest

from tests.support import processes
from tests.support.raw import RawConnection
from tests.support.server import Server
from tests.support.wait import wait_until

pytestmark = pytest.mark.live


def connections_of(worker: psutil.Process, port: int) -> int:
    """Return the number of a web worker's connections with clients."""
    return sum(
        each.status == psutil.CONN_ESTABLISHED and each.laddr.port == port
        for each in worker.net_connections()
    )


def test_a_worker_with_few_connections_accepts_the_next_ones(
    make_server: Callable[..., Server],
) -> None:
    server = make_server("--workers", "2", token=None)
    _, workers = processes.gunicorn(server.pid)
    busy, stopped = sorted(workers, key=lambda each: each.pid)
    with contextlib.ExitStack() as stack:

        def connect(count: int) -> None:
            for _ in range(count):
                each = stack.enter_context(RawConnection(server.port))
                each.send(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
                assert each.read_response().status == 200

        def evens_out(other: psutil.Process) -> bool:
            for _ in range(20):
                connect(2)
                counts = [connections_of(each, server.port) for each in (busy, other)]
                if abs(counts[0] - counts[1]) <= 6:
                    return True
            return False

        def serves(worker: psutil.Process) -> bool:
            connect(1)
            return connections_of(worker, server.port) > 0

        wait_until(lambda: serves(busy) and serves(stopped))
        stopped.send_signal(signal.SIGSTOP)
        # The other one leaves each of them for a moment, and then accepts it.
        connect(20)
        stopped.send_signal(signal.SIGCONT)
        assert evens_out(stopped)
        stopped.kill()
        wait_until(lambda: len(processes.gunicorn(server.pid)[1]) == 2, 20.0)
        (new,) = processes.gunicorn(server.pid)[1] - workers
        wait_until(lambda: serves(new))
        assert evens_out(new)
