"""The store of the relay: rows, files, room, and what a restart finds."""

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from gym_http_server.errors import RelayTaken, RelayUnavailable, StorageFull
from gym_http_server.services.relay.files import FileSlice, lock_upload
from gym_http_server.services.relay.records import best_version
from gym_http_server.services.relay.rows import (
    BatchRow,
    BlobRow,
    LeaseRow,
    LeaseState,
    ReaderRow,
    RecordRow,
    RunRow,
    SessionRow,
    TokenRow,
)
from gym_http_server.services.relay.store import Store

GIB = 1 << 30
MIB = 1 << 20


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with contextlib.closing(Store(str(tmp_path / "relay"), GIB, MIB)) as opened:
        yield opened


def begin_run(store: Store, name: str = "pendulum", keep: int = 0) -> RunRow:
    return store.add_run(name, b"{}", None, keep, 1.0)


def batch(number: int, body: bytes | FileSlice = b"x", count: int = 1) -> BatchRow:
    digest = b"" if isinstance(body, FileSlice) else hashlib.sha256(body).digest()
    return BatchRow(number, 0, count, body, digest)


def add_file(store: Store, data: bytes) -> str:
    name = os.urandom(16).hex() + ".body"
    Path(store.files.folder, name).write_bytes(data)
    return name


def names(store: Store) -> list[str]:
    return sorted(os.listdir(store.files.folder))


def bodies(store: Store, run: RunRow, after: int = 0) -> list[bytes | FileSlice]:
    return [row.body for row in store.batches(run, after, max_bytes=GIB)]


def test_rows_survive_a_restart(tmp_path: Path) -> None:
    folder = str(tmp_path / "relay")
    with contextlib.closing(Store(folder, GIB, MIB)) as store:
        store.begin()
        run = store.add_run("pendulum", b'{"a": 1}', b'{"b": 2}', 5, 1.5)
        store.add_token(run, TokenRow("t1", "worker", "ab" * 32, 2.5))
        session = store.add_session(run, "s-1", "w1", 3.5)
        row = BatchRow(
            1, 0, 7, b"body", b"d" * 32, "text/plain", "deflate", 9, 4, True, 8.5
        )
        assert store.append(run, session, [row]) == 1
        session.next, session.seen = 2, 9.5
        store.changed(session)
        store.put_reader(run, ReaderRow("r", 0, 256, 4.5))
        store.add_blob(run, BlobRow("weights", 1, "cd" * 32, "x/y", 5.5, 3, b"abc"))
        store.add_records(
            run, [RecordRow("episode", b"{}", "evaluation", "w1", 1, 2.5, 6.5)]
        )
        store.commit()
    with contextlib.closing(Store(folder, GIB, MIB)) as store:
        (run,) = store.runs()
        assert (run.run, run.created, run.limits, run.columns, run.keep_bytes) == (
            "pendulum",
            1.5,
            b'{"a": 1}',
            b'{"b": 2}',
            5,
        )
        assert store.token("ab" * 32) == (
            "pendulum",
            TokenRow("t1", "worker", "ab" * 32, 2.5),
        )
        known = store.session(run, "s-1")
        assert known is not None
        assert (known.worker, known.next, known.seen) == ("w1", 2, 9.5)
        (found,) = store.batches(run, 0, max_bytes=1)
        row.session, row.worker = "s-1", "w1"
        assert found == row
        assert store.digest(known, 1) == b"d" * 32
        assert store.reader(run, "r") == ReaderRow("r", 0, 256, 4.5)
        blob = store.blob(run, "weights")
        assert blob == BlobRow("weights", 1, "cd" * 32, "x/y", 5.5, 3, b"abc")
        (record,) = store.records(run, 0, 10)
        assert (record.position, record.mode, record.time) == (1, "evaluation", 6.5)
        assert store.evaluations(run) == {1: (1, 2.5)}
        totals = run.totals
        assert (totals.stored, totals.waiting, totals.transitions) == (1, 1, 7)
        assert (totals.queue_bytes, totals.lags) == (4, [0, 0, 0, 1, 0, 0])
        assert (totals.version, totals.episodes, totals.records) == (1, 1, 1)
        assert run.worker_bytes == {"w1": 4}


