"""Fixtures for tests of the JavaScript client."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support import run_locks
from tests.support.drivers import CLIENTS, needs
from tests.support.server import ROOT


@pytest.fixture(scope="session")
def packages() -> Path:
    """Install the development dependencies, and return their folder."""
    needs("node", "npm")
    with run_locks.exclusive("npm"):
        done = subprocess.run(
            ["make", "clients/js/node_modules/.installed"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
    if done.returncode and not os.environ.get("CI"):
        pytest.skip(f"npm installs nothing here: {done.stderr[-500:]}")
    assert done.returncode == 0, done.stderr
    return CLIENTS / "js/node_modules"
