"""The example that lands, for people who watch."""

import os
import re
import subprocess
import sys

from tests.support.server import ROOT, Server


def test_it_lands_and_says_how_well(server: Server) -> None:
    example = ROOT / "examples" / "lander.py"
    flags = ("--episodes", "2", "--hz", "100000")
    done = subprocess.run(
        [sys.executable, str(example), *flags, server.url],
        env={**os.environ, "PYTHONPATH": str(ROOT / "clients" / "python")},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    returns = re.findall(r"^landing \d: +(\S+)$", done.stdout, re.MULTILINE)
    # Gymnasium considers LunarLander-v3 solved from 200 on.
    assert [float(each) > 200 for each in returns] == [True, True]
