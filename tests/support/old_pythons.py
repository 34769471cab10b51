"""Virtual environments of older Pythons, with the gym that is made for them."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support import run_locks

#: For each Python, what its own `pip` installs. The setuptools that came with the two
#: older ones still build gym 0.21, as later versions do not.
PACKAGES = {
    "3.6": (
        *("--no-build-isolation", "gym==0.21.0", "numpy==1.19.5", "cloudpickle==2.2.1"),
        *("importlib-metadata==4.8.3", "typing-extensions==4.1.1", "zipp==3.6.0"),
    ),
    "3.7": (
        *("--no-build-isolation", "gym==0.21.0", "numpy==1.21.6", "cloudpickle==2.2.1"),
        *("importlib-metadata==4.13.0", "typing-extensions==4.7.1", "zipp==3.15.0"),
    ),
    "3.10": (
        "gym==0.26.2",
        "gym-notices==0.0.8",
        "numpy==1.26.4",
        "cloudpickle==2.2.1",
    ),
}
#: No pip in the environment itself, and only those modules compiled that are imported:
#: both took most of the time.
_INSTALL = ("-m", "pip", "install", "--quiet", "--no-deps", "--no-compile")


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
            venv = [found[-1], "-m", "venv", "--without-pip", folder]
            subprocess.run(venv, check=True)
            words = [found[-1], *_INSTALL, "--prefix", folder, *PACKAGES[version]]
            done = subprocess.run(words, capture_output=True, text=True)
            if done.returncode:
                pytest.skip(f"pip of {found[-1]} cannot install: {done.stderr[-500:]}")
            (folder / "complete").touch()
    return python
