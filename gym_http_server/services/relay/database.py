"""The database of the relay: its schema, its transactions, and the space on its disk.

SQLite in WAL mode syncs each commit. One process uses it at a time, which holds a lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import threading
from collections.abc import Iterable, Sequence
from typing import Any

from gym_http_server.datadir.own_paths import BODIES, DATABASE, LOCK, RESERVE
from gym_http_server.errors import RelayDamaged, RelayTaken, StorageFull
from gym_http_server.services.relay.files import (
    MIN_FREE_BYTES,
    BodyFiles,
    Reserve,
    free_bytes,
    sync_folder,
)

__all__ = ["Database", "damage_of"]

PAGE_BYTES = 4096
#: The first with RETURNING.
OLDEST_SQLITE = (3, 35, 0)
#: To be raised when the schema changes.
SCHEMA_VERSION = 1
#: Pages that are given back to the disk in one step.
VACUUM_PAGES = 1024
#: Room for a row beside its body.
ROW_BYTES = 256
_FULL = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE)
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
#: Seconds for the check at the opening, during which the relay answers nothing. SQLite
#: checks about 600 MB in a second.
CHECK_SECONDS = 0.4
#: Those that are small are checked first, and completely.
_SMALL_TABLES = ("runs", "tokens", "readers", "files")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE, created REAL,
    limits BLOB, columns BLOB, keep_bytes INTEGER, totals BLOB);
CREATE TABLE IF NOT EXISTS tokens (
    digest TEXT PRIMARY KEY, run INTEGER, id TEXT, role TEXT, created REAL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sessions (
    id INTEGER PRIMARY KEY AUTOINCREMENT, run INTEGER, session TEXT UNIQUE,
    worker TEXT, details BLOB);
CREATE INDEX IF NOT EXISTS sessions_of_runs ON sessions (run);
CREATE TABLE IF NOT EXISTS digests (
    session INTEGER, first INTEGER, digests BLOB, PRIMARY KEY (session, first)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS batches (
    key INTEGER PRIMARY KEY, session INTEGER, number INTEGER, policy INTEGER,
    count INTEGER, digest BLOB, content_type TEXT, packing TEXT, unpacked INTEGER,
    lag INTEGER, stale INTEGER, received REAL, file INTEGER, start INTEGER,
    size INTEGER, body BLOB);
CREATE TABLE IF NOT EXISTS leases (
    key INTEGER PRIMARY KEY, state INTEGER, delivery INTEGER, until REAL);
CREATE INDEX IF NOT EXISTS consumed_leases ON leases (key) WHERE state = 5;
CREATE TABLE IF NOT EXISTS readers (
    run INTEGER, reader TEXT, after INTEGER, draws INTEGER, seen REAL,
    PRIMARY KEY (run, reader)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS files (
    id INTEGER PRIMARY KEY, name TEXT UNIQUE, size INTEGER, users INTEGER);
CREATE TABLE IF NOT EXISTS blobs (
    run INTEGER, kind TEXT, version INTEGER, digest TEXT, content_type TEXT,
    created REAL, size INTEGER, file INTEGER, start INTEGER, body BLOB,
    PRIMARY KEY (run, kind, version));
CREATE TABLE IF NOT EXISTS records (
    key INTEGER PRIMARY KEY, time REAL, type TEXT, mode TEXT, worker TEXT,
    version INTEGER, value REAL, text BLOB);
CREATE INDEX IF NOT EXISTS evaluations ON records (key) WHERE mode = 'evaluation';
"""


# A file, and its parts: where each begins, and its bytes.
_Unused = tuple[str, list[tuple[int, int]]]


