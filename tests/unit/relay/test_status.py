"""The status of a run: sums, rates, lags, and the states of its workers."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gym_http_server.services.relay import status as status_module
from gym_http_server.services.relay.limiter import Limiter, LimiterSettings
from gym_http_server.services.relay.rows import (
    BatchRow,
    BlobRow,
    ReaderRow,
    RecordRow,
    RunRow,
    SessionRow,
)
from gym_http_server.services.relay.status import (
    Rates,
    Returns,
    active_workers,
    run_status,
    worker_states,
)
from gym_http_server.services.relay.store import Store

MIB = 1 << 20


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with contextlib.closing(Store(str(tmp_path / "relay"), 1 << 30, MIB)) as opened:
        opened.begin()
        opened.add_run("pendulum", b"{}", None, 0, 10.0)
        opened.commit()
        yield opened


def status(store: Store, now: float, **more: Any) -> dict[str, Any]:
    run = store.run("pendulum")
    assert run is not None
    more = {"limiter": None, "rates": (0.0, 0.0, 0.0), "returns": Returns()} | more
    document = run_status(
        store, run, now, limits={}, columns=None, created="then", **more
    )
    encoded: dict[str, Any] = json.loads(json.dumps(document, allow_nan=False))
    return encoded


def test_a_run_without_anything(store: Store) -> None:
    document = status(store, 20.0)
    samples = document.pop("samples")
    assert samples.pop("first") == 1
    assert samples.pop("oldest_s") is None
    assert set(samples.values()) == {0}
    assert document["disk"].pop("used") > 0
    assert document.pop("disk")["limit"] == 1 << 30
    assert document == {
        "run": "pendulum",
        "created": "then",
        "limits": {},
        "columns": None,
        "rates": {"batches_s": 0.0, "transitions_s": 0.0, "bytes_s": 0.0},
        "lag": {"0": 0, "1": 0, "2": 0, "3-5": 0, "6-10": 0, ">10": 0},
        "workers": [],
        "readers": [],
        "limiter": None,
        "weights": None,
        "state": None,
        "records": {"episodes": 0, "training_steps": 0},
    }


def fill(store: Store, run: RunRow) -> None:
    store.begin()
    session = store.add_session(run, "s", "w1", 20.0)
    lags = (0, 1, 2, 3, 5, 6, 10, 11, 99)
    for number, lag in enumerate(lags, 1):
        row = BatchRow(number, 0, 10, b"body", lag=lag, received=20.0 + number)
        store.append(run, session, [row])
    session.policy, session.sent, session.seen = 1, 12, 29.0
    run.totals.stale, run.totals.dropped, run.totals.repeated = 1, 2, 4
    store.changed(session)
    store.put_reader(run, ReaderRow("r", 3, 50, 27.0))
    store.consume_to(run, 3)
    run.totals.draws = 50
    for version in (1, 2, 3):
        digest = f"{version:064x}"[::-1]
        blob = BlobRow("weights", version, digest, "x/y", 25.0, 3, b"abc")
        store.add_blob(run, blob)
    store.add_records(run, [evaluation(2, value) for value in (1.0, 2.0, 3.0, 4.0)])
    store.add_records(run, [evaluation(2, 5.5), RecordRow("training", b"{}")])
    store.commit()


def evaluation(version: int, value: float) -> RecordRow:
    return RecordRow("episode", b"{}", "evaluation", "w1", version, value)


def test_a_run_in_use(store: Store) -> None:
    run = store.run("pendulum")
    assert run is not None
    fill(store, run)
    returns = Returns()
    returns.add(RecordRow("episode", b"", "training", "w1", 0, r) for r in range(30))
    limiter = Limiter(LimiterSettings(2.0, 10, 100.0))
    document = status(store, 30.0, returns=returns, limiter=limiter)
    samples = document["samples"]
    assert samples["sent"] == samples["stored"] + samples["stale"] + samples["dropped"]
    states = [samples[name] for name in ("waiting", "leased", "consumed", "aside")]
    assert states == [6, 0, 3, 0]
    assert sum(states) == samples["stored"]
    assert (samples["first"], samples["last"], samples["repeated"]) == (4, 9, 4)
    assert (samples["transitions"], samples["transitions_waiting"]) == (90, 60)
    assert (samples["bytes"], samples["oldest_s"]) == (24, 6.0)
    lag = {"0": 1, "1": 1, "2": 1, "3-5": 2, "6-10": 2, ">10": 2}
    assert document["lag"] == lag
    (worker,) = document["workers"]
    assert worker == {
        "worker": "w1",
        "state": "active",
        "version": 1,
        "lag": 2,
        "sent": 12,
        "waiting_bytes": 24,
        "seen_s": 1.0,
        "mean_return": 19.5,
    }
    (reader,) = document["readers"]
    assert reader == {
        "reader": "r",
        "after": 3,
        "behind": 6,
        "draws": 50,
        "seen_s": 3.0,
    }
    assert document["limiter"] == {
        "inserts": 90,
        "draws": 50,
        "min_diff": -80.0,
        "max_diff": 120.0,
        "diff": 130.0,
        "inserts_wait": True,
    }
    assert document["weights"] == {
        "version": 3,
        "etag": '"3-300000000000"',
        "bytes": 3,
        "age_s": 5.0,
        "best": {"version": 2, "mean": 3.1, "evaluations": 5},
    }
    assert document["records"] == {"episodes": 5, "training_steps": 1}


def session(number: int, worker: str, seen: float, **more: Any) -> SessionRow:
    return SessionRow(number, f"s{number}", worker, 0.0, seen, **more)


def test_workers_are_active_lost_or_have_left() -> None:
    sessions = [
        session(1, "b", 100.0, sent=3, policy=1),
        session(2, "a", 100.0, ended=True),
        session(3, "b", 150.0, sent=4, policy=2),
        session(4, "c", 90.0, ended=True),
        session(5, "c", 95.0),
    ]
    found = [(each.worker, each.state) for each in worker_states(sessions, 154.9)]
    assert found == [("a", "left"), ("b", "active"), ("c", "active")]
    found = [(each.worker, each.state) for each in worker_states(sessions, 155.0)]
    assert found == [("a", "left"), ("b", "active"), ("c", "lost")]
    assert active_workers(sessions, 155.0) == 1
    assert active_workers(sessions, 210.0) == 0
    (_, b, _) = worker_states(sessions, 155.0)
    assert (b.version, b.sent, b.seen) == (2, 7, 150.0)


def test_rates_are_those_of_the_last_minute() -> None:
    rates = Rates(1000.0)
    assert rates.per_second(1000.0) == (0.0, 0.0, 0.0)
    rates.add(1000.5, 1, 10, 100)
    rates.add(1000.9, 1, 10, 100)
    assert rates.per_second(1002.0) == (1.0, 10.0, 100.0)
    rates.add(1030.0, 1, 10, 100)
    assert rates.per_second(1059.9) == pytest.approx((3 / 59.9, 30 / 59.9, 300 / 59.9))
    assert rates.per_second(1061.0) == pytest.approx((1 / 60, 10 / 60, 100 / 60))
    assert rates.per_second(1100.0) == (0.0, 0.0, 0.0)


def test_returns_are_kept_for_a_limited_number_of_workers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(status_module, "MOST_WORKERS", 2)
    returns = Returns()
    for worker in ("a", "b", "a", "c"):
        row = RecordRow("episode", b"{}", "training", worker, 0, 1.0)
        returns.add([row])
    assert [returns.mean(worker) for worker in "abc"] == [None, 1.0, 1.0]
