"""Output of hosts goes to a log with limits of rate and size."""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gym_http_server.processes.poller import Poller
from gym_http_server.supervisor import output as module
from gym_http_server.supervisor.output import MAX_LOG_BYTES, Output, Outputs
from tests.support.wait import wait_until


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Where the log is."""
    return tmp_path / "log"


@pytest.fixture
def output(log: Path) -> Iterator[Output]:
    """An output whose host is the test."""
    made = Output(str(log))
    yield made
    made.close()


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable the limit of the log's rate."""
    monkeypatch.setattr(module, "RATE", 1 << 40)
    monkeypatch.setattr(module, "BURST", 1 << 40)


def write_output(output: Output, data: bytes) -> None:
    """Print as a host, and have it read, both a little at a time."""
    for start in range(0, len(data), 32768):
        os.write(output.writer, data[start : start + 32768])
        assert output.read()


def numbered(first: int, last: int) -> bytes:
    """Lines of ten bytes with their own offsets in them."""
    return b"".join(b"%09d\n" % (10 * number) for number in range(first, last))


def test_a_little_goes_to_the_log_as_it_is(output: Output, log: Path) -> None:
    write_output(output, b"hello\n")
    assert log.read_bytes() == b"hello\n"
    write_output(output, b"half a \xff character\n")
    assert output.finish() == "hello\nhalf a \ufffd character\n"
    assert log.stat().st_mode & 0o777 == 0o600


def test_of_much_the_last_is_kept(output: Output, log: Path) -> None:
    text = numbered(0, 1_000_000)
    write_output(output, text)
    assert log.stat().st_size < 2_000_000
    write_output(output, b"the last word\n")
    tail = output.finish()
    assert tail.endswith("009999980\n009999990\nthe last word\n")
    written = log.read_bytes()
    (dropped,) = re.findall(rb"\n\[(\d+) bytes were dropped here\]\n", written)
    kept, after = re.split(rb"\n\[\d+ bytes were dropped here\]\n", written)
    assert text.startswith(kept)
    assert len(kept) + int(dropped) + len(after) == len(text) + len("the last word\n")


def test_buffered_output_reaches_the_log_in_time(output: Output, log: Path) -> None:
    write_output(output, numbered(0, 100_000))

    def complete() -> bool:
        output.tick()
        return log.read_bytes().endswith(b"000999990\n")

    wait_until(complete)


@pytest.mark.usefixtures("unhurried")
def test_a_cut_log_notes_the_offset_at_which_it_continues(
    output: Output, log: Path
) -> None:
    for first in range(0, 400_000, 10_000):
        write_output(output, numbered(first, first + 10_000))
        assert log.stat().st_size <= MAX_LOG_BYTES
        notice, _, rest = log.read_bytes().partition(b"\n")
        if cut := re.fullmatch(rb"\[(\d+) bytes of this log were cut here\]", notice):
            # Each line contains its offset, which finds the first whole one.
            offset = int(cut[1])
            line = rest[-offset % 10 :][:10]
            assert int(line) == offset + -offset % 10
    assert cut
    assert output.finish().endswith("003999990\n")


@pytest.mark.usefixtures("unhurried")
def test_a_log_is_read_at_offsets_that_cuts_do_not_move(output: Output) -> None:
    text = numbered(0, 400_000)
    for start in range(0, len(text), 100_000):
        write_output(output, text[start : start + 100_000])
        end = start + 100_000
        first = output.read_log(0)
        assert first.data == text[first.start : first.next]
        assert output.read_log(end) == (end, b"")
        assert output.read_log(end + 5) == (end, b"")
        assert output.read_log(end - 7) == (end - 7, text[end - 7 : end])
    assert first.start > 2_000_000
    # Part by part up to the end.
    data, part = first.data, first
    while (part := output.read_log(part.next)).data:
        data += part.data
    assert data == text[first.start :]


@pytest.mark.usefixtures("unhurried")
def test_a_log_that_cannot_be_written_again_when_it_is_cut_is_cut_whole(
    output: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = numbered(0, 100_000)
    write_output(output, text)
    write = os.write

    def write_little(descriptor: int, data: bytes) -> int:
        return write(descriptor, data[:1000] if descriptor == output._log else data)

    monkeypatch.setattr(os, "write", write_little)
    output._cut()
    assert output.read_log(0) == (len(text), b"")
    monkeypatch.undo()
    write_output(output, b"more\n")
    assert output.read_log(0) == (len(text), b"more\n")


def test_kept_logs_are_closed_when_there_are_too_many(tmp_path: Path) -> None:
    kept = module.KeptLogs()
    made = []
    for number in range(module.MAX_KEPT_LOGS + 2):
        output = Output(str(tmp_path / str(number)))
        os.write(output.writer, b"%d" % number)
        assert output.finish() == str(number)
        output.close_pipe()
        (tmp_path / str(number)).unlink()
        kept.add(str(number), output)
        made.append(output)
    assert kept.get("1") is None
    assert made[1]._log == -1
    oldest = kept.get("2")
    assert oldest is not None
    assert oldest.read_log(0) == (0, b"2")
    kept.clear()
    assert {each._log for each in made} == {-1}


@pytest.mark.usefixtures("unhurried")
def test_on_a_full_disk_all_but_the_last_output_is_dropped(
    output: Output, log: Path
) -> None:
    write_output(output, b"before\n")
    full = os.open("/dev/full", os.O_WRONLY)
    own = os.dup(output._log)
    os.dup2(full, output._log)
    write_output(output, numbered(0, 100_000) + b"meanwhile\n")
    output.tick()
    assert output.finish().endswith("000999990\nmeanwhile\n")
    os.dup2(own, output._log)
    output.tick()
    write_output(output, b"after\n")
    for descriptor in (own, full):
        os.close(descriptor)
    assert log.read_bytes().startswith(b"before\n\n[")
    assert log.read_bytes().endswith(b"000999990\nmeanwhile\nafter\n")


def test_a_pipe_of_which_little_comes_rests(output: Output) -> None:
    poller = Poller()
    outputs = Outputs(poller)
    outputs.add(output)
    rests = []
    for _ in range(8):
        os.write(output.writer, b"a line\n")
        poller.serve(1.0)
        rests.append(output.rest)
        wait_until(lambda: outputs.resume() == float("inf"))
    assert rests == sorted(rests)
    assert rests[-1] == module.LONGEST_REST
    for _ in range(8):
        os.write(output.writer, bytes(output._capacity * 3 // 4))
        poller.serve(1.0)
        wait_until(lambda: outputs.resume() == float("inf"))
    assert output.rest < module.SHORTEST_REST


def test_the_end_of_a_host_is_the_end_of_its_output(output: Output) -> None:
    poller = Poller()
    outputs = Outputs(poller)
    outputs.add(output)
    os.write(output.writer, b"the last\n")
    output.started()
    for _ in range(3):
        poller.serve(0.0)
        wait_until(lambda: outputs.resume() == float("inf"))
    outputs.remove(output)
    assert output.finish() == "the last\n"


def spawn(act: Callable[[], None]) -> int:
    """Fork; the child does something and ends."""
    pid = os.fork()
    if pid == 0:
        try:
            act()
        finally:
            os._exit(0)
    return pid


def test_a_host_that_prints_all_the_time_does_not_hold_up_an_end(
    output: Output,
) -> None:
    def print_for_ever() -> None:
        while True:
            os.write(output.writer, b"x" * 65536)

    pid = spawn(print_for_ever)
    try:
        wait_until(lambda: output.read() and output._dropped)
        assert output.finish()[-1] == "x"
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
