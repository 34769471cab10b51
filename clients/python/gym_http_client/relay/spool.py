"""Spool: the batches and records of one worker on disk, until the relay has them."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from gym_http_client.http.json_requests import plain_json
from gym_http_client.relay.segments import SMALL_BYTES, Piece, Segments, SpooledHead
from gym_http_client.relay.spool_folder import SpoolError, lock, read_state, write_state
from gym_http_wire.bundles import checksum_of, encode_batch, encode_batch_start

__all__ = ["Spool", "SpoolClosed", "SpoolError", "WhenFull"]

WhenFull = Literal["block", "drop_oldest"]

#: Bytes that a spool may have on disk by default.
MAX_BYTES = 1024 * 1024 * 1024
_LARGEST_SEGMENT = 64 * 1024 * 1024
# Files of a spool. An old one goes as soon as all of it was sent or dropped.
_FILES = 16
_MAX_RECORDS_BYTES = 256 * 1024
_RECORDS_TYPE = "application/x-ndjson"
# Seconds between looks whether a wait is interrupted.
_CHECK = 0.2
# Seconds between messages about dropped batches.
_LOG_PAUSE = 10.0
_logger = logging.getLogger("gym_http_client")


class SpoolClosed(RuntimeError):
    """The spool was closed while a batch waited for room."""


class Spool:
    """The batches and records of one worker on disk, until the relay has them.

    They are in bundles, so that they are sent as they lie there. They outlive a kill of
    the process, but not a power failure: nothing is synced. One thread appends, and
    another one sends.

    Args:
        folder: The folder; no other worker may use it.
        run: Name of the run.
        worker: Name of the worker; by default the one in the folder, else ``default``.
        default: Name of the worker in a new folder.
        max_bytes: Size of the batches at most. Records may have a sixteenth of that.
        when_full: What to do when it is full: ``"block"`` waits until there is room,
            ``"drop_oldest"`` drops and counts the oldest batches.

    Attributes:
        interrupted: Whether a batch raises `SpoolClosed` instead of waiting for room; a
            signal handler may set this.

    Raises:
        SpoolError: Another process uses the folder, or it belongs to another run or
            worker.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        run: str,
        worker: str | None = None,
        default: str = "worker",
        max_bytes: int = MAX_BYTES,
        when_full: WhenFull = "block",
    ) -> None:
        if when_full not in ("block", "drop_oldest"):
            raise ValueError(f"when_full is {when_full!r}: expected block, drop_oldest")
        self.folder = Path(folder)
        self.max_bytes = max_bytes
        self.when_full = when_full
        self.interrupted = False
        self._changed = threading.Condition()
        self._error: BaseException | None = None
        self._closed = False
        # When dropped batches were logged, and the number of those since.
        self._logged, self._unlogged = -math.inf, 0
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock_file = lock(self.folder)
        try:
            self._open(run, worker, default)
        except BaseException:
            self._lock_file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._closed

    @property
    def run(self) -> str:
        """Name of the run."""
        return self._state.run

    @property
    def worker(self) -> str:
        """Name of the worker."""
        return self._state.worker

    @property
    def session(self) -> str:
        """ID of the session; "" before there is one."""
        return self._state.session

    @property
    def progress(self) -> dict[str, int]:
        """Counts of the worker, as they were given with the last batch or record."""
        return dict(self._state.progress)

    @property
    def next(self) -> int:
        """Number of the next batch."""
        return self._batches.next

    @property
    def waiting(self) -> int:
        """Number of batches that were not sent yet."""
        with self._changed:
            return self._batches.next - max(self._state.cursor, self._batches.first)

    @property
    def records_waiting(self) -> int:
        """Number of record entries that were not sent yet."""
        with self._changed:
            sent = max(self._state.records_after, self._records.first - 1)
            return self._records.next - 1 - sent

    @property
    def size(self) -> int:
        """Bytes on disk."""
        logs = self._batches, self._records
        return sum(each.size + each.spare_bytes for each in logs)

    @property
    def dropped(self) -> int:
        """Number of batches that were dropped or refused, from the beginning."""
        with self._changed:
            return self._state.dropped + max(0, self._state.cursor - self._state.stored)

    @property
    def refused(self) -> int:
        """Number of batches that the relay refused; they are among the dropped ones."""
        return self._state.refused

    @property
    def stale(self) -> int:
        """Number of batches that the relay refused since they were stale."""
        return self._state.stale

    def begin(self, session: str, server: str = "") -> None:
        """Bind the spool to a session, and note where it is.

        Args:
            session: ID of the session.
            server: URL of the server.
        """
        with self._changed:
            state = self._state
            if state.session not in ("", session):
                raise SpoolError(f"{self.folder} has the session {self.session}")
            if (state.session, state.server) != (session, server):
                state.session, state.server = session, server
                self._write_state()

    def foreign_to(self, server: str) -> SpoolError:
        """Return the error to raise if a server does not know the spool's session.

        Args:
            server: URL of the server.
        """
        state = self._state
        at = f" at {state.server}" if state.server else ""
        return SpoolError(
            f"{self.folder} is a spool of run {state.run!r}{at}; run {state.run!r} at "
            f"{server} is another run, or was deleted and perhaps created again, as it "
            f"does not know the spool's session. {self.waiting} batches were not sent. "
            "Give another folder with spool=, or remove this one, to begin a new spool"
        )

    def append(
        self,
        *body: bytes | memoryview,
        policy: int,
        count: int,
        content_type: str,
        packing: str = "",
        unpacked: int = 0,
        records: Sequence[Mapping[str, Any]] = (),
        progress: Mapping[str, int] | None = None,
    ) -> int:
        """Append a batch, and records that belong to it; return its number.

        After a kill of the process, the spool has all of this or nothing.

        Args:
            body: The batch, packed, in one part or several.
            policy: Version of the weights that acted.
            count: Number of transitions.
            content_type: Media type of the batch before it was packed.
            packing: How it is packed.
            unpacked: Bytes before it was packed; 0 if it is not packed.
            records: Records of its episode.
            progress: Counts to be found in `progress` after a restart.

        Raises:
            ValueError: The batch is larger than the spool may be.
            SpoolClosed: The spool was closed while this waited for room.
            Exception: The sender has failed, so that there will never be room.
        """
        if not self.session:
            raise SpoolError(f"{self.folder} has no session yet: call begin first")
        head = SpooledHead(
            self.session,
            1,
            policy,
            count,
            content_type=content_type,
            packing=packing,
            unpacked=unpacked,
            progress=dict(progress or {}),
        )
        size = sum(map(len, body))
        if len(body) > 1 and size <= SMALL_BYTES:
            body = (b"".join(body),)
        head.checksum = checksum_of(body)
        needed = len(encode_batch_start(head, size)) + 32 + size
        with self._changed:
            self._make_room(needed)
            head.number = self._batches.next
            added = self._append_records(records, head.number, {}) if records else 0
            try:
                self._batches.append(encode_batch_start(head, size), *body)
            except OSError:
                if added:
                    self._records.undo(added)
                raise
            self._state.progress |= head.progress
            self._changed.notify_all()
            return head.number

    def add_records(
        self, records: Sequence[Mapping[str, Any]], progress: Mapping[str, int]
    ) -> None:
        """Append records that belong to no batch; see `append`."""
        with self._changed:
            self._append_records(records, 0, progress)
            self._state.progress |= dict(progress)
            self._changed.notify_all()

    # The sender's side

    def wait(self, seconds: float) -> None:
        """Wait until something may be sent."""
        with self._changed:
            if not self._closed and not self.waiting and not self.records_waiting:
                self._changed.wait(seconds)

    def wait_until_sent(self, end: float, clock: Callable[[], float]) -> bool:
        """Wait until everything was sent or the time is over; return whether it was.

        Raises:
            Exception: The sender has failed.
        """
        with self._changed:
            while self.waiting or self.records_waiting:
                if self._error is not None:
                    raise self._error
                left = end - clock()
                if left <= 0 or self._closed:
                    return False
                self._changed.wait(min(left, 1.0))
        return True

    def piece(self, max_bytes: int) -> Piece | None:
        """Return the next batches to send, or None.

        Its first head declares how many batches before it were dropped.
        """
        with self._changed:
            cursor, stored = self._state.cursor, self._state.stored
        piece = self._batches.piece(cursor, max_bytes)
        if piece is None:
            return None
        if piece.first > cursor:
            self._skip_to(piece.first)
        if piece.first > stored:
            piece.declare(piece.first - stored)
        return piece

    def is_next(self, piece: Piece) -> bool:
        """Return whether a piece is what to send next, after no dropped batches."""
        with self._changed:
            return piece.first == self._state.cursor == self._state.stored

    def piece_after(self, piece: Piece, max_bytes: int) -> Piece | None:
        """Return the batches that follow those of a piece, if there are many."""
        if self._batches.bytes_after(piece) < max_bytes:
            return None
        number = piece.last + 1
        found = self._batches.piece(number, max_bytes)
        return found if found is not None and found.first == number else None

    def settle(
        self, stored: int, *, first: int | None = None, stale: bool = False
    ) -> None:
        """Note the relay's next number: it has settled all batches below.

        Args:
            stored: The number.
            first: The first batch of the piece that was sent; None if nothing was sent.
            stale: Whether the last settled batch was refused since it was stale.

        Raises:
            SpoolError: The spool never had such a number, so it is an old copy.
        """
        with self._changed:
            state = self._state
            if stored > self._batches.next:
                raise SpoolError(
                    f"the next batch of session {state.session} is {stored} for the "
                    f"relay, and {self._batches.next} for {self.folder}: is the folder "
                    "an old copy? Remove it, and the worker begins a new session"
                )
            before = state.cursor if first is None else first
            if stored > before:
                state.dropped += max(0, before - state.stored)
            state.stale += stale
            state.stored = stored
            state.cursor = max(state.cursor, stored)
            self._write_state()
            self._batches.remove_before(state.cursor)
            self._changed.notify_all()

    def refuse(self, number: int, problem: Mapping[str, Any]) -> Path:
        """Move a batch to the folder ``refused``, and return its file there.

        Args:
            number: The batch, which is the first or a later one of those to send.
            problem: Why the relay refused it.
        """
        folder = self.folder / "refused"
        path = folder / f"{number:016d}.bundle"
        piece = self._batches.piece(number, 0)
        if piece is not None and piece.first == number:
            folder.mkdir(exist_ok=True)
            _make_room_in(folder, self._segment_bytes, len(piece.data))
            path.write_bytes(piece.data)
            path.with_suffix(".json").write_text(json.dumps(problem, indent=1))
        with self._changed:
            self._state.refused += 1
            self._state.cursor = max(self._state.cursor, number + 1)
            self._write_state()
            self._batches.remove_before(self._state.cursor)
            self._changed.notify_all()
        return path

    def records(self) -> tuple[int, list[dict[str, Any]]] | None:
        """Return the next request with records: its number, and the records.

        After a restart it is the same request, until `settle_records`.
        """
        with self._changed:
            state = self._state
            piece = self._records.piece(state.records_after + 1, _MAX_RECORDS_BYTES)
            if piece is None:
                if state.records_upto:
                    # They were lost, for example with the power.
                    self._end_records()
                return None
            if state.records_upto < piece.first:
                state.records_after, state.records_upto = piece.first - 1, piece.last
                self._write_state()
        entries = [
            each for each in piece.entries() if each.head.number <= state.records_upto
        ]
        lines = [line for each in entries for line in each.body.splitlines()]
        return state.records_number, [json.loads(line) for line in lines]

    def settle_records(self, number: int) -> None:
        """Note the relay's next number of requests with records.

        Raises:
            SpoolError: The spool never sent so many.
        """
        with self._changed:
            state = self._state
            sent = state.records_upto and number > state.records_number
            state.records_number = number
            if sent:
                self._end_records()
            else:
                self._write_state()
            self._changed.notify_all()

    def refuse_records(self) -> None:
        """Drop the records that were last sent."""
        with self._changed:
            self._end_records()
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """Note that the sender has failed: appending raises instead of waiting."""
        with self._changed:
            self._error = error
            self._changed.notify_all()

    def close(self) -> None:
        """Close the files; a batch that waits for room raises `SpoolClosed`."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._changed.notify_all()
            for log in (self._batches, self._records):
                log.remove_spare()
            self._close_files()

    def __del__(self) -> None:
        # A worker may be forgotten without being closed.
        with contextlib.suppress(AttributeError):
            self._close_files()

    def _close_files(self) -> None:
        self._batches.close()
        self._records.close()
        self._lock_file.close()

    def _open(self, run: str, worker: str | None, default: str) -> None:
        state = self._state = read_state(self.folder, run, worker, default)
        self._segment_bytes = min(_LARGEST_SEGMENT, max(1, self.max_bytes // _FILES))
        progress = state.progress

        def visit(head: SpooledHead, size: int) -> None:
            for name, count in head.progress.items():
                progress[name] = max(count, progress.get(name, count))

        self._batches = Segments(self.folder / "batches", self._segment_bytes, visit)
        self._batches.continue_at(state.next)
        last: list[tuple[SpooledHead, int]] = []
        self._records = Segments(
            self.folder / "records",
            max(1, self._segment_bytes // _FILES),
            lambda head, size: last.append((head, size)),
        )
        # The process was killed between an episode's records and its batch.
        while last and last[-1][0].batch >= self._batches.next:
            self._records.undo(last.pop()[1])
        for head, size in last:
            visit(head, size)
        self._records.continue_at(state.records_next)
        state.cursor = max(state.cursor, self._batches.first)
        self._batches.remove_before(state.cursor)
        self._records.remove_before(state.records_after + 1)

    def _append_records(
        self, records: Sequence[Mapping[str, Any]], batch: int, progress: Any
    ) -> int:
        """Append an entry with records, and return its size."""
        lines = [json.dumps(plain_json(dict(each))) for each in records]
        body = "\n".join(lines).encode()
        head = SpooledHead(
            self.session,
            self._records.next,
            0,
            len(lines),
            content_type=_RECORDS_TYPE,
            checksum=checksum_of([body]),
            progress=dict(progress),
            batch=batch,
        )
        data = encode_batch(head, body)
        self._records.append(data)
        while self._records.size > max(self._segment_bytes, 2 * len(data)):
            first = self._records.drop_first()
            _logger.warning(
                "%s has too many records: dropped those before %d", self.folder, first
            )
        return len(data)

    def _end_records(self) -> None:
        state = self._state
        state.records_after, state.records_upto = state.records_upto, 0
        self._write_state()
        sent = state.records_after + 1
        self._records.remove_before(
            sent, all_files=self._records.size > _MAX_RECORDS_BYTES
        )

    def _make_room(self, needed: int) -> None:
        """Wait until a batch of a size fits, or drop the oldest batches."""
        if needed > self.max_bytes:
            raise ValueError(
                f"the batch has {needed} bytes, and the spool {self.folder} may have "
                f"{self.max_bytes}: send smaller parts, or allow a larger spool"
            )
        warned = False
        while self._lacks_room(needed) and self._batches.size:
            if self._closed or self.interrupted:
                raise SpoolClosed(f"the spool {self.folder} is full, and is closed")
            if self._state.cursor >= self._batches.next:
                self._write_state()
                self._batches.remove_before(self._batches.next, all_files=True)
            elif self.when_full == "drop_oldest":
                self._drop_oldest()
            elif self._error is not None:
                raise self._error
            else:
                if not warned:
                    warned = True
                    _logger.warning(
                        "the spool %s is full (%d bytes): waiting for the relay",
                        self.folder,
                        self._batches.size,
                    )
                self._changed.wait(_CHECK)

    def _lacks_room(self, needed: int) -> bool:
        """Return whether there is no room for a batch, even without the spare file."""
        batches = self._batches
        if batches.size + batches.spare_bytes + needed > self.max_bytes:
            batches.remove_spare()
        return batches.size + needed > self.max_bytes

    def _drop_oldest(self) -> None:
        state = self._state
        self._write_state()
        before = max(state.cursor, self._batches.first)
        first = self._batches.drop_first()
        state.cursor = max(state.cursor, first)
        self._write_state()
        self._unlogged += max(0, first - before)
        now = time.monotonic()
        if self._unlogged and now >= self._logged + _LOG_PAUSE:
            _logger.warning(
                "the spool %s is full: dropped the oldest %d batches",
                self.folder,
                self._unlogged,
            )
            self._logged, self._unlogged = now, 0

    def _skip_to(self, number: int) -> None:
        """Continue after batches that are missing in damaged files."""
        with self._changed:
            missing = number - self._state.cursor
            if missing > 0:
                self._state.cursor = number
                self._write_state()
                _logger.error(
                    "%d batches of the spool %s are missing or damaged: they are "
                    "counted as dropped",
                    missing,
                    self.folder,
                )

    def _write_state(self) -> None:
        self._state.next = self._batches.next
        self._state.records_next = self._records.next
        write_state(self.folder, self._state)


def _make_room_in(folder: Path, max_bytes: int, needed: int) -> None:
    """Remove the oldest refused batches, so that they do not fill the disk."""
    files = sorted(folder.glob("*.bundle"))
    size = sum(path.stat().st_size for path in files) + needed
    for path in files:
        if size <= max_bytes:
            break
        size -= path.stat().st_size
        path.unlink()
        path.with_suffix(".json").unlink(missing_ok=True)
