"""The benchmarks of the clients run; their figures are not asserted."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.drivers import needs
from tests.support.server import ROOT


def bench(output: Path, name: str, **variables: str) -> str:
    """Run a benchmark briefly; return its messages."""
    options = ["--rounds", "1", "--seconds", "0.4", "--output", str(output)]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--only", name, *options],
        cwd=ROOT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=55,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.live
@pytest.mark.toolchain
@pytest.mark.parametrize(
    ("name", "tools"),
    [
        ("client_python_rest", ()),
        ("client_lua_stream", ("lua5.4",)),
        ("client_js_stream", ("node",)),
    ],
)
def test_a_client_is_measured_beside_the_python_client(
    name: str, tools: tuple[str, ...], tmp_path: Path
) -> None:
    needs(*tools)
    output = tmp_path / "results.json"
    bench(output, name)
    (row,) = json.loads(output.read_text())
    ratio, value = row.pop("ratio"), row.pop("value")
    assert row == {
        "name": name,
        "mode": "same",
        "unit": "steps/s",
        "baseline": "Python client, stream",
    }
    assert min(ratio, value) > 0


def test_a_client_whose_language_is_missing_is_left_out(tmp_path: Path) -> None:
    output = tmp_path / "results.json"
    text = bench(output, "client_cpp_stream", PATH=str(tmp_path))
    assert "client_cpp_stream: left out, since g++ is not installed" in text
    assert json.loads(output.read_text()) == []
