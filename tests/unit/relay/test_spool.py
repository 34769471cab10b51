"""A spool keeps what was appended, over kills at every byte and every call."""

import builtins
import contextlib
import hashlib
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from gym_http_client.relay import segments
from gym_http_client.relay.sender import MAX_POST
from gym_http_client.relay.spool import Spool, SpoolClosed, SpoolError
from gym_http_wire.bundles import MOST_BATCHES, BatchHead, encode_batch, split

TYPE = "application/octet-stream"


class Killed(BaseException):
    """The process is killed at this point."""


class Killer:
    """Ends the process's work after a number of bytes written and calls made."""

    def __init__(self) -> None:
        self.left: int | None = None

    def take(self, wanted: int) -> int:
        """Return how much of this still happens."""
        if self.left is None:
            return wanted
        done = min(wanted, self.left)
        self.left -= done
        return done

    def patch(self, patch: pytest.MonkeyPatch) -> None:
        """Put all changes of the disk under control."""
        for owner, name in [
            (os, "replace"),
            (os, "truncate"),
            (Path, "rename"),
            (Path, "unlink"),
        ]:
            patch.setattr(owner, name, self._around(getattr(owner, name)))
        write_bytes = Path.write_bytes

        def write_part(path: Path, data: bytes) -> int:
            done = self.take(len(data))
            write_bytes(path, data[:done])
            if done < len(data):
                raise Killed
            return len(data)

        patch.setattr(Path, "write_bytes", write_part)
        patch.setattr(segments, "open", self._open, raising=False)

    def _around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def made(*args: Any, **options: Any) -> Any:
            if self.take(1) < 1:
                raise Killed
            return call(*args, **options)

        return made

    def _open(self, path: Path | int, mode: str, **options: Any) -> Any:
        file = builtins.open(path, mode, **options)  # noqa: SIM115 - the caller closes it
        return Torn(file, self) if mode == "wb" else file


class Torn:
    """A file whose writes a kill interrupts."""

    def __init__(self, file: Any, killer: Killer) -> None:
        self._file = file
        self._killer = killer

    def write(self, data: memoryview) -> int:
        done = self._killer.take(len(data))
        self._file.write(data[:done])
        if done < len(data):
            raise Killed
        return len(data)

    def truncate(self, size: int) -> None:
        if self._killer.take(1) < 1:
            raise Killed
        self._file.truncate(size)

    def close(self) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class Relay:
    """What the relay does with batches and records, as documented."""

    def __init__(self) -> None:
        self.next = 1
        self.bodies: list[bytes] = []
        self.dropped = 0
        self.records_next = 1
        self.records: list[int] = []

    def take(self, data: bytes, most: int) -> None:
        for place in list(split(data))[:most]:
            if place.head.number < self.next:
                continue
            assert place.head.number == self.next + place.head.dropped
            self.dropped += place.head.dropped
            self.next = place.head.number + 1
            self.bodies.append(data[place.offset : place.end])

    def take_records(self, number: int, records: list[dict[str, Any]]) -> None:
        if number < self.records_next:
            return
        assert number == self.records_next
        self.records_next += 1
        self.records += [each["of"] for each in records]


