"""``gym-http-server runs`` against a server: tables, JSON, exports, a live table."""

import csv
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from gym_http_client.relay import RelayCalls
from gym_http_client.relay.batches import encode_columns
from gym_http_server.commands import cli
from tests.support.api import Api
from tests.support.server import ROOT, Server
from tests.support.wait import wait_until

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def served() -> Iterator[Server]:
    """A server with a run of two workers, one of which has left."""
    with Server() as server, RelayCalls(server.url, "cart") as calls:
        calls.create(limits={"max_lag": 5})
        calls.put_weights(b"weights")
        for number, worker in enumerate(("w1", "w2"), 1):
            session = calls.create_session(worker)["session"]
            columns = {"observations": np.full((3, 2), number, np.float32)}
            calls.put_batch(
                encode_columns(columns),
                session=session,
                number=1,
                policy=number - 1,
                count=2,
                content_type="application/vnd.gym-http.binary",
            )
            episode = {"type": "episode", "mode": "training", "return": 2.5 * number}
            calls.put_records(
                [{**episode, "length": 2, "version": 1}], session=session, number=1
            )
        calls.end_session(session)
        calls.commit("trainer", 1)
        yield server


def words_of(server: Server, *words: str) -> list[str]:
    return [sys.executable, "-m", "gym_http_server", "runs", server.url, *words]


def environment() -> dict[str, str]:
    own = {k: v for k, v in os.environ.items() if not k.startswith("GHS_")}
    paths = os.pathsep.join([str(ROOT), str(ROOT / "clients" / "python")])
    return {**own, "PYTHONPATH": paths, "COLUMNS": "80", "PYTHONUNBUFFERED": "1"}


def run(server: Server, *words: str, status: int = 0) -> str:
    """Run the command here, which saves its start, and return what it prints."""
    variables = environment()
    others = dict.fromkeys(os.environ.keys() - variables.keys())
    command = ["runs", server.url, *words]
    done = CliRunner().invoke(cli.main, command, env={**others, **variables})
    assert isinstance(done.exception, SystemExit | None), done.exception
    assert done.exit_code == status, done.output
    return done.stdout + done.stderr


def test_all_runs(served: Server) -> None:
    heading, row = run(served).splitlines()
    assert heading.split() == ["RUN", "AGE", "WORKERS", "WEIGHTS", "USED"]
    cells = row.split()
    # The second worker has left.
    assert (cells[0], cells[2], cells[3]) == ("cart", "1", "1")
    assert row.endswith("s ago")


def test_one_run(served: Server) -> None:
    lines = run(served, "cart", "--once").splitlines()
    assert "sent      2 = 2 stored + 0 stale + 0 dropped" in lines
    assert "stored    2 = 1 waiting + 0 leased + 1 consumed + 0 aside" in lines
    assert "lag       0: 1, 1: 1" in lines
    rows = {line.split()[0]: line.split() for line in lines if line}
    assert rows["w1"][1:3] == ["active", "1"]
    assert (rows["w2"][1], rows["w2"][-1]) == ("left", "5")
    assert rows["trainer"][1:4] == ["1", "1", "0"]


def test_json_is_the_status(served: Server) -> None:
    printed = json.loads(run(served, "cart", "--json"))
    expected = Api(served).get("/v1/runs/cart/").json()
    assert printed.keys() == expected.keys()
    assert printed["samples"]["stored"] == 2


def test_export(served: Server, tmp_path: Path) -> None:
    samples, records = tmp_path / "samples", tmp_path / "records.csv"
    words = ("--samples", str(samples), "--records", str(records))
    assert "wrote 1 batches" in run(served, "cart", "export", *words)
    # The first one is consumed, and gone.
    with np.load(samples / "0000000002.npz", allow_pickle=False) as found:
        assert found["observations"].tolist() == [[2, 2]] * 3
    with records.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(row["mode"], row["return"]) for row in rows] == [
        *(("training", "2.5"), ("training", "5.0"))
    ]
    # Nothing was committed.
    reader = Api(served).get("/v1/runs/cart/readers/trainer/").json()
    assert reader["after"] == 1


def test_wrong_use_is_refused(served: Server) -> None:
    assert "runs URL RUN export" in run(served, "cart", "export", status=2)
    assert "unknown-run" in run(served, "no-run", status=1)


def test_a_live_table_until_ctrl_c(served: Server) -> None:
    main, side = pty.openpty()
    process = subprocess.Popen(
        words_of(served, "cart"), env=environment(), stdout=side, stderr=side
    )
    os.close(side)
    os.set_blocking(main, False)
    seen = b""

    def drawn_twice() -> bool:
        nonlocal seen
        try:
            seen += os.read(main, 65536)
        except BlockingIOError:
            return False
        return seen.count(b"\x1b[H\x1b[2J") >= 2

    try:
        wait_until(drawn_twice, 30)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
    finally:
        process.kill()
        process.wait()
        os.close(main)
    assert b"2 stored" in seen
    assert b"Traceback" not in seen
