"""Runs tools from npm in the versions of the lock file in ``tests/npm``."""

import os
import subprocess
from pathlib import Path

from tests.support import run_locks
from tests.support.drivers import needs
from tests.support.server import ROOT

FOLDER = ROOT / "tests" / "npm"
LOCK = FOLDER / "package-lock.json"


def tools() -> Path:
    """Install the tools unless they are there, and return their folder.

    Without CI, the calling test is skipped where npm cannot install them.
    """
    import pytest

    needs("node", "npm")
    # npm writes this file last.
    installed = FOLDER / "node_modules" / ".package-lock.json"
    with run_locks.exclusive("npm-tools"):
        if installed.exists() and installed.stat().st_mtime > LOCK.stat().st_mtime:
            return FOLDER
        done = subprocess.run(
            ["npm", "ci", "--prefer-offline", "--no-audit", "--no-fund"],
            cwd=FOLDER,
            capture_output=True,
            text=True,
            timeout=250,
        )
    if done.returncode and not os.environ.get("CI"):
        pytest.skip(f"npm installs nothing here: {done.stderr[-500:]}")
    assert done.returncode == 0, done.stderr
    return FOLDER