def test_a_second_server_is_refused(store: Store) -> None:
    with pytest.raises(RelayTaken, match="--relay-dir"):
        Store(store.folder, GIB)


def test_a_store_of_another_version_is_refused(tmp_path: Path) -> None:
    folder = str(tmp_path / "relay")
    Store(folder, GIB, MIB).close()
    with contextlib.closing(sqlite3.connect(f"{folder}/relay.sqlite3")) as database:
        database.execute("PRAGMA user_version = 99")
    with pytest.raises(OSError, match="form 99 of another version"):
        Store(folder, GIB, MIB)
    # It is not locked either.
    with contextlib.closing(sqlite3.connect(f"{folder}/relay.sqlite3")) as database:
        database.execute("PRAGMA user_version = 1")
    Store(folder, GIB, MIB).close()


def test_an_old_sqlite_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))
    with pytest.raises(OSError, match=r"too old for the relay: expected 3\.35\.0"):
        Store(str(tmp_path / "relay"), GIB, MIB)


def test_a_store_that_could_not_be_opened_is_not_locked(tmp_path: Path) -> None:
    folder = tmp_path / "relay"
    folder.mkdir()
    (folder / "bodies").touch()
    with pytest.raises(NotADirectoryError):
        Store(str(folder), GIB, MIB)
    (folder / "bodies").unlink()
    Store(str(folder), GIB, MIB).close()


def test_a_rollback_undoes_all(store: Store) -> None:
    store.begin()
    run = begin_run(store)
    session = store.add_session(run, "s", "w", 1.0)
    store.append(run, session, [batch(1)])
    store.commit()
    store.begin()
    name = add_file(store, b"data")
    store.append(run, session, [batch(2, FileSlice(name, 0, 4))])
    session.next = 9
    store.changed(session)
    store.consume_to(run, 1)
    store.rollback()
    run = store.runs()[0]
    assert (run.totals.stored, run.totals.consumed) == (1, 0)
    session_again = store.session(run, "s")
    assert session_again is not None
    assert session_again.next == 1
    assert bodies(store, run) == [b"x"]
    assert names(store) == [name]
    store.discard(name)
    assert names(store) == []


def test_a_file_goes_with_its_last_row_after_the_commit(store: Store) -> None:
    name = add_file(store, b"abcdef")
    store.begin()
    run = begin_run(store)
    session = store.add_session(run, "s", "w", 1.0)
    parts = [batch(number, FileSlice(name, number, 1)) for number in (1, 2, 3)]
    assert store.append(run, session, parts) == 1
    store.commit()
    store.discard(name)
    assert bodies(store, run) == [FileSlice(name, n, 1) for n in (1, 2, 3)]
    store.begin()
    store.consume_to(run, 2)
    store.commit()
    assert bodies(store, run) == [FileSlice(name, 3, 1)]
    assert store.first(run) == 3
    assert names(store) == [name]
    store.begin()
    store.consume_to(run, 3)
    assert names(store) == [name]
    store.commit()
    store.clean_up()
    assert names(store) == []
    assert store.first(run) == 4


def test_a_file_that_cannot_be_removed_does_not_undo_the_commit(store: Store) -> None:
    store.begin()
    run = begin_run(store)
    session = store.add_session(run, "s", "w", 1.0)
    name = add_file(store, b"data")
    store.append(run, session, [batch(1, FileSlice(name, 0, 4))])
    store.commit()
    path = Path(store.files.folder, name)
    path.unlink()
    path.mkdir()
    store.begin()
    store.consume_to(run, 1)
    store.commit()
    assert run.totals.consumed == 1
    path.rmdir()


def test_consumed_batches_stay_up_to_keep_bytes(store: Store) -> None:
    store.begin()
    run = begin_run(store, keep=25)
    session = store.add_session(run, "s", "w", 1.0)
    store.append(run, session, [batch(n, bytes(10)) for n in range(1, 6)])
    store.consume_to(run, 4)
    store.commit()
    assert store.first(run) == 3
    totals = run.totals
    assert (totals.consumed, totals.kept, totals.kept_bytes) == (4, 2, 20)


