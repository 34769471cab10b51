"""`Recording` writes a trial into an SQLite file, a row for each update."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np

__all__ = ["TABLE", "Recording", "Row", "path_of", "read_runs"]

#: The table; its first seven columns have the names that Myrtle's table has.
TABLE = "bench"
_COMMIT_SECONDS = 1.0


class Row(NamedTuple):
    """An update, as it is recorded.

    Attributes:
        reward: The reward as one number.
        step: Number of the update.
        step_timestamp: Time of its capture, in seconds since the epoch.
        episode: Number of the episode.
        run_timestamp: Begin of the run, in seconds since the epoch.
        agentname: The agent.
        worldname: The world.
        run: ID of the run.
        tick: The tick of the capture.
        rewards: The rewards of all channels in JSON; null where one said nothing.
        reset: 1 if the update begins an episode; it has no rewards.
        terminated: 1 if the update ends an episode.
        truncated: 1 if the update cuts an episode off.
        action: The action in force at the capture, in JSON.
        action_number: Its number.
        capture_ns: Time of the capture since the clock began.
        late_ns: How much later that was than the clock wanted.
        age_ns: Age of the observation when the server sent it.
        received_s: Time since the run's begin at which the update arrived here.
        timed_out: Time steps that were re-anchored.
        skipped: Ticks that were skipped.
    """

    reward: float
    step: int
    step_timestamp: float
    episode: int
    run_timestamp: float
    agentname: str
    worldname: str
    run: str
    tick: int
    rewards: str
    reset: int
    terminated: int
    truncated: int
    action: str
    action_number: int | None
    capture_ns: int
    late_ns: int
    age_ns: int
    received_s: float
    timed_out: int
    skipped: int


class Recording:
    """Writes the updates of one run; others can read the file meanwhile.

    Args:
        path: The file; it is made if it does not exist.
        agent: Name of the agent.
        world: Name of the world.
        run: ID of the run.
    """

    def __init__(self, path: Path, agent: str, world: str, run: str) -> None:
        self._names = (agent, world, run)
        self._file = sqlite3.connect(path)
        # Readers and the writer do not wait for each other, and seldom for the disk.
        self._file.execute("PRAGMA journal_mode = WAL")
        self._file.execute("PRAGMA synchronous = NORMAL")
        with self._file:
            columns = ", ".join(Row._fields)
            self._file.execute(f"CREATE TABLE IF NOT EXISTS {TABLE} ({columns})")
        self._begun = time.time()
        self._clock = time.monotonic()
        self._committed = self._clock

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with closing(self._file):
            self._file.commit()

    def add(self, update: Any, rewards: Sequence[float | None]) -> None:
        """Write a row.

        Args:
            update: The update, with ``info["realtime"]``.
            rewards: The rewards of all channels.
        """
        now = time.monotonic()
        timing = update.info["realtime"]
        action = timing["action"] or {"value": None, "number": None}
        agent, world, run = self._names
        row = Row(
            reward=float(update.reward),
            step=timing["update"],
            step_timestamp=time.time() - timing["age_ns"] / 1e9,
            episode=timing["episode"],
            run_timestamp=self._begun,
            agentname=agent,
            worldname=world,
            run=run,
            tick=timing["tick"],
            rewards=json.dumps(list(rewards)),
            reset=int(bool(timing.get("reset"))),
            terminated=int(update.terminated),
            truncated=int(update.truncated),
            action=json.dumps(action["value"], default=_plain),
            action_number=action["number"],
            capture_ns=timing["capture_ns"],
            late_ns=timing["late_ns"],
            age_ns=timing["age_ns"],
            received_s=now - self._clock,
            timed_out=int(timing["timed_out"]),
            skipped=int(timing["skipped"]),
        )
        marks = ", ".join("?" * len(row))
        self._file.execute(f"INSERT INTO {TABLE} VALUES ({marks})", row)
        if now - self._committed > _COMMIT_SECONDS:
            self._file.commit()
            self._committed = now


def path_of(db_name: str) -> Path:
    """Return the file of a database's name, ``bench`` for ``bench.db``."""
    return Path(db_name if db_name.endswith(".db") else f"{db_name}.db")


def read_runs(path: Path) -> dict[str, list[Row]]:
    """Read the rows of a file by run, in the order of the runs.

    Raises:
        OSError: There is no such file.
        sqlite3.Error: It is no recording.
    """
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    runs: dict[str, list[Row]] = {}
    with closing(sqlite3.connect(path)) as file:
        names = ", ".join(Row._fields)
        query = f"SELECT {names} FROM {TABLE} ORDER BY run_timestamp, step"
        for each in file.execute(query):
            row = Row(*each)
            runs.setdefault(row.run, []).append(row)
    return runs


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)
