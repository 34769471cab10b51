"""The Python client on a Python without what Windows lacks, and a server on Linux."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.server import ROOT, Server


def test_the_client_plays_provides_and_collects_samples_without_linux(
    server: Server, tmp_path: Path
) -> None:
    python_path = os.pathsep.join([str(ROOT), str(ROOT / "clients" / "python")])
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tests.support.peers.windows_player"),
            *(server.url, str(tmp_path / "spool")),
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": python_path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    assert done.stdout.split() == ["imported", "played", "provided", "worked"]
