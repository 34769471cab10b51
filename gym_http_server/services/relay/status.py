"""The status of a run: queue, rates, lags, workers, readers, weights and records."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple

from gym_http_server.services.relay.limiter import Limiter
from gym_http_server.services.relay.records import best_version
from gym_http_server.services.relay.rows import (
    LAG_CLASSES,
    BlobRow,
    RecordRow,
    RunRow,
    SessionRow,
)
from gym_http_server.services.relay.store import Store

__all__ = [
    "LOST_S",
    "Rates",
    "Returns",
    "WorkerState",
    "active_workers",
    "etag",
    "run_status",
    "worker_states",
]

#: A worker that was silent for so long is lost.
LOST_S = 60.0
#: Seconds over which rates are measured.
RATE_S = 60
#: Workers whose returns are kept.
MOST_WORKERS = 10_000
#: Episodes over which the mean return of a worker is taken.
RETURNS_KEPT = 20


class WorkerState(NamedTuple):
    """A worker, with all its sessions.

    Attributes:
        worker: Its name.
        state: "active", "left" after a goodbye, or "lost".
        version: Version of the weights that made its last batch.
        sent: Batches that it sent.
        seen: When it last called, in seconds since 1970.
    """

    worker: str
    state: str
    version: int
    sent: int
    seen: float


class Rates:
    """Counts what was stored in the last minute.

    Args:
        now: Seconds, on any clock that does not jump.
    """

    def __init__(self, now: float) -> None:
        self._began = now
        self._seconds: deque[list[int]] = deque(maxlen=RATE_S + 1)

    def add(self, now: float, batches: int, transitions: int, size: int) -> None:
        """Count batches that were stored now."""
        second = int(now)
        if not self._seconds or self._seconds[-1][0] != second:
            self._seconds.append([second, 0, 0, 0])
        last = self._seconds[-1]
        last[1] += batches
        last[2] += transitions
        last[3] += size

    def per_second(self, now: float) -> tuple[float, float, float]:
        """Return batches, transitions and bytes per second."""
        recent = [each for each in self._seconds if each[0] > now - RATE_S]
        duration = max(1.0, min(RATE_S, now - self._began))
        batches, transitions, size = (
            sum(each[index] for each in recent) / duration for index in (1, 2, 3)
        )
        return batches, transitions, size


class Returns:
    """The last returns of training episodes, by worker."""

    def __init__(self) -> None:
        self._returns: dict[str, deque[float]] = {}

    def add(self, rows: Iterable[RecordRow]) -> None:
        """Add records, of which only training episodes count."""
        for row in rows:
            if row.mode == "training":
                if row.worker not in self._returns:
                    # Records may name any workers.
                    while len(self._returns) >= MOST_WORKERS:
                        del self._returns[next(iter(self._returns))]
                kept = self._returns.setdefault(row.worker, deque(maxlen=RETURNS_KEPT))
                kept.append(row.value)

    def mean(self, worker: str) -> float | None:
        """Return the mean of a worker, or ``None`` if it has no episode."""
        kept = self._returns.get(worker)
        return sum(kept) / len(kept) if kept else None


def worker_states(sessions: Iterable[SessionRow], now: float) -> list[WorkerState]:
    """List the workers of a run by name.

    Args:
        sessions: The sessions of the run.
        now: Seconds since 1970.
    """
    by_worker: dict[str, list[SessionRow]] = {}
    for session in sessions:
        by_worker.setdefault(session.worker, []).append(session)
    return [
        _worker_state(worker, by_worker[worker], now) for worker in sorted(by_worker)
    ]


def active_workers(sessions: Iterable[SessionRow], now: float) -> int:
    """Return the number of workers that are active."""
    states = worker_states(sessions, now)
    return sum(each.state == "active" for each in states)


def _worker_state(worker: str, sessions: list[SessionRow], now: float) -> WorkerState:
    newest = max(sessions, key=lambda each: (each.seen, each.id))
    silent = now - newest.seen >= LOST_S
    state = "left" if newest.ended else "lost" if silent else "active"
    sent = sum(each.sent for each in sessions)
    return WorkerState(worker, state, newest.policy, sent, newest.seen)


def etag(blob: BlobRow) -> str:
    """Return the ETag of a version of weights or state."""
    return f'"{blob.version}-{blob.digest[:12]}"'


def run_status(
    store: Store,
    run: RunRow,
    now: float,
    *,
    limits: Any,
    columns: Any,
    created: str,
    limiter: Limiter | None,
    rates: tuple[float, float, float],
    returns: Returns,
) -> dict[str, Any]:
    """Return the status of a run, ready for JSON.

    Args:
        store: The store.
        run: The run.
        now: Seconds since 1970.
        limits: The limits of the run.
        columns: Its columns, or ``None``.
        created: When it was created.
        limiter: Its limiter, or ``None``.
        rates: Batches, transitions and bytes per second.
        returns: Returns of its workers.
    """
    totals = run.totals
    return {
        "run": run.run,
        "created": created,
        "limits": limits,
        "columns": columns,
        "samples": _samples(store, run, now),
        "rates": dict(zip(_RATES, (round(each, 3) for each in rates), strict=True)),
        "lag": dict(zip(LAG_CLASSES, totals.lags, strict=True)),
        "workers": _workers(store, run, now, returns),
        "readers": [
            {
                "reader": each.reader,
                "after": each.after,
                "behind": totals.stored - each.after,
                "draws": each.draws,
                "seen_s": _age(each.seen, now),
            }
            for each in store.readers(run)
        ],
        "limiter": None if limiter is None else _limiter(run, limiter),
        "weights": _weights(store, run, now),
        "state": _newest(store.blobs(run, "state"), now),
        "records": {
            "episodes": totals.episodes,
            "training_steps": totals.training_steps,
        },
        "disk": {
            "used": store.used_bytes,
            "limit": store.disk_limit,
            "free": store.free_bytes(),
        },
    }


_RATES = ("batches_s", "transitions_s", "bytes_s")


def _samples(store: Store, run: RunRow, now: float) -> dict[str, Any]:
    totals = run.totals
    oldest = store.oldest(run)
    return {
        "sent": totals.sent,
        "stored": totals.stored,
        "stale": totals.stale,
        "dropped": totals.dropped,
        "repeated": totals.repeated,
        "waiting": totals.waiting,
        "leased": totals.leased,
        "consumed": totals.consumed,
        "aside": totals.aside,
        "first": store.first(run),
        "last": totals.stored,
        "transitions": totals.transitions,
        "transitions_waiting": totals.queue_transitions,
        "bytes": totals.queue_bytes,
        "oldest_s": None if oldest is None else _age(oldest, now),
    }


def _workers(
    store: Store, run: RunRow, now: float, returns: Returns
) -> list[dict[str, Any]]:
    return [
        {
            "worker": each.worker,
            "state": each.state,
            "version": each.version,
            "lag": run.totals.version - each.version,
            "sent": each.sent,
            "waiting_bytes": run.worker_bytes.get(each.worker, 0),
            "seen_s": _age(each.seen, now),
            "mean_return": returns.mean(each.worker),
        }
        for each in worker_states(store.sessions(run), now)
    ]


def _limiter(run: RunRow, limiter: Limiter) -> dict[str, Any]:
    inserts, draws = run.totals.transitions, run.totals.draws
    return {
        "inserts": inserts,
        "draws": draws,
        "min_diff": limiter.min_diff,
        "max_diff": limiter.max_diff,
        "diff": limiter.difference(inserts, draws),
        "inserts_wait": limiter.inserts_wait(inserts, draws),
    }


def _weights(store: Store, run: RunRow, now: float) -> dict[str, Any] | None:
    kept = store.blobs(run, "weights")
    if not kept:
        return None
    newest = kept[-1]
    best = best_version(store.evaluations(run), {each.version for each in kept})
    return {
        "version": newest.version,
        **_blob(newest, now),
        "best": None if best is None else best._asdict(),
    }


def _newest(kept: list[BlobRow], now: float) -> dict[str, Any] | None:
    return _blob(kept[-1], now) if kept else None


def _blob(blob: BlobRow, now: float) -> dict[str, Any]:
    return {
        "etag": etag(blob),
        "bytes": blob.size,
        "age_s": _age(blob.created, now),
    }


def _age(then: float, now: float) -> float:
    return round(max(0.0, now - then), 3)
