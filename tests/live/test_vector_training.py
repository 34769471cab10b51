"""The example that trains on a vector learns the same as on a local vector."""

import os
import re
import subprocess
import sys

import pytest

from tests.support.api import Api
from tests.support.server import ROOT, Server


def train(*args: str) -> subprocess.CompletedProcess[str]:
    """Run the example to its end."""
    return subprocess.run(
        [sys.executable, str(ROOT / "examples" / "vector_training.py"), *args],
        env={**os.environ, "PYTHONPATH": str(ROOT / "clients" / "python")},
        capture_output=True,
        text=True,
        timeout=55,
        check=False,
    )


@pytest.mark.slow
def test_it_learns_the_same_remotely_and_locally(server: Server) -> None:
    done = train("--num-envs", "32", server.url)
    assert done.returncode == 0, done.stdout + done.stderr
    remote, local, learned, same = done.stdout.splitlines()
    figures = [re.sub(r"^.*?: +| in \S+ s", "", line) for line in (remote, local)]
    assert figures[0] == figures[1]
    assert re.search(r"^\d+ steps, mean return \d\d\.\d to 4\d\d\.\d$", figures[0])
    assert learned == "learned"
    assert same == "4 weights and 7 returns: the same bits"
    assert Api(server).instances() == {}


def test_it_says_when_it_has_not_learned(server: Server) -> None:
    done = train("--num-envs", "2", "--generations", "1", server.url)
    assert done.returncode == 1
    assert "not learned: expected a return of 475" in done.stdout
    assert "the same bits" in done.stdout
