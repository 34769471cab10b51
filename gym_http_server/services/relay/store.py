"""The store: all that the relay keeps, by run.

The relay calls it for a group of requests between `begin` and `commit`, and answers
them after the commit. The methods are few, and take and return plain records (`rows`),
so that another engine can have the same.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from gym_http_server.services.relay.database import PAGE_BYTES, ROW_BYTES
from gym_http_server.services.relay.files import MIN_FREE_BYTES, FileSlice
from gym_http_server.services.relay.rows import (
    XXH3_BYTES,
    BatchRow,
    LeaseRow,
    LeaseState,
    RunRow,
    SessionRow,
    lag_class,
)
from gym_http_server.services.relay.tables import SPAN, Tables

__all__ = ["DIGESTS_KEPT", "Store"]

#: At least so many digests of a session are kept, to recognise repetitions.
DIGESTS_KEPT = 1000
#: Rows that one step of trimming removes.
TRIM_ROWS = 4096
DIGEST_BYTES = 32
#: A file is kept as it is if it has fewer other bytes than these for each batch.
UNUSED_BYTES = 1024

_BATCHES = (
    "SELECT b.key, b.number, b.policy, b.count, b.digest, b.content_type, b.packing, "
    "b.unpacked, b.lag, b.stale, b.received, f.name, b.start, b.size, b.body, "
    "s.session, s.worker FROM batches b JOIN sessions s ON s.id = b.session "
    "LEFT JOIN files f ON f.id = b.file "
)
#: Consumed batches, without leases and with them, the oldest first.
_CONSUMED = (
    "SELECT key, size, file FROM batches WHERE key > ? AND key <= ? UNION ALL "
    "SELECT b.key, b.size, b.file FROM leases l JOIN batches b ON b.key = l.key "
    "WHERE l.state = 5 AND l.key > ? AND l.key < ? ORDER BY 1 LIMIT ?"
)


class Store(Tables):
    """The store in a directory.

    Args:
        folder: The directory. It is created if it does not exist.
        disk_limit: Most bytes that it may use.
        min_free: Free space that samples leave on the disk.

    Raises:
        RelayTaken: Another server uses the directory.
        OSError: The directory cannot be used.
    """

    def __init__(
        self, folder: str, disk_limit: int, min_free: int = MIN_FREE_BYTES
    ) -> None:
        super().__init__(folder, disk_limit, min_free)
        try:
            self._count_file_bytes()
            self.sweep()
            self.tidy()
            # Runs whose consumed batches may have to go.
            self._untrimmed = {run.run for run in self.runs()}
        except BaseException:
            self.close()
            raise

    def commit(self) -> None:
        """Write and sync the transaction; `clean_up` removes the files that it frees.

        The first step of trimming is part of it.

        Raises:
            StorageFull: The disk is full. The transaction must be rolled back.
        """
        if self._failure is None:
            self._trim_all()
        super().commit()

    def maintain(self) -> bool:
        """Do a step of what is due: trim, remove deleted runs, free disk space.

        Call it outside of transactions.

        Returns:
            Whether there is more to do.
        """
        self.begin()
        try:
            more = self._purge()
            more = bool(self._untrimmed) or more
            self.commit()
        except BaseException:
            self.rollback()
            raise
        self.clean_up()
        return self.tidy() or more

    def append(self, run: RunRow, session: SessionRow, rows: Sequence[BatchRow]) -> int:
        """Append batches of a session, in the order of their numbers.

        Bodies may be bytes, or slices of one file.

        Args:
            run: The run.
            session: The session; its own members stay as they are.
            rows: The batches. Position, session and worker are set.

        Returns:
            The position of the first one.

        Raises:
            StorageFull: The disk has no room; nothing is stored.
            RelayUnavailable: The file is gone; nothing is stored.
        """
        slices = [row.body for row in rows if isinstance(row.body, FileSlice)]
        users = Counter(each.name for each in slices)
        inline = sum(row.size for row in rows if not isinstance(row.body, FileSlice))
        inline += ROW_BYTES * len(rows)
        self._check_room(inline, inline + sum(map(self.files.size, users)), 0)
        files = {
            name: self._use_file(name, count, _unused(slices, self.files.size(name)))
            for name, count in users.items()
        }
        totals = run.totals
        first = totals.stored + 1
        for position, row in enumerate(rows, first):
            row.position = position
            row.session, row.worker = session.session, session.worker
        self._execute_many(
            f"INSERT INTO batches VALUES (?{', ?' * 15})",
            (_values(run, session, row, files) for row in rows),
        )
        self._keep_digests(session, rows)
        size = transitions = 0
        for row in rows:
            size += row.size
            transitions += row.count
            totals.lags[lag_class(row.lag)] += 1
        totals.stored += len(rows)
        totals.waiting += len(rows)
        totals.transitions += transitions
        totals.queue_transitions += transitions
        totals.queue_bytes += size
        run.worker_bytes[session.worker] += size
        self.changed(run)
        return first

    def digest(self, session: SessionRow, number: int) -> bytes | None:
        """Return the SHA-256 or XXH3 of a batch, or ``None`` if it is not kept."""
        row = self._one(
            "SELECT first, digests FROM digests WHERE session = ? AND first <= ? "
            "ORDER BY first DESC LIMIT 1",
            session.id,
            number,
        )
        if row is None:
            return None
        start = (number - row[0]) * DIGEST_BYTES
        digest = row[1][start : start + DIGEST_BYTES]
        # Zeros are behind an XXH3, and in the place of a digest that was empty.
        if not digest[XXH3_BYTES:].strip(b"\0"):
            digest = digest[:XXH3_BYTES]
        return digest if digest.strip(b"\0") else None

    def _keep_digests(self, session: SessionRow, rows: Sequence[BatchRow]) -> None:
        last = rows[-1].number
        recent = rows
        if rows[0].number <= last - DIGESTS_KEPT:
            recent = [row for row in rows if row.number > last - DIGESTS_KEPT]
        # Numbers in a row share a row of the table.
        for _, part in itertools.groupby(
            enumerate(recent), lambda each: each[1].number - each[0]
        ):
            group = [row for _, row in part]
            joined = b"".join(row.digest.ljust(DIGEST_BYTES, b"\0") for row in group)
            self._execute(
                "INSERT INTO digests VALUES (?, ?, ?)",
                session.id,
                group[0].number,
                joined,
            )
        self._execute(
            "DELETE FROM digests WHERE session = ? AND first <= ?",
            session.id,
            # A row has at most as many digests.
            last - 2 * DIGESTS_KEPT,
        )

    def first(self, run: RunRow) -> int:
        """Return the lowest position that is kept, or the next one if none is."""
        start = run.id * SPAN
        (key,) = self._one(
            "SELECT min(key) FROM batches WHERE key > ? AND key < ?",
            start,
            start + SPAN,
        )
        return run.totals.stored + 1 if key is None else int(key) - start

    def oldest(self, run: RunRow) -> float | None:
        """Return when the oldest batch that waits or is leased was received."""
        start = run.id * SPAN
        row = self._one(
            "SELECT b.received FROM batches b LEFT JOIN leases l ON l.key = b.key "
            "WHERE b.key > ? AND b.key < ? AND ifnull(l.state, 0) NOT IN (?, ?) "
            "ORDER BY b.key LIMIT 1",
            start + run.totals.consumed_to,
            start + SPAN,
            LeaseState.ASIDE,
            LeaseState.CONSUMED,
        )
        return None if row is None else float(row[0])

    def batches(
        self,
        run: RunRow,
        after: int,
        *,
        max_bytes: int,
        max_batches: int = 10_000,
        max_inline: int = 2 * 1024**2,
        max_files: int = 200,
    ) -> list[BatchRow]:
        """List the batches after a position, within limits, but at least one.

        Args:
            run: The run.
            after: The position.
            max_bytes: Most bytes of all bodies.
            max_batches: Most batches.
            max_inline: Most bytes of bodies that are not in files.
            max_files: Most files.
        """
        start = run.id * SPAN
        cursor = self._execute(
            f"{_BATCHES} WHERE b.key > ? AND b.key < ? ORDER BY b.key LIMIT ?",
            start + after,
            start + SPAN,
            max_batches,
        )
        return _limited(cursor, start, max_bytes, max_inline, max_files)

    def batches_at(
        self,
        run: RunRow,
        positions: Iterable[int],
        *,
        max_bytes: int,
        max_inline: int = 2 * 1024**2,
        max_files: int = 200,
    ) -> list[BatchRow]:
        """List the batches at some positions, within limits, but at least one."""
        start = run.id * SPAN
        rows = (
            self._one(f"{_BATCHES} WHERE b.key = ?", start + position)
            for position in positions
        )
        found = (row for row in rows if row is not None)
        return _limited(found, start, max_bytes, max_inline, max_files)

    # Consumption

    def consume_to(self, run: RunRow, position: int) -> None:
        """Count the batches up to a position as consumed by all readers.

        Where batches are leased, only those that were acknowledged are consumed.
        """
        totals = run.totals
        if position <= totals.floor:
            return
        start = run.id * SPAN
        if totals.leasing:
            acked = self._execute(
                "SELECT key - ?, delivery FROM leases "
                "WHERE key > ? AND key <= ? AND state = ?",
                start,
                start + totals.floor,
                start + position,
                LeaseState.ACKED,
            ).fetchall()
            for at, delivery in acked:
                self.put_lease(run, LeaseRow(at, LeaseState.CONSUMED, delivery, 0.0))
        else:
            parts = self._execute(
                "SELECT s.worker, count(*), sum(b.count), sum(b.size) FROM batches b "
                "JOIN sessions s ON s.id = b.session "
                "WHERE b.key > ? AND b.key <= ? GROUP BY s.worker",
                start + totals.consumed_to,
                start + position,
            ).fetchall()
            for worker, count, transitions, size in parts:
                _leave_queue(run, worker, transitions, size)
                totals.waiting -= count
                totals.consumed += count
                totals.kept += count
                totals.kept_bytes += size
            totals.consumed_to = position
        totals.floor = position
        self.changed(run)
        self._untrimmed.add(run.run)

    def leases(self, run: RunRow) -> list[LeaseRow]:
        """List the leases of a run whose batches are not consumed, by position."""
        start = run.id * SPAN
        rows = self._execute(
            "SELECT key - ?, state, delivery, until FROM leases "
            "WHERE key > ? AND key < ? AND state != ? ORDER BY key",
            start,
            start,
            start + SPAN,
            LeaseState.CONSUMED,
        )
        return [LeaseRow(p, LeaseState(s), d, u) for p, s, d, u in rows]

    def put_lease(self, run: RunRow, lease: LeaseRow) -> None:
        """Add or replace the lease of a batch, and count what becomes of the batch."""
        totals = run.totals
        key = run.id * SPAN + lease.position
        old, transitions, size, worker = self._one(
            "SELECT l.state, b.count, b.size, s.worker FROM batches b "
            "JOIN sessions s ON s.id = b.session "
            "LEFT JOIN leases l ON l.key = b.key WHERE b.key = ?",
            key,
        )
        self._execute(
            "INSERT OR REPLACE INTO leases VALUES (?, ?, ?, ?)",
            key,
            lease.state,
            lease.delivery,
            lease.until,
        )
        for state, change in ((old, -1), (lease.state, 1)):
            if state == LeaseState.LEASED:
                totals.leased += change
            elif state == LeaseState.ASIDE:
                totals.aside += change
            elif state == LeaseState.CONSUMED:
                totals.consumed += change
                totals.kept += change
                totals.kept_bytes += size * change
                self._untrimmed.add(run.run)
            else:
                totals.waiting += change
        if lease.state in (LeaseState.ASIDE, LeaseState.CONSUMED):
            _leave_queue(run, worker, transitions, size)
        totals.leasing = True
        totals.cursor = max(totals.cursor, lease.position)
        self.changed(run)

    def aside(
        self, run: RunRow, after: int, *, max_bytes: int, max_batches: int = 1000
    ) -> list[BatchRow]:
        """List batches that were set aside, after a position, within limits."""
        start = run.id * SPAN
        rows = self._execute(
            "SELECT key - ? FROM leases WHERE key > ? AND key < ? AND state = ? "
            "ORDER BY key LIMIT ?",
            start,
            start + after,
            start + SPAN,
            LeaseState.ASIDE,
            max_batches,
        ).fetchall()
        return self.batches_at(run, (at for (at,) in rows), max_bytes=max_bytes)

    # Trimming

    def _trim_all(self) -> None:
        for name in list(self._untrimmed):
            run = self.run(name)
            if run is None or not self._trim(run):
                self._untrimmed.discard(name)

    def _trim(self, run: RunRow) -> bool:
        """Remove some of the oldest consumed batches; return whether there are more."""
        if not _too_many_kept(run):
            return False
        totals = run.totals
        start = run.id * SPAN
        if not totals.leasing and not run.keep_bytes:
            self._trim_range(run)
            return _too_many_kept(run)
        rows = self._execute(
            _CONSUMED,
            start,
            start + totals.consumed_to,
            start,
            start + SPAN,
            TRIM_ROWS,
        ).fetchall()
        gone: list[tuple[int]] = []
        files: Counter[int] = Counter()
        for key, size, file in rows:
            if not _too_many_kept(run):
                break
            totals.kept -= 1
            totals.kept_bytes -= size
            gone.append((key,))
            if file is not None:
                files[file] += 1
        self._execute_many("DELETE FROM batches WHERE key = ?", gone)
        self._execute_many("DELETE FROM leases WHERE key = ?", gone)
        for file, users in files.items():
            self._release_file(file, users)
        self.changed(run)
        return _too_many_kept(run)

    def _trim_range(self, run: RunRow) -> None:
        """Remove consumed batches of a run that keeps none and leases none: fast."""
        totals = run.totals
        start = run.id * SPAN
        first = self.first(run)
        last = min(totals.consumed_to, first + TRIM_ROWS - 1)
        keys = (start + first, start + last)
        parts = self._execute(
            "SELECT file, count(*), sum(size) FROM batches WHERE key BETWEEN ? AND ? "
            "GROUP BY file",
            *keys,
        ).fetchall()
        self._execute("DELETE FROM batches WHERE key BETWEEN ? AND ?", *keys)
        for file, count, size in parts:
            totals.kept -= count
            totals.kept_bytes -= size
            if file is not None:
                self._release_file(file, count)
        self.changed(run)


def _unused(slices: list[FileSlice], total: int) -> list[tuple[int, int]]:
    """Return the larger parts of a file between slices, in whole pages.

    A bundle has batches that were stored before, or are refused, and may have long
    heads. They would be kept as long as its other batches, beyond the limits of a run.
    """
    if total - sum(each.size for each in slices) < UNUSED_BYTES * len(slices):
        return []
    found = []
    end = 0
    for start, size in [*((each.offset, each.size) for each in slices), (total, 0)]:
        first = -(-end // PAGE_BYTES) * PAGE_BYTES
        last = start // PAGE_BYTES * PAGE_BYTES
        if first < last:
            found.append((first, last - first))
        end = start + size
    return found


def _leave_queue(run: RunRow, worker: str, transitions: int, size: int) -> None:
    run.totals.queue_transitions -= transitions
    run.totals.queue_bytes -= size
    run.worker_bytes[worker] -= size
    if run.worker_bytes[worker] <= 0:
        del run.worker_bytes[worker]


def _too_many_kept(run: RunRow) -> bool:
    totals = run.totals
    return totals.kept > 0 and (
        not run.keep_bytes or totals.kept_bytes > run.keep_bytes
    )


def _values(
    run: RunRow, session: SessionRow, row: BatchRow, files: dict[str, int]
) -> tuple[Any, ...]:
    body = row.body
    place: tuple[int | None, int, int, bytes | None]
    if isinstance(body, FileSlice):
        place = (files[body.name], body.offset, body.size, None)
    else:
        place = (None, 0, len(body), body)
    return (
        run.id * SPAN + row.position,
        session.id,
        row.number,
        row.policy,
        row.count,
        row.digest,
        row.content_type,
        row.packing,
        row.unpacked,
        row.lag,
        row.stale,
        row.received,
        *place,
    )


def _limited(
    rows: Iterable[tuple[Any, ...]],
    start: int,
    max_bytes: int,
    max_inline: int,
    max_files: int,
) -> list[BatchRow]:
    found: list[BatchRow] = []
    files: set[str] = set()
    total = inline = 0
    for row in rows:
        file, size = row[11], row[13]
        total += size
        if file is None:
            inline += size
        else:
            files.add(file)
        if found and (
            total > max_bytes or inline > max_inline or len(files) > max_files
        ):
            break
        found.append(_batch(row, start))
    return found


def _batch(row: tuple[Any, ...], start: int) -> BatchRow:
    (
        key,
        number,
        policy,
        count,
        digest,
        content_type,
        packing,
        unpacked,
        lag,
        stale,
        received,
        file,
        offset,
        size,
        body,
        session,
        worker,
    ) = row
    return BatchRow(
        number,
        policy,
        count,
        body if file is None else FileSlice(file, offset, size),
        digest,
        content_type,
        packing,
        unpacked,
        lag,
        bool(stale),
        received,
        key - start,
        session,
        worker,
    )
