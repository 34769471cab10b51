"""Runs, tokens, sessions, readers, weights, states and records in the database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from gym_http_server.services.relay.database import ROW_BYTES, Database
from gym_http_server.services.relay.files import MIN_FREE_BYTES, FileSlice
from gym_http_server.services.relay.rows import (
    BlobRow,
    LeaseState,
    ReaderRow,
    RecordRow,
    RunRow,
    SessionRow,
    TokenRow,
    Totals,
)

__all__ = ["SPAN", "Tables"]

#: The keys of a run's batches and records begin at its number times this.
SPAN = 1 << 40
#: Rows of a deleted run that one step removes.
PURGE_ROWS = 4096
#: Newest weights and states that are kept in memory, of at most 256 KiB each.
MOST_NEWEST = 32

_encode = msgspec.json.Encoder().encode
_decode_totals = msgspec.json.Decoder(Totals).decode
_RUNS = "SELECT id, name, created, limits, columns, keep_bytes, totals FROM runs"
_SESSIONS = "SELECT id, session, worker, details FROM sessions"
_BLOBS = (
    "SELECT kind, version, digest, content_type, created, b.size, f.name, start, body "
    "FROM blobs b LEFT JOIN files f ON f.id = b.file "
)
#: Bytes in the queue, by session.
_QUEUES = (
    "SELECT s.worker, sum(b.size) FROM batches b JOIN sessions s ON s.id = b.session "
    "LEFT JOIN leases l ON l.key = b.key "
    "WHERE b.key > ? AND b.key < ? AND ifnull(l.state, 0) NOT IN (?, ?) "
    "GROUP BY s.worker"
)


class Tables(Database):
    """The tables beside those of samples. `Store` describes the arguments."""

    def __init__(
        self, folder: str, disk_limit: int, min_free: int = MIN_FREE_BYTES
    ) -> None:
        super().__init__(folder, disk_limit, min_free)
        self._runs: dict[str, RunRow] = {}
        self._sessions: dict[str, tuple[int, SessionRow]] = {}
        self._changed: dict[int, RunRow | SessionRow] = {}
        # Workers that wait for new weights look at these often.
        self._newest: dict[tuple[int, str], BlobRow] = {}

    def changed(self, row: RunRow | SessionRow) -> None:
        """Write the counts of a run, or a session, with the next commit."""
        self._changed[id(row)] = row

    def commit(self) -> None:
        """Write and sync the transaction, then remove the files that it frees.

        Raises:
            StorageFull: The disk is full. The transaction must be rolled back.
        """
        for row in () if self._failure else self._changed.values():
            if isinstance(row, RunRow):
                self._execute(
                    "UPDATE runs SET totals = ? WHERE id = ?",
                    _encode(row.totals),
                    row.id,
                )
            else:
                self._execute(
                    "UPDATE sessions SET details = ? WHERE id = ?",
                    _encode(row),
                    row.id,
                )
        super().commit()
        self._changed.clear()

    def rollback(self) -> None:
        """Undo the transaction. Rows that were read before are no longer valid."""
        self._changed.clear()
        self._runs.clear()
        self._sessions.clear()
        self._newest.clear()
        super().rollback()

    # Runs and their tokens

    def add_run(
        self,
        name: str,
        limits: bytes,
        columns: bytes | None,
        keep_bytes: int,
        now: float,
    ) -> RunRow:
        """Add a run, whose name must be free.

        Raises:
            StorageFull: The disk has no room.
        """
        self.check_sample_room(len(limits) + len(columns or b""))
        totals = Totals(last=now)
        self._execute(
            "INSERT INTO runs (name, created, limits, columns, keep_bytes, totals) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            name,
            now,
            limits,
            columns,
            keep_bytes,
            _encode(totals),
        )
        added = self.run(name)
        assert added is not None  # noqa: S101
        return added

    def run(self, name: str) -> RunRow | None:
        """Return a run, or ``None``."""
        known = self._runs.get(name)
        if known is None:
            row = self._one(f"{_RUNS} WHERE name = ?", name)
            known = None if row is None else self._remember_run(row)
        return known

    def runs(self) -> list[RunRow]:
        """List all runs, by name."""
        rows = self._execute(f"{_RUNS} WHERE name IS NOT NULL ORDER BY name").fetchall()
        return [self._runs.get(row[1]) or self._remember_run(row) for row in rows]

    def delete_run(self, run: RunRow) -> None:
        """Delete a run. Later steps of `maintain` remove its rows and files."""
        self._execute("UPDATE runs SET name = NULL WHERE id = ?", run.id)
        self._execute("DELETE FROM tokens WHERE run = ?", run.id)
        self._runs.pop(run.run, None)
        self._changed.pop(id(run), None)
        self._sessions = {k: v for k, v in self._sessions.items() if v[0] != run.id}

    def _remember_run(self, row: tuple[Any, ...]) -> RunRow:
        number, name, created, limits, columns, keep_bytes, totals = row
        known = _decode_totals(totals)
        first, last = number * SPAN + known.consumed_to, (number + 1) * SPAN
        gone = (LeaseState.ASIDE, LeaseState.CONSUMED)
        queues = Counter(dict(self._execute(_QUEUES, first, last, *gone).fetchall()))
        run = RunRow(number, name, created, limits, columns, keep_bytes, known, queues)
        self._runs[name] = run
        return run

    def add_token(self, run: RunRow, token: TokenRow) -> None:
        """Add a token.

        Raises:
            StorageFull: The disk has no room.
        """
        self.check_sample_room(0)
        self._execute(
            "INSERT INTO tokens VALUES (?, ?, ?, ?, ?)",
            token.digest,
            run.id,
            token.id,
            token.role,
            token.created,
        )

    def token(self, digest: str) -> tuple[str, TokenRow] | None:
        """Return the name of the run that a token opens, and the token, or ``None``."""
        row = self._one(
            "SELECT r.name, t.id, t.role, t.created FROM tokens t "
            "JOIN runs r ON r.id = t.run WHERE t.digest = ?",
            digest,
        )
        if row is None:
            return None
        name, number, role, created = row
        return name, TokenRow(number, role, digest, created)

    def tokens(self, run: RunRow) -> list[TokenRow]:
        """List the tokens of a run, the oldest first."""
        rows = self._execute(
            "SELECT id, role, digest, created FROM tokens WHERE run = ? "
            "ORDER BY created, id",
            run.id,
        )
        return [TokenRow(*row) for row in rows]

    def delete_token(self, run: RunRow, token_id: str) -> bool:
        """Delete a token; return whether it existed."""
        done = self._execute(
            "DELETE FROM tokens WHERE run = ? AND id = ?", run.id, token_id
        )
        return done.rowcount > 0

    # Sessions

    def add_session(
        self, run: RunRow, session: str, worker: str, now: float, token: str = ""
    ) -> SessionRow:
        """Add a session under an ID that no session has.

        Raises:
            StorageFull: The disk has no room.
        """
        self.check_sample_room(0)
        row = SessionRow(0, session, worker, now, now, last=0, token=token)
        done = self._execute(
            "INSERT INTO sessions (run, session, worker, details) VALUES (?, ?, ?, ?)",
            run.id,
            session,
            worker,
            _encode(row),
        )
        row.id = done.lastrowid or 0
        self._sessions[session] = (run.id, row)
        return row

    def session(self, run: RunRow, session: str) -> SessionRow | None:
        """Return a session of a run, or ``None``."""
        known = self._sessions.get(session)
        if known is None:
            row = self._one(
                f"{_SESSIONS} WHERE session = ? AND run = ?",
                session,
                run.id,
            )
            return None if row is None else self._remember_session(run, row)
        return known[1] if known[0] == run.id else None

    def sessions(self, run: RunRow) -> list[SessionRow]:
        """List the sessions of a run, the oldest first."""
        rows = self._execute(
            f"{_SESSIONS} WHERE run = ? ORDER BY id",
            run.id,
        ).fetchall()
        return [
            self._sessions[row[1]][1]
            if row[1] in self._sessions
            else self._remember_session(run, row)
            for row in rows
        ]

    def count_sessions(self, run: RunRow) -> int:
        """Return the number of sessions of a run."""
        return int(self._one("SELECT count(*) FROM sessions WHERE run = ?", run.id)[0])

    def delete_sessions(self, run: RunRow, rows: list[SessionRow]) -> None:
        """Delete sessions of a run that have no batches in its log."""
        for row in rows:
            self._execute("DELETE FROM digests WHERE session = ?", row.id)
            self._execute("DELETE FROM sessions WHERE id = ?", row.id)
            self._sessions.pop(row.session, None)
            self._changed.pop(id(row), None)

    def _remember_session(self, run: RunRow, row: tuple[Any, ...]) -> SessionRow:
        number, name, _, details = row
        session = _decode_session(details)
        session.id = number
        self._sessions[name] = (run.id, session)
        return session

    # Readers

    def put_reader(self, run: RunRow, reader: ReaderRow) -> None:
        """Add or replace a reader."""
        self._execute(
            "INSERT OR REPLACE INTO readers VALUES (?, ?, ?, ?, ?)",
            run.id,
            reader.reader,
            reader.after,
            reader.draws,
            reader.seen,
        )

    def reader(self, run: RunRow, name: str) -> ReaderRow | None:
        """Return a reader, or ``None``."""
        row = self._one(
            "SELECT reader, after, draws, seen FROM readers "
            "WHERE run = ? AND reader = ?",
            run.id,
            name,
        )
        return None if row is None else ReaderRow(*row)

    def readers(self, run: RunRow) -> list[ReaderRow]:
        """List the readers of a run, by name."""
        rows = self._execute(
            "SELECT reader, after, draws, seen FROM readers WHERE run = ? "
            "ORDER BY reader",
            run.id,
        )
        return [ReaderRow(*row) for row in rows]

    def delete_reader(self, run: RunRow, name: str) -> bool:
        """Delete a reader; return whether it existed."""
        done = self._execute(
            "DELETE FROM readers WHERE run = ? AND reader = ?", run.id, name
        )
        return done.rowcount > 0

    # Weights and states

    def add_blob(self, run: RunRow, blob: BlobRow) -> None:
        """Add the next version of the weights or of the state.

        Raises:
            StorageFull: The disk has no room.
            RelayUnavailable: The file of the body is gone.
        """
        if isinstance(blob.body, FileSlice):
            self._check_room(0, self.files.size(blob.body.name), self._blob_margin)
            file, start, body = self._use_file(blob.body.name, 1), blob.body.offset, b""
        else:
            self.check_blob_room(len(blob.body))
            file, start, body = None, 0, blob.body
        self._execute(
            "INSERT INTO blobs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            run.id,
            blob.kind,
            blob.version,
            blob.digest,
            blob.content_type,
            blob.created,
            blob.size,
            file,
            start,
            body,
        )
        self._newest.pop((run.id, blob.kind), None)
        if blob.kind == "weights":
            run.totals.version = blob.version
        else:
            run.totals.state_version = blob.version
        self.changed(run)

    def blob(
        self, run: RunRow, kind: str, version: int | None = None
    ) -> BlobRow | None:
        """Return a version of weights or state, by default the newest, or ``None``."""
        if version is None:
            return self._newest_blob(run, kind)
        end = "WHERE run = ? AND kind = ? AND version = ?"
        row = self._one(_BLOBS + end, run.id, kind, version)
        return None if row is None else _blob(row)

    def _newest_blob(self, run: RunRow, kind: str) -> BlobRow | None:
        known = self._newest.get((run.id, kind))
        if known is None:
            end = "WHERE run = ? AND kind = ? ORDER BY version DESC LIMIT 1"
            row = self._one(_BLOBS + end, run.id, kind)
            if row is None:
                return None
            if len(self._newest) >= MOST_NEWEST:
                self._newest.clear()
            known = self._newest[run.id, kind] = _blob(row)
        return known

    def blobs(self, run: RunRow, kind: str) -> list[BlobRow]:
        """List the versions that are kept, the oldest first, without bodies."""
        rows = self._execute(
            "SELECT kind, version, digest, content_type, created, size FROM blobs "
            "WHERE run = ? AND kind = ? ORDER BY version",
            run.id,
            kind,
        )
        return [BlobRow(*row) for row in rows]

    def drop_blobs(self, run: RunRow, kind: str, versions: Iterable[int]) -> None:
        """Remove versions of weights or state."""
        self._newest.pop((run.id, kind), None)
        for version in versions:
            row = self._one(
                "DELETE FROM blobs WHERE run = ? AND kind = ? AND version = ? "
                "RETURNING file",
                run.id,
                kind,
                version,
            )
            if row is not None and row[0] is not None:
                self._release_file(row[0], 1)

    # Records

    def add_records(self, run: RunRow, rows: list[RecordRow]) -> None:
        """Add records, and set their positions.

        Raises:
            StorageFull: The disk has no room.
        """
        self.check_sample_room(sum(len(row.text) + ROW_BYTES for row in rows))
        totals, evaluations = run.totals, self.evaluations(run)
        for row in rows:
            totals.records += 1
            row.position = totals.records
            if row.type == "episode":
                totals.episodes += 1
            else:
                totals.training_steps += 1
            if row.mode == "evaluation":
                count, total = evaluations.get(row.version, (0, 0.0))
                evaluations[row.version] = count + 1, total + row.value
        start = run.id * SPAN
        self._execute_many(
            "INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                (
                    start + row.position,
                    row.time,
                    row.type,
                    row.mode,
                    row.worker,
                    row.version,
                    row.value,
                    row.text,
                )
                for row in rows
            ),
        )
        self.changed(run)

    def records(
        self,
        run: RunRow,
        after: int,
        limit: int,
        type_: str = "",
        *,
        max_bytes: int = 2 * 1024**2,
    ) -> list[RecordRow]:
        """List records after a position, of one type or of all.

        Args:
            run: The run.
            after: The position.
            limit: Most records.
            type_: Their type; "" for all.
            max_bytes: Bytes after which no more are added.
        """
        start = run.id * SPAN
        rows = self._execute(
            "SELECT type, text, mode, worker, version, value, time, key - ? "
            "FROM records WHERE key > ? AND key < ? AND ? IN ('', type) "
            "ORDER BY key LIMIT ?",
            start,
            start + after,
            start + SPAN,
            type_,
            limit,
        )
        found: list[RecordRow] = []
        size = 0
        for row in rows:
            found.append(RecordRow(*row))
            size += len(found[-1].text)
            if size >= max_bytes:
                break
        return found

    def evaluations(self, run: RunRow) -> dict[int, tuple[int, float]]:
        """Return number and sum of the returns of evaluations, by version."""
        if run.evaluations is None:
            start = run.id * SPAN
            rows = self._execute(
                "SELECT version, count(*), total(value) FROM records "
                "WHERE mode = 'evaluation' AND key > ? AND key < ? GROUP BY version",
                start,
                start + SPAN,
            )
            run.evaluations = {version: (n, total) for version, n, total in rows}
        return run.evaluations

    # Removal of deleted runs

    def _purge(self) -> bool:
        """Remove some rows of deleted runs; return whether there are more."""
        row = self._one("SELECT id FROM runs WHERE name IS NULL LIMIT 1")
        if row is None:
            return False
        number = row[0]
        first, end = number * SPAN, (number + 1) * SPAN
        for table in ("batches", "leases", "records"):
            files = "file" if table == "batches" else "NULL"
            rows = self._execute(
                f"DELETE FROM {table} WHERE key IN (SELECT key FROM {table} "
                f"WHERE key >= ? AND key < ? LIMIT ?) RETURNING {files}",
                first,
                end,
                PURGE_ROWS,
            ).fetchall()
            for file, users in Counter(file for (file,) in rows if file).items():
                self._release_file(file, users)
            if len(rows) == PURGE_ROWS:
                return True
        blobs = self._execute(
            "DELETE FROM blobs WHERE run = ? RETURNING file", number
        ).fetchall()
        for (file,) in blobs:
            if file is not None:
                self._release_file(file, 1)
        self._execute(
            "DELETE FROM digests WHERE session IN "
            "(SELECT id FROM sessions WHERE run = ?)",
            number,
        )
        self._execute("DELETE FROM sessions WHERE run = ?", number)
        self._execute("DELETE FROM readers WHERE run = ?", number)
        self._execute("DELETE FROM runs WHERE id = ?", number)
        return True


_decode_session = msgspec.json.Decoder(SessionRow).decode


def _blob(row: tuple[Any, ...]) -> BlobRow:
    kind, version, digest, content_type, created, size, file, start, body = row
    if file is not None:
        body = FileSlice(file, start, size)
    return BlobRow(kind, version, digest, content_type, created, size, body)
