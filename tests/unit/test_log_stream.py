"""The log never waits for its reader, and logs the number of dropped lines."""

import errno
import logging
import os
import pty
import re
import select
import socket
from collections.abc import Callable, Iterator

import pytest

from gym_http_server.processes.log_stream import LogStream

Ends = tuple[int, int]


def pipe() -> Ends:
    """Open a pipe."""
    return os.pipe()


def terminal() -> Ends:
    """Open a terminal; it keeps lines as they are."""
    import termios

    reader, writer = pty.openpty()
    attributes = termios.tcgetattr(writer)
    attributes[1] &= ~termios.OPOST
    termios.tcsetattr(writer, termios.TCSANOW, attributes)
    return reader, writer


def unix_socket() -> Ends:
    """Open a pair of sockets, as the journal of systemd provides."""
    ours, theirs = socket.socketpair()
    return ours.detach(), theirs.detach()


def pipe_of_another_user() -> Ends:
    """Open a pipe that cannot be opened once more."""
    return os.pipe()


@pytest.fixture(params=[pipe, pipe_of_another_user, terminal, unix_socket])
def ends(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Ends]:
    """The end that a reader has, and the end to write to."""
    make: Callable[[], Ends] = request.param
    if make is pipe_of_another_user:

        def refuse(*given: object) -> int:
            raise OSError(errno.EACCES, "refused")

        monkeypatch.setattr(os, "open", refuse)
    found = make()
    yield found
    for descriptor in found:
        os.close(descriptor)


def read_all(reader: int) -> str:
    """Read all available bytes."""
    data = b""
    while select.select([reader], [], [], 0.2)[0]:
        data += os.read(reader, 1 << 16)
    return data.decode()


def test_lines_without_a_reader_are_dropped_and_counted(ends: Ends) -> None:
    reader, writer = ends
    stream = LogStream(writer)
    stream.open()
    count = 20_000
    for number in range(count):
        stream.write(f"line {number:05} {'x' * 100}\n")
    seen = read_all(reader)
    arrived = re.findall(r"^line (\d{5}) x{100}$", seen, re.MULTILINE)
    assert 0 < len(arrived) < count
    stream.write("later\n")
    seen += read_all(reader)
    assert seen.endswith("\nlater\n")
    dropped = re.findall(r"^(\d+) lines of this log were dropped", seen, re.MULTILINE)
    assert sum(map(int, dropped)) == count - len(arrived)
    stream.write("more\n")
    assert read_all(reader) == "more\n"
    stream.block()


def test_the_descriptor_still_blocks_for_others(ends: Ends) -> None:
    _, writer = ends
    stream = LogStream(writer)
    stream.open()
    stream.write("a line\n")
    assert os.get_blocking(writer)
    stream.block()


def test_a_line_that_no_pipe_takes_at_once_comes_in_pieces(ends: Ends) -> None:
    reader, writer = ends
    stream = LogStream(writer)
    stream.open()
    text = "\n".join("y" * length for length in (10, 3000, 3000, 3500)) + "\n"
    for part in (text[:17], text[17:], "unfinished"):
        stream.write(part)
    seen = read_all(reader)
    assert seen == text or seen.startswith(text[:3000])
    stream.block()


def test_a_reader_that_is_gone_is_no_error(ends: Ends) -> None:
    reader, writer = os.pipe()
    stream = LogStream(writer)
    stream.open()
    os.close(reader)
    for _ in range(3):
        stream.write("nobody reads this\n")
    stream.block()
    os.close(writer)


def test_handlers_write_lines_with_characters_of_all_kinds() -> None:
    reader, writer = os.pipe()
    stream = LogStream(writer)
    stream.open()
    handler = logging.StreamHandler(stream)
    handler.emit(logging.makeLogRecord({"msg": "é \ud800 line"}))
    assert read_all(reader) == "é \\ud800 line\n"
    stream.block()
    for descriptor in (reader, writer):
        os.close(descriptor)
