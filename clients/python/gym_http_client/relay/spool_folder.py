"""The folder of a spool: its lock, and the state that it keeps besides its batches."""

from __future__ import annotations

import contextlib
import importlib
import os
from pathlib import Path
from typing import BinaryIO

import msgspec

__all__ = ["SpoolError", "SpoolState", "lock", "read_state", "write_state"]

_FORMAT = 1
_STATE = "state.json"


class SpoolError(RuntimeError):
    """The folder of a spool cannot be used."""


class SpoolState(msgspec.Struct):
    """What a spool keeps besides its batches and records.

    Attributes:
        run: Name of the run.
        worker: Name of the worker.
        session: ID of the session; "" before there is one. Only the run that made it
            knows it, and no other run of that name, on this server or another.
        server: URL of the server that the session was last used on; "" in spools of
            earlier versions.
        stored: The relay's next number: it has settled those below.
        cursor: Number of the next batch to send. Those from `stored` on were dropped.
        next: Number of the next batch, if there are no files that show it.
        dropped: Batches that were dropped and declared.
        refused: Batches that were refused and moved to ``refused``.
        stale: Batches that were refused since they were stale.
        records_number: Number of the next request with records.
        records_after: Number of the last record entry that was sent.
        records_upto: Last record entry of the request with `records_number`, once it
            was sent for the first time; else 0.
        records_next: Number of the next record entry, as `next`.
        progress: Counts of the worker.
    """

    run: str
    worker: str
    session: str = ""
    server: str = ""
    stored: int = 1
    cursor: int = 1
    next: int = 1
    dropped: int = 0
    refused: int = 0
    stale: int = 0
    records_number: int = 1
    records_after: int = 0
    records_upto: int = 0
    records_next: int = 1
    progress: dict[str, int] = msgspec.field(default_factory=dict)
    format: int = _FORMAT


def read_state(folder: Path, run: str, worker: str | None, default: str) -> SpoolState:
    """Return the state in a folder, or a new one if there is none.

    Args:
        folder: The folder.
        run: Name of the run.
        worker: Name of the worker; ``None`` accepts any.
        default: Name of the worker in a new folder.

    Raises:
        SpoolError: The state is damaged, or of another version, run or worker.
    """
    path = folder / _STATE
    try:
        state = msgspec.json.decode(path.read_bytes(), type=SpoolState)
    except FileNotFoundError:
        return SpoolState(run, worker or default)
    except (ValueError, RecursionError) as error:
        raise SpoolError(
            f"{path} is damaged ({error}): remove {folder} to begin a new spool"
        ) from error
    if state.format != _FORMAT:
        raise SpoolError(
            f"{folder} is a spool of format {state.format}: expected {_FORMAT}; use "
            "the version of gym_http_client that made it, or another folder"
        )
    if state.run != run:
        raise SpoolError(
            f"{folder} is a spool of run {state.run!r}, not of {run!r}: give another "
            "folder with spool=, or remove this one, to begin a new spool"
        )
    if worker not in (None, state.worker):
        raise SpoolError(
            f"{folder} is the spool of worker {state.worker!r}, not of {worker!r}: use "
            "another folder for each worker"
        )
    return state


def write_state(folder: Path, state: SpoolState) -> None:
    """Replace the state in a folder; a kill leaves the old one or the new one."""
    path = folder / _STATE
    fresh = path.with_suffix(".new")
    fresh.write_bytes(msgspec.json.encode(state))
    os.replace(fresh, path)


def lock(folder: Path) -> BinaryIO:
    """Lock a folder for this process, and return the file that holds the lock.

    Raises:
        SpoolError: Another process has locked it.
    """
    file = open(folder / "lock", "a+b")  # noqa: SIM115 - closing it unlocks
    try:
        _try_lock(file)
    except OSError:
        file.seek(0)
        owner = file.read(20).decode(errors="replace").strip() or "unknown"
        file.close()
        raise SpoolError(
            f"the spool {folder} is in use by process {owner}: give each worker a "
            "folder of its own"
        ) from None
    file.truncate(0)
    file.write(str(os.getpid()).encode())
    file.flush()
    return file


def _try_lock(file: BinaryIO) -> None:
    """Lock a file, or raise `OSError`; without a way to lock, do nothing."""
    with contextlib.suppress(ModuleNotFoundError):
        fcntl = importlib.import_module("fcntl")
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return
    with contextlib.suppress(ModuleNotFoundError):
        msvcrt = importlib.import_module("msvcrt")
        # Beyond the process ID, which others read.
        file.seek(1024)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        file.seek(0)
