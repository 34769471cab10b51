"""Leases on a clock of the test's own."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from gym_http_server.services.relay.leases import (
    SILENT_S,
    Leases,
    deliver,
    readers_floor,
)
from gym_http_server.services.relay.rows import BatchRow, ReaderRow, RunRow
from gym_http_server.services.relay.store import Store

MIB = 1 << 20


class Bench:
    """A store with a run of five batches, and its leases of 60 s."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.now = 1000.0
        store.begin()
        run = store.add_run("pendulum", b"{}", None, 0, self.now)
        session = store.add_session(run, "s", "w1", self.now)
        rows = [BatchRow(number, 0, 10, b"%d" % number) for number in range(1, 6)]
        store.append(run, session, rows)
        store.commit()
        self.load()

    def load(self) -> None:
        """Begin anew, as after a restart."""
        self.leases = Leases(self.run.id, 60.0, 3, self.store.leases(self.run))

    @property
    def run(self) -> RunRow:
        run = self.store.run("pendulum")
        assert run is not None
        return run

    def take(self, most: int = 10) -> dict[bytes, str]:
        """Lease batches; return their leases by body."""
        self.store.begin()
        limits = {"max_bytes": MIB, "max_batches": most}
        rows = deliver(self.store, self.run, self.leases, self.now, **limits)
        self.store.commit()
        assert all(isinstance(row.body, bytes) for row in rows)
        return {bytes(row.body): row.lease for row in rows}  # type: ignore[arg-type]

    def ack(self, *leases: str, past: int = 5) -> list[str]:
        changed, unknown = self.leases.ack(leases, past)
        self.put(changed)
        return unknown

    def nack(self, *leases: str) -> list[str]:
        changed, unknown = self.leases.nack(leases)
        self.put(changed)
        return unknown

    def expire(self) -> None:
        self.put(self.leases.expire(self.now))

    def put(self, rows: list) -> None:  # type: ignore[type-arg]
        self.store.begin()
        for row in rows:
            self.store.put_lease(self.run, row)
        self.store.commit()

    @property
    def counts(self) -> tuple[int, int, int, int]:
        totals = self.run.totals
        found = (totals.waiting, totals.leased, totals.consumed, totals.aside)
        assert sum(found) == totals.stored
        return found


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with contextlib.closing(Store(str(tmp_path / "relay"), 1 << 30, MIB)) as store:
        yield Bench(store)


def test_a_batch_is_leased_once_and_consumed_when_acknowledged(bench: Bench) -> None:
    taken = bench.take(2)
    assert list(taken) == [b"1", b"2"]
    assert list(bench.take()) == [b"3", b"4", b"5"]
    assert bench.take() == {}
    assert bench.counts == (0, 5, 0, 0)
    assert bench.ack(taken[b"1"], "nonsense", taken[b"1"]) == ["nonsense", taken[b"1"]]
    assert bench.counts == (0, 4, 1, 0)
    assert bench.store.first(bench.run) == 2
    assert bench.run.totals.queue_bytes == 4
    assert bench.run.worker_bytes == {"w1": 4}


def test_a_lease_ends_after_its_time_and_the_batch_comes_again(bench: Bench) -> None:
    first = bench.take(1)
    assert bench.leases.next_end == 1060.0
    bench.now = 1059.9
    assert list(bench.take(1)) == [b"2"]
    bench.now = 1060.0
    again = bench.take(1)
    assert list(again) == [b"1"]
    assert again != first
    assert bench.ack(first[b"1"]) == [first[b"1"]]
    assert bench.ack(again[b"1"]) == []
    assert bench.counts == (3, 1, 1, 0)


def test_a_late_acknowledgement_counts_until_the_next_delivery(bench: Bench) -> None:
    taken = bench.take(1)
    bench.now = 2000.0
    bench.expire()
    assert bench.counts == (5, 0, 0, 0)
    assert bench.ack(taken[b"1"]) == []
    assert list(bench.take()) == [b"2", b"3", b"4", b"5"]


def test_after_three_deliveries_a_batch_is_set_aside(bench: Bench) -> None:
    for _ in range(2):
        assert bench.nack(bench.take(1)[b"1"]) == []
    bench.take(1)
    bench.now += 60.0
    bench.expire()
    assert bench.counts == (4, 0, 0, 1)
    assert list(bench.take()) == [b"2", b"3", b"4", b"5"]
    (aside,) = bench.store.aside(bench.run, 0, max_bytes=MIB)
    assert aside.body == b"1"
    assert bench.run.worker_bytes == {"w1": 4}


def test_a_restart_keeps_leases_deliveries_and_batches_set_aside(bench: Bench) -> None:
    taken = bench.take(2)
    for _ in range(3):
        bench.nack(taken[b"1"])
        bench.load()
        taken |= bench.take(1)
    assert bench.counts == (2, 2, 0, 1)
    bench.load()
    assert bench.ack(taken[b"2"], taken[b"1"]) == [taken[b"1"]]
    assert bench.counts == (2, 1, 1, 1)


def test_acknowledged_batches_wait_for_readers(bench: Bench) -> None:
    taken = bench.take(3)
    assert bench.ack(taken[b"1"], taken[b"2"], past=1) == []
    assert bench.counts == (3, 1, 1, 0)
    bench.store.begin()
    bench.store.consume_to(bench.run, 3)
    bench.store.commit()
    assert bench.counts == (2, 1, 2, 0)
    assert bench.ack(taken[b"3"], past=3) == []
    assert bench.counts == (2, 0, 3, 0)
    assert bench.store.first(bench.run) == 4


def test_leases_begin_after_what_readers_have_consumed(bench: Bench) -> None:
    bench.store.begin()
    bench.store.consume_to(bench.run, 2)
    bench.store.commit()
    assert list(bench.take(1)) == [b"3"]


@pytest.mark.parametrize("lease", ["", "1-1", "1-1-1-1", "1-٣-1", "-1-1-1", "9-1-1"])
def test_malformed_leases_are_unknown(bench: Bench, lease: str) -> None:
    bench.take(1)
    assert bench.ack(lease) == [lease]
    assert bench.nack(lease) == [lease]


def test_a_reader_that_is_silent_for_a_week_holds_nothing_back() -> None:
    readers = [ReaderRow("a", 10, 0, 0.0), ReaderRow("b", 20, 0, 5.0)]
    assert readers_floor(readers, SILENT_S - 1.0) == 10
    assert readers_floor(readers, SILENT_S) == 20
    assert readers_floor(readers, SILENT_S + 5.0) is None
