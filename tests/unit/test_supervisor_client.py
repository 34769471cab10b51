"""Calls to the supervisor work in a web worker with many connections."""

import contextlib
import fcntl
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import gevent  # type: ignore[import-untyped]
import pytest

from gym_http_server.access.identities import EVERYONE
from gym_http_server.errors import SupervisorUnavailable
from gym_http_server.processes.frame_socket import FrameSocket
from gym_http_server.rundir.directory import RunDir
from gym_http_server.rundir.progress import Progress, read_progress
from gym_http_server.web.backends import supervisor_client
from gym_http_server.web.backends.supervisor_client import Abandoned, SupervisorClient
from gym_http_server.web.gunicorn_worker.client_socket import (
    ClientSocket,
    ConnectionLimits,
)
from gym_http_wire.frames import FrameReader, encode
from gym_http_wire.messages import Op, answer

HIGH = 1500


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2 * HIGH:
        pytest.skip("this process may not have so many descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * HIGH), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def client(many_descriptors: None) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A connection with a high descriptor here, and its far end."""
    worker_end, client_end = socket.socketpair()
    high = fcntl.fcntl(worker_end.fileno(), fcntl.F_DUPFD_CLOEXEC, HIGH)
    with worker_end, client_end, socket.socket(fileno=high) as moved:
        worker_end.close()
        yield moved, client_end


@pytest.fixture
def gevent_hub() -> Iterator[None]:
    """gevent's loop, whose descriptors are closed afterwards."""
    yield
    gevent.get_hub().destroy(destroy_loop=True)


def test_a_client_with_a_high_descriptor_is_seen_leaving(
    many_descriptors: None, gevent_hub: None
) -> None:
    worker_end, client_end = socket.socketpair()
    limits = ConnectionLimits(
        request_deadline_s=5.0, keepalive_s=5.0, send_timeout_s=5.0
    )
    high = fcntl.fcntl(worker_end.fileno(), fcntl.F_DUPFD_CLOEXEC, HIGH)
    worker_end.close()
    with client_end, ClientSocket(limits, socket.AF_UNIX, fileno=high) as moved:
        assert not moved.has_left()
        client_end.send(b"P")
        assert not moved.has_left(), "it has begun its next request"
        moved.recv(1)
        client_end.close()
        assert moved.has_left()


@pytest.mark.parametrize("leaves", [False, True])
def test_a_client_with_a_high_descriptor_can_create(
    client: tuple[socket.socket, socket.socket], leaves: bool, tmp_path: Path
) -> None:
    worker_end, client_end = client
    run = RunDir(str(tmp_path))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(run.supervisor_socket)
        listener.listen()
        supervisor = threading.Thread(target=_supervise, args=(listener, not leaves))
        supervisor.start()
        if leaves:
            client_end.close()
            with pytest.raises(Abandoned):
                SupervisorClient(run).create(
                    b"{}", caller=EVERYONE, client=worker_end, gone=lambda: True
                )
        else:
            client_end.send(b"P")
            made = SupervisorClient(run).create(
                b"{}", caller=EVERYONE, client=worker_end, gone=lambda: False
            )
            assert made.body == b"made"
        supervisor.join()


def test_an_answer_is_left_unread_whose_client_has_left(tmp_path: Path) -> None:
    run = RunDir(str(tmp_path))
    worker_end, client_end = socket.socketpair()
    with worker_end, client_end, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(run.supervisor_socket)
        listener.listen()

        def supervise(ends: list[FrameSocket]) -> None:
            end = FrameSocket(listener.accept()[0])
            end.receive()
            client_end.close()
            end.send(answer(200, b"made"))
            ends.append(end)

        ends: list[FrameSocket] = []
        supervisor = threading.Thread(target=supervise, args=(ends,))
        supervisor.start()
        with pytest.raises(Abandoned):
            SupervisorClient(run).create(
                b"{}",
                caller=EVERYONE,
                client=worker_end,
                gone=lambda: supervisor.join() is None,
            )
    with contextlib.closing(ends[0]) as end:
        assert end.receive() is None
        assert end.left_unread


@pytest.mark.parametrize("works", [False, True])
def test_a_busy_supervisor_is_distinguished_from_a_stopped_one(
    works: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor_client, "QUIET_SECONDS", 0.02)
    run = RunDir(str(tmp_path))
    progress = Progress(run.progress)
    ended = threading.Event()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(run.supervisor_socket)
        listener.listen()

        def work() -> None:
            # It reads no status request meanwhile.
            while works and not ended.wait(0.001):
                progress.advance()

        def answer_late() -> None:
            time.sleep(0.3)
            with listener.accept()[0] as connection:
                connection.recv(1024)
                with contextlib.suppress(BrokenPipeError):
                    connection.sendall(encode(answer(200, b"{}")))

        threads = [threading.Thread(target=each) for each in (work, answer_late)]
        for each in threads:
            each.start()
        try:
            if works:
                assert SupervisorClient(run).call(Op.LIST) == {}
            else:
                with pytest.raises(SupervisorUnavailable):
                    SupervisorClient(run).call(Op.LIST)
        finally:
            ended.set()
            for each in threads:
                each.join()


def test_a_busy_supervisor_with_a_full_backlog_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor_client, "TIMEOUT_SECONDS", 0.02)
    run = RunDir(str(tmp_path))
    progress = Progress(run.progress)
    waits = threading.Event()
    with socket.socket(socket.AF_UNIX) as listener, contextlib.ExitStack() as others:
        listener.bind(run.supervisor_socket)
        listener.listen(0)
        other = others.enter_context(socket.socket(socket.AF_UNIX))
        other.connect(run.supervisor_socket)
        with pytest.raises(SupervisorUnavailable):
            SupervisorClient(run).call(Op.LIST)

        def read(path: str) -> int:
            progress.advance()
            waits.set()
            return read_progress(path)

        def accept_late() -> None:
            waits.wait()
            listener.accept()[0].close()
            with listener.accept()[0] as connection:
                connection.recv(1024)
                connection.sendall(encode(answer(200, b"{}")))

        monkeypatch.setattr(supervisor_client, "read_progress", read)
        thread = threading.Thread(target=accept_late)
        thread.start()
        assert SupervisorClient(run).call(Op.LIST) == {}
        thread.join()


def _supervise(listener: socket.socket, answers: bool) -> None:
    connection, _ = listener.accept()
    with connection:
        reader = FrameReader(1024)
        while data := connection.recv(1024):
            if reader.feed(data) and answers:
                connection.sendall(encode(answer(200, b"made")))


def test_commands_start_without_what_only_web_workers_need() -> None:
    program = (
        "import sys, gym_http_server.commands.cli\n"
        "print([name for name in ('flask', 'gevent', 'numpy') if name in sys.modules])"
    )
    output = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert output.stdout == "[]\n"
