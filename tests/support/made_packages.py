"""Packages as a release has them, built from the working tree."""

import subprocess
import sys
from pathlib import Path

from tests.support.server import ROOT


def make(folder: Path, *names: str) -> list[Path]:
    """Build packages, such as ``"python"``, into a folder; return all files in it."""
    words = [sys.executable, ROOT / "scripts" / "make_packages.py", folder, *names]
    done = subprocess.run(words, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stdout + done.stderr
    return sorted(folder.iterdir())