def test_empty_batches_are_trimmed(store: Store) -> None:
    store.begin()
    run = begin_run(store)
    session = store.add_session(run, "s", "w", 1.0)
    store.append(run, session, [batch(n, b"") for n in (1, 2)])
    store.consume_to(run, 2)
    store.commit()
    assert store.first(run) == 3


def test_a_missing_file_is_refused_before_anything_is_stored(store: Store) -> None:
    store.begin()
    run = begin_run(store)
    session = store.add_session(run, "s", "w", 1.0)
    with pytest.raises(RelayUnavailable, match="send the body again"):
        store.append(run, session, [batch(1, FileSlice("0" * 32 + ".body", 0, 1))])
    store.commit()
    assert bodies(store, run) == []
    with pytest.raises(ValueError, match="not the name"):
        store.files.size("../relay.sqlite3")


def test_only_files_without_rows_and_uploads_are_swept(tmp_path: Path) -> None:
    folder = str(tmp_path / "relay")
    with contextlib.closing(Store(folder, GIB, MIB)) as store:
        used, _, uploaded = (add_file(store, b"data") for _ in range(3))
        store.begin()
        run = begin_run(store)
        session = store.add_session(run, "s", "w", 1.0)
        store.append(run, session, [batch(1, FileSlice(used, 0, 4))])
        store.commit()
    upload = os.open(f"{folder}/bodies/{uploaded}", os.O_WRONLY)
    lock_upload(upload)
    with contextlib.closing(Store(folder, GIB, MIB)) as store:
        assert names(store) == sorted([used, uploaded])
        os.close(upload)
        assert store.sweep(600.0) == 0
        assert store.sweep() == 1
        assert names(store) == [used]
        old = add_file(store, b"data")
        os.utime(f"{folder}/bodies/{old}", (1.0, 1.0))
        assert store.sweep(600.0) == 1
        assert names(store) == [used]


def fits(store: Store, run: RunRow, session: SessionRow, number: int) -> bool:
    store.begin()
    try:
        store.append(run, session, [batch(number, bytes(200_000))])
    except StorageFull:
        return False
    finally:
        store.commit()
    return True


def test_the_quota_refuses_samples_and_leaves_weights_a_margin(tmp_path: Path) -> None:
    with contextlib.closing(Store(str(tmp_path / "relay"), 4 * MIB, MIB)) as store:
        store.begin()
        run = begin_run(store)
        session = store.add_session(run, "s", "w", 1.0)
        store.commit()
        number = 1
        while fits(store, run, session, number):
            number += 1
        with pytest.raises(StorageFull, match="--relay-disk"):
            store.check_sample_room(200_000)
        assert 10 < number < 20
        store.begin()
        blob = BlobRow("state", 1, "", "x/y", 1.0, 200_000, bytes(200_000))
        store.add_blob(run, blob)
        store.consume_to(run, number - 1)
        store.commit()
        while store.maintain():
            pass
        assert fits(store, run, session, number)


def test_freed_pages_go_back_to_the_disk_within_the_limit(tmp_path: Path) -> None:
    with contextlib.closing(Store(str(tmp_path / "relay"), 8 * MIB, MIB)) as store:
        database = Path(store.folder, "relay.sqlite3")
        store.begin()
        run = begin_run(store)
        session = store.add_session(run, "s", "w", 1.0)
        for number in range(1, 6):
            store.append(run, session, [batch(number, bytes(MIB))])
        store.commit()
        store.begin()
        store.consume_to(run, 5)
        store.commit()
        while store.maintain():
            pass
        store.begin()
        name = add_file(store, bytes(5 * MIB))
        store.append(run, session, [batch(6, FileSlice(name, 0, 5 * MIB))])
        store.commit()
        while store.maintain():
            pass
        assert database.stat().st_size < 3 * MIB


def test_digests_of_the_last_thousand_numbers_are_kept(store: Store) -> None:
    store.begin()
    run = begin_run(store)
    session = store.add_session(run, "s", "w", 1.0)
    for numbers in (range(1, 3), range(5, 40), range(40, 1700), range(1700, 2041)):
        store.append(run, session, [batch(n, b"%d" % n) for n in numbers])
    store.commit()
    for number in (1041, 1699, 1700, 2040):
        expected = hashlib.sha256(b"%d" % number).digest()
        assert store.digest(session, number) == expected
    assert [store.digest(session, n) for n in (0, 1, 3, 39, 2041)] == [None] * 5