class Kills(RuleBasedStateMachine):
    """Appends and sends batches, with kills; the relay gets all of them once."""

    when_full: Any = "block"
    max_bytes = 1 << 20
    sizes = (0, 1, 7, 40, 1000)

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.folder = tempfile.TemporaryDirectory(prefix="spool-")
        self.killer = Killer()
        self.relay = Relay()
        self.appended: list[bytes] = []
        self.recorded: list[int] = []
        self.pending: list[bytes] = []
        self.sent: Any = None

    @initialize()
    def open(self) -> None:
        self.killer.patch(self.patch)
        self.spool = self.opened()
        self.spool.begin("s")

    def opened(self) -> Spool:
        return Spool(
            self.folder.name,
            run="r",
            worker="w",
            max_bytes=self.max_bytes,
            when_full=self.when_full,
        )

    @contextlib.contextmanager
    def perhaps_killed(self) -> Iterator[None]:
        try:
            yield
        except Killed:
            end_as_a_kill_does(self.spool)
            self.reopen()

    @rule(size=st.integers(0, 4), records=st.integers(0, 2))
    def append(self, size: int, records: int) -> None:
        number = len(self.appended) + 1
        body = bytes([number % 256]) * self.sizes[size]
        made = [{"of": number}] * records
        killed = True
        with self.perhaps_killed():
            got = self.spool.append(
                body,
                policy=0,
                count=1,
                content_type=TYPE,
                records=made,
                progress={"n": number},
            )
            assert got == number
            killed = False
        # A kill right after the last byte leaves the whole batch.
        if not killed or self.spool.next > number:
            self.appended.append(body)
            self.recorded += [number] * records

    @rule(count=st.integers(1, 2))
    def add_records(self, count: int) -> None:
        before = self.spool._records.next
        with self.perhaps_killed():
            self.spool.add_records([{"of": 0}] * count, {})
        if self.spool._records.next > before:
            self.recorded += [0] * count

    @rule(max_bytes=st.integers(0, 1000), most=st.integers(0, 5))
    def send(self, max_bytes: int, most: int) -> None:
        with self.perhaps_killed():
            piece = self.spool.piece(max_bytes)
            if piece is not None:
                self.relay.take(piece.data, most)
                self.spool.settle(self.relay.next, first=piece.first)

    @rule(arrives=st.booleans())
    def send_records(self, arrives: bool) -> None:
        with self.perhaps_killed():
            found = self.spool.records()
            if found is not None and arrives:
                self.relay.take_records(*found)
                self.spool.settle_records(found[0] + 1)

    @precondition(lambda self: self.killer.left is None)
    @rule(after=st.integers(0, 400))
    def kill_after(self, after: int) -> None:
        self.killer.left = after * max(self.sizes) // 1000

    @rule()
    def reopen(self) -> None:
        self.killer.left = None
        # Unless it was killed, which changes nothing more on disk.
        self.spool.close()
        before = self.spool.next
        self.spool = self.opened()
        assert self.spool.next >= before
        self.spool.settle(self.relay.next)
        self.spool.settle_records(self.relay.records_next)

    @invariant()
    def numbers_and_counts_go_on(self) -> None:
        if not hasattr(self, "spool"):
            return
        assert self.spool.next == len(self.appended) + 1
        assert self.spool.progress.get("n", 0) == len(self.appended)
        largest = 300 + max(map(len, self.appended), default=0)
        batches = self.spool._batches
        assert batches.size + batches.spare_bytes <= max(self.max_bytes, largest)

    def teardown(self) -> None:
        self.killer.left = None
        try:
            self.finish()
        finally:
            self.spool.close()
            self.patch.undo()
            self.folder.cleanup()

    def finish(self) -> None:
        while piece := self.spool.piece(500):
            self.relay.take(piece.data, 1000)
            self.spool.settle(self.relay.next, first=piece.first)
        while found := self.spool.records():
            self.relay.take_records(*found)
            self.spool.settle_records(found[0] + 1)
        self.check()
        assert self.spool.waiting == self.spool.records_waiting == 0

    def check(self) -> None:
        assert self.relay.bodies == self.appended
        assert self.relay.records == self.recorded


class KillsWithDropping(Kills):
    """The same with a spool that drops the oldest batches."""

    when_full = "drop_oldest"
    max_bytes = 1500

    def check(self) -> None:
        rest = iter(self.appended)
        assert all(body in rest for body in self.relay.bodies)
        lost = len(self.appended) - len(self.relay.bodies)
        at_the_end = len(self.appended) - (self.relay.next - 1)
        assert self.relay.dropped + at_the_end == lost
        rest_of_records = iter(self.recorded)
        assert all(each in rest_of_records for each in self.relay.records)


class KillsWithReuse(Kills):
    """The same with files of a few batches, which are written to again."""

    max_bytes = 200_000
    sizes = (0, 700, 2000, 5000, 7500)


limits = settings(max_examples=50, stateful_step_count=25, deadline=None)
TestKills = Kills.TestCase
TestKills.settings = limits
TestKillsWithDropping = KillsWithDropping.TestCase
TestKillsWithDropping.settings = limits
TestKillsWithReuse = KillsWithReuse.TestCase
TestKillsWithReuse.settings = limits


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL + 1, "gym_http_client")


