"""Each benchmark once, briefly; tests leave out those that take long to build."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.questions import QUESTIONS
from tests.support.drivers import missing
from tests.support.server import ROOT

__all__ = ["short_races"]

#: They compare with packages that are installed separately.
OTHERS = ("relay", "realtime")


def short_races() -> list[str]:
    """Run benchmarks for a moment each, and return what went wrong."""
    compiler = "g++" if missing("clang++") else "clang++"
    found = []
    for name in QUESTIONS:
        if name.startswith(OTHERS):
            continue
        with tempfile.TemporaryDirectory(prefix="ghst-soak-") as folder:
            output = Path(folder) / "results.json"
            options = ["--only", name, "--rounds", "1", "--seconds", "0.2"]
            done = subprocess.run(
                [sys.executable, "-m", "benchmarks", *options, "--output", str(output)],
                cwd=ROOT,
                # The figures are not used, so the compiler need not optimise.
                env={**os.environ, "CXX": compiler, "CXXFLAGS": "-O0"},
                capture_output=True,
                text=True,
                check=False,
            )
            rows = json.loads(output.read_text()) if output.exists() else []
            if done.returncode or not all(
                row["value"] > 0 and row["ratio"] > 0 for row in rows
            ):
                found.append(f"benchmark {name}: {rows} {done.stderr[-2000:]}")
        print(f"benchmark {name}: {len(rows)} rows", flush=True)
    return found