def test_the_newest_weights_are_those_of_the_transaction(store: Store) -> None:
    store.begin()
    run = begin_run(store)
    assert store.blob(run, "weights") is None
    blobs = [BlobRow("weights", n, "", "x/y", 1.0, 1, b"%d" % n) for n in (1, 2)]
    store.add_blob(run, blobs[0])
    assert store.blob(run, "weights") == blobs[0]
    store.commit()
    store.begin()
    store.add_blob(run, blobs[1])
    store.drop_blobs(run, "weights", [1])
    assert store.blob(run, "weights") == blobs[1]
    assert store.blob(run, "state") is None
    store.rollback()
    run = store.runs()[0]
    assert store.blob(run, "weights") == blobs[0]
    assert store.blob(run, "weights", 2) is None
    store.begin()
    store.delete_run(run)
    again = begin_run(store)
    assert store.blob(again, "weights") is None
    store.commit()


def episodes(mode: str, version: int, value: float) -> list[RecordRow]:
    return [RecordRow("episode", b"{}", mode, "w", version, value) for _ in range(5)]


def test_evaluations_are_summed_before_and_after_a_restart(tmp_path: Path) -> None:
    folder = str(tmp_path / "relay")
    with contextlib.closing(Store(folder, GIB, MIB)) as store:
        store.begin()
        run = begin_run(store)
        for version, value in ((1, 10.0), (2, 7.0), (2, 9.0)):
            store.add_records(run, episodes("evaluation", version, value))
        store.add_records(run, episodes("training", 3, 99.0))
        store.commit()
        expected = {1: (5, 50.0), 2: (10, 80.0)}
        assert store.evaluations(run) == expected
        assert best_version(store.evaluations(run), {1, 2, 3}) == (1, 10.0, 5)
        assert best_version(store.evaluations(run), {2, 3}) == (2, 8.0, 10)
    with contextlib.closing(Store(folder, GIB, MIB)) as store:
        assert store.evaluations(store.runs()[0]) == expected


def test_a_deleted_run_goes_with_all_it_has(store: Store) -> None:
    store.begin()
    run = begin_run(store)
    session = store.add_session(run, "s", "w", 1.0)
    files = [add_file(store, b"data") for _ in range(2)]
    store.append(run, session, [batch(1), batch(2, FileSlice(files[0], 0, 4))])
    store.add_token(run, TokenRow("t", "worker", "ab", 1.0))
    weights = BlobRow("weights", 1, "", "x/y", 1.0, 4, FileSlice(files[1], 0, 4))
    store.add_blob(run, weights)
    store.put_lease(run, LeaseRow(1, LeaseState.LEASED, 1, 5.0))
    store.commit()
    store.begin()
    store.delete_run(run)
    assert store.run("pendulum") is None
    assert store.token("ab") is None
    again = begin_run(store)
    store.commit()
    while store.maintain():
        pass
    assert names(store) == []
    assert store.session(again, "s") is None
    assert [row.id for row in store.runs()] == [again.id]
    assert again.id != run.id


def test_records_are_read_up_to_some_bytes(store: Store) -> None:
    store.begin()
    run = store.add_run("pendulum", b"{}", None, 0, 1.0)
    store.add_records(run, [RecordRow("training", b"x" * 100) for _ in range(5)])
    store.commit()
    found = store.records(run, 0, 10, max_bytes=250)
    assert [row.position for row in found] == [1, 2, 3]
    assert len(store.records(run, 3, 10, max_bytes=1)) == 1


def test_other_users_cannot_read_it_in_a_folder_that_they_can(tmp_path: Path) -> None:
    folder = tmp_path / "relay"
    folder.mkdir()
    folder.chmod(0o755)
    with contextlib.closing(Store(str(folder), GIB, MIB)) as store:
        store.begin()
        store.add_run("pendulum", b"{}", None, 0, 1.0)
        store.commit()
        modes = {each.name: each.stat().st_mode & 0o077 for each in folder.iterdir()}
    assert set(modes) >= {"relay.sqlite3", "relay.sqlite3-wal", "bodies"}
    assert not any(modes.values()), modes