def new_spool(folder: Path, **options: Any) -> Spool:
    spool = Spool(folder, run="r", **{"worker": "w", **options})
    spool.begin("s")
    return spool


def end_as_a_kill_does(spool: Spool) -> None:
    """Close the files of a spool, and change nothing on disk."""
    for log in (spool._batches, spool._records):
        if log._file is not None:
            log._file.close()
            log._file = None
    spool._lock_file.close()
    spool._closed = True


def send_all(spool: Spool) -> list[bytes]:
    """Return the batches that wait, as if they were sent."""
    bodies = []
    while (piece := spool.piece(0)) is not None:
        bodies += [each.body for each in piece.entries()]
        spool.settle(piece.last + 1, first=piece.first)
    return bodies


def head_of(piece: segments.Piece) -> BatchHead:
    return next(split(piece.data)).head


def add(spool: Spool, body: bytes) -> int:
    return spool.append(body, policy=0, count=1, content_type=TYPE)


def test_a_second_process_cannot_use_the_folder_on_unix(tmp_path: Path) -> None:
    code = (
        "import sys; from gym_http_client.relay.spool import Spool\n"
        "spool = Spool(sys.argv[1], run='r'); spool.begin('s')\n"
        "spool.append(b'abc', policy=0, count=1, content_type='a/b')\n"
        "print('ready', flush=True); sys.stdin.read()"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        with pytest.raises(SpoolError, match=f"in use by process {process.pid}"):
            Spool(tmp_path, run="r")
        process.kill()
        process.wait()
    with Spool(tmp_path, run="r") as spool:
        piece = spool.piece(1000)
        assert piece is not None
        assert bytes(piece.data).endswith(b"abc")
        assert spool.next == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"run": "other"}, "of run 'r', not of 'other'"),
        ({"worker": "other"}, "of worker 'w', not of 'other'"),
    ],
)
def test_the_folder_of_another_is_refused(
    options: dict[str, Any], words: str, tmp_path: Path
) -> None:
    new_spool(tmp_path).close()
    with pytest.raises(SpoolError, match=words):
        Spool(tmp_path, **{"run": "r", **options})
    with Spool(tmp_path, run="r") as spool:
        assert spool.worker == "w"
        assert spool.session == "s"


@pytest.mark.parametrize("text", ["", "{", '{"run": "r", "worker": "w", "format": 9}'])
def test_a_damaged_state_is_named(text: str, tmp_path: Path) -> None:
    new_spool(tmp_path).close()
    (tmp_path / "state.json").write_text(text)
    with pytest.raises(SpoolError, match=r"damaged|format 9"):
        Spool(tmp_path, run="r")


def test_a_full_spool_blocks_until_batches_were_sent(tmp_path: Path) -> None:
    with new_spool(tmp_path, max_bytes=3000) as spool:
        for _ in range(2):
            add(spool, bytes(1000))
        thread = threading.Thread(target=add, args=(spool, bytes(1000)))
        thread.start()
        piece = spool.piece(0)
        assert piece is not None
        assert spool.waiting == 2
        spool.settle(3, first=piece.first)
        thread.join(20)
        assert not thread.is_alive()
        assert (spool.waiting, spool.next, spool.dropped) == (1, 4, 0)
        with pytest.raises(ValueError, match="may have 3000: send smaller parts"):
            add(spool, bytes(3000))


def test_a_full_spool_does_not_block_for_ever(tmp_path: Path) -> None:
    spool = new_spool(tmp_path, max_bytes=3000)
    for _ in range(2):
        add(spool, bytes(1000))
    spool.fail(RuntimeError("unauthorized"))
    with pytest.raises(RuntimeError, match="unauthorized"):
        add(spool, bytes(1000))
    spool._error = None
    errors: list[BaseException] = []

    def wait_for_room() -> None:
        try:
            add(spool, bytes(1000))
        except SpoolClosed as error:
            errors.append(error)

    thread = threading.Thread(target=wait_for_room)
    thread.start()
    spool.close()
    thread.join(20)
    assert len(errors) == 1


