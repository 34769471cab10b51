"""The tables and files of ``gym-http-server runs``."""

import csv
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gym_http_server.commands import run_commands
from gym_http_wire.bundles import BatchHead, encode_batch

STATUS: dict[str, Any] = {
    "run": "pendulum",
    "created": "2026-01-02T03:04:05Z",
    "limits": {"queue_bytes": 1 << 30},
    "samples": {
        "sent": 1303,
        "stored": 1300,
        "stale": 3,
        "dropped": 0,
        "repeated": 7,
        "waiting": 12,
        "leased": 0,
        "consumed": 1288,
        "aside": 0,
        "first": 1289,
        "last": 1300,
        "transitions": 9000,
        "bytes": 3 << 20,
        "oldest_s": 2.5,
    },
    "rates": {"batches_s": 12.25, "transitions_s": 3100.0, "bytes_s": 2048.0},
    "lag": {"0": 1100, "1": 200, "2": 0},
    "workers": [
        {
            "worker": "w1",
            "state": "active",
            "version": 120,
            "lag": 0,
            "sent": 600,
            "waiting_bytes": 100,
            "seen_s": 0.4,
            "mean_return": 195.25,
        },
        {
            "worker": "w2",
            "state": "lost",
            "version": 0,
            "lag": 120,
            "sent": 3,
            "waiting_bytes": 0,
            "seen_s": 7300.0,
            "mean_return": None,
        },
    ],
    "readers": [
        {"reader": "trainer", "after": 1288, "behind": 12, "draws": 0, "seen_s": 1.0}
    ],
    "limiter": {
        "inserts": 1000,
        "draws": 900,
        "min_diff": -10.0,
        "max_diff": 100.5,
        "diff": 3.25,
        "inserts_wait": True,
    },
    "weights": {
        "version": 120,
        "etag": '"120-0123456789ab"',
        "bytes": 1,
        "age_s": 12.0,
        "best": {"version": 117, "mean": 195.2, "evaluations": 5},
    },
    "records": {"episodes": 10, "training_steps": 100},
    "disk": {"used": 4 << 20, "limit": 10 << 30, "free": 20 << 30},
}
SHOWN = """\
weights   version 120, 12s old; best is 117, mean return 195.2 in 5 evaluations
queue     12 batches, 3.0M of 1.0G, oldest 2s
sent      1,303 = 1,300 stored + 3 stale + 0 dropped
stored    1,300 = 12 waiting + 0 leased + 1,288 consumed + 0 aside
rates     12.2 batches/s, 3.1k transitions/s, 2.0K/s
lag       0: 1.1k, 1: 200
limiter   1.0k inserted, 900 drawn; difference 3.25 in -10 to 100.5, inserts wait
records   10 episodes, 100 training steps
disk      4.0M of 10.0G used, 20.0G free

WORKER  STATE   SENT  WAITING  WEIGHTS  LAG  SEEN  RETURN
w1      active   600      100      120    0    0s  195.25
w2      lost       3        0        0  120    2h       -

READER   AFTER  BEHIND  DRAWS  SEEN
trainer   1288      12      0    1s"""
RECORDS: list[dict[str, Any]] = [
    {"position": 1, "time": 10.5, "type": "episode", "mode": "evaluation"}
    | {"return": 2.5, "length": 9, "version": 0, "worker": "w1"},
    {"position": 2, "time": 11.0, "type": "training", "step": 7, "loss": 0.25},
    {"position": 3, "time": 12.0, "type": "episode", "mode": "evaluation"}
    | {"return": 3.5, "length": 8, "version": 1, "tags": ["a"]},
    {"position": 4, "time": 13.0, "type": "training", "loss": 1.0, "note": "no step"},
]


class Calls:
    """Answers as the calls of a run would."""

    url = "http://127.0.0.1:5000"

    def __init__(self, *batches: bytes) -> None:
        self._batches = batches

    def status(self) -> dict[str, Any]:
        return {"samples": {"first": 1}}

    def records(self, after: int, *, limit: int) -> list[dict[str, Any]]:
        # Fewer at once than wanted, as a server may.
        return [each for each in RECORDS if each["position"] > after][: min(limit, 3)]

    def samples(self, after: int) -> bytes | None:
        return b"".join(self._batches[after : after + 2]) or None


