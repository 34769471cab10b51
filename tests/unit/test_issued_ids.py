"""Files of instance IDs are limited in size, and malformed lines are ignored."""

import contextlib
import logging
import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gym_http_server.supervisor.issued_ids import IssuedIDs

ADDRESS = "127.0.0.1:5000"
DAY_S = 24 * 3600
Maker = Callable[[Path], IssuedIDs]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The path of the file of an address."""
    (tmp_path / "instance-ids").mkdir()
    return tmp_path / "instance-ids" / ADDRESS


@pytest.fixture
def server() -> Iterator[Maker]:
    """Return a factory of `IssuedIDs`, closed after the test."""
    with contextlib.ExitStack() as stack:

        def make(file: Path) -> IssuedIDs:
            made = IssuedIDs(str(file.parent.parent), [file.name])
            stack.callback(made.close)
            return made

        yield make


def test_ids_are_known_to_the_next_server_alone(server: Maker, file: Path) -> None:
    file.parent.rmdir()
    first = server(file)
    assert not file.parent.exists()
    began = int(time.time())
    first.add("0123abcd")
    first.add("89efabcd")
    assert "0123abcd" not in first
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    words = [line.split() for line in file.read_text().splitlines()]
    assert [word[0] for word in words] == ["0123abcd", "89efabcd"]
    assert all(began <= int(word[1]) <= time.time() for word in words)
    second = server(file)
    second.add("11111111")
    third = server(file)
    for each in ("0123abcd", "89efabcd", "11111111"):
        assert each in third
        assert (each in second) == (each != "11111111")
        assert each not in server(file.with_name("127.0.0.1:5001"))


def test_only_the_last_ten_thousand_of_a_day_are_kept(
    server: Maker, file: Path
) -> None:
    now = int(time.time())
    times = {"00000000": now - DAY_S - 60, "00000001": now - DAY_S + 60}
    lines = [f"{each} {at}\n" for each, at in times.items()]
    file.write_text("".join(lines))
    assert "00000000" not in server(file)
    assert "00000001" in server(file)
    writing = server(file)
    for number in range(25_000):
        writing.add(f"{number + 16:08x}")
    assert len(file.read_text().splitlines()) < 20_001
    reading = server(file)
    assert "00000001" not in reading
    assert sum(f"{number + 16:08x}" in reading for number in range(25_000)) == 10_000
    assert f"{25_015:08x}" in reading


def garbage(file: Path) -> None:
    file.write_bytes(os.urandom(100_000) + b"\n0123abcd x\n0123ABCD 5\n")


def fifo(file: Path) -> None:
    os.mkfifo(file)


def directory(file: Path) -> None:
    file.mkdir()


def link(file: Path) -> None:
    file.symlink_to("/dev/zero")


def large(file: Path) -> None:
    with file.open("w") as opened:
        opened.truncate(10 << 30)
        opened.seek(0, os.SEEK_END)


@pytest.mark.parametrize("put", [garbage, fifo, directory, link, large])
def test_foreign_files_delay_nothing(
    server: Maker,
    file: Path,
    put: Callable[[Path], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    put(file)
    with caplog.at_level(logging.WARNING):
        ids = server(file)
        for number in range(3):
            ids.add(f"{number:08x}")
    off = put in (fifo, directory, link)
    assert len(caplog.records) == off
    assert "00000000" not in ids
    if not off:
        assert "00000002" in server(file)
        assert file.stat().st_size < 1000


def test_a_folder_that_cannot_be_written_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "instance-ids").touch()
    with caplog.at_level(logging.WARNING):
        ids = IssuedIDs(str(tmp_path), [ADDRESS])
        ids.add("0123abcd")
        ids.add("0123abce")
    (record,) = caplog.records
    assert "cannot note instance IDs in" in record.getMessage()


def test_files_of_addresses_that_are_not_used_any_more_go(
    server: Maker, file: Path
) -> None:
    for name, age in (("old", DAY_S + 60), ("young", DAY_S - 60)):
        other = file.with_name(name)
        other.touch()
        os.utime(other, (time.time() - age,) * 2)
    server(file).add("0123abcd")
    assert {each.name for each in file.parent.iterdir()} == {"young", ADDRESS}