def test_the_oldest_batches_are_dropped_and_declared(tmp_path: Path) -> None:
    with new_spool(tmp_path, max_bytes=5000, when_full="drop_oldest") as spool:
        for number in range(10):
            add(spool, bytes([number]) * 1000)
        assert spool.size <= 5000
        piece = spool.piece(0)
        assert piece is not None
        dropped = piece.first - 1
        assert dropped >= 5
        assert spool.dropped == head_of(piece).dropped == dropped
        assert bytes(piece.data).endswith(bytes([dropped]) * 1000)
        spool.settle(piece.first + 1, first=piece.first)
        assert spool.dropped == dropped
        following = spool.piece(0)
        assert following is not None
        assert head_of(following).dropped == 0


def test_a_kill_after_the_last_file_was_dropped_reuses_no_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = new_spool(tmp_path, max_bytes=1500, when_full="drop_oldest")
    add(spool, bytes(1000))
    write = spool._write_state

    def write_or_die() -> None:
        if not spool._batches._segments:
            raise Killed
        write()

    monkeypatch.setattr(spool, "_write_state", write_or_die)
    with pytest.raises(Killed):
        add(spool, bytes(1000))
    spool.close()
    with Spool(tmp_path, run="r") as spool:
        assert (spool.next, spool.dropped) == (2, 1)


def test_batches_that_were_dropped_on_their_way_count_as_sent(tmp_path: Path) -> None:
    with new_spool(tmp_path, max_bytes=5000, when_full="drop_oldest") as spool:
        for _ in range(4):
            add(spool, bytes(1000))
        piece = spool.piece(10_000)
        assert piece is not None
        for _ in range(4):
            add(spool, bytes(1000))
        assert spool.dropped >= 3
        spool.settle(piece.last + 1, first=piece.first)
        assert spool.dropped == 0 or spool._state.cursor > piece.last + 1


def test_a_refused_batch_is_kept_apart_and_declared(tmp_path: Path) -> None:
    with new_spool(tmp_path) as spool:
        for number in range(1, 4):
            add(spool, b"%d" % number)
        spool.settle(2, first=1)
        path = spool.refuse(2, {"code": "bad-columns", "message": "m"})
        (place,) = split(path.read_bytes())
        assert (place.head.number, path.read_bytes()[place.offset :]) == (2, b"2")
        assert json.loads(path.with_suffix(".json").read_text())["message"] == "m"
        assert (spool.refused, spool.dropped) == (1, 1)
    with Spool(tmp_path, run="r") as spool:
        piece = spool.piece(1000)
        assert piece is not None
        assert (piece.first, head_of(piece).dropped) == (3, 1)
        assert piece.data[-1:] == b"3"
        spool.settle(4, first=3)
        assert (spool.refused, spool.dropped, spool.waiting) == (1, 1, 0)


def test_refused_batches_do_not_fill_the_disk(tmp_path: Path) -> None:
    with new_spool(tmp_path, max_bytes=16_000) as spool:
        for number in range(1, 11):
            add(spool, bytes(400))
            spool.refuse(number, {})
        names = sorted(path.name for path in (tmp_path / "refused").iterdir())
        assert names == [f"{10:016d}.bundle", f"{10:016d}.json"]


def test_an_old_copy_of_a_spool_is_noticed(tmp_path: Path) -> None:
    with new_spool(tmp_path) as spool:
        add(spool, b"1")
        with pytest.raises(SpoolError, match=r"next batch of session s is 3.*old copy"):
            spool.settle(3)


def test_damaged_files_count_as_dropped(tmp_path: Path) -> None:
    with new_spool(tmp_path, max_bytes=4000) as spool:
        for _ in range(6):
            add(spool, bytes(200))
    first, second, *_ = sorted((tmp_path / "batches").iterdir())
    data = first.read_bytes()
    first.write_bytes(bytes(len(data)))
    second.unlink()
    with Spool(tmp_path, run="r", max_bytes=4000) as spool:
        piece = spool.piece(0)
        assert piece is not None
        assert piece.first == 3
        assert head_of(piece).dropped == spool.dropped == 2


def test_what_a_power_failure_left_of_a_batch_is_cut_off(tmp_path: Path) -> None:
    with new_spool(tmp_path) as spool:
        add(spool, b"first")
        add(spool, b"second")
    (path,) = (tmp_path / "batches").iterdir()
    data = path.read_bytes()
    path.write_bytes(data[: -len(b"second")] + bytes(len(b"second")))
    with Spool(tmp_path, run="r") as spool:
        assert (spool.next, spool.waiting) == (2, 1)
        assert add(spool, b"another") == 2
        piece = spool.piece(1000)
        assert piece is not None
        assert bytes(piece.data).endswith(b"another")


