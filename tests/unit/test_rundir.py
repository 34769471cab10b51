"""Run directories are unique, locked and short; those without a lock are removed."""

import mmap
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gym_http_server.errors import StartError
from gym_http_server.rundir.directory import YOUNG_SECONDS, RunDir
from gym_http_server.rundir.sockets import listen
from gym_http_server.rundir.status import (
    StatusPage,
    StatusReader,
)
from tests.support.faults.small_disk import small_disk

WRITE = """
import sys
from gym_http_server.rundir.status import StatusPage

page, number = StatusPage(int(sys.argv[1])), int(sys.argv[2])
print("writing", flush=True)
while True:
    page.begin(number)
    page.finish(number, number, number)
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder whose path is short: a socket's path in it holds 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="ghst-", dir="/tmp") as made:
        yield Path(made)


def age(run: RunDir) -> None:
    """Make a directory look as if it were old."""
    then = os.stat(run.path).st_mtime - 2 * YOUNG_SECONDS
    os.utime(f"{run.path}/lock", (then, then))


def test_two_servers_have_two_directories_and_remove_both(folder: Path) -> None:
    parent = str(folder / "r")
    with RunDir.make(parent) as one, RunDir.make(parent) as other:
        assert one.path != other.path
        assert os.stat(one.path).st_mode & 0o777 == 0o700
    assert os.listdir(parent) == []


def test_directories_of_killed_servers_are_swept(folder: Path) -> None:
    making = RunDir.make(str(folder))
    left = making.__enter__()
    age(left)
    with RunDir.make(str(folder)):
        assert os.path.exists(left.path), "it is locked"
    copy = folder / "gym-http-abcdefgh"
    copy.mkdir()
    (copy / "lock").touch()
    age(RunDir(str(copy)))
    stranger = folder / "gym-http-stranger"
    stranger.mkdir()
    with RunDir.make(str(folder)):
        assert not copy.exists()
        assert stranger.exists(), "it has no lock, so it is not ours"
    making.__exit__(None, None, None)


def test_one_that_is_too_deep_is_refused(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    with (
        pytest.raises(StartError, match=r"too deep.*107.*--run-dir"),
        RunDir.make(str(deep)),
    ):
        pass
    assert list(deep.iterdir()) == []


def test_a_status_page_is_read_while_it_is_written() -> None:
    reader = StatusReader()
    writer = StatusPage(reader.file)
    assert reader.read()[:10] == (0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    writer.begin(5)
    writer.set_streams(3, 4)
    writer.set_orphaned(6)
    assert reader.read()[:10] == (5, 0, 0, 0, 3, 0, 4, 6, 0, 0)
    writer.end(9, used=False)
    assert reader.read()[:10] == (0, 0, 0, 0, 3, 9, 4, 6, 0, 0)
    writer.end(9, used=True)
    assert reader.read()[:10] == (0, 9, 0, 0, 3, 9, 4, 6, 0, 0)
    writer.begin(10)
    writer.finish(11, 7, 2)
    writer.mark_alive(12)
    assert reader.read()[:10] == (0, 11, 7, 2, 3, 12, 4, 6, 0, 0)
    writer.set_clock(20.0)
    writer.begin_tick(13)
    assert reader.read()[:10] == (0, 11, 7, 2, 3, 12, 4, 6, 13, 1)
    writer.finish_tick(14, 8, 3)
    writer.mark_used(15)
    assert reader.read()[:10] == (0, 15, 8, 3, 3, 14, 4, 6, 0, 1)
    # 21 - 20, and 4,000,000 - 0 for two steps: bounds are 0.1, 0.3, 1 and 3 ms.
    writer.begin(20)
    writer.finish_step(21, 9, 3)
    writer.add_steps(4_000_000, 2)
    writer.set_last_episode(-1.5, 30)
    status = reader.read()
    assert (status.timed_steps, status.step_ns) == (3, 4_000_001)
    assert status.step_counts == (1, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0)
    assert (status.last_return, status.last_length) == (-1.5, 30)
    writer.close()
    reader.close()


def test_no_number_of_a_status_page_is_read_half_written() -> None:
    reader = StatusReader()
    writer = StatusPage(reader.file)
    # All eight bytes of it count: a part of them is another number.
    start = 0x0123_4567_89AB_CDEF
    writer.end(start, used=True)
    with subprocess.Popen(
        [sys.executable, "-c", WRITE, str(reader.file), str(start)],
        stdout=subprocess.PIPE,
        pass_fds=[reader.file],
    ) as writing:
        assert writing.stdout is not None
        assert writing.stdout.readline() == b"writing\n"
        read = {reader.read()[:2] for _ in range(200_000)}
        writing.kill()
    assert read <= {(0, start), (start, start)}
    reader.close()
    writer.close()


def test_a_status_page_cannot_be_cut_short() -> None:
    """The kernel kills a process that writes to a mapped page that was cut off."""
    reader = StatusReader()
    for size in (0, 2 * mmap.PAGESIZE):
        with pytest.raises(PermissionError):
            os.truncate(reader.file, size)
    reader.close()


@pytest.mark.parametrize(
    ("first", "step", "count"),
    [(0, 1, 5), (99_999, 1, 4), (10**6, 10**6, 237), (3 * 10**8, 10**7, 3), (5, 7, 1)],
)
def test_ticks_left_out_are_counted_as_each_alone(
    first: int, step: int, count: int
) -> None:
    readers = [StatusReader() for _ in range(2)]
    pages = [StatusPage(each.file) for each in readers]
    for index in range(count):
        pages[0].add_tick(first + index * step)
    pages[1].add_left_out(first, step, count)
    found = []
    for page, reader in zip(pages, readers, strict=True):
        found.append(reader.read())
        reader.close()
        page.close()
    one_by_one, series = found
    assert series.left_out_counts == one_by_one.lateness_counts
    assert series.left_out_ns == one_by_one.lateness_ns
    assert series.lateness_all_counts == one_by_one.lateness_all_counts
    assert (series.ticks, series.lateness_ns, series.stall_ns) == (0, 0, 0)


def test_a_status_page_has_its_memory_when_it_is_made() -> None:
    reader = StatusReader()
    assert os.fstat(reader.file).st_blocks * 512 >= mmap.PAGESIZE
    reader.close()


def test_draining_begins_where_no_file_can_be_made() -> None:
    with small_disk() as disk, RunDir.make(str(disk.path)) as run:
        disk.fill_bytes()
        disk.fill_inodes()
        run.begin_draining()
        assert os.path.exists(run.draining)


def test_errors_name_what_the_disk_lacks() -> None:
    with small_disk() as disk, RunDir.make(str(disk.path)) as run:
        assert run.shortage() == ""
        disk.fill_bytes()
        assert "0 bytes" in run.shortage()
        disk.free()
        disk.fill_inodes()
        assert "room for 0 more files" in run.shortage()
        disk.free()
        assert run.shortage() == ""


def test_a_socket_has_its_mode_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        for mode in (0o600, 0o660):
            path = tmp_path / f"{mode:o}.sock"
            with listen(str(path), 1, mode):
                assert path.stat().st_mode & 0o777 == mode
            assert os.umask(0) == 0
    finally:
        os.umask(before)
