"""Virtual environments of older Pythons, with the gym that is made for them."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support import run_locks

#: gym 0.21 is built in the way that later versions of setuptools do not know any more.
_GYM_21 = (
    ["setuptools<58", "wheel<0.38"],
    ["--no-build-isolation", "gym==0.21.0", "importlib-metadata<5"],
)
#: For each Python, what `pip` installs, in this order.
PACKAGES = {
    # The pip of 3.6 installs packages of later Pythons, too.
    "3.6": (["pip==21.3.1"], *_GYM_21),
    "3.7": _GYM_21,
    "3.10": (["gym==0.26.2", "numpy<2"],),
}


def python_with_gym(version: str) -> Path:
    """Return the Python of a virtual environment, which the test run makes once.

    Args:
        version: ``3.6`` or ``3.7`` with gym 0.21, or ``3.10`` with gym 0.26.
    """
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = sorted(root.glob(f"versions/{version}.*/bin/python"))
    if not found:
        pytest.skip(f"no Python {version} of pyenv in {root}")
    folder = run_locks.folder() / f"gym-{version}"
    python = folder / "bin" / "python"
    with run_locks.exclusive(f"gym-{version}"):
        if not (folder / "complete").exists():
            subprocess.run([found[-1], "-m", "venv", folder], check=True)
            pip = [python, "-m", "pip", "install", "--quiet"]
            for packages in PACKAGES[version]:
                done = subprocess.run([*pip, *packages], capture_output=True, text=True)
                if done.returncode:
                    pytest.skip(f"pip cannot install {packages}: {done.stderr[-500:]}")
            (folder / "complete").touch()
    return python