def test_batches_of_earlier_clients_have_digests(tmp_path: Path) -> None:
    with new_spool(tmp_path) as spool:
        add(spool, b"first")
    (path,) = (tmp_path / "batches").iterdir()
    for number, body in ((2, b"second"), (3, b"damaged")):
        digest = hashlib.sha256(b"second").hexdigest()
        head = BatchHead("s", number, 0, 1, content_type=TYPE, digest=digest)
        path.write_bytes(path.read_bytes() + encode_batch(head, body))
    with Spool(tmp_path, run="r") as spool:
        assert send_all(spool) == [b"first", b"second"]


def test_a_file_that_was_sent_is_written_to_again(tmp_path: Path) -> None:
    """What a kill leaves behind its new batches are old ones, of the same size."""
    with new_spool(tmp_path / "spool", max_bytes=32_000) as spool:
        # Files of four batches.
        for _ in range(8):
            add(spool, bytes(400))
        batches = tmp_path / "spool" / "batches"
        files = {path.stat().st_ino for path in batches.iterdir()}
        assert len(send_all(spool)) == 8
        assert spool._batches.spare_bytes >= 2000
        add(spool, b"x" * 400)
        add(spool, b"y" * 400)
        newest = max(batches.glob("*.bundle"))
        assert newest.stat().st_ino in files
        assert spool._batches.spare_bytes == 0
        assert newest.stat().st_size > spool._batches._segments[-1].size
        shutil.copytree(tmp_path / "spool", tmp_path / "killed")
        assert send_all(spool) == [b"x" * 400, b"y" * 400]
    with Spool(tmp_path / "killed", run="r", max_bytes=32_000) as spool:
        assert (spool.next, spool.waiting) == (11, 2)
        assert send_all(spool) == [b"x" * 400, b"y" * 400]


def test_a_piece_has_no_more_batches_than_a_request_may(tmp_path: Path) -> None:
    with new_spool(tmp_path / "spool") as spool:
        for _ in range(MOST_BATCHES + 10):
            add(spool, b"")
        first = spool.piece(MAX_POST)
        assert first is not None
        assert (first.first, len(first.ends)) == (1, MOST_BATCHES)
        assert len(list(split(first.data))) == MOST_BATCHES
        spool.settle(first.last + 1, first=1)
        second = spool.piece(MAX_POST)
        assert second is not None
        assert (second.first, len(second.ends)) == (MOST_BATCHES + 1, 10)


def test_a_full_spool_gives_up_the_file_that_it_keeps(tmp_path: Path) -> None:
    with new_spool(tmp_path, max_bytes=4000) as spool:
        for _ in range(5):
            add(spool, bytes(500))
        send_all(spool)
        spare = spool._batches.spare_bytes
        assert spare
        assert (tmp_path / "batches" / "spare").stat().st_size == spare
        assert spool.size == spool._batches.size + spare
        add(spool, bytes(3000))
        assert spool.size <= 4000
        assert send_all(spool) == [bytes(3000)]


def test_a_spool_that_is_closed_leaves_no_spare_file(tmp_path: Path) -> None:
    with new_spool(tmp_path, max_bytes=4000) as spool:
        for _ in range(5):
            add(spool, bytes(500))
        send_all(spool)
        assert (tmp_path / "batches" / "spare").exists()
    assert not (tmp_path / "batches" / "spare").exists()


def test_a_disk_error_leaves_the_spool_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with new_spool(tmp_path) as spool:
        add(spool, b"1")
        with monkeypatch.context() as patch:
            full = OSError(28, "No space left on device")

            def fail(*parts: bytes) -> None:
                raise full

            patch.setattr(spool._batches, "append", fail)
            with pytest.raises(OSError, match="No space left"):
                spool.append(
                    b"2", policy=0, count=1, content_type=TYPE, records=[{"of": 2}]
                )
        assert (spool.next, spool.records_waiting) == (2, 0)
        assert add(spool, b"2") == 2


def test_it_works_without_fcntl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with new_spool(tmp_path) as spool:
        assert add(spool, b"1") == 1