def test_a_run_in_lines() -> None:
    first, _, rest = run_commands._run_lines(STATUS).partition("\n")
    assert first.startswith("run       pendulum, for ")
    assert rest == SHOWN


def test_a_new_run_in_lines() -> None:
    nothing = {"limiter": None, "weights": None, "workers": [], "readers": []}
    lines = run_commands._run_lines({**STATUS, **nothing, "lag": {}}).splitlines()
    assert "weights   none yet" in lines
    assert "lag       -" in lines
    assert not [line for line in lines if line.startswith(("limiter", "WORKER"))]


def test_records_as_csv(tmp_path: Path) -> None:
    path = tmp_path / "records.csv"
    run_commands._export(Calls(), None, path, None)  # type: ignore[arg-type]
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["position"] for row in rows] == ["1", "2", "3", "4"]
    assert (rows[0]["return"], rows[0]["worker"], rows[0]["loss"]) == ("2.5", "w1", "")
    assert (rows[1]["step"], rows[2]["tags"]) == ("7", '["a"]')


def events(folder: Path) -> list[tuple[str, int, float, float]]:
    """Read TensorBoard's file: length, checksum, event and checksum of each record."""
    event_pb2 = pytest.importorskip("tensorboardX.proto.event_pb2")
    (path,) = folder.iterdir()
    data, found = path.read_bytes(), []
    while data:
        (size,) = struct.unpack_from("<Q", data)
        event = event_pb2.Event.FromString(data[12 : 12 + size])
        data = data[12 + size + 4 :]
        for value in event.summary.value:
            found.append((value.tag, event.step, value.simple_value, event.wall_time))
    return found


def test_records_for_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    run_commands._export(Calls(), None, None, tmp_path)  # type: ignore[arg-type]
    found = events(tmp_path)
    assert ("evaluation/return", 1, 2.5, 10.5) in found
    assert ("evaluation/return", 2, 3.5, 12.0) in found
    assert ("training/loss", 7, 0.25, 11.0) in found
    assert ("evaluation/version", 2, 1.0, 12.0) in found
    assert len(found) == 7


def test_samples_as_npz(tmp_path: Path) -> None:
    from gym_http_client.relay.batches import encode_columns

    columns = {
        "observations": np.arange(6, dtype=np.float32).reshape(3, 2),
        "return": 1.5,
        "infos": [{"x": 1}, {}],
        "../up": np.array([True]),
    }
    binary = "application/vnd.gym-http.binary"
    batches = [
        encode_batch(
            BatchHead("s1", 1, 3, 2, content_type=binary, position=1, worker="w1"),
            encode_columns(columns),
        ),
        encode_batch(BatchHead("s1", 2, 3, 1, position=2, worker="w1"), b"\x80\x04."),
        encode_batch(BatchHead("s1", 3, 3, 1, position=3, worker="w1"), b"text"),
    ]
    folder = tmp_path / "new" / "samples"
    run_commands._export(Calls(*batches), folder, None, None)  # type: ignore[arg-type]
    names = {path.name for path in folder.iterdir()}
    files = {"0000000001.npz", "0000000002.bin", "0000000003.bin"}
    assert names == {"batches.csv"} | files
    with np.load(folder / "0000000001.npz", allow_pickle=False) as found:
        assert found["observations"].dtype == np.float32
        assert found["observations"].tolist() == [[0, 1], [2, 3], [4, 5]]
        assert found["return"] == 1.5
        assert str(found["infos"]) == '[{"x": 1}, {}]'
        assert set(found) == {"observations", "return", "infos", ".._up"}
    assert (folder / "0000000002.bin").read_bytes() == b"\x80\x04."
    with (folder / "batches.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(row["position"], row["policy"]) for row in rows] == [
        *(("1", "3"), ("2", "3"), ("3", "3"))
    ]
    assert {row["file"] for row in rows} == files
