"""A full disk: samples are refused, while commits and trimming go on."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gym_http_server.errors import StorageFull
from gym_http_server.services.relay.files import FileSlice, free_bytes
from gym_http_server.services.relay.rows import BatchRow, BlobRow, ReaderRow, RunRow
from gym_http_server.services.relay.store import Store
from tests.support.faults.small_disk import Disk, small_disk

GIB = 1 << 30
MIB = 1 << 20
BODY = bytes(256 * 1024)


@pytest.fixture
def disk() -> Iterator[Disk]:
    with small_disk("128m") as mounted:
        yield mounted


@pytest.fixture
def folder(disk: Disk) -> str:
    return str(disk.path / "relay")


@pytest.fixture
def store(folder: str) -> Iterator[Store]:
    with contextlib.closing(Store(folder, GIB)) as opened:
        opened.begin()
        run = opened.add_run("pendulum", b"{}", None, 0, 1.0)
        opened.add_session(run, "s", "w1", 1.0)
        opened.commit()
        yield opened


def the_run(store: Store) -> RunRow:
    run = store.run("pendulum")
    assert run is not None
    return run


def append(store: Store, body: bytes | FileSlice = BODY) -> bool:
    """Append a batch; return whether there was room."""
    store.begin()
    run = the_run(store)
    session = store.session(run, "s")
    assert session is not None
    try:
        store.append(run, session, [BatchRow(session.next, 0, 1, body)])
        session.next += 1
        store.changed(session)
    except StorageFull:
        return False
    finally:
        store.commit()
    return True


def commit_reader(store: Store, after: int) -> None:
    store.begin()
    run = the_run(store)
    store.put_reader(run, ReaderRow("r", after, 0, 1.0))
    store.consume_to(run, after)
    store.commit()
    while store.maintain():
        pass


def fill(store: Store) -> int:
    count = 0
    while append(store):
        count += 1
        assert count < 300
    return count


def test_samples_stop_before_the_disk_is_full_and_committing_makes_room(
    store: Store, folder: str
) -> None:
    count = fill(store)
    assert count > 50
    assert free_bytes(folder) > 60 * MIB
    run = the_run(store)
    assert run.totals.stored == count
    rows = store.batches(run, 0, max_bytes=GIB, max_inline=GIB)
    assert [row.body for row in rows] == [BODY] * count
    with pytest.raises(StorageFull, match="Let a trainer read and commit"):
        store.check_sample_room(1)
    # A trainer commits its position with its state.
    store.begin()
    state = BlobRow("state", 1, "", "x/y", 1.0, MIB, bytes(MIB))
    store.add_blob(run, state)
    store.commit()
    commit_reader(store, count // 2)
    assert store.first(run) == count // 2 + 1
    assert fill(store) > count // 3


def test_other_programs_fill_the_disk_and_commits_go_on(
    store: Store, folder: str, disk: Disk
) -> None:
    count = fill(store)
    disk.fill_bytes()
    assert free_bytes(folder) == 0
    assert not append(store)
    for after in range(1, count + 1):
        commit_reader(store, after)
    assert the_run(store).totals.consumed == count
    disk.free()
    assert append(store)


def test_a_store_opens_on_a_full_disk(folder: str, disk: Disk) -> None:
    with contextlib.closing(Store(folder, GIB)) as store:
        store.begin()
        run = store.add_run("pendulum", b"{}", None, 0, 1.0)
        store.add_session(run, "s", "w1", 1.0)
        store.commit()
        count = fill(store)
    disk.fill_bytes()
    with contextlib.closing(Store(folder, GIB)) as store:
        assert len(store.batches(the_run(store), 0, max_bytes=GIB)) > 0
        commit_reader(store, count)
        assert the_run(store).totals.waiting == 0


@pytest.mark.parametrize("size", [MIB, 16 * MIB])
def test_a_disk_that_fills_within_a_transaction_undoes_all_of_it(
    store: Store, disk: Disk, size: int
) -> None:
    append(store)
    store.begin()
    run = the_run(store)
    session = store.session(run, "s")
    assert session is not None
    name = upload(store)
    rows = [BatchRow(2, 0, 1, FileSlice(name, 0, 1)), BatchRow(3, 0, 1, bytes(size))]
    # The room is looked at once in a transaction.
    store.check_sample_room(0)
    disk.fill_bytes()
    with contextlib.suppress(StorageFull):
        store.append(run, session, rows)
    with pytest.raises(StorageFull, match="is full: free space on it"):
        store.commit()
    store.rollback()
    store.discard(name)
    assert os.listdir(store.files.folder) == []
    totals = the_run(store).totals
    assert (totals.stored, totals.queue_bytes) == (1, len(BODY))
    assert len(store.batches(the_run(store), 0, max_bytes=GIB)) == 1
    disk.free()
    assert append(store)


def test_files_count_too(store: Store, folder: str, disk: Disk) -> None:
    names = []
    while append(store, FileSlice(upload(store), 0, 8 * MIB)):
        names.append(len(names))
        assert len(names) < 20
    assert names
    (unused,) = set(os.listdir(store.files.folder)) - kept_files(store)
    store.discard(unused)
    commit_reader(store, 1)
    assert append(store, FileSlice(upload(store), 0, 8 * MIB))


def kept_files(store: Store) -> set[str]:
    rows = store.batches(the_run(store), 0, max_bytes=GIB)
    return {row.body.name for row in rows if isinstance(row.body, FileSlice)}


def upload(store: Store) -> str:
    name = os.urandom(16).hex() + ".body"
    Path(store.files.folder, name).write_bytes(bytes(8 * MIB))
    return name
