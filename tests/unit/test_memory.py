"""The memory limit counts shared pages once, and everything else in full."""

import mmap
import os
import signal
import time
from collections.abc import Callable, Iterator

import pytest

from gym_http_server.supervisor import memory
from gym_http_server.supervisor.memory import MemoryLimit, proportional_bytes
from tests.support.wait import wait_until

MIB = 1 << 20
LIMIT = 160 * MIB


@pytest.fixture
def fork() -> Iterator[Callable[[Callable[[], object]], int]]:
    """Return a function that forks a host, which does something and then waits."""
    children: list[int] = []

    def start(act: Callable[[], object]) -> int:
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.setsid()
                kept = act()
                os.write(writer, b"x")
                while kept is not None:
                    signal.pause()
            finally:
                os._exit(1)
        children.append(pid)
        os.close(writer)
        assert os.read(reader, 1) == b"x"
        os.close(reader)
        return pid

    yield start
    for pid in children:
        os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def filled(size: int, flags: int = mmap.MAP_PRIVATE) -> mmap.mmap:
    """Allocate memory and write to all of it."""
    taken = mmap.mmap(-1, size, flags | mmap.MAP_ANONYMOUS)
    for start in range(0, size, mmap.PAGESIZE):
        taken[start] = 1
    return taken


def with_children(taken: object, each: Callable[[], object]) -> object:
    """Fork four times; children share this memory and allocate more."""
    reader, writer = os.pipe()
    for _ in range(4):
        if os.fork() == 0:
            kept = each()
            os.write(writer, b"x")
            while True:
                signal.pause()
            del kept
    for _ in range(4):
        os.read(reader, 1)
    return taken


def is_over(pid: int, most: int = LIMIT) -> bool:
    """Look at a process until it is found to be over the limit or was measured."""
    limit = MemoryLimit(most)

    def decided() -> str:
        if limit.tick([pid], [pid]) == [pid]:
            return "over"
        return "under" if pid in limit._measured else ""

    return wait_until(decided, 5.0) == "over"


def test_pages_that_processes_share_count_once(
    fork: Callable[[Callable[[], object]], int],
) -> None:
    pid = fork(lambda: with_children(filled(80 * MIB), lambda: None))
    # A part of this process's own memory counts as theirs.
    most = LIMIT + memory._statm(os.getpid())[0]
    assert memory._usage([pid, *memory.descendants(pid)]).resident > most + 200 * MIB
    assert not is_over(pid, most)


def test_memory_of_many_processes_adds_up(
    fork: Callable[[Callable[[], object]], int],
) -> None:
    pid = fork(lambda: with_children(filled(20 * MIB), lambda: filled(50 * MIB)))
    assert is_over(pid)


def test_shared_memory_counts(fork: Callable[[Callable[[], object]], int]) -> None:
    shared = mmap.MAP_SHARED
    assert is_over(fork(lambda: filled(200 * MIB, shared)))
    assert is_over(fork(lambda: with_children(filled(200 * MIB, shared), lambda: None)))


def test_a_large_leak_is_found_at_the_first_look(
    fork: Callable[[Callable[[], object]], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "SLICE_SECONDS", 0.0)
    size = LIMIT + memory._usage([os.getpid()]).anonymous + 20 * MIB
    pid = fork(lambda: filled(size))
    limit = MemoryLimit(LIMIT)
    assert limit.tick([pid], [pid]) == [pid]


def test_a_host_that_ended_while_it_was_measured_is_not_over(
    fork: Callable[[Callable[[], object]], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = fork(lambda: with_children(b"", lambda: filled(60 * MIB)))
    limit = MemoryLimit(LIMIT)
    monkeypatch.setattr(memory, "SLICE_SECONDS", -1.0)
    assert limit.tick([pid], [pid]) == []
    assert pid in limit._suspects
    monkeypatch.setattr(memory, "SLICE_SECONDS", 5.0)
    # The supervisor knows it no more, while what it has started is still ending.
    assert limit.tick([], []) == []


def test_a_tick_reads_a_slice_only(
    fork: Callable[[Callable[[], object]], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []

    def slow(pid: int) -> int:
        read.append(pid)
        now = time.monotonic() + memory.SLICE_SECONDS
        while time.monotonic() < now:
            pass
        return 1

    monkeypatch.setattr(memory, "proportional_bytes", slow)
    pid = fork(lambda: with_children(filled(80 * MIB), lambda: None))
    limit = MemoryLimit(LIMIT)

    def one_more() -> bool:
        before = len(read)
        assert limit.tick([pid], [pid]) == []
        assert len(read) <= before + 1
        return pid in limit._measured

    wait_until(one_more)
    assert len(read) == 5, "the host and its four children"
    assert set(read) == {pid, *memory.descendants(pid)}


def test_where_the_kernel_shows_no_more_resident_memory_counts() -> None:
    if os.getuid() != 0:
        pytest.skip("only root may become another user")
    reader, writer = os.pipe()
    parent, resident = os.getpid(), memory._statm(os.getpid())[0]
    pid = os.fork()
    if pid == 0:
        try:
            os.setuid(65534)
            os.write(writer, b"%d" % proportional_bytes(parent))
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = int(pipe.read())
    assert answer > 0.9 * resident > proportional_bytes(parent) * 0.5


def test_a_process_that_has_ended_uses_nothing() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    assert proportional_bytes(pid) == 0