class Database:
    """The database and the files beside it.

    Args:
        folder: Directory of the relay. It is created if it does not exist.
        disk_limit: Most bytes that it may use.
        min_free: Free space that samples leave on the disk.

    Attributes:
        folder: The directory.
        files: Its files of bodies.
        disk_limit: Most bytes that the directory may use.
        promised: Bytes of uploads that are under way.

    Raises:
        RelayTaken: Another server uses the directory.
        RelayDamaged: The database is damaged.
        sqlite3.Error: The same, see `damage_of`; or another failure of SQLite.
        OSError: The directory cannot be used.
    """

    def __init__(
        self, folder: str, disk_limit: int, min_free: int = MIN_FREE_BYTES
    ) -> None:
        self.folder = os.path.abspath(folder)
        self.disk_limit = disk_limit
        self.promised = 0
        self._min_free = min_free
        # Weights and state have a margin, since a trainer commits its position with
        # them: when samples have used all the space, that is how it is freed.
        self._blob_margin = min(min_free // 2, disk_limit // 8)
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        sync_folder(os.path.dirname(self.folder))
        self._lock = _lock(self.folder)
        try:
            self.files = BodyFiles(f"{self.folder}/{BODIES}")
            self._reserve = Reserve(f"{self.folder}/{RESERVE}", min_free // 4)
            self._release_reserve()
            self._sql = _open_marked(f"{self.folder}/{DATABASE}", self._lock)
            sync_folder(self.folder)
        except BaseException:
            os.close(self._lock)
            raise
        self._file_bytes = 0
        self._room: tuple[int, int] | None = None
        # Files that the transaction frees, and parts of files that no row refers to.
        self._freed: list[str] = []
        self._unused: list[_Unused] = []
        # The same of committed transactions.
        self._to_remove: list[str] = []
        self._to_give_back: list[_Unused] = []
        self._begun = False
        # Why the transaction cannot be committed.
        self._failure: StorageFull | None = None

    def close(self) -> None:
        """Close the database and release the lock."""
        self._sql.close()
        os.close(self._lock)

    def begin(self) -> None:
        """Begin a transaction."""
        self._release_reserve()
        self._room = None
        self._failure = None
        self._execute("BEGIN IMMEDIATE")
        self._begun = True

    def _release_reserve(self) -> None:
        if self._reserve.held and self.free_bytes() < self._reserve.size:
            self._reserve.release()

    def commit(self) -> None:
        """Write and sync the transaction; `clean_up` removes the files that it frees.

        Raises:
            StorageFull: The disk is full, now or in a statement before: the transaction
                must be rolled back.
        """
        if self._failure is not None:
            raise self._failure
        self._execute("COMMIT")
        self._begun = False
        self._to_remove += self._freed
        self._to_give_back += self._unused
        self._freed, self._unused = [], []

    def clean_up(self) -> None:
        """Remove the files that committed transactions have freed, and parts of files.

        That takes longer than to answer requests, which can be done before.
        """
        unused, self._to_give_back = self._to_give_back, []
        for name, spans in unused:
            self.files.give_back(name, spans)
        freed, self._to_remove = self._to_remove, []
        for name in freed:
            # A sweep tries again.
            with contextlib.suppress(OSError):
                self.files.remove(name)

    def rollback(self) -> None:
        """Undo the transaction."""
        self._freed = []
        self._unused = []
        self._begun = False
        # SQLite has already rolled back after some errors.
        if self._sql.in_transaction:
            self._sql.execute("ROLLBACK")
        self._count_file_bytes()

    def sweep(self, age_s: float = 0.0) -> int:
        """Remove files without rows, except those of uploads; return their number.

        Args:
            age_s: Younger files stay.
        """
        names = self._execute("SELECT name FROM files").fetchall()
        return self.files.sweep({name for (name,) in names}, age_s)

    def discard(self, name: str) -> None:
        """Remove a file of a body, unless a row refers to it."""
        if not self._one("SELECT 1 FROM files WHERE name = ?", name):
            self.files.remove(name)

    @property
    def used_bytes(self) -> int:
        """Bytes of the rows and files."""
        (pages,) = self._one("PRAGMA page_count")
        (unused,) = self._one("PRAGMA freelist_count")
        return int((pages - unused) * PAGE_BYTES + self._file_bytes)

    def free_bytes(self) -> int:
        """Return the free space on the disk."""
        return free_bytes(self.folder)

    def check_sample_room(self, size: int) -> None:
        """Check that there is room for a body of samples that has not arrived.

        Args:
            size: Its bytes.

        Raises:
            StorageFull: There is not.
        """
        self._check_room(size, size, 0)

    def check_blob_room(self, size: int) -> None:
        """Check that there is room for weights or a state that have not arrived.

        Args:
            size: Their bytes.

        Raises:
            StorageFull: There is not.
        """
        self._check_room(size, size, self._blob_margin)

    def _check_room(self, rows: int, files: int, margin: int) -> None:
        """Check the room for bodies, and reserve it until the transaction ends.

        Args:
            rows: Bytes that the disk must still take.
            files: All bytes, with those of files that are on the disk.
            margin: Room that is allowed beyond that of samples.
        """
        if self._room is None or not self._begun:
            taken = self.used_bytes + self.promised
            allowed = self.disk_limit - self._blob_margin - taken
            self._room = (allowed, self.free_bytes() - self._min_free)
        allowed, free = self._room
        if files + ROW_BYTES > allowed + margin or rows + ROW_BYTES > free + margin:
            raise self._full(files)
        self._room = (allowed - files - ROW_BYTES, free - rows - ROW_BYTES)

    def _full(self, size: int) -> StorageFull:
        used, free = self.used_bytes, self.free_bytes()
        return StorageFull(
            f"the relay has no room for {size} bytes: it uses {used} of at most "
            f"{self.disk_limit} (--relay-disk), {self.promised} more are on their way, "
            f"and the disk of {self.folder} has {free} free, of which {self._min_free} "
            "must stay free. Let a trainer read and commit, delete runs, or free space "
            "on the disk; then retry"
        )

    def tidy(self) -> bool:
        """Renew the reserve; give unused pages back if the disk or the limit needs it.

        Returns:
            Whether there is more to do.
        """
        ample = self.free_bytes() > self._min_free + 2 * self._reserve.size
        if ample and not self._reserve.held:
            self._reserve.take()
        (pages,) = self._one("PRAGMA page_count")
        (unused,) = self._one("PRAGMA freelist_count")
        size = pages * PAGE_BYTES + self._file_bytes
        if not unused or (ample and size < self.disk_limit):
            return False
        try:
            # `execute` would end it after one page.
            self._sql.executescript(f"PRAGMA incremental_vacuum({VACUUM_PAGES})")
            self._sql.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode in _FULL:
                return False
            raise
        return bool(unused > VACUUM_PAGES)

    def _use_file(
        self, name: str, users: int, unused: Sequence[tuple[int, int]] = ()
    ) -> int:
        """Count further rows that refer to a file; return its number.

        Args:
            name: The file.
            users: The number of rows.
            unused: Parts of a new file that are not kept.
        """
        row = self._one(
            "UPDATE files SET users = users + ? WHERE name = ? RETURNING id",
            users,
            name,
        )
        if row is None:
            size = self.files.size(name) - sum(count for _, count in unused)
            if unused:
                self._unused.append((name, list(unused)))
            row = self._one(
                "INSERT INTO files (name, size, users) VALUES (?, ?, ?) RETURNING id",
                name,
                size,
                users,
            )
            self._file_bytes += size
        return int(row[0])

    def _release_file(self, file: int, users: int) -> None:
        """Count rows that no longer refer to a file, which goes with the last one."""
        name, size, left = self._one(
            "UPDATE files SET users = users - ? WHERE id = ? "
            "RETURNING name, size, users",
            users,
            file,
        )
        if left == 0:
            self._execute("DELETE FROM files WHERE id = ?", file)
            self._file_bytes -= size
            self._freed.append(name)

    def _count_file_bytes(self) -> None:
        (self._file_bytes,) = self._one("SELECT ifnull(sum(size), 0) FROM files")

    def _execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        try:
            return self._sql.execute(statement, values)
        except sqlite3.OperationalError as error:
            raise self._translated(error) from error

    def _execute_many(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        try:
            self._sql.executemany(statement, rows)
        except sqlite3.OperationalError as error:
            raise self._translated(error) from error

    def _one(self, statement: str, *values: Any) -> Any:
        # To the end, since RETURNING has done its work only then.
        rows = self._execute(statement, *values).fetchall()
        return rows[0] if rows else None

    def _translated(self, error: sqlite3.OperationalError) -> Exception:
        if error.sqlite_errorcode in _FULL:
            self._failure = StorageFull(
                f"the disk of {self.folder} is full: free space on it, then retry"
            )
            return self._failure
        return error


def _lock(folder: str) -> int:
    descriptor = os.open(f"{folder}/{LOCK}", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise RelayTaken(
            f"another server uses the relay's directory {folder}: stop it, or give "
            "this one a directory of its own with --relay-dir"
        ) from None
    return descriptor


def damage_of(error: Exception, folder: str) -> RelayDamaged | None:
    """Return the problem if an error says that the database is damaged, else ``None``.

    Args:
        error: The error.
        folder: Directory of the relay.
    """
    if isinstance(error, RelayDamaged):
        return error
    # Extended codes have the general one in their low byte.
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return _damaged(f"{folder}/{DATABASE}", str(error)) if code in _DAMAGED else None


def _damaged(path: str, why: str) -> RelayDamaged:
    return RelayDamaged(
        f"the relay's database {path} is damaged: {why}. Stop the server, and restore "
        f"{os.path.dirname(path)} from a backup, or move it away to begin without its "
        "runs",
        headers={"Retry-After": "5"},
    )


def _open_marked(path: str, lock: int) -> sqlite3.Connection:
    """Open a database that may not exist yet, but not instead of one that did.

    The file of the lock is not empty if there was a database. Earlier versions did not
    write to it, but there are no bodies before there is a database. A new one would not
    have the runs, and all bodies would be removed.

    Raises:
        RelayDamaged: It is damaged, empty or gone.
    """
    marked = bool(os.pread(lock, 1, 0))
    known = marked or bool(os.listdir(f"{os.path.dirname(path)}/{BODIES}"))
    if known and not (os.path.exists(path) and os.path.getsize(path)):
        raise _damaged(path, "it is missing or empty")
    connection = _open(path)
    if not marked:
        os.pwrite(lock, b"1", 0)
        os.fsync(lock)
    return connection


def _check(connection: sqlite3.Connection, path: str) -> None:
    """Check the database, as far as there is time.

    Raises:
        RelayDamaged: It is damaged.
    """
    checks = [f"integrity_check({table})" for table in _SMALL_TABLES]
    timer = threading.Timer(CHECK_SECONDS, connection.interrupt)
    timer.start()
    try:
        for check in (*checks, "quick_check(1)"):
            (found,) = connection.execute(f"PRAGMA {check}").fetchone()
            if found != "ok":
                # The line before says in which database.
                raise _damaged(path, found.splitlines()[-1])
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            raise _damaged(path, str(error)) from error
    finally:
        timer.cancel()
        timer.join()


def _open(path: str) -> sqlite3.Connection:
    # SQLite would let all users read it, where they can enter the directory.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise OSError(
            f"SQLite {sqlite3.sqlite_version} is too old for the relay: expected "
            f"{'.'.join(map(str, OLDEST_SQLITE))} or later. Use a newer Python or Linux"
        )
    connection = sqlite3.connect(path, isolation_level=None, cached_statements=256)
    try:
        for setting in (
            # First, so that it needs no file of shared memory.
            "locking_mode = EXCLUSIVE",
            f"page_size = {PAGE_BYTES}",
            "auto_vacuum = INCREMENTAL",
            "journal_mode = WAL",
            "synchronous = FULL",
            # Zeros over deleted rows would have to be written.
            "secure_delete = OFF",
            "temp_store = MEMORY",
            "cache_size = -8192",
            "journal_size_limit = 16777216",
        ):
            connection.execute(f"PRAGMA {setting}").fetchall()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version not in (0, SCHEMA_VERSION):
            raise OSError(
                f"{path} has the form {version} of another version of the server: "
                f"expected {SCHEMA_VERSION}. Use that version, or another directory"
            )
        if version:
            _check(connection, path)
        connection.executescript(_SCHEMA)
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    except BaseException:
        connection.close()
        raise
    return connection
