"""The store beside a model in memory: order, positions, sums, trimming and files."""

import os
import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from gym_http_server.services.relay.files import FileSlice
from gym_http_server.services.relay.leases import Leases, deliver
from gym_http_server.services.relay.rows import BatchRow, ReaderRow, RunRow
from gym_http_server.services.relay.store import Store

MIB = 1 << 20
LEASE_S = 10.0
DELIVERIES = 2
SIZES = st.lists(st.integers(0, 30), min_size=1, max_size=4)


@dataclass
class Kept:
    """A batch of the model.

    Attributes:
        body: Its bytes.
        worker: Its worker.
        file: The file that it is in, or "".
        state: "waiting", "leased", "acked", "aside" or "consumed".
        deliveries: How often it was leased.
        until: When its lease ends.
        gone: Whether it was trimmed.
    """

    body: bytes
    worker: str
    file: str
    state: str = "waiting"
    deliveries: int = 0
    until: float = 0.0
    gone: bool = False


@dataclass
class Model:
    """What a run should hold.

    Attributes:
        keep: Bytes of consumed batches that stay.
        log: All batches; the first has position 1.
        readers: Positions that readers have committed.
        cursor: Highest position that was leased; ``None`` before the first lease.
        plain: All batches up to this position were consumed without leases.
    """

    keep: int
    log: list[Kept] = field(default_factory=list)
    readers: dict[str, int] = field(default_factory=dict)
    floor: int = 0
    cursor: int | None = None

    def consume(self) -> None:
        self.floor = max(self.floor, min(self.readers.values()))
        for batch in self.log[: self.floor]:
            if batch.state == ("waiting" if self.cursor is None else "acked"):
                batch.state = "consumed"

    def trim(self) -> None:
        kept = [each for each in self.log if each.state == "consumed" and not each.gone]
        while kept and (
            not self.keep or sum(len(each.body) for each in kept) > self.keep
        ):
            kept.pop(0).gone = True

    def here(self) -> list[tuple[int, Kept]]:
        return [pair for pair in enumerate(self.log, 1) if not pair[1].gone]


