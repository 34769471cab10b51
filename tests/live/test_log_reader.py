"""The server continues when the reader of its log stops."""

import contextlib
import os
import re
import signal
from collections.abc import Callable, Iterator

import pytest

from tests.support import api as calls
from tests.support import processes
from tests.support.api import Api
from tests.support.server import Server
from tests.support.wait import wait_until


class Log:
    """A pipe that the server logs to, and that only the test reads."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.reader, False)

    def fill(self) -> None:
        """Fill the pipe, as a server does whose log reader has stopped."""
        # The server shares the open file, so it is opened once more for this.
        flags = os.O_WRONLY | os.O_NONBLOCK
        again = os.open(f"/proc/self/fd/{self.writer}", flags)
        try:
            for size in (4096, 1):
                with contextlib.suppress(BlockingIOError):
                    while os.write(again, b"." * size):
                        pass
        finally:
            os.close(again)

    def read(self) -> str:
        """Read all available bytes."""
        data = b""
        try:
            while part := os.read(self.reader, 1 << 16):
                data += part
        except BlockingIOError:
            pass
        return data.decode()


@pytest.fixture
def log() -> Iterator[Log]:
    """The log of the test's server."""
    opened = Log()
    yield opened
    for descriptor in (opened.reader, opened.writer):
        os.close(descriptor)


@pytest.mark.slow
def test_without_a_reader_instances_come_and_go_and_the_server_ends(
    log: Log, make_server: Callable[..., Server]
) -> None:
    flags = ("--external-tcp", "127.0.0.1:0", "--workers", "2")
    server = make_server(*flags, stderr=log.writer)
    api = Api(server)
    log.read()
    log.fill()
    for _ in range(3):
        calls.no_content(api.create().close())
    assert set(log.read()) == {"."}
    calls.no_content(api.create().close())
    wait_until(
        lambda: re.search(r"(?m)^\d+ lines of this log were dropped", log.read()),
        message="the line that says how many lines were dropped",
    )
    log.fill()
    _, workers = processes.gunicorn(server.pid)
    for worker in workers:
        # Gunicorn logs the end of each, and must go on to start others.
        worker.kill()

    def replaced() -> bool:
        _, now = processes.gunicorn(server.pid)
        return len(now) == len(workers) and not now & workers

    wait_until(replaced, 10.0, "new web workers")
    calls.no_content(api.create().close())
    assert server.stop(signal.SIGTERM) == 0
