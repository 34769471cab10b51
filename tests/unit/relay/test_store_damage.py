"""A damaged database is noticed at the opening, or when its damage is read."""

import contextlib
import random
import shutil
import sqlite3
from pathlib import Path

import pytest

from gym_http_server.errors import RelayDamaged
from gym_http_server.services.relay import database
from gym_http_server.services.relay.rows import BatchRow, RecordRow, TokenRow
from gym_http_server.services.relay.store import Store
from gym_http_wire.messages import Op
from tests.unit.relay.test_relay_server import Running

GIB = 1 << 30
MIB = 1 << 20
PAGE = 4096
NAMES = [f"run-{number}" for number in range(60)]


def fill(folder: Path) -> Path:
    """Make a store with many runs, and return its database."""
    with contextlib.closing(Store(str(folder), GIB, MIB)) as store:
        store.begin()
        for number, name in enumerate(NAMES):
            run = store.add_run(name, b"{}".ljust(100), None, 0, 1.0)
            store.add_token(run, TokenRow("t", "worker", f"{number:064x}", 1.0))
            session = store.add_session(run, f"s-{number}", "w", 1.0)
            rows = [BatchRow(n, 0, 1, b"x" * 300, b"d" * 32) for n in range(1, 6)]
            store.append(run, session, rows)
            # Those of a run fill several pages.
            lines = [b'{"at": "%d.%d"}' % (number, n) for n in range(200)]
            records = (RecordRow("episode", each, "training", "w") for each in lines)
            store.add_records(run, list(records))
        store.commit()
    return folder / "relay.sqlite3"


def found(folder: Path) -> list[str] | None:
    """Return the names of runs that can be found; None if the store is damaged."""
    try:
        with contextlib.closing(Store(str(folder), GIB, MIB)) as store:
            return [name for name in NAMES if store.run(name) is not None]
    except (RelayDamaged, sqlite3.Error) as error:
        if database.damage_of(error, str(folder)) is None:
            raise
        return None


def test_no_damaged_page_hides_a_run(tmp_path: Path) -> None:
    whole = fill(tmp_path / "whole").read_bytes()
    pages = len(whole) // PAGE
    assert pages > 20
    noticed = 0
    for page in range(pages):
        folder = tmp_path / f"page-{page}"
        shutil.copytree(tmp_path / "whole", folder)
        junk = random.Random(page).randbytes(PAGE)
        damaged = whole[: page * PAGE] + junk + whole[(page + 1) * PAGE :]
        (folder / "relay.sqlite3").write_bytes(damaged)
        names = found(folder)
        assert names in (None, NAMES), f"page {page} of {pages}"
        noticed += names is None
    # A page may be unused.
    assert noticed > 0.9 * pages


@pytest.mark.parametrize("pages", [0, 1, 2, 5, 20])
def test_no_truncation_hides_a_run(pages: int, tmp_path: Path) -> None:
    path = fill(tmp_path)
    path.write_bytes(path.read_bytes()[: pages * PAGE + 100 * (pages == 5)])
    assert found(tmp_path) is None
    # It is looked at again, and nothing was made anew.
    assert found(tmp_path) is None


def test_a_store_of_an_earlier_version_does_not_lose_its_bodies(
    tmp_path: Path,
) -> None:
    path = fill(tmp_path)
    (tmp_path / "lock").write_bytes(b"")
    assert found(tmp_path) == NAMES
    (tmp_path / "lock").write_bytes(b"")
    body = tmp_path / "bodies" / f"{1:032x}.body"
    body.touch()
    path.unlink()
    assert found(tmp_path) is None
    assert body.exists()


def test_a_row_that_only_the_index_lacks_is_noticed(tmp_path: Path) -> None:
    path = fill(tmp_path)
    data = path.read_bytes()
    noticed, place = 0, -1
    while (place := data.find(b"run-7", place + 1)) >= 0:
        # The name becomes another one, which is as long: in the table, in the index,
        # and where either of them was before.
        path.write_bytes(data[:place] + b"run-X" + data[place + 5 :])
        names = found(tmp_path)
        assert names in (None, NAMES)
        noticed += names is None
    assert noticed == 2


def test_a_check_ends_in_time_and_does_not_end_what_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path)
    monkeypatch.setattr(database, "CHECK_SECONDS", 0.0)
    for _ in range(20):
        assert found(tmp_path) == NAMES


def test_damage_that_is_read_later_is_an_honest_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # As if there had been no time.
    monkeypatch.setattr(database, "_check", lambda *_: None)
    path = fill(tmp_path / "relay")
    data = bytearray(path.read_bytes())
    start = data.rindex(b'"7.100"') // PAGE * PAGE
    data[start : start + PAGE] = random.Random(1).randbytes(PAGE)
    path.write_bytes(data)
    running = Running(tmp_path)
    running.start()
    try:
        for _ in range(3):
            answer = running.call(Op.RECORDS_GET, run="run-7")
            assert answer.status == 503
            assert b'"relay-damaged"' in answer.body
            assert str(path).encode() in answer.body
        # What is whole can be used.
        for run in set(NAMES) - {"run-6", "run-7", "run-8"}:
            assert running.call(Op.RECORDS_GET, run=run).status == 200
        assert running.call(Op.RUN_CREATE, b'{"run":"r"}').status == 201
    finally:
        running.stop()
    (line,) = (each for each in caplog.messages if "damaged" in each)
    assert str(path) in line