class StoreMachine(RuleBasedStateMachine):
    """Drives a store and the model side by side."""

    def __init__(self) -> None:
        super().__init__()
        # In memory, if that is possible: hundreds of commits are synced.
        memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
        self.folder = tempfile.mkdtemp(prefix="ghst-", dir=memory)
        self.now = 1000.0
        self.numbers: Counter[str] = Counter()
        self.open()

    @initialize(keep=st.sampled_from([0, 50]))
    def begin_run(self, keep: int) -> None:
        self.store.begin()
        run = self.store.add_run("pendulum", b"{}", None, keep, self.now)
        for worker in ("w1", "w2"):
            self.store.add_session(run, f"session-{worker}", worker, self.now)
        self.store.commit()
        self.store.clean_up()
        self.model = Model(keep)
        self.load()

    def open(self) -> None:
        self.store = Store(self.folder, 1 << 30, MIB)

    def load(self) -> None:
        rows = self.store.leases(self.run)
        self.leases = Leases(self.run.id, LEASE_S, DELIVERIES, rows)

    @property
    def run(self) -> RunRow:
        run = self.store.run("pendulum")
        assert run is not None
        return run

    def commit(self) -> None:
        self.store.commit()
        self.store.clean_up()
        self.model.trim()

    @rule(sizes=SIZES, worker=st.sampled_from(["w1", "w2"]), in_file=st.booleans())
    def append(self, sizes: list[int], worker: str, in_file: bool) -> None:
        self.store.begin()
        first, kept = self.put(sizes, worker, in_file)
        assert first == len(self.model.log) + 1
        self.model.log += kept
        self.commit()

    @rule(sizes=SIZES, in_file=st.booleans())
    def roll_back(self, sizes: list[int], in_file: bool) -> None:
        self.store.begin()
        numbers = self.numbers.copy()
        _, kept = self.put(sizes, "w1", in_file)
        self.store.consume_to(self.run, self.run.totals.stored)
        self.store.rollback()
        self.numbers = numbers
        for file in {each.file for each in kept if each.file}:
            self.store.discard(file)

    def put(self, sizes: list[int], worker: str, in_file: bool) -> tuple[int, list]:  # type: ignore[type-arg]
        session = self.store.session(self.run, f"session-{worker}")
        assert session is not None
        bodies = [os.urandom(size) for size in sizes]
        file = os.urandom(16).hex() + ".body" if in_file else ""
        if in_file:
            Path(self.store.files.folder, file).write_bytes(b"".join(bodies))
        rows, start = [], 0
        for body in bodies:
            self.numbers[worker] += 1
            place = FileSlice(file, start, len(body)) if in_file else body
            rows.append(BatchRow(self.numbers[worker], 0, len(body) + 1, place))
            start += len(body)
        first = self.store.append(self.run, session, rows)
        return first, [Kept(body, worker, file) for body in bodies]

    @rule(reader=st.sampled_from(["r1", "r2"]), share=st.floats(0, 1))
    def commit_reader(self, reader: str, share: float) -> None:
        before = self.model.readers.get(reader, 0)
        after = before + int(share * (len(self.model.log) - before))
        self.model.readers[reader] = after
        self.model.consume()
        self.store.begin()
        self.store.put_reader(self.run, ReaderRow(reader, after, 0, self.now))
        floor = min(row.after for row in self.store.readers(self.run))
        self.store.consume_to(self.run, floor)
        self.commit()

    @rule(most=st.integers(1, 4))
    def lease(self, most: int) -> None:
        self.store.begin()
        limits = {"max_bytes": MIB, "max_batches": most}
        found = deliver(self.store, self.run, self.leases, self.now, **limits)
        model = self.model
        self.model_expire()
        again = [
            p for p, each in model.here() if each.deliveries and each.state == "waiting"
        ]
        new = [
            p
            for p, each in model.here()
            if each.state == "waiting" and p > (model.cursor or 0)
        ]
        expected = again[:most] or new[:most]
        assert [row.position for row in found] == expected
        for position in expected:
            batch = model.log[position - 1]
            batch.state, batch.until = "leased", self.now + LEASE_S
            batch.deliveries += 1
            model.cursor = max(model.cursor or 0, position)
        assert [row.delivery for row in found] == [
            model.log[p - 1].deliveries for p in expected
        ]
        self.commit()

    @rule(data=st.data(), back=st.booleans())
    @precondition(lambda self: any(e.state == "leased" for e in self.model.log))
    def end_lease(self, data: st.DataObject, back: bool) -> None:
        model = self.model
        leased = [p for p, each in model.here() if each.state == "leased"]
        position = data.draw(st.sampled_from(leased))
        batch = model.log[position - 1]
        lease = f"{self.run.id}-{position}-{batch.deliveries}"
        past = model.floor if model.readers else len(model.log)
        self.store.begin()
        if back:
            rows, unknown = self.leases.nack([lease])
            batch.state = "aside" if batch.deliveries == DELIVERIES else "waiting"
        else:
            rows, unknown = self.leases.ack([lease], past)
            batch.state = "consumed" if position <= past else "acked"
        assert not unknown
        for row in rows:
            self.store.put_lease(self.run, row)
        self.commit()

    @rule(seconds=st.sampled_from([1.0, LEASE_S]))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.store.begin()
        for row in self.leases.expire(self.now):
            self.store.put_lease(self.run, row)
        self.model_expire()
        self.commit()

    def model_expire(self) -> None:
        for _, batch in self.model.here():
            if batch.state == "leased" and batch.until <= self.now:
                last = batch.deliveries == DELIVERIES
                batch.state = "aside" if last else "waiting"

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.open()
        self.load()

    @rule()
    def maintain(self) -> None:
        while self.store.maintain():
            pass

    @invariant()
    def is_the_model(self) -> None:
        store, run, model = self.store, self.run, self.model
        here = model.here()
        found = store.batches(run, 0, max_bytes=1 << 30)
        assert [row.position for row in found] == [position for position, _ in here]
        assert [self.read(row) for row in found] == [each.body for _, each in here]
        assert [row.worker for row in found] == [each.worker for _, each in here]
        assert store.first(run) == (here[0][0] if here else len(model.log) + 1)
        for worker in ("w1", "w2"):
            numbers = [row.number for row in found if row.worker == worker]
            assert numbers == sorted(set(numbers))
        states = Counter(each.state for each in model.log)
        totals = run.totals
        assert totals.stored == len(model.log)
        assert totals.waiting == states["waiting"] + states["acked"]
        assert totals.leased == states["leased"]
        assert totals.consumed == states["consumed"]
        assert totals.aside == states["aside"]
        assert totals.floor == model.floor
        kept = [each for _, each in here if each.state == "consumed"]
        assert totals.kept == len(kept)
        assert totals.kept_bytes == sum(len(each.body) for each in kept)
        queue = [each for _, each in here if each.state not in ("consumed", "aside")]
        assert totals.queue_bytes == sum(len(each.body) for each in queue)
        assert totals.queue_transitions == sum(len(each.body) + 1 for each in queue)
        shares: Counter[str] = Counter()
        for each in queue:
            shares[each.worker] += len(each.body)
        assert +run.worker_bytes == +shares
        assert set(os.listdir(store.files.folder)) == {e.file for _, e in here} - {""}

    def read(self, row: BatchRow) -> bytes:
        if not isinstance(row.body, FileSlice):
            return row.body
        name, start, size = row.body
        return Path(self.store.files.folder, name).read_bytes()[start : start + size]

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder)


StoreMachine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None
)
TestStore = StoreMachine.TestCase
