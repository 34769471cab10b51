"""The benchmarks run and write what they promise; their figures are not asserted."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.server import ROOT

pytestmark = [pytest.mark.live, pytest.mark.slow]


# Four servers start, one after the other, maybe beside everything else.
@pytest.mark.timeout(300)
def test_a_short_race_replaces_its_rows_and_keeps_the_others(tmp_path: Path) -> None:
    output = tmp_path / "results.json"
    keys = {"name", "mode", "value", "unit", "ratio", "baseline"}
    kept = dict.fromkeys(keys, 1.0) | {"name": "other", "mode": "free", "unit": "ms"}
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
    assert all(row.keys() == keys for row in rows)
    assert {row["name"] for row in rows[1:]} == {"rest_1", "rest_1_p50", "rest_1_p99"}
    assert {"same"} <= {row["mode"] for row in rows[1:]} <= {"same", "split"}
    for row in rows[1:]:
        assert row["unit"] == ("steps/s" if row["name"] == "rest_1" else "us")
        assert min(row["value"], row["ratio"], row["baseline"]) > 0
        assert row["name"] in done.stdout
