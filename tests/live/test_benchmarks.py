"""The benchmarks run and write what they promise; their figures are not asserted."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.pinning import Mode
from benchmarks.report import row as make_row
from tests.support.server import ROOT

KEYS = {"name", "mode", "value", "unit", "ratio", "baseline"}


def test_what_is_more_a_second_or_takes_less_is_better() -> None:
    rate = make_row("r", Mode.SAME, 200.0, "steps/s", "original", 100.0)
    time = make_row("t", Mode.FREE, 20.0, "ms", "fresh process", 50.0)
    assert (rate.mode, rate.ratio, rate.baseline) == ("same", 2.0, "original")
    assert (time.value, time.ratio, time.baseline) == (20.0, 2.5, "fresh process")


def test_the_committed_figures_name_their_baselines() -> None:
    rows = json.loads((ROOT / "benchmarks" / "results.json").read_text())
    assert all(each.keys() == KEYS for each in rows)
    assert all(isinstance(each["baseline"], str) for each in rows)
    assert len({(each["name"], each["mode"]) for each in rows}) == len(rows)


# Four servers start, one after the other, maybe beside everything else.
@pytest.mark.live
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_short_race_replaces_its_rows_and_keeps_the_others(tmp_path: Path) -> None:
    output = tmp_path / "results.json"
    kept = {"name": "other", "mode": "free", "unit": "ms", "baseline": "none"}
    kept |= {"value": 1.0, "ratio": 1.0}
    stale = kept | {"name": "rest_1", "mode": "same"}
    output.write_text(json.dumps([kept, stale]))
    options = ["--only", "rest_1", "--rounds", "1", "--seconds", "0.2"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", *options, "--output", str(output)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(output.read_text())
    assert rows[0] == kept
    assert stale not in rows
    assert all(row.keys() == KEYS for row in rows)
    assert {row["name"] for row in rows[1:]} == {"rest_1", "rest_1_p50", "rest_1_p99"}
    assert {"same"} <= {row["mode"] for row in rows[1:]} <= {"same", "split"}
    for row in rows[1:]:
        assert row["unit"] == ("steps/s" if row["name"] == "rest_1" else "us")
        assert row["baseline"] == "original"
        assert min(row["value"], row["ratio"]) > 0
        assert row["name"] in done.stdout
