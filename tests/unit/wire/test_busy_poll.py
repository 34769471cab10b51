"""Busy polling continues while it finds messages, and disturbs no other process."""

import os
import socket
from collections.abc import Iterator

import pytest

from gym_http_wire.busy_poll import BusyPoll, may_busy_poll

LIMIT = 50_000
SECOND = 1_000_000_000


class Cores:
    """Cores that are idle or not, with the number of checks."""

    def __init__(self) -> None:
        self.idle = True
        self.looks = 0

    def __call__(self) -> bool:
        self.looks += 1
        return self.idle


@pytest.fixture
def cores() -> Cores:
    return Cores()


@pytest.fixture
def sock() -> Iterator[socket.socket]:
    """Return one end of a connection with unread bytes."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as near,
    ):
        distant, _ = server.accept()
        with distant:
            distant.sendall(b"x")
            assert near.recv(1) == b"x"
            yield near


def test_a_limit_of_0_is_never(cores: Cores) -> None:
    ours = BusyPoll(0, cores)
    assert ours.until(SECOND) == 0
    assert ours.rest > 0
    assert cores.looks == 0


def test_it_goes_on_while_it_finds_something(cores: Cores) -> None:
    ours = BusyPoll(LIMIT, cores)
    for now in range(100):
        assert ours.until(now) == now + LIMIT
        ours.found()
    assert ours.rest == 0


def test_rests_after_looking_in_vain_grow_and_end(cores: Cores) -> None:
    ours = BusyPoll(LIMIT, cores)
    rests = []
    for _ in range(10):
        ours.missed()
        assert ours.rest == 0
        ours.missed()
        rests.append(ours.rest)
        ours.rest = 0
    assert rests == [64, 128, 256, 512, 1024, 2048, 4096, 8192, 8192, 8192]
    ours.found()
    ours.missed()
    ours.missed()
    assert ours.rest == 64


def test_once_in_vain_is_forgiven(cores: Cores) -> None:
    ours = BusyPoll(LIMIT, cores)
    for _ in range(10):
        ours.missed()
        ours.found()
    assert ours.rest == 0


def test_neighbours_are_looked_for_20_times_a_second(cores: Cores) -> None:
    ours = BusyPoll(LIMIT, cores)
    for now in range(0, SECOND, SECOND // 1000):
        assert ours.until(now)
    assert cores.looks == 20
    cores.idle = False
    assert ours.until(SECOND - 1)
    assert ours.until(SECOND) == 0
    assert ours.rest == 64


def test_brief_neighbours_stop_it_briefly(cores: Cores) -> None:
    ours = BusyPoll(LIMIT, cores)
    cores.idle = False
    assert not ours.until(SECOND)
    cores.idle = True
    assert not ours.until(SECOND + 4_999_999)
    assert cores.looks == 1
    assert ours.until(SECOND + 5_000_000)
    assert ours.until(SECOND + 54_999_999)
    assert cores.looks == 2


def test_one_core_alone_is_never_idle(
    monkeypatch: pytest.MonkeyPatch, sock: socket.socket
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    assert not may_busy_poll([sock])


def test_a_refusal_on_one_core_opens_no_file(
    monkeypatch: pytest.MonkeyPatch, sock: socket.socket
) -> None:
    """It is checked again every 64 steps."""

    def opened(*_: object) -> int:
        raise AssertionError("this opens /sys/devices/system/cpu/online")

    core = sock.getsockopt(socket.SOL_SOCKET, socket.SO_INCOMING_CPU)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {core})
    monkeypatch.setattr(os, "cpu_count", opened)
    assert not may_busy_poll([sock])


def test_two_on_one_core_do_not_spin(
    monkeypatch: pytest.MonkeyPatch, sock: socket.socket
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 100_000)
    distant = sock.getsockopt(socket.SOL_SOCKET, socket.SO_INCOMING_CPU)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {distant})
    assert not may_busy_poll([sock])
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {distant + 1})
    assert may_busy_poll([sock])
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {distant, distant + 1})
    assert may_busy_poll([sock])


@pytest.mark.parametrize("core", [0, 1])
def test_a_peer_whose_core_is_unknown_may_be_on_this_one(
    monkeypatch: pytest.MonkeyPatch, core: int
) -> None:
    """That is so behind a Unix socket."""
    monkeypatch.setattr(os, "cpu_count", lambda: 100_000)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {core})
    near, far = socket.socketpair(socket.AF_UNIX)
    with near, far:
        far.send(b"answer")
        assert not may_busy_poll([near])


def test_busy_polling_needs_a_core_for_each_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 100_000)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    assert may_busy_poll([])
    monkeypatch.delattr(os, "sched_getaffinity")
    assert not may_busy_poll([])
